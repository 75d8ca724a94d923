"""``signalbook replicate`` between servers and databases."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from signalbook.access.tokens import split
from signalbook.storage import open_store

from .conftest import Cli, wait_until

SCHEMA = {"format": "JsonSchema/draft-07", "schema": {"type": "object"}}
SOURCE = "http://source.example"


@pytest.fixture
def database(cli: Cli, tmp_path: Path) -> str:
    document = {"schemagroups": {name: {"schemas": {"s": {"versions": {"1": SCHEMA}}}} for name in ("a", "b")}}
    (tmp_path / "a.xreg.json").write_text(json.dumps(document))
    url = f"sqlite:///{tmp_path / 'source.db'}"
    assert cli("import", tmp_path / "a.xreg.json", "--db", url).code == 0
    return url


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'target.db'}"


def test_a_source_has_a_name_and_is_not_its_own_target(
    cli: Cli, database: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies name the registry of their origin (D-3, D-8)."""
    assert "set base_url" in cli("replicate", database, target).err
    monkeypatch.setenv("SIGNALBOOK_BASE_URL", SOURCE)
    ran = cli("replicate", database, target)
    assert (ran.code, ran.err) == (1, f"error: {SOURCE} is source and target: nothing is to be copied\n")


def test_push_and_pull(cli: Cli, database: str, target: str, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is done by the source, by the target, or by neither of them (D-1, D-14, D-15)."""
    monkeypatch.setenv("SIGNALBOOK_BASE_URL", SOURCE)
    renames = ("--rename", "schemagroups/a=pushed.a", "--rename", "schemagroups/b=pushed.b")
    ran = cli("replicate", database, server, *renames)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.strip() == "created 2 groups, 2 resources, 2 versions"
    version = httpx.get(f"{server}/schemagroups/pushed.a/schemas/s/versions/1$details", timeout=300).json()
    assert version["globaluri"].startswith(f"{SOURCE}/")
    assert version["globaluri"].endswith("/schemagroups/a/schemas/s/versions/1")
    monkeypatch.delenv("SIGNALBOOK_BASE_URL")
    ran = cli("replicate", server, target, "--scope", "/schemagroups/pushed.a", "--json")
    assert (ran.code, json.loads(ran.out)["created"]) == (0, {"groups": 1, "resources": 1, "versions": 1})
    again = cli("replicate", server, target, "--scope", "/schemagroups/pushed.a", "--json")
    assert json.loads(again.out)["created"] == {}
    assert "pushed.a" in cli("get", "/schemagroups", "--db", target).out


def test_refusals_are_reported(cli: Cli, database: str, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNALBOOK_BASE_URL", SOURCE)
    ran = cli("replicate", database, server, "--scope", "/schemagroups/a", "--authority", "https://other.example")
    assert ran.code == 1
    assert "refused /schemagroups/a/schemas/s: claims the authority of http://source.example" in ran.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--every", "5", "--follow"), "not both"),
        (("--scope", "nowhere"), "is no xid"),
        (("--scope", "/schemagroups/g/schemas/s/versions/1"), "is no registry"),
        (("--rename", "schemagroups/a"), "renames no group"),
        (("--rename", "schemagroups/a=b", "--rename", "schemagroups/c=b"), "same name"),
    ],
)
def test_invalid_options_are_rejected(
    cli: Cli, server: str, target: str, options: tuple[str, ...], message: str
) -> None:
    ran = cli("replicate", server, target, *options)
    assert ran.code != 0
    assert message in ran.err


@pytest.mark.parametrize(
    "scope", ["/schemagroups/nope", "/schemagroups/a/schemas/nope", "/schemagroups/a/nope/x", "/nope"]
)
def test_unknown_scope_is_an_error(cli: Cli, database: str, server: str, target: str, scope: str) -> None:
    for there in (database, target):
        assert cli("replicate", server, there, "--scope", scope).reported(1, f"{server} has no {scope} (--scope)")
    assert cli("get", "/schemagroups", "--db", target, "--json").out.strip() == "{}"


def test_a_part_named_in_the_url(cli: Cli, server: str, target: str) -> None:
    assert cli("replicate", f"{server}#/schemagroups/a", target).ended(2, "--scope /schemagroups/a")


def test_missing_types_are_refused(cli: Cli, server: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entities of unknown types are refused unless the model of the target may be extended."""
    sent = {"xRegistry-format": "X/1"}
    httpx.put(f"{server}/schemagroups/modelled/schemas/s", content=b"{}", headers=sent, timeout=300).raise_for_status()
    assert cli("replicate", server, target, "--scope", "/schemagroups/modelled").code == 0
    other = target.replace("target", "other")
    monkeypatch.setenv("SIGNALBOOK_MODEL", "empty")
    assert cli("replicate", server, other, "--scope", "/schemagroups/modelled").ended(1, "--model extends it")
    assert cli("replicate", server, other, "--scope", "/schemagroups/modelled", "--model").code == 0
    assert "modelled" in cli("get", "/schemagroups", "--db", other).out


@pytest.mark.merge
def test_a_follower_killed_and_started_again(serve: Callable[..., str], tmp_path: Path) -> None:
    """A restarted follower continues where it stopped, and copies everything exactly once."""
    first_url = serve(db=f"sqlite:///{tmp_path / 'one.db'}")
    two = serve(db=f"sqlite:///{tmp_path / 'two.db'}")
    put(first_url, "g", 400)
    options = ("--follow", "--state", str(tmp_path / "state"))
    command = [sys.executable, "-m", "signalbook", "replicate", first_url, two, *options]
    for begin in (400, 800):
        follower = subprocess.Popen(command, stderr=subprocess.DEVNULL, text=True)
        wait_until(lambda: count(two) > 0)
        put(first_url, "g", begin + 400)
        follower.send_signal(signal.SIGKILL)
        follower.wait(300)
    follower = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: count(two) == 1200)
    put(first_url, "h", 1)
    wait_until(lambda: count(two, "h") == 1)
    put(first_url, "i", 1)
    wait_until(lambda: count(two, "i") == 1)  # and what was created before it has been counted
    follower.send_signal(signal.SIGINT)
    _, output = follower.communicate(timeout=300)
    assert (follower.returncode, "created" in output) == (0, True)
    schemas: dict[str, Any] = httpx.get(f"{two}/schemagroups/g/schemas?inline=meta", timeout=300).json()
    assert {schema["versionscount"] for schema in schemas.values()} == {1}
    assert {schema["meta"]["epoch"] for schema in schemas.values()} == {1}


RECORD = '{"type": "record", "name": "R", "fields": []}'


def register(url: str, subject: str, schema: str = RECORD, token: str = "") -> None:
    """Register a schema by Confluent's API."""
    url, headers = f"{url}/compat/confluent/subjects/{subject}/versions", {"Authorization": f"Bearer {token}"}
    answer = httpx.post(url, json={"schema": schema}, headers=headers if token else {}, timeout=300)
    answer.raise_for_status()


def test_replication_with_confluents_api(cli: Cli, serve: Callable[..., str], tmp_path: Path) -> None:
    """A Signalbook at either end is spoken to at its mount."""
    first_url = serve(db=f"sqlite:///{tmp_path / 'one.db'}")
    two = serve(db=f"sqlite:///{tmp_path / 'two.db'}")
    for name in ("s", ":.dev:s"):
        register(first_url, name)
    ran = cli("replicate", first_url, f"confluent+{two}", "--json")
    assert (ran.code, ran.err) == (0, "")
    counts = {"created": {"versions": 2}, "updated": {}, "deleted": {}, "unchanged": {"configs": 2, "modes": 2}}
    assert json.loads(ran.out) == {**counts, "skipped": [], "skippedcount": 0, "refused": [], "refusedcount": 0}
    assert httpx.get(f"{two}/schemagroups/dev/schemas/s", timeout=300).json()["name"] == "R"
    again = cli("replicate", f"confluent+{first_url}/apis/ccompat/v7", two)
    assert (again.code, again.err.strip()) == (0, "unchanged 2 versions, 2 configs, 2 modes")
    register(first_url, "t", '"int"')
    register(two, "u", '"long"')
    clash = cli("replicate", f"confluent+{first_url}", two)
    assert (clash.code, "refused t version 1: id 2: " in clash.err) == (1, True)
    assert "2 is the id of another schema (42205): " in clash.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("confluent+http://a.example", "sqlite:///x.db"), "is spoken to servers"),
        (("confluent+sqlite:///x.db", "http://a.example"), "is spoken to servers"),
        (("confluent+http://a.example", "http://b.example", "--scope", "/schemagroups/a"), "everything is copied"),
        (("confluent+http://127.0.0.1:1", "http://127.0.0.1:1"), "cannot reach the server at http://127.0.0.1:1"),
    ],
)
def test_unsupported_options_of_confluents_api(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    ran = cli("replicate", *arguments)
    assert (ran.code != 0, ran.out) == (True, "")
    assert message in ran.err


def test_a_registry_of_another_kind(cli: Cli, server: str) -> None:
    ran = cli("replicate", f"confluent+{server}/health", server)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "is no registry with Confluent's API" in ran.err
    assert cli("replicate", f"confluent+{server}", server).ended(1, "is source and target")


def test_credentials(
    cli: Cli, serve: Callable[..., str], server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The credentials in the URL are sent only to that registry and never shown."""
    (tmp_path / "policy.json").write_text('{"rules": [{"who": ["subject:root"], "role": "administrator"}]}')
    db = f"sqlite:///{tmp_path / 'one.db'}"
    open_store(db).close()
    root = cli("token", "create", "root", "--db", db).out.strip()
    source_url = serve(db=db, access_file=str(tmp_path / "policy.json"))
    two = serve(db=f"sqlite:///{tmp_path / 'two.db'}")
    for user in ("someone:s3cret", "${NO_SUCH}"):
        ran = cli("replicate", f"confluent+{source_url.replace('//', f'//{user}@')}", two)
        assert (ran.code, ran.out) == (1, "")
        assert "does not let us in" in ran.err or "NO_SUCH is not set" in ran.err
        assert "s3cret" not in ran.err
    monkeypatch.setenv("ROOT", root)
    register(source_url, "s", token=root)
    token_parts = split(root)
    assert token_parts is not None
    for user in (":".join(token_parts), "${ROOT}"):
        ran = cli("replicate", f"confluent+{source_url.replace('//', f'//{user}@')}", two)
        assert (ran.code, "1 version" in ran.err) == (0, True), ran.err


def test_partly_writable_target_gets_the_permitted_subjects(
    cli: Cli, serve: Callable[..., str], server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [{"who": ["subject:ci"], "role": "writer", "on": ["/schemagroups/dev"]}]
    (tmp_path / "policy.json").write_text(json.dumps({"rules": rules}))
    db = f"sqlite:///{tmp_path / 'two.db'}"
    open_store(db).close()
    monkeypatch.setenv("CI", cli("token", "create", "ci", "--db", db).out.strip())
    source_url = serve(db=f"sqlite:///{tmp_path / 'one.db'}")
    two = serve(db=db, access_file=str(tmp_path / "policy.json"))
    for name in ("s", ":.dev:s", ":.dev:t"):
        register(source_url, name)
    httpx.put(f"{source_url}/compat/confluent/config", json={"compatibility": "NONE"}, timeout=300).raise_for_status()
    ran = cli("replicate", f"confluent+{source_url}", two.replace("//", "//${CI}@"))
    assert ran.code == 1
    lines = ran.err.splitlines()
    assert lines[0].startswith("created 2 versions"), ran.err
    assert [line.split(":")[0] for line in lines[1:]] == ["refused s version 1", "refused the registry"]
    assert all("lack the right to write that" in line for line in lines[1:])


def put(url: str, group: str, number: int) -> None:
    schemas = {f"s{n}": {"versions": {"1": SCHEMA}} for n in range(max(0, number - 400), number)}
    answer = httpx.patch(f"{url}/schemagroups", json={group: {"schemas": schemas}}, timeout=300)
    assert answer.status_code == 200, answer.text


def count(url: str, group: str = "g") -> int:
    return int(httpx.get(f"{url}/schemagroups/{group}", timeout=300).json().get("schemascount", 0))
