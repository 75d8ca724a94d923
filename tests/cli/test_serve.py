"""``signalbook serve``."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from signalbook import settings

from .conftest import Cli, Server

Serve = Callable[..., Server]


@pytest.fixture(autouse=True)
def _a_port_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever listens at the default port must not decide these tests."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setenv("SIGNALBOOK_PORT", str(probe.getsockname()[1]))


def test_every_setting_is_an_option(cli: Cli) -> None:
    ran = cli("serve", "--help")
    for name in settings.names():
        assert f"--{name.replace('_', '-')} " in ran.out, name


def test_an_empty_model(serve: Serve, tmp_path: Path) -> None:
    url = serve("--db", f"sqlite:///{tmp_path / 'r.db'}", "--model", "empty", "--registry-id", "mine").url
    assert httpx.get(f"{url}/").json()["registryid"] == "mine"
    assert httpx.get(f"{url}/modelsource").json() == {}
    assert not httpx.get(f"{url}/model").json().get("groups")
    mutable = {name for name, row in httpx.get(f"{url}/capabilities").json()["available"].items() if row.get("mutable")}
    assert mutable == {"capabilities", "modelsource", "entities"}


def test_a_model_of_ones_own(serve: Serve, tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    model.write_text('{"groups": {"dirs": {"singular": "dir"}}}', encoding="utf-8")
    url = serve("--db", f"sqlite:///{tmp_path / 'r.db'}", "--model", model, "--base-url", "http://book.example/r").url
    assert httpx.get(f"{url}/").json()["dirsurl"] == "http://book.example/r/dirs"


def test_a_server_stops_when_told(serve: Serve, tmp_path: Path) -> None:
    server = serve("--db", f"sqlite:///{tmp_path / 'r.db'}")
    server.process.terminate()
    server.process.wait(timeout=30)
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "gone.json"), "gone.json"),
        (("--model", "broken.json"), "broken.json"),
        (("--db", "mysql://x"), "sqlite:///FILE"),
        (("--db", "sqlite:////nowhere/at/all/r.db"), "/nowhere/at/all"),
        (("--config", "gone.toml"), "cannot read config file gone.toml"),
        (("--workers", "0"), "workers is at least 1"),
        (("--port", "0"), "port is 1 to 65535"),
        (("--host", "192.0.2.1"), "cannot listen at 192.0.2.1:"),
    ],
)
def test_what_keeps_a_server_from_starting(cli: Cli, options: tuple[str, ...], message: str) -> None:
    Path("broken.json").write_text("{", encoding="utf-8")
    ran = cli("serve", *options)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert message in ran.err


def test_a_port_in_use(cli: Cli, server: str) -> None:
    ran = cli("serve", "--port", server.rpartition(":")[2])
    assert ran.code == 1
    assert "choose another --host or --port" in ran.err


def test_settings_from_environment_and_file(tmp_path: Path) -> None:
    (tmp_path / "signalbook.toml").write_text('model = "gone.json"\nworkers = 1\n', encoding="utf-8")
    command = [sys.executable, "-m", "signalbook", "serve"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (ran.returncode, "gone.json" in ran.stderr) == (1, True)
    environment = {"SIGNALBOOK_MODEL": "away.json", "SIGNALBOOK_PORT": os.environ["SIGNALBOOK_PORT"]}
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (ran.returncode, "away.json" in ran.stderr) == (1, True)
