import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from .conftest import Cli, Ran, wait_until

Ask = Callable[..., Ran]


@pytest.fixture(scope="module")
def sinks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sinks")


@pytest.fixture(scope="module")
def server(serve: Callable[..., str], sinks: Path) -> str:
    return serve(db="sqlite://", sink_folder=str(sinks))


@pytest.fixture
def ask(cli: Cli, server: str) -> Ask:
    return lambda *arguments, **sent: cli(*arguments, "--server", server, **sent)


def shown(ran: Ran) -> Any:
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def lines(file: Path) -> list[Any]:
    """Return the complete lines; the last line may still be incomplete."""
    whole = file.read_bytes().rpartition(b"\n")[0] if file.exists() else b""
    return [json.loads(line) for line in whole.splitlines()]


def test_subscribed_events_are_delivered(ask: Ask, server: str, sinks: Path) -> None:
    """The sink is a file, and all options are applied (D-28, D-29)."""
    filters = ("--subject", "/schemagroups/", "--type", "io.xregistry.group.created", "-f", "NOT (subject LIKE '%b')")
    subscription_id = ask("subscribe", "file:some.jsonl", *filters).out.strip()
    for name in ("a", "b", "c"):
        httpx.put(f"{server}/schemagroups/{name}", json={}, timeout=300).raise_for_status()
    wait_until(lambda: len(lines(sinks / "some.jsonl")) == 2)
    assert [event["subject"] for event in lines(sinks / "some.jsonl")] == ["/schemagroups/a", "/schemagroups/c"]
    row = f"{subscription_id}\tactive\t2\tfile:some.jsonl\n"
    wait_until(lambda: row in ask("subscriptions", "list").out)


def test_a_replay(ask: Ask, server: str, sinks: Path) -> None:
    httpx.put(f"{server}/schemagroups/replayed", json={}, timeout=300).raise_for_status()
    ask("subscribe", "file:all.jsonl", "--after", 0)
    wait_until(lambda: "/schemagroups/replayed" in [event["subject"] for event in lines(sinks / "all.jsonl")])
    assert lines(sinks / "all.jsonl")[0]["id"] == "1"


def test_a_document(ask: Ask) -> None:
    document = {"sink": "file:a.jsonl", "protocol": "FILE", "protocolsettings": {"maxbytes": 4096}}
    created = shown(ask("subscriptions", "create", "-", "--json", stdin=json.dumps(document).encode()))
    assert created["protocolsettings"] == {"maxbytes": 4096}
    assert created["id"] in [subscription["id"] for subscription in shown(ask("subscriptions", "list", "--json"))]
    assert shown(ask("subscriptions", "show", created["id"]))["sink"] == "file:a.jsonl"
    assert ask("subscriptions", "resume", created["id"]).code == 0
    assert ask("subscriptions", "delete", created["id"]).code == 0
    assert ask("subscriptions", "delete", created["id"]).code == 1


def test_options_become_a_document(ask: Ask, tmp_path: Path) -> None:
    """A secret is read from a file, and not shown again (D-29, D-31)."""
    (tmp_path / "secret.json").write_text('{"credentialtype": "PLAIN", "identifier": "me", "secret": "correct horse"}')
    options = ("--credential", "secret.json", "--filter", '{"exact": {"type": "a"}}', "--setting", "method=PUT")
    ran = ask("subscribe", "https://93.184.215.14/", *options, "--setting", "rate=60", "--json")
    created = shown(ran)
    assert created["filters"] == [{"exact": {"type": "a"}}]
    assert created["protocolsettings"] == {"method": "PUT", "rate": 60}
    assert created["sinkcredential"] == {"credentialtype": "PLAIN", "identifier": "me"}
    assert "horse" not in ran.out + ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("subscribe", "gopher://x"), 2, "--protocol"),
        (("subscribe", "file:a", "--filter", "{"), 2, "no JSON"),
        (("subscribe", "file:a", "--setting", "x"), 2, "NAME=VALUE"),
        (("subscribe", "file:a", "--filter", "1 +"), 1, "/filters/0/sql"),
        (("subscribe", "file:../a"), 1, "/sink"),
        (("subscribe", "https://127.0.0.1/"), 1, "signalbook serve --allow-sinks 127.0.0.1:443"),
        (("subscriptions", "create", "none.json"), 1, "none.json"),
        (("subscriptions", "show", "x"), 1, "cannot be found"),
    ],
)
def test_invalid_options_are_reported(ask: Ask, arguments: tuple[str, ...], code: int, message: str) -> None:
    ran = ask(*arguments)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
