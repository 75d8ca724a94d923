"""The demonstration as anyone runs it, small: a real server, real Spark, real tables."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from signalbook import demo


def test_every_seeded_fault_and_only_those_are_sidelined(tmp_path: Path) -> None:
    """The carrier's own catalogue can carry the demonstration alone; run twice in one folder it starts anew."""
    for _ in range(2):
        screen = io.StringIO()
        console = Console(file=screen, width=100)
        demo.run(tmp_path / "demo", count=1000, master="local[2]", with_github=False, console=console)
        text = screen.getvalue()
        assert "each of these was sidelined for its reason, and nothing else" in text
        assert "example.parcels / example.parcels.delivered" in text
        assert "io.xregistry.group.created" in text
    assert (tmp_path / "demo" / "lake" / "parcels" / "catalog.db").is_file()
