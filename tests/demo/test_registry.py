"""The server of the demonstration."""

from pathlib import Path

import httpx
import pytest

from signalbook.demo import steps
from signalbook.demo.program import NotStarted


def test_server_stores_its_database_in_the_folder(tmp_path: Path) -> None:
    with steps.serving(tmp_path) as url:
        assert httpx.get(url, timeout=60).json()["registryid"] == "demo"
    assert (tmp_path / "registry.db").is_file()


def test_failed_start_is_reported(tmp_path: Path) -> None:
    (tmp_path / "registry.db").mkdir()
    with pytest.raises(NotStarted, match=r"registry\.db"), steps.serving(tmp_path):
        pass
