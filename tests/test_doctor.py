"""The doctor: says what is wrong, what to do, and changes nothing."""

import base64
import os
import re
import socket
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trustme
from tests.access.issuer import fake_issuer
from tests.serving import serving
from tests.storage.test_migrate import run

from signalbook import doctor
from signalbook.access import tokens
from signalbook.access.control import AccessControl
from signalbook.access.decisions import UNRESTRICTED
from signalbook.access.policy import read_policy
from signalbook.access.tokens import TokenRequest
from signalbook.doctor import Check, examine
from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, Method
from signalbook.engine.write.searchindex import INDEX_VERSION
from signalbook.events.subscription import Credential, Subscription
from signalbook.events.subscriptions.store import SubscriptionStore
from signalbook.server import check_settings
from signalbook.settings import SettingError, Settings
from signalbook.storage import open_store
from signalbook.storage.inspection import DatabaseState, inspect
from signalbook.storage.store import find_dialect
from signalbook.values import now
from signalbook.xid import ROOT


def checks(settings: Settings, subject: str) -> list[Check]:
    """Return the checks of ``subject``."""
    return [check for check in examine(settings) if check.subject.startswith(subject)]


def only(settings: Settings, subject: str) -> Check:
    """The same, where that is one thing."""
    (check,) = checks(settings, subject)
    return check


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def settings(store_url: str) -> Settings:
    """Return the settings of a registry on each kind of database."""
    registry_settings = Settings(db=store_url, allow_sinks=("127.0.0.0/8",), sink_timeout=60.0)
    with closing(open_store(store_url)) as store:
        Engine(store, settings=registry_settings)
    return registry_settings


def test_all_is_well(settings: Settings, tmp_path: Path) -> None:
    if settings.db.startswith("sqlite"):
        for path in tmp_path.glob("signalbook.db*"):
            path.chmod(0o600)
    all_checks = [check for check in examine(settings) if check.subject != "keys"]
    assert {check.state for check in all_checks} == {"ok"}, all_checks
    assert {"settings", "database", "clock", "access"} <= {check.subject for check in all_checks}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"port": 0}, "port"),
        ({"oidc_issuers": ("https://i.example",)}, "oidc_issuers needs oidc_audience"),
        ({"trusted_proxies": ("foo",)}, "trusted_proxies: 'foo'"),
        ({"proxy_user_header": "x-user"}, "proxy_user_header needs trusted_proxies"),
        ({"access": "closed"}, "access is"),
        ({"domain_rules": "maybe"}, "domain_rules is one of"),
        ({"audit_log": "/nowhere/a.log"}, "audit_log /nowhere/a.log: there is no folder /nowhere"),
    ],
)
def test_invalid_setting_is_an_error(options: dict[str, Any], words: str) -> None:
    """The checks are those that serve makes before it starts."""
    (check,) = examine(Settings(**options))
    assert (check.subject, check.state) == ("settings", "error")
    assert words in check.found
    with pytest.raises(SettingError, match=re.escape(words)):
        check_settings(Settings(**options))


def test_doctor_creates_no_files(tmp_path: Path) -> None:
    assert only(Settings(), "database").state == "ok"
    assert list(tmp_path.iterdir()) == []


def test_an_empty_database_stays_empty(store_url: str) -> None:
    assert only(Settings(db=store_url), "database").state == "ok"
    assert inspect(store_url, timeout=5).revision is None


def test_a_database_that_cannot_be_reached_shows_no_password() -> None:
    check = only(Settings(db="postgresql://user:secret@127.0.0.1:1/x"), "database")
    assert (check.state, "secret" in check.found) == ("error", False)


def fill(settings: Settings) -> None:
    """Store a schema with two Versions."""
    with closing(open_store(settings.db)) as store:
        engine = Engine(store, settings=settings)
        versions = {name: {"format": "Avro/1.11", "schema": {"type": name}} for name in ("int", "long")}
        body = {"schemagroups": {"g": {"schemas": {"s": {"versions": versions}}}}}
        with engine.writing() as session:
            session.execute(Command(method=Method.PATCH, target=ROOT, body=body))


def change(url: str, *statements: str) -> None:
    """Change a database behind the back of its server."""
    dialect = find_dialect(url, 10)
    with closing(dialect.connect()) as connection:
        for statement in statements:
            connection.execute(statement)
    dialect.close()


VERSION = "/schemagroups/g/schemas/s/versions/long"
DAMAGE = {
    "UPDATE entities SET defaultversionid = 'gone' WHERE xid = '/schemagroups/g/schemas/s'": (
        "/schemagroups/g/schemas/s names a default version that is missing"
    ),
    f"DELETE FROM entities WHERE xid = '{VERSION}'": "names a default version that is missing",
    "DELETE FROM entities WHERE xid = '/schemagroups/g'": "/schemagroups/g/schemas/s has no owner",
    f"DELETE FROM documents WHERE digest = (SELECT document FROM entities WHERE xid = '{VERSION}')": (
        f"{VERSION} names a document that is missing"
    ),
    f"UPDATE documents SET content = '{{}}' WHERE digest = (SELECT document FROM entities WHERE xid = '{VERSION}')": (
        f"of {VERSION} is not what was stored"
    ),
    "DROP TABLE documents": "the table documents cannot be used",
    "ALTER TABLE audit RENAME COLUMN time TO lost": "the table audit cannot be used",
}


@pytest.mark.parametrize(("statement", "expected"), DAMAGE.items())
def test_a_damaged_database(settings: Settings, statement: str, expected: str) -> None:
    fill(settings)
    assert only(settings, "contents").state == "ok"
    change(settings.db, statement)
    check = checks(settings, "contents")[0]
    assert (check.state, expected in check.found) == ("error", True), check
    assert "restore a backup" in check.advice


def test_damaged_sqlite_pages_are_detected(tmp_path: Path) -> None:
    settings = Settings(db=f"sqlite:///{tmp_path / 'r.db'}")
    fill(settings)
    change(settings.db, "PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray((tmp_path / "r.db").read_bytes())
    size = int.from_bytes(content[16:18], "big")
    errors = 0
    for page in range(1, len(content) // size):
        damaged = bytearray(content)
        damaged[page * size : page * size + 200] = b"\xff" * 200
        (tmp_path / "r.db").write_bytes(damaged)
        for name in ("r.db-wal", "r.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        errors += any(check.state == "error" for check in examine(settings))
    # Pages that are free, or hold nothing in use, may be anything.
    assert errors > 0.9 * (len(content) // size - 1)


def test_tables_without_a_revision(settings: Settings) -> None:
    change(settings.db, "DROP TABLE alembic_version")
    check = only(settings, "database")
    assert (check.state, "it has tables and no schema revision" in check.found) == ("error", True)


def test_a_schema_of_another_version(settings: Settings) -> None:
    for revision, state, advice in (("0001", "warning", "backup"), ("9999", "error", "update Signalbook")):
        run(settings.db, f"UPDATE alembic_version SET version_num = '{revision}'")
        check = only(settings, "database")
        assert (check.state, advice in check.advice) == (state, True)
        assert inspect(settings.db, timeout=5).revision == revision


def test_read_only_database_is_an_error(postgres_database: str) -> None:
    open_store(postgres_database).close()
    name = postgres_database.split("@/")[1].partition("?")[0]
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
    check = only(Settings(db=postgres_database), "database")
    assert (check.state, "read-only" in check.found) == ("error", True)


@pytest.mark.parametrize(("skew", "state"), [(0.2, "ok"), (-3.0, "warning"), (90.0, "error")])
def test_differing_clock_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, skew: float, state: str) -> None:
    settings = Settings(db=f"sqlite:///{tmp_path / 'signalbook.db'}")
    open_store(settings.db).close()
    real = inspect(settings.db, timeout=5)
    other = DatabaseState(where=real.where, revision=real.revision, skew=skew)
    monkeypatch.setattr(doctor, "inspect", lambda *_, **__: other)
    check = only(settings, "clock")
    assert check.state == state
    if state != "ok":
        assert ("ahead of" if skew > 0 else "behind") in check.found


def test_the_clock_of_postgresql_is_asked(postgres_database: str) -> None:
    open_store(postgres_database).close()
    assert -60 < inspect(postgres_database, timeout=5).skew < 60
    assert inspect(postgres_database, timeout=5).skew != 0


def test_files_readable_by_others_are_a_warning(settings: Settings, tmp_path: Path) -> None:
    config = tmp_path / "signalbook.toml"
    config.write_text("")
    config.chmod(0o640)
    (check,) = [check for check in checks(settings, "files") if "signalbook.toml" in check.found]
    assert (check.state, check.advice) == ("warning", "chmod 600 signalbook.toml")
    config.chmod(0o600)
    assert "warning" not in {check.state for check in checks(settings, "files") if "signalbook.toml" in check.found}


def test_invalid_key_file_is_an_error(settings: Settings, tmp_path: Path) -> None:
    for key_file, words in ((tmp_path / "gone", "cannot be read"), (tmp_path / "text", "no key")):
        if key_file.name == "text":
            key_file.write_text("text")
        check = only(Settings(db=settings.db, key_file=str(key_file)), "keys")
        assert (check.state, words in check.found) == ("error", True)


def test_a_key_file_of_somebody_else(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mounted secret of the host's user: it is not well because nobody else reads it."""
    key_file = tmp_path / "keys"
    key_file.write_bytes(base64.b64encode(bytes(32)))
    key_file.chmod(0o600)
    monkeypatch.setattr("os.access", lambda path, _: Path(path) != key_file)
    (check,) = [check for check in checks(Settings(db=settings.db, key_file=str(key_file)), "files") if check.advice]
    assert (check.state, "may not read it" in check.found) == ("error", True)
    assert check.advice.startswith(f"chown {os.geteuid()} {key_file}")


@pytest.mark.parametrize(("days", "state"), [(-1, "error"), (3, "warning"), (300, "ok")])
def test_the_server_s_certificate(settings: Settings, tmp_path: Path, days: int, state: str) -> None:
    expires = datetime.now(UTC) + timedelta(days=days)
    issued = trustme.CA().issue_cert("localhost", not_after=expires)
    file = tmp_path / "server.pem"
    file.write_bytes(issued.private_key_pem.bytes() + issued.cert_chain_pems[0].bytes())
    file.chmod(0o600)
    check = only(replace(settings, tls_cert=str(file)), "tls")
    assert (check.state, f"{expires:%Y-%m-%d}" in check.found) == (state, True)


def test_issuers_are_asked(settings: Settings) -> None:
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        issuer = f"http://127.0.0.1:{dead.getsockname()[1]}"
        check = only(replace(settings, oidc_issuers=(issuer,), oidc_audience=("me",)), "issuer")
    assert (check.state, "does not give its keys" in check.found) == ("warning", True)


def test_logins_are_tried(settings: Settings) -> None:
    with fake_issuer() as issuer:
        with_login = replace(settings, oidc_issuers=(issuer.url,), oidc_audience=("me",), login_client_id="us")
        check = only(replace(with_login, base_url="https://r.example/"), "login")
        assert (check.state, "https://r.example/ui/-/login/callback" in check.found) == ("ok", True)
        assert only(replace(with_login, base_url="http://r.example"), "login").advice.startswith("set base_url")
        issuer.metadata["code_challenge_methods_supported"] = ["plain"]
        check = only(with_login, "login")
        assert (check.state, "S256" in check.found) == ("warning", True)


def test_policy_warnings_are_reported(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        "rules:\n- {who: ['subject:pat'], role: administrator}\n"
        "- {who: [authenticated], deny: [read], on: [/schemagroup/secret-*]}\n"
    )
    file.chmod(0o600)
    policy_checks = checks(replace(settings, access_file=str(file)), "policy")
    assert [check.state for check in policy_checks] == ["warning"] * 2
    assert policy_checks[0].found.startswith(
        "/rules/1/on/0: /schemagroup/secret-* names nothing: schemagroup is no type"
    )
    assert "subject:pat administers" in policy_checks[1].found
    with closing(open_store(settings.db)) as store, store.read() as transaction:
        assert transaction.settings.get("access_file") is None
    file.write_text("rules: 1")
    assert only(replace(settings, access_file=str(file)), "access").state == "error"


def test_incomplete_index_is_reported_and_unchanged(settings: Settings) -> None:
    with closing(open_store(settings.db)) as store:
        Engine(store, settings=settings)
        with store.write() as transaction:
            transaction.index.put_state(made=INDEX_VERSION, position=0)
    check = only(settings, "search")
    assert (check.state, "signalbook migrate" in check.advice) == ("warning", True)
    with closing(open_store(settings.db)) as store:
        with store.read() as transaction:
            assert transaction.index.state() == {"made": INDEX_VERSION, "position": 0}
        Engine(store, settings=settings)
    assert only(settings, "search").state == "ok"


def test_unprotected_public_access_is_reported(settings: Settings) -> None:
    assert only(settings, "access").state == "ok"
    for db in (settings.db, "sqlite:///not-there-yet.db"):
        check = only(Settings(db=db, host="0.0.0.0"), "access")
        assert (check.state, "access init" in check.advice) == ("error", True)
    assert only(Settings(db=settings.db, host="0.0.0.0", access="open"), "access").state == "warning"


def test_sinks_are_tried_under_the_policy(settings: Settings, tmp_path: Path) -> None:
    key_file = tmp_path / "keys"
    key_file.write_bytes(base64.b64encode(bytes(32)))
    key_file.chmod(0o600)
    with_key = Settings(db=settings.db, allow_sinks=("127.0.0.0/8",), sink_timeout=60.0, key_file=str(key_file))
    with socket.socket() as listening, socket.socket() as dead:
        for sock in (listening, dead):
            sock.bind(("127.0.0.1", 0))
        listening.listen()
        live_port, dead_port = listening.getsockname()[1], dead.getsockname()[1]
        with closing(open_store(with_key.db)) as store:
            engine = Engine(store, settings=with_key)
            subscriptions = SubscriptionStore.of(engine, with_key)
            for port, secret in ((live_port, None), (dead_port, None), (live_port, "hidden")):
                subscribe(engine, subscriptions, f"nats://127.0.0.1:{port}/", secret)
        sink_checks = checks(with_key, "subscription")
        assert sorted(check.state for check in sink_checks) == ["ok", "ok", "warning"], sink_checks
        assert {str(live_port) in check.found for check in sink_checks if check.state == "ok"} == {True}
        # Another key, another policy.
        key_file.write_bytes(base64.b64encode(bytes(31) + b"1"))
        sink_checks = checks(with_key, "subscription")
        assert sorted(check.state for check in sink_checks) == ["error", "ok", "warning"]
        closed = Settings(db=with_key.db, key_file=str(key_file))
        assert {check.state for check in checks(closed, "subscription")} == {"error"}
    assert "hidden" not in str(sink_checks)


def subscribe(engine: Engine, store: SubscriptionStore, sink: str, secret: str | None) -> None:
    """Store a subscription, perhaps with a secret."""
    credential = None
    if secret is not None:
        members, secrets = {"identifier": "me"}, {"secret": secret}
        credential = Credential(credentialtype="PLAIN", members=members, secrets=secrets)
    settings = {"subject": "s"}
    with engine.writing() as session:
        subscription = Subscription(id="", protocol="NATS", sink=sink, protocolsettings=settings, credential=credential)
        store.create(session, subscription)


def test_followed_registries_have_to_let_us_in(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    closed = Settings(db=f"sqlite:///{tmp_path}/closed/signalbook.db")
    with closing(open_store(closed.db)) as store:
        Engine(store, settings=closed)
        with store.write() as transaction:
            policy = read_policy({"rules": [{"who": ["subject:pat"], "role": "administrator"}]})
            AccessControl(store, closed).put(transaction, policy, by=UNRESTRICTED)
            _, token = tokens.create(transaction.tokens, TokenRequest(subject="pat"), now())
    with serving(tmp_path / "closed") as url:
        for user, state, words in (
            ("", "error", "before the host in its URL"),
            (f"x:{token.replace('sbk', 'sbx')}@", "error", "does not let us in"),
            ("${PEER_TOKEN}@", "ok", "lets us in"),
        ):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("PEER_TOKEN", token)
                check = only(replace(settings, follow=(url.replace("://", f"://{user}"),)), "registry")
            assert (check.state, words in check.found) == (state, True), check


def test_followed_registries_are_asked(settings: Settings) -> None:
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{dead.getsockname()[1]}"
        check = only(Settings(db=settings.db, follow=(url,)), f"registry {url}")
    assert check.state == "warning"
    assert check.advice
