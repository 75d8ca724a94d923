"""Java programs, and what is said where they cannot be had."""

from pathlib import Path

import pytest

from signalbook.demo import kafka
from signalbook.demo.kafka import NotInstalled


def test_jars_are_installed_only_completely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "PLACE", tmp_path)
    folder = tmp_path / "kafka"
    folder.mkdir()
    with pytest.raises(
        NotInstalled, match=f"there is no kafka in {folder}: in a checkout, tools/setup demo .* fetches"
    ):
        kafka.jars("kafka")
    (folder / "pom.xml").touch()
    assert kafka.jars("kafka") == folder


def test_java_home_selects_the_java_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    assert kafka.command("kafka", "kafka.Kafka")[0] == "/opt/java/bin/java"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotInstalled, match="apt-get install openjdk-17"):
        kafka.command("kafka", "kafka.Kafka")
