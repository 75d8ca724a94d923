"""The server of the demonstration."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.serving import kept_port

from signalbook.demo import registry


def test_a_port_that_is_taken_in_between_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, kept_port() as free:
        ports = [other.getsockname()[1], free]
        monkeypatch.setattr(registry, "_free_port", lambda: ports.pop(0))
        with registry.serving(tmp_path) as url:
            assert url == f"http://127.0.0.1:{free}"


def test_what_keeps_it_from_starting_is_told(tmp_path: Path) -> None:
    (tmp_path / "registry.db").mkdir()
    with pytest.raises(registry.RegistryNotStarted, match=r"registry\.db"), registry.serving(tmp_path):
        pass
