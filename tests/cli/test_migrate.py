"""``signalbook migrate``."""

from __future__ import annotations

from pathlib import Path

from tests.storage.test_migrate import OLD_ROWS, at_revision

from signalbook.storage.inspection import inspect
from signalbook.storage.schema import REVISION

from .conftest import Cli


def test_an_empty_one_an_old_one_and_one_that_is_new_already(cli: Cli, tmp_path: Path) -> None:
    old = f"sqlite:///{tmp_path / 'old.db'}"
    at_revision("0001", old, OLD_ROWS)
    for url in (f"sqlite:///{tmp_path / 'new.db'}", old, old):
        ran = cli("migrate", "--db", url)
        assert (ran.code, f"has schema {REVISION}" in ran.err) == (0, True)
        assert inspect(url, timeout=5).revision == REVISION
