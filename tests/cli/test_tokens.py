import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Cli

from signalbook.access import tokens
from signalbook.access.authentication import Authenticator, Credentials
from signalbook.access.base import Identity, Unauthenticated
from signalbook.settings import Settings
from signalbook.storage import open_store


@pytest.fixture
def db(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'r.db'}"
    open_store(url).close()
    return url


def who(db: str, token: str) -> Identity:
    store = open_store(db)
    try:
        return Authenticator(store, Settings()).identify(Credentials(header=f"Bearer {token}".encode()), 1)
    finally:
        store.close()


def test_a_token_is_made_shown_once_and_revoked(cli: Cli, db: str) -> None:
    created = cli("token", "create", "ci", "--group", "a", "--group", "b", "--scope", "read", "--note", "x", "--db", db)
    assert created.code == 0, created.err
    token = created.out.strip()
    token_id = token.split("_")[1]
    assert who(db, token) == Identity(subject="ci", groups=frozenset("ab"), token=token_id, scopes=frozenset({"read"}))
    assert "not shown again" in created.err
    assert token not in created.err
    listed = cli("token", "list", "--db", db)
    line = listed.out.rstrip("\n").split("\t")
    assert line[:4] == [token_id, "ci", "a,b", "read"]
    assert line[5:] == ["never used", "x"]
    assert token.rpartition("_")[2] not in listed.out
    assert cli("token", "revoke", token_id, "--db", db).code == 0
    with pytest.raises(Unauthenticated):
        who(db, token)
    assert cli("token", "list", "--db", db).out == ""


def test_all_tokens_of_somebody_are_revoked(cli: Cli, db: str) -> None:
    for name in ("ann", "ci", "ann"):
        cli("token", "create", name, "--db", db)
    assert cli("token", "revoke", "--subject", "ann", "--db", db).code == 0
    assert [line.split("\t")[1] for line in cli("token", "list", "--db", db).out.splitlines()] == ["ci"]
    audit = cli("audit", "--db", db, "--json").out.splitlines()
    assert [json.loads(line)["about"].partition(",")[0] for line in audit[:2]] == ["revoked", "revoked"]


def test_tokens_as_json(cli: Cli, db: str) -> None:
    created = json.loads(cli("token", "create", "ci", "--days", 0, "--db", db, "--json").out)
    assert who(db, created["token"]).subject == "ci"
    assert (created["scopes"], created["expires"]) == (None, None)
    (listed,) = json.loads(cli("token", "list", "--db", db, "--json").out)
    assert listed == {name: value for name, value in created.items() if name != "token"}
    assert "never expires" in cli("token", "list", "--db", db).out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("create", "ci", "--scope", "reads"), 1, "/scopes: there is no action 'reads'"),
        (("create", "subject:ci"), 1, "/subject: it is the name alone, 'ci'"),
        (("create", "ci", "--group", "group:ops"), 1, "/groups/0: it is the name alone, 'ops'"),
        (("create", " "), 1, "/subject"),
        (("create", "ci", "--days", "-1"), 2, "--days"),
        (("create",), 2, "SUBJECT"),
        (("revoke", "nope"), 1, "there is no API token 'nope'"),
        (("revoke", "--subject", "nobody"), 1, "no API token acts as 'nobody'"),
        (("revoke",), 2, "--subject NAME"),
    ],
)
def test_invalid_token_options_are_rejected(
    cli: Cli, db: str, arguments: tuple[str, ...], code: int, says: str
) -> None:
    cli("token", "create", "ann", "--db", db)
    ran = cli("token", *arguments, "--db", db)
    assert (ran.code, says in ran.err, ran.out) == (code, True, "")


def test_token_commands_create_no_database(cli: Cli, tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'r.db'}"
    for command in (("list",), ("create", "ann")):
        assert cli("token", *command, "--db", db).ended(1, "there is no registry at")
    assert cli("token", "list", "--db", db, "--server", "http://r.example").code == 2
    assert list(tmp_path.iterdir()) == []


POLICY = '{"rules": [{"who": ["subject:root"], "role": "administrator"}, {"who": ["group:a"], "role": "reader"}]}'


def test_tokens_of_a_server(
    cli: Cli, serve: Callable[..., str], db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.json").write_text(POLICY)
    root = cli("token", "create", "root", "--db", db).out.strip()
    url = serve(db=db, access_file=str(tmp_path / "policy.json"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("SIGNALBOOK_TOKEN", "")
    assert cli("token", "list", "--server", url).ended(1, "--token")
    monkeypatch.setenv("SIGNALBOOK_TOKEN", root)
    wrong = cli("token", "create", "ci", "--scope", "fly", "--server", url)
    assert (wrong.code, wrong.err.count("there is no action 'fly'")) == (1, 1), wrong.err
    monkeypatch.setenv("SIGNALBOOK_TOKEN", root)
    created = cli("token", "create", "ci", "--group", "a", "--server", url)
    token = created.out.strip()
    assert (created.code, tokens.split(token) is not None) == (0, True), created.err
    assert len(cli("token", "list", "--server", url).out.splitlines()) == 2
    assert cli("token", "create", "ci", "--scope", "x", "--server", url).ended(1, "/scopes")
    (tmp_path / "token").write_text(token)
    assert cli("--token", f"file:{tmp_path / 'token'}", "get", "/schemagroups", "--server", url).code == 0
    assert cli("--token", f"file:{tmp_path / 'token'}", "token", "list", "--server", url).code == 1
    for token_source, code in ((f"file:{tmp_path / 'token'}", 0), ("${ROOT}", 1)):
        monkeypatch.setenv("SIGNALBOOK_TOKEN", "")
        assert cli("get", "/schemagroups", "--server", url, "--token", token_source).code == code
        monkeypatch.setenv("SIGNALBOOK_TOKEN", "")
        assert cli("conform", url, "--token", token_source, "--only", "R137").code == code
    monkeypatch.setenv("SIGNALBOOK_TOKEN", "")
    monkeypatch.setenv("MINE", token)
    url_with_variable = url.replace("http://", "http://${MINE}@")
    assert cli("get", "/schemagroups", "--server", url_with_variable).code == 0
    assert cli("conform", url_with_variable, "--only", "R137").code == 0
    assert cli("replicate", url_with_variable, f"sqlite:///{tmp_path / 'copy.db'}").code == 0
    assert cli("replicate", url, f"sqlite:///{tmp_path / 'copy.db'}").code == 1
    monkeypatch.setenv("SIGNALBOOK_TOKEN", "${ROOT}")
    monkeypatch.setenv("ROOT", root)
    assert cli("token", "revoke", token.split("_")[1], "--server", url).code == 0
    assert cli("get", "/schemagroups", "--server", url_with_variable).code == 1
