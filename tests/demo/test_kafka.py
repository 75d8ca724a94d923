"""How a Kafka is laid out."""

from pathlib import Path

import pytest

from signalbook.demo import kafka


@pytest.fixture(autouse=True)
def _jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "pom.xml").touch()
    monkeypatch.setattr(kafka, "PLACE", tmp_path)
    monkeypatch.setenv("JAVA_HOME", "/opt/java")


def test_data_folder_without_an_id_is_formatted(tmp_path: Path) -> None:
    """The identity is missing if formatting was interrupted."""
    (tmp_path / "data").mkdir()
    command = kafka.configure(tmp_path, {"plain": 1, "control": 2}, {"node.rack": "a"})
    assert command[-2:] == ["kafka.Kafka", str(tmp_path / "conf")]
    assert "node.id=1" in (tmp_path / "data" / "meta.properties").read_text().splitlines()
    assert {"controller.quorum.voters=1@127.0.0.1:2", "node.rack=a"} <= set(
        (tmp_path / "conf").read_text().splitlines()
    )


def test_data_keep_their_identity(tmp_path: Path) -> None:
    identity = tmp_path / "data" / "meta.properties"
    identity.parent.mkdir()
    identity.write_text("another")
    kafka.configure(tmp_path, {"plain": 1, "control": 2})
    assert identity.read_text() == "another"
