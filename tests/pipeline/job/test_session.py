"""Spark sessions, one after the other in one process."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.pipeline.conftest import CONNECTORS

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job import session as module
from signalbook.pipeline.job.session import open_session

PROGRAM = """
import sys
from pathlib import Path
from signalbook.pipeline.job.session import SparkRunner, open_session

with open_session("local[1]", brief=True) as session:
    options = session._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    print([option for option in options if "Tiered" in option])
    print(SparkRunner(session).run(2, lambda numbers: (b"%d" % number for number in numbers), 0))
with open_session("local[1]", jars=[Path(sys.argv[1])]) as session:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
    print(session.read.format("kafka").options(**options).load().columns[:2])
"""


def test_the_session_of_another_thread_is_taken_and_left(spark_session: SparkSession) -> None:
    def work() -> None:
        with open_session("local[7]") as session:
            masters.append(session.sparkContext.master)

    masters: list[str | None] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert masters == [spark_session.sparkContext.master]
    assert spark_session.range(3).count() == 3


@pytest.mark.usefixtures("spark_session")
def test_spark_waits_for_a_delayed_driver() -> None:
    """Java waits for this many seconds; the variable sets the timeout of Spark."""
    assert int(os.environ["SPARK_AUTH_SOCKET_TIMEOUT"]) == 600


SECRET_SETTINGS = (
    "spark.executorEnv.AWS_SECRET_ACCESS_KEY",
    "spark.executorEnv.AZURE_STORAGE_ACCOUNT_KEY",
    "spark.executorEnv.AZURE_STORAGE_SAS_KEY",
    "spark.executorEnv.GOOGLE_SERVICE_ACCOUNT_KEY",
    "kafka.sasl.jaas.config",
    "kafka.ssl.keystore.password",
    "session_token",
)


def test_spark_hides_settings_with_secrets(
    spark_session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's own configuration is covered too. ``test_secrets.py`` reads everything that it logs."""
    pattern = spark_session.sparkContext.getConf().get("spark.redaction.regex")
    assert pattern is not None
    assert [name for name in SECRET_SETTINGS if not re.search(pattern, name)] == []
    assert not re.search(pattern, "spark.executorEnv.AWS_REGION")
    (tmp_path / "spark-defaults.conf").write_text("spark.redaction.regex of[.]mine\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert re.search(module._build_redaction(), "spark.of.mine")


@pytest.mark.usefixtures("spark_session")
@pytest.mark.parametrize(
    ("name", "value"),
    [("SPARK_REMOTE", "sc://127.0.0.1:1"), ("SPARK_CONNECT_MODE_ENABLED", "1"), ("SPARK_API_MODE", "Connect")],
)
def test_spark_connect_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the same with and without a session, and says what works with Spark Connect."""
    monkeypatch.setenv(name, value)
    with pytest.raises(
        PipelineError, match=rf"own, and no server of Spark Connect \({name} is set\).* pipeline\.validate"
    ):
        open_session("local[1]").__enter__()
    monkeypatch.setenv(name, "classic")
    if name == "SPARK_API_MODE":
        with open_session("local[1]") as session:
            assert session.range(3).count() == 3


UNUSABLE = """
import sys
from signalbook.pipeline import PipelineError
from signalbook.pipeline.job.session import SparkRunner, open_session

for master in sys.argv[1:]:
    try:
        open_session(master).__enter__()
    except PipelineError as error:
        print(error)
with open_session("local[1]") as session:
    print(session.range(3).count())
"""


@pytest.mark.parametrize(
    "errors",
    [
        pytest.param(
            {
                "local[x]": "Could not parse Master URL: 'local[x]'",
                "nonsense": "Master must either be yarn or start with spark, k8s, or local",
            },
            marks=pytest.mark.merge,
        ),
        # Spark tries it for a minute.
        pytest.param(
            {"spark://127.0.0.1:9": "All masters are unresponsive! Giving up."},
            marks=pytest.mark.soak,
        ),
    ],
)
def test_unusable_master_is_an_error(errors: dict[str, str]) -> None:
    """The error is one line, and the next session is not affected."""
    command = [sys.executable, "-c", UNUSABLE, *errors]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    messages = [f"Spark does not start on {master}: {error}" for master, error in errors.items()]
    assert ran.stdout.splitlines() == [*messages, "3"], ran.stderr


INTERRUPTED = """
import os, signal, subprocess, sys, threading, time
from signalbook.pipeline.job.session import SparkRunner, open_session

def java():
    return subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "SparkSubmit"], capture_output=True).stdout

def interrupt():
    while not java():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

def start():
    threading.Thread(target=interrupt).start()
    open_session("local[1]").__enter__()

def work():
    with open_session("local[1]") as session:
        threading.Thread(target=interrupt).start()
        session._jvm.java.lang.Thread.sleep(600000)

for step in (start, work):
    try:
        step()
    except KeyboardInterrupt:
        print("interrupted")
    if step is start:
        print("left:", java())
"""


@pytest.mark.merge
def test_an_interrupt_leaves_no_java_and_no_trace() -> None:
    """The interrupt happens while Java starts, which only Spark knows, and while Java works."""
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False, timeout=1800)
    assert (ran.stdout, ran.stderr) == ("interrupted\nleft: b''\ninterrupted\n", "")


@pytest.mark.merge
def test_a_session_with_connectors_follows_one_without() -> None:
    """Java takes libraries only when it starts, and outlives a session; what it prints is not the program's."""
    command = [sys.executable, "-c", PROGRAM, str(CONNECTORS)]
    talkative = {**os.environ, "SPARK_SUBMIT_OPTS": "-XX:+PrintCommandLineFlags"}
    ran = subprocess.run(command, env=talkative, capture_output=True, text=True, check=False, timeout=1800)
    assert ran.stdout == "['-XX:TieredStopAtLevel=1']\n[b'0', b'1']\n['key', 'value']\n", ran.stderr


FETCHING = """
from signalbook.pipeline import PipelineError
from signalbook.pipeline.job.session import SparkRunner, open_session

try:
    with open_session("local[1]", packages=["org.apache.spark:spark-sql-kafka-0-10"]) as session:
        options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
        print(session.read.format("kafka").options(**options).load().columns[:2])
except PipelineError as error:
    print(error)
"""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.apache.spark</groupId><artifactId>{name}</artifactId><version>{version}</version>
<dependencies>{others}</dependencies></project>"""
DEPENDENCY = (
    "<dependency><groupId>org.apache.spark</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param(True, "['key', 'value']", marks=pytest.mark.merge),
        pytest.param(
            False,
            "Spark does not start on local[1]: the connector for this input format cannot be fetched; give its JAR",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_spark_fetches_a_connector_of_its_own_version(tmp_path: Path, there: bool, expected: str) -> None:
    """The connector is fetched through ``spark.jars.packages`` from a local repository; the way to all others is
    blocked.
    """
    if there:
        lay_out(tmp_path / ".m2" / "repository" / "org" / "apache" / "spark")
    blocked = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1 -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=1"
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": f"-Duser.home={tmp_path} {blocked}"}
    command = [sys.executable, "-c", FETCHING]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1800)
    assert ran.stdout.startswith(expected), ran.stdout + ran.stderr


def lay_out(repository: Path) -> None:
    """The connector in pyspark's version, and what it depends on, as a Maven repository."""
    version = pyspark.__version__
    jars = {jar.stem.rpartition("-")[0]: jar for jar in CONNECTORS.glob("*.jar")}
    for name, jar in jars.items():
        dependencies = [other for other in jars if other != name] if name.startswith("spark-sql-kafka") else []
        place = repository / name / version
        place.mkdir(parents=True)
        listed = "".join(DEPENDENCY.format(other, version) for other in dependencies)
        (place / f"{name}-{version}.pom").write_text(POM.format(name=name, version=version, others=listed))
        (place / f"{name}-{version}.jar").symlink_to(jar.absolute())
