import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serving import kept_port, serving

from signalbook import settings
from signalbook.cli.serve import PANELS

from .conftest import Cli, Server, wait_until

Serve = Callable[..., Server]
get = partial(httpx.get, timeout=300)


@pytest.fixture(autouse=True)
def _a_port_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever listens at the default port must not decide these tests."""
    with kept_port() as port:
        monkeypatch.setenv("SIGNALBOOK_PORT", str(port))
        yield


def test_every_setting_is_an_option(cli: Cli) -> None:
    ran = cli("serve", "--help")
    for name in settings.names():
        assert f"{settings.option_for(name)} " in ran.out, name


def test_every_setting_is_in_one_panel() -> None:
    assert sorted(" ".join(PANELS.values()).split()) == sorted(settings.names())


def test_help_begins_with_the_most_used_options(cli: Cli) -> None:
    shown = cli("serve", "--help").out
    assert shown.index(" Most used ") < shown.index("--host ") < shown.index("--log-level ") < shown.index("--model ")


def test_an_empty_model(serve: Callable[..., str], tmp_path: Path) -> None:
    url = serve(db=f"sqlite:///{tmp_path / 'r.db'}", model="empty", registry_id="mine")
    assert get(f"{url}/").json()["registryid"] == "mine"
    assert get(f"{url}/modelsource").json() == {}
    assert not get(f"{url}/model").json().get("groups")
    mutable = {name for name, row in get(f"{url}/capabilities").json()["available"].items() if row.get("mutable")}
    assert mutable == {"capabilities", "modelsource", "entities"}


def test_a_model_of_ones_own(serve_process: Serve, tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    model.write_text('{"groups": {"dirs": {"singular": "dir"}}}', encoding="utf-8")
    url = serve_process(
        "--db", f"sqlite:///{tmp_path / 'r.db'}", "--model", model, "--base-url", "http://book.example/r"
    ).url
    assert get(f"{url}/").json()["dirsurl"] == "http://book.example/r/dirs"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "gone.json"), "gone.json"),
        (("--model", "broken.json"), "broken.json"),
        (("--from", "nosuch"), "nosuch does not exist"),
        (("--db", "mysql://x"), "sqlite:///FILE"),
        (("--db", "sqlite:////nowhere/at/all/r.db"), "/nowhere/at/all"),
        (("--config", "gone.toml"), "cannot read config file gone.toml"),
        (("--workers", "0"), "workers is at least 1"),
        (("--port", "0"), "port is 1 to 65535"),
        (("--port", "8081", "--confluent-port", "8081"), "confluent_port is 0 to 65535, and not port"),
        (("--host", "192.0.2.1"), "cannot listen at 192.0.2.1:"),
        (("--from", "bad"), "x.json: line 1: the document ends before it is complete"),
        (("--allow-fetch", "example.com", "--allow-fetch", "http://x"), "allow_fetch: 'http://x'"),
    ],
)
def test_invalid_configuration_prevents_the_start(cli: Cli, options: tuple[str, ...], message: str) -> None:
    Path("broken.json").write_text("{", encoding="utf-8")
    Path("bad").mkdir()
    Path("bad/x.json").write_text("[[")
    ran = cli("serve", *options)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert message in ran.err


@pytest.mark.parametrize("option", ["--port", "--confluent-port"])
def test_a_port_in_use(cli: Cli, server: str, option: str) -> None:
    with kept_port() as port:
        ran = cli("serve", "--port", str(port), option, server.rpartition(":")[2])
    assert (ran.code, f"choose another --host or {option}" in ran.err) == (1, True)


def test_kafka_clients_have_a_separate_port(tmp_path: Path) -> None:
    schema = {"schema": '{"type": "string"}'}
    with kept_port() as port, serving(tmp_path, "--confluent-port", str(port), "--workers", "2") as url:
        port_url = f"http://127.0.0.1:{port}"
        assert get(port_url).json() == {}
        posted = httpx.post(f"{port_url}/subjects/a%2Fb/versions?normalize=true", json=schema, timeout=60)
        assert (posted.status_code, posted.json()["id"]) == (200, 1)
        assert "link" not in posted.headers
        # The mounts are there as well, for clients that were set up with one.
        for base in (port_url, f"{port_url}/apis/ccompat/v7", f"{port_url}/compat/confluent", f"{url}/apis/ccompat/v8"):
            assert get(f"{base}/subjects").json() == ["a/b"]
        assert get(f"{port_url}/schemas/ids/1").json()["schema"] == '"string"'
        assert get(f"{port_url}/schemagroups").json()["error_code"] == 404
        assert httpx.put(f"{port_url}/subjects", timeout=60).status_code == 405
        assert next(iter(get(f"{url}/schemagroups/default/schemas").json().values()))["versionscount"] == 1


def test_settings_from_environment_and_file(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "signalbook.toml").write_text('model = "gone.json"\nworkers = 1\n', encoding="utf-8")
    ran = cli("serve")
    assert (ran.code, "gone.json" in ran.err) == (1, True)
    monkeypatch.setenv("SIGNALBOOK_MODEL", "away.json")
    ran = cli("serve")
    assert (ran.code, "away.json" in ran.err) == (1, True)


def ready(url: str) -> dict[str, Any]:
    readiness: dict[str, Any] = get(f"{url}/health/ready").json()
    return readiness


def test_a_folder_is_served_and_followed(serve_process: Serve, tmp_path: Path) -> None:
    """Several processes, a broken file, a mended one; clients may not write (R116, GAP 7)."""
    book = tmp_path / "book"
    book.mkdir()
    (book / "a.json").write_text('{"messagegroups": {"m": {}}}')
    server = serve_process("--from", book, "--workers", 2, "--reload-seconds", 0.1)
    assert get(f"{server.url}/messagegroups/m").status_code == 200
    refused = httpx.put(f"{server.url}/messagegroups/x", json={}, timeout=300)
    assert (refused.status_code, refused.json()["type"].rpartition("#")[2]) == (400, "not_available")
    first = ready(server.url)["source"]["revision"]
    (book / "b.json").write_text('{"messagegroups": ')
    wait_until(lambda: ready(server.url)["source"]["error"] is not None)
    assert ready(server.url)["source"]["revision"] == first
    (book / "b.json").write_text('{"messagegroups": {"n": {}}}')
    wait_until(lambda: get(f"{server.url}/messagegroups/n").status_code == 200)
    assert ready(server.url)["source"]["revision"] != first


def test_a_folder_is_looked_at_when_asked(serve_process: Serve, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"messagegroups": {"m": {}}}')
    server = serve_process("--from", tmp_path, "--reload-seconds", 0)
    (tmp_path / "a.json").write_text('{"messagegroups": {"n": {}}}')
    server.process.send_signal(signal.SIGHUP)

    def there() -> bool:
        try:
            return httpx.get(f"{server.url}/messagegroups/n", timeout=60).status_code == 200
        except httpx.TransportError:  # between one process and the next
            return False

    wait_until(there)
