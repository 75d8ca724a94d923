"""The doctor: says what is wrong, what to do, and changes nothing."""

from __future__ import annotations

import base64
import socket
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from signalbook import doctor
from signalbook.doctor import Check, examine
from signalbook.engine.engine import Engine
from signalbook.events.subscriptions.store import SubscriptionStore
from signalbook.events.subscriptions.subscription import Credential, Subscription
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.storage.inspection import DatabaseState, inspect


def checks(settings: Settings, subject: str) -> list[Check]:
    """What was found about ``subject``."""
    return [check for check in examine(settings) if check.subject.startswith(subject)]


def only(settings: Settings, subject: str) -> Check:
    """The same, where that is one thing."""
    (found,) = checks(settings, subject)
    return found


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def settings(store_url: str) -> Settings:
    """Of a registry on each kind of database."""
    made = Settings(db=store_url, allow_sinks=("127.0.0.0/8",), sink_timeout=5.0)
    with closing(open_store(store_url)) as store:
        Engine(store, settings=made)
    return made


def test_all_is_well(settings: Settings, tmp_path: Path) -> None:
    if settings.db.startswith("sqlite"):
        for path in tmp_path.glob("signalbook.db*"):
            path.chmod(0o600)
    found = [check for check in examine(settings) if check.subject != "keys"]
    assert {check.state for check in found} == {"ok"}, found
    assert {"settings", "database", "clock", "access"} <= {check.subject for check in found}


def test_a_setting_without_a_usable_value() -> None:
    (check,) = examine(Settings(port=0))
    assert (check.subject, check.state) == ("settings", "error")
    assert "port" in check.found


def test_nothing_is_made(tmp_path: Path) -> None:
    assert only(Settings(), "database").state == "ok"
    assert list(tmp_path.iterdir()) == []


def test_an_empty_database_stays_empty(store_url: str) -> None:
    assert only(Settings(db=store_url), "database").state == "ok"
    assert inspect(store_url, timeout=5).revision is None


def test_a_database_that_cannot_be_reached_shows_no_password() -> None:
    check = only(Settings(db="postgresql://user:secret@127.0.0.1:1/x"), "database")
    assert (check.state, "secret" in check.found) == ("error", False)


def test_a_schema_of_another_version(settings: Settings) -> None:
    for revision, state, advice in (("0001", "warning", "backup"), ("9999", "error", "update Signalbook")):
        put_revision(settings.db, revision)
        check = only(settings, "database")
        assert (check.state, advice in check.advice) == (state, True)
        assert inspect(settings.db, timeout=5).revision == revision


def put_revision(url: str, revision: str) -> None:
    from sqlalchemy import create_engine

    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
    engine.dispose()


def test_a_database_that_takes_no_writes(postgres_database: str) -> None:
    open_store(postgres_database).close()
    name = postgres_database.split("@/")[1].partition("?")[0]
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
    check = only(Settings(db=postgres_database), "database")
    assert (check.state, "read-only" in check.found) == ("error", True)


@pytest.mark.parametrize(("skew", "state"), [(0.2, "ok"), (-3.0, "warning"), (90.0, "error")])
def test_a_clock_that_differs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, skew: float, state: str) -> None:
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
    assert -5 < inspect(postgres_database, timeout=5).skew < 5
    assert inspect(postgres_database, timeout=5).skew != 0


def test_files_that_others_may_read(settings: Settings, tmp_path: Path) -> None:
    config = tmp_path / "signalbook.toml"
    config.write_text("")
    config.chmod(0o640)
    (check,) = [check for check in checks(settings, "files") if "signalbook.toml" in check.found]
    assert (check.state, check.advice) == ("warning", "chmod 600 signalbook.toml")
    config.chmod(0o600)
    assert "warning" not in {check.state for check in checks(settings, "files") if "signalbook.toml" in check.found}


def test_a_key_file_that_is_none(settings: Settings, tmp_path: Path) -> None:
    for key_file, words in ((tmp_path / "gone", "cannot be read"), (tmp_path / "text", "no key")):
        if key_file.name == "text":
            key_file.write_text("text")
        check = only(Settings(db=settings.db, key_file=str(key_file)), "keys")
        assert (check.state, words in check.found) == ("error", True)


def test_access_is_said_where_it_matters(settings: Settings) -> None:
    assert only(settings, "access").state == "ok"
    assert only(Settings(db=settings.db, host="0.0.0.0"), "access").state == "error"
    assert only(Settings(db=settings.db, host="0.0.0.0", access="open"), "access").state == "warning"


def test_sinks_are_tried_under_the_policy(settings: Settings, tmp_path: Path) -> None:
    key_file = tmp_path / "keys"
    key_file.write_bytes(base64.b64encode(bytes(32)))
    key_file.chmod(0o600)
    made = Settings(db=settings.db, allow_sinks=("127.0.0.0/8",), sink_timeout=2.0, key_file=str(key_file))
    with socket.socket() as listening, socket.socket() as dead:
        for each in (listening, dead):
            each.bind(("127.0.0.1", 0))
        listening.listen()
        live_port, dead_port = listening.getsockname()[1], dead.getsockname()[1]
        with closing(open_store(made.db)) as store:
            engine = Engine(store, settings=made)
            subscriptions = SubscriptionStore.of(engine, made)
            for port, secret in ((live_port, None), (dead_port, None), (live_port, "hidden")):
                subscribe(engine, subscriptions, f"nats://127.0.0.1:{port}/", secret)
        found = checks(made, "subscription")
        assert sorted(check.state for check in found) == ["ok", "ok", "warning"], found
        assert {str(live_port) in check.found for check in found if check.state == "ok"} == {True}
        # Another key, another policy.
        key_file.write_bytes(base64.b64encode(bytes(31) + b"1"))
        found = checks(made, "subscription")
        assert sorted(check.state for check in found) == ["error", "ok", "warning"]
        closed = Settings(db=made.db, key_file=str(key_file))
        assert {check.state for check in checks(closed, "subscription")} == {"error"}
    assert "hidden" not in str(found)


def subscribe(engine: Engine, store: SubscriptionStore, sink: str, secret: str | None) -> None:
    """Store a subscription, perhaps with a secret."""
    credential = None
    if secret is not None:
        members, secrets = {"identifier": "me"}, {"secret": secret}
        credential = Credential(credentialtype="PLAIN", members=members, secrets=secrets)
    settings = {"subject": "s"}
    with engine.writing() as session:
        wanted = Subscription(id="", protocol="NATS", sink=sink, protocolsettings=settings, credential=credential)
        store.create(session, wanted)


def test_followed_registries_are_asked(settings: Settings) -> None:
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{dead.getsockname()[1]}"
        check = only(Settings(db=settings.db, follow=(url,)), f"registry {url}")
    assert check.state == "warning"
    assert check.advice
