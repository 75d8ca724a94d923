"""The demonstration as anyone runs it, small: a real server, real Spark, real tables."""

import io
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from signalbook.demo import kafka, steps


def shown(folder: Path) -> str:
    screen = io.StringIO()
    console = Console(file=screen, width=100, soft_wrap=True)
    steps.run(console, folder, count=1000, master="local[2]", with_github=False)
    return screen.getvalue()


@pytest.mark.merge
def test_exactly_the_seeded_faults_are_dead_letters(tmp_path: Path) -> None:
    """The carrier's own catalogue can carry the demonstration alone; what an earlier run left is cleared."""
    for name in ("traffic/parcels", "lake/live", "live/kafka/data", "registry"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "registry.db").write_text("no database")
    text = shown(tmp_path)
    assert "each of these became a dead letter for its reason, and nothing else" in text
    assert "example.parcels / example.parcels.delivered" in text
    assert "io.xregistry.group.created" in text
    assert (tmp_path / "lake" / "parcels" / "catalog.db").is_file()
    assert "refused: a Version 2 that requires co2" in text
    match = re.search(r"([\d,]+) sent = ([\d,]+) landed \+ 5 dead letters", text)
    assert match is not None
    sent, landed = (int(number.replace(",", "")) for number in match.groups())
    assert landed == sent - 5
    again = text.count("again, for the registry had not answered the stream in time")
    assert sent == 200 + 3 * 20 + again * 20


def test_install_hint_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Square brackets are markup where it is printed."""
    monkeypatch.setattr(kafka, "PLACE", tmp_path)
    assert f"left out, for there is no kafka in {tmp_path}" in live(tmp_path).replace("\n", " ")
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "pom.xml").touch()
    monkeypatch.setitem(sys.modules, "kafka", None)
    expected = "left out, for there is no client of Kafka: pip install '.[kafka]' in a clone of Signalbook"
    assert expected in live(tmp_path)


def live(folder: Path) -> str:
    """Return the message that is shown instead of a stream."""
    screen = io.StringIO()
    steps._run_live(Console(file=screen, width=100, soft_wrap=True), folder, "http://127.0.0.1:1", 1, "local[2]")
    return screen.getvalue()
