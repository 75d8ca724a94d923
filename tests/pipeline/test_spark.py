"""Spark sessions, one after the other in one process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from pyspark.sql import SparkSession

from signalbook.pipeline import spark

from .conftest import CONNECTORS

PROGRAM = """
import sys
from pathlib import Path
from signalbook.pipeline import spark

with spark.session("local[1]"):
    pass
with spark.session("local[1]", jars=[Path(sys.argv[1])]) as session:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
    print(session.read.format("kafka").options(**options).load().columns[:2])
"""


def test_the_session_of_another_thread_is_taken_and_left(spark_session: SparkSession) -> None:
    def work() -> None:
        with spark.session("local[7]") as session:
            found.append(session.sparkContext.master)

    found: list[str | None] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [spark_session.sparkContext.master]
    assert spark_session.range(3).count() == 3


@pytest.mark.usefixtures("spark_session")
def test_results_wait_for_a_driver_that_is_held_up() -> None:
    """So many seconds Java listens for it; Spark tells by this variable."""
    assert int(os.environ["SPARK_AUTH_SOCKET_TIMEOUT"]) == 600


def test_a_session_with_connectors_follows_one_without() -> None:
    """Java takes libraries only when it starts, and outlives a session; what it prints is not the program's."""
    command = [sys.executable, "-c", PROGRAM, str(CONNECTORS)]
    talkative = {**os.environ, "SPARK_SUBMIT_OPTS": "-XX:+PrintCommandLineFlags"}
    ran = subprocess.run(command, env=talkative, capture_output=True, text=True, check=False, timeout=1800)
    assert ran.stdout == "['key', 'value']\n", ran.stderr
