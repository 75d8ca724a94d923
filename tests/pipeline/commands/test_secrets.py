"""What is secret in a job is written nowhere: not by the commands, and not by Spark, whatever it logs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from tests.brokers.program import Broker
from tests.brokers.servers import PASSWORD, USER
from tests.pipeline.commands import test_stream_amqp, test_stream_mqtt, test_stream_nats
from tests.pipeline.commands.test_stream import Topic, producer, topic  # noqa: F401 - fixtures
from tests.pipeline.conftest import CONNECTORS
from tests.pipeline.job.test_definitions import served
from tests.pipeline.s3 import place

from signalbook.client import Client
from signalbook.pipeline import Place

SASL: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRETS: Final = {
    "LAKE_SECRET": PASSWORD,  # that of brokers too
    "LAKE_TOKEN": "session-of-the-lake-5a17",
    "KEYSTORE_WORD": "word-of-the-keystore-11d0",
    # Of no store that is asked: Spark hands some on to Hadoop.
    "AWS_ACCESS_KEY_ID": "another-id",
    "AWS_SECRET_ACCESS_KEY": "another-secret-77d2",
    "AWS_SESSION_TOKEN": "another-session-0c9e",
    "AZURE_STORAGE_SAS_TOKEN": "sv=2026&sig=a-signature-90c2",
    "GOOGLE_SERVICE_ACCOUNT_KEY": "private-key-3be8",
}
# What a cluster's workers are given by Spark's settings.
FOR_WORKERS: Final = {
    "spark.executorEnv.AWS_SECRET_ACCESS_KEY": "secret-of-workers-41aa",
    "spark.executorEnv.AZURE_STORAGE_ACCOUNT_KEY": "account-key-of-workers-6c0b",
    "spark.executorEnv.AZURE_STORAGE_SAS_KEY": "signature-of-workers-95d7",
    "spark.executorEnv.GOOGLE_SERVICE_ACCOUNT_KEY": "private-key-of-workers-8f21",
    "spark.of.mine": "what-somebody-hides-3d3d",
}
# All that Spark and Kafka's client have to say.
LOGGING: Final = """
rootLogger.level = debug
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {folder}/spark.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n%ex
logger.spark.name = org.apache.spark
logger.spark.level = debug
logger.kafka.name = org.apache.kafka
logger.kafka.level = debug
"""
JOB: Final = """
registry = "{registry}"
inputs = ["{input}"]
output = "{output}"
table_format = "{format}"
jars = ["{jars}"]
master = "local[1]"

[storage]
endpoint = "{endpoint}"
allow_http = true
region = "us-east-1"
access_key_id = "alice"
secret_access_key = "${{LAKE_SECRET}}"
session_token = "${{LAKE_TOKEN}}"

[report]
to = "{registry}"
name = "orders"
metrics_file = "metrics.prom"

[options]
"""
LOGINS: Final = {
    "kafka": {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{SASL} required username="{USER}" password="${{LAKE_SECRET}}";',
        "kafka.ssl.keystore.password": "${KEYSTORE_WORD}",
    },
    "others": {"user": USER, "password": "${LAKE_SECRET}", "timeout": "300"},
}


@pytest.fixture
def talkative(tmp_path: Path) -> dict[str, str]:
    """An environment in which Spark writes down all that it does."""
    conf = tmp_path / "conf"
    for folder in (conf, tmp_path / "tmp", tmp_path / "logs"):
        folder.mkdir()
    (conf / "log4j2.properties").write_text(LOGGING.format(folder=tmp_path / "logs"))
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{tmp_path}/logs",
        "spark.eventLog.compress": "false",
        "spark.redaction.regex": "of[.]mine",
        **FOR_WORKERS,
    }
    (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    more = {"SPARK_CONF_DIR": conf, "TMPDIR": tmp_path / "tmp", "SIGNALBOOK_STATE": tmp_path / "state"}
    return {**os.environ, **SECRETS, **{name: str(path) for name, path in more.items()}}


@pytest.fixture
def registry(parcels: Any, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Run a registry with authentication. Yield its URL for jobs, and the token in ``REGISTRY_TOKEN``."""
    (tmp_path / "registry").mkdir()
    with served(tmp_path / "registry") as url, Client(url) as client:
        client.import_document(parcels.catalogue())
        token = client.tokens.add({"subject": "spark"})["token"]
        rules = [{"who": ["subject:root", "subject:spark"], "role": "administrator"}]
        client.access.put({"rules": rules}, new=True)
        yield url.replace("http://", "http://${REGISTRY_TOKEN}@"), token


class Told:
    """The outputs of a job: what its runs print, log and write. It checks that they contain no secrets."""

    def __init__(self, folder: Path, environ: Mapping[str, str], lake: Place, token: str) -> None:
        self._folder, self._environ, self._lake = folder, {**environ, "REGISTRY_TOKEN": token}, lake
        self._secrets = [*SECRETS.values(), *FOR_WORKERS.values(), token, "a-signature-90c2"]
        self._printed: dict[str, bytes] = {}

    def run(self, command: str, *more: str, code: int = 0) -> list[dict[str, Any]]:
        """The reports that a command prints, which ends with ``code``."""
        arguments = [sys.executable, "-m", "signalbook", "pipeline", command, "--job", "job.toml", "--json", *more]
        result = subprocess.run(
            arguments, cwd=self._folder, env=self._environ, capture_output=True, check=False, timeout=600
        )
        assert result.returncode == code, result.stderr.decode()
        self._printed |= {f"standard output of {command}": result.stdout, f"standard error of {command}": result.stderr}
        return [json.loads(line) for line in result.stdout.splitlines()]

    def check(self) -> None:
        """Look for secrets where Spark has logged, its events are kept, and a batch is landed."""
        outputs = self.look()
        (logged,) = (content for name, content in outputs.items() if name == "logs/spark.log")
        events = b"".join(content for name, content in outputs.items() if "/events_" in name)
        assert b" DEBUG org.apache.spark" in logged
        assert b"SparkListenerSQLExecutionStart" in events
        assert any("/batches/" in name for name in outputs)

    def look(self, *more: str) -> dict[str, bytes]:
        """Return all outputs and check that they do not contain these secrets."""
        outputs = {**self._printed, **dict(self._written())}
        secrets = [secret.encode() for secret in (*self._secrets, *more)]
        assert not [(name, secret) for name, content in outputs.items() for secret in secrets if secret in content]
        return outputs

    def _written(self) -> Iterator[tuple[str, bytes]]:
        """Yield all files except those with the secrets to read, and all objects."""
        for path in self._folder.rglob("*"):
            name = path.relative_to(self._folder)
            if path.is_file() and name.parts[0] not in ("registry", "conf", "job.toml"):
                yield str(name), path.read_bytes()
        for entry in self._lake.list_files(deep=True):
            yield f"{self._lake}/{entry.path}", (self._lake / entry.path).read()


@pytest.fixture
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """Return the output of jobs."""
    return place("s3proxy", tmp_path, request) / "lake"


@pytest.fixture
def outputs_(tmp_path: Path, talkative: dict[str, str], lake: Place, registry: tuple[str, str]) -> Told:
    """Return the outputs of the runs of a job."""
    return Told(tmp_path, talkative, lake, registry[1])


def write_job(
    folder: Path, registry: str, input_url: str, table_format: str, lake: Place, options: Mapping[str, str]
) -> None:
    """A job file."""
    job = JOB.format(
        registry=registry,
        input=input_url,
        output=lake,
        format=table_format,
        jars=CONNECTORS,
        endpoint=lake.storage.get("endpoint"),
    )
    lines = [f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in options.items()]
    (folder / "job.toml").write_text(job + "".join(lines))


@pytest.fixture
def source_url(topic: Topic, kafka: Broker) -> str:  # noqa: F811
    """A topic at the address that wants a password."""
    topic.send(20)
    return topic.url.replace(str(kafka.ports["plain"]), str(kafka.ports["password"]))


@pytest.mark.merge
def test_run_reveals_no_secret(
    source_url: str, registry: tuple[str, str], lake: Place, outputs_: Told, tmp_path: Path
) -> None:
    write_job(tmp_path, registry[0], source_url, "delta", lake, LOGINS["kafka"])
    (report,) = outputs_.run("run", "--batch-id", "b")
    assert (report["read"], report["landed"]) == (20, 18)
    assert "signalbook_pipeline" in (tmp_path / "metrics.prom").read_text()
    outputs_.check()
    event_log = b"".join(content for name, content in outputs_.look().items() if "/events_" in name)
    assert all(name.encode() in event_log for name in FOR_WORKERS)


@pytest.mark.soak
def test_stream_reveals_no_secret(
    source_url: str, registry: tuple[str, str], lake: Place, outputs_: Told, tmp_path: Path
) -> None:
    write_job(tmp_path, registry[0], source_url, "iceberg", lake, LOGINS["kafka"])
    assert [report["read"] for report in outputs_.run("stream", "--once")] == [20]
    assert "signalbook_pipeline" in (tmp_path / "metrics.prom").read_text()
    outputs_.check()


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("mqtt", marks=pytest.mark.merge),
        *(pytest.param(source, marks=pytest.mark.soak) for source in ("nats", "amqp")),
    ],
)
def test_stream_of_another_broker_reveals_no_secret(
    source: str,
    registry: tuple[str, str],
    lake: Place,
    outputs_: Told,
    parcels: Any,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Exempt is the environment of workers, which Spark logs for Python data sources at DEBUG."""
    defaults = tmp_path / "conf" / "spark-defaults.conf"
    lines = [line for line in defaults.read_text().splitlines() if not line.startswith("spark.executorEnv")]
    defaults.write_text("".join(f"{line}\n" for line in lines))
    sender: Any
    if source == "nats":
        sender = test_stream_nats.Stream(request.getfixturevalue("nats"), parcels)
        sender.make()
        url = sender.url
    elif source == "mqtt":
        broker = request.getfixturevalue("mosquitto")
        sender = test_stream_mqtt.Topic(broker, parcels)
        url = sender.url.replace(str(broker.ports["plain"]), str(broker.ports["password"]))
    else:
        sender = test_stream_amqp.Queue(request.getfixturevalue("artemis"), parcels)
        url = sender.url
    write_job(tmp_path, registry[0], url, "parquet", lake, LOGINS["others"])
    outputs_.run("stream", "--once")  # from now on a broker keeps what comes
    sender.send(20)
    assert sum(report["read"] for report in outputs_.run("stream", "--once")) == 20
    outputs_.check()


@pytest.mark.parametrize(
    "wrong", [pytest.param("LAKE_SECRET", marks=pytest.mark.merge), pytest.param("NO_LOGIN", marks=pytest.mark.soak)]
)
def test_failure_reveals_no_secret(
    wrong: str, source_url: str, registry: tuple[str, str], lake: Place, outputs_: Told, tmp_path: Path
) -> None:
    """Keys that the store refuses, and a password that Kafka does."""
    options = {**LOGINS["kafka"]}
    if wrong == "NO_LOGIN":
        options["kafka.sasl.jaas.config"] = f'{SASL} required username="{USER}" password="wrong-52e1";'
        options["kafka.default.api.timeout.ms"] = "20000"
    write_job(tmp_path, registry[0], source_url, "parquet", lake, options)
    more = ("--storage", "secret_access_key=wrong-52e1") if wrong == "LAKE_SECRET" else ()
    outputs_.run("run", *more, code=1)
    outputs_.look("wrong-52e1")
