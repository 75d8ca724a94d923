import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from signalbook.access.base import Identity
from signalbook.access.sessions import LoggedIn, begin
from signalbook.storage import open_store
from signalbook.values import now

from .conftest import Cli

RULES = [
    {"who": ["subject:pat"], "role": "administrator"},
    {"who": ["group:staff"], "role": "reader", "description": "all of us"},
    {"who": ["group:staff"], "deny": ["read", "update"], "on": ["/schemagroups/secret*"]},
]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"rules": RULES}), encoding="utf-8")
    return file


def test_policy_is_created(cli: Cli) -> None:
    result = cli("access", "init", "subject:pat", "group:ops")
    assert (result.code, result.err) == (0, f"a policy of 2 rules is in force in {Path('signalbook.db').absolute()}\n")
    policy = json.loads(cli("access", "show").out)
    administrators = {"who": ["subject:pat", "group:ops"], "role": "administrator"}
    assert policy["rules"] == [administrators, {"who": ["authenticated"], "role": "reader"}]
    assert cli("access", "init", "subject:sam").ended(1, "there is a policy already")
    assert json.loads(cli("access", "show").out) == policy
    assert "'pat' names nobody" in cli("access", "init", "pat").err


def test_a_policy_is_replaced_as_a_whole_or_not_at_all(cli: Cli, policy: Path) -> None:
    # Only a first policy makes a database: another folder than one thinks in gets no registry of its own.
    assert "there is no registry at signalbook.db" in cli("access", "set", policy).err
    assert not Path("signalbook.db").exists()
    cli("import", "builtin:events")
    assert json.loads(cli("access", "set", policy, "--json").out) == {"rules": RULES}
    for text, message in (
        (b'{"rules": [{"who": ["pat"], "role": "king"}]}', "/rules/0/role: it is one of reader, writer"),
        (b"rules: [{who: [anyone], role: reader}]", "nobody could change this policy"),
        (b'{"rules": [], "rules": []}', "standard input: an object has the name 'rules' twice"),
        (b"{", "standard input: line 1"),
    ):
        for command in ("set", "check"):
            assert cli("access", command, "-", stdin=text).ended(1, message)
    assert json.loads(cli("access", "show").out) == {"rules": RULES}
    assert "a policy of 3 rules" in cli("access", "check", policy).err


def test_doubtful_policies_are_reported(cli: Cli, serve: Callable[..., str], tmp_path: Path) -> None:
    """A pattern of a type that there is not is taken, since there may be later, and protects nothing now."""
    rules = [RULES[0], {"who": ["authenticated"], "deny": ["read"], "on": ["/schemagroup/a", "/pipelines/*", "/*/b"]}]
    document = json.dumps({"rules": rules}).encode()
    cli("import", "builtin:events")
    at = ("--server", serve(db=f"sqlite:///{tmp_path}/served.db"))
    for command in (("check", "-"), ("check", "-", *at), ("set", "-"), ("set", "-", *at)):
        result = cli("access", *command, stdin=document)
        odd = [line for line in result.err.splitlines() if line.startswith("warning: ")]
        assert (result.code, len(odd)) == (0, 2), result.err
        assert odd[0].startswith("warning: /rules/1/on/0: /schemagroup/a names nothing: schemagroup is no type")
        assert odd[1].startswith("warning: /rules/1: subject:pat administers, and is kept from")
    put = json.loads(cli("access", "set", "-", "--json", stdin=document).out)
    assert (put["rules"], [f"warning: {warning}" for warning in put["warnings"]]) == (rules, odd)
    warned = cli("token", "create", "sam", "--group", "nobody")
    assert "warning: no rule names subject:sam or group:nobody: the token may do what every auth" in warned.err
    assert "warning" not in cli("token", "create", "pat").err


def test_denied_decision_is_explained(cli: Cli, policy: Path) -> None:
    cli("import", "builtin:events")
    cli("access", "set", policy)
    assert cli("access", "explain", "group:staff", "read", "/schemagroups/g").out.splitlines() == [
        "allowed: allowed by rule 1 (the first is rule 0)",
        "  rule 1: group:staff is reader (all of us)",
    ]
    denied = cli("access", "explain", "subject:sam,group:staff", "read", "/schemagroups/secret-1")
    expected = [
        "denied: denied by rule 2 (the first is rule 0)",
        "  rule 2: group:staff must not read, update on /schemagroups/secret*",
        "  rule 1: group:staff is reader (all of us)",
    ]
    assert (denied.code, denied.out.splitlines()) == (1, expected)
    explanation = json.loads(cli("access", "explain", "anyone", "update", "/", "--json").out)
    assert (explanation["allowed"], explanation["missing"]) == (False, ["read", "update"])
    for wrong in (("staff", "read", "/"), ("anyone", "fly", "/"), ("anyone", "read", "schema groups")):
        assert cli("access", "explain", *wrong).code == 2


def test_missing_policy_is_reported(cli: Cli) -> None:
    assert "there is no registry at" in cli("access", "show").err
    cli("import", "builtin:events")
    for arguments in (("show",), ("explain", "anyone", "read", "/")):
        assert cli("access", *arguments).ended(1, "there is no policy: make one")


def test_a_file_is_in_force(cli: Cli, policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("import", "builtin:events")
    monkeypatch.setenv("SIGNALBOOK_ACCESS_FILE", str(policy))
    assert json.loads(cli("access", "show").out) == {"rules": RULES}
    assert cli("access", "set", policy).ended(1, "the policy is the file policy.json")


def test_at_a_server(cli: Cli, policy: Path, serve: Callable[..., str], tmp_path: Path) -> None:
    at = ("--server", serve(db=f"sqlite:///{tmp_path}/served.db"))
    assert "no policy is configured" in cli("access", "show", *at).err
    identity = cli("whoami", *at)
    assert (identity.out.splitlines()[0], "There is no policy in force" in identity.err) == ("name: anonymous", True)
    assert json.loads(cli("whoami", "--json", *at).out)["restricted"] is False
    refused = cli("access", "set", "-", *at, stdin=b'{"rules": [{"who": ["x"], "role": "king"}]}')
    assert (refused.code, "/rules/0/role" in refused.err) == (1, True)
    assert cli("access", "set", policy, *at).code == 0
    for command in (("access", "show"), ("whoami",), ("get", "/")):
        assert (result := cli(*command, *at)).code == 1
        assert "credentials" in result.err
    # Whoever has the database opens it again.
    opened = {"rules": [*RULES, {"who": ["anyone"], "role": "reader"}]}
    changed = cli("access", "set", "-", "--db", f"sqlite:///{tmp_path}/served.db", stdin=json.dumps(opened).encode())
    assert changed.code == 0, changed.err
    assert "on /: list, read" in cli("whoami", *at).out
    assert cli("access", "set", policy, "--server", "http://x", "--db", "y").code == 2


def test_sessions_are_ended(cli: Cli, serve: Callable[..., str]) -> None:
    cli("access", "init", "subject:pat")
    assert cli("access", "end-sessions", "ann").err == "0 sessions of ann have ended\n"
    token = cli("token", "create", "pat").out.strip()
    database = f"sqlite:///{Path('signalbook.db').absolute()}"
    with closing(open_store(database)) as store, store.write() as transaction:
        begin(transaction.sessions, LoggedIn(identity=Identity(subject="ann")), now(), 1.0)
    ended = cli("access", "end-sessions", "ann", "--server", serve(db=database), "--token", token)
    assert (ended.code, ended.err) == (0, "1 sessions of ann have ended\n")
