"""What is recorded: writes with their xids, refusals in bounded numbers, lines for others."""

import json
import os
import shutil
import stat
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.storage.test_migrate import at_revision

from signalbook import values
from signalbook.access import audit
from signalbook.access.audit import (
    MOST_XIDS,
    SEVERAL,
    Audit,
    AuditLog,
    RefusedRequests,
    build_entries,
    format_entry,
    open_recorded,
)
from signalbook.access.base import ANONYMOUS, Action, Identity, RequestOrigin
from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.settings import SettingError, Settings
from signalbook.storage.audit import AuditEntry, AuditQuery
from signalbook.storage.base import StorageBusy
from signalbook.storage.schema import REVISION
from signalbook.storage.store import Store

STAMP = datetime(2030, 1, 1, tzinfo=UTC)
ANN = Identity(subject="ann", issuer="https://id.example", groups=frozenset({"secretgroup"}), token="t1")
ORIGIN = RequestOrigin(peer="10.0.0.1", forwarded="192.0.2.1", api="/", method="PUT")


def access(identity: Identity) -> Access:
    return Access(identity, [], key="key")


BY_ANN = access(ANN).at(ORIGIN)
REFUSAL = RefusedRequests(who=ANN, origin=ORIGIN, action="update", error="403 Forbidden")
CREATED = build_entries(BY_ANN, [(Action.CREATE, "/g/a")], at=STAMP, correlationid="c")


def stored(store: Store) -> list[AuditEntry]:
    with store.read() as reader:
        return reader.audit.entries(AuditQuery(), 10_000)


def test_a_request_is_an_entry_for_each_action() -> None:
    changes = [(Action.CREATE, "/g/a"), (Action.UPDATE, "/g/b"), (Action.CREATE, "/g/c"), (Action.CREATE, "/g/a")]
    records = build_entries(BY_ANN, changes, at=STAMP, correlationid="c")
    assert [(record.action, record.xids) for record in records] == [("create", ("/g/a", "/g/c")), ("update", ("/g/b",))]
    event = {"time": "2030-01-01T00:00:00Z", "who": "ann", "action": "update", "outcome": "done", "xids": ["/g/b"]}
    caller = {"subject": "ann", "token": "t1", "issuer": "https://id.example"}
    request = {"peer": "10.0.0.1", "forwarded": "192.0.2.1", "api": "/", "method": "PUT"}
    assert format_entry(records[1]) == {**event, "correlationid": "c", **caller, **request}


def test_xids_are_bounded_and_the_rest_is_counted() -> None:
    changes = [(Action.DELETE, f"/g/{number}") for number in range(MOST_XIDS + 7)]
    (record,) = build_entries(UNRESTRICTED, changes, at=STAMP, correlationid="")
    assert len(record.xids) == MOST_XIDS
    assert record.details == {"more": 7}


def test_long_caller_details_are_truncated() -> None:
    (record,) = build_entries(
        access(Identity(subject="x" * 10_000)), [(Action.CREATE, "/g")], at=STAMP, correlationid=""
    )
    assert len(record.who) == len(record.details["subject"]) == 256


def test_equal_refusals_share_an_entry(store: Store) -> None:
    recorder = Audit(store, Settings())
    for number in range(1000):
        recorder.refused(REFUSAL, f"/g/{number}")
    recorder.refused(replace(REFUSAL, who=ANONYMOUS), "")
    assert recorder.store_refusals() == 2
    anonymous, ann = stored(store)
    details = (ann.details["count"], ann.details["error"])
    assert (ann.who, ann.outcome, *details) == ("ann", "refused", 1000, "403 Forbidden")
    assert ann.xids == ("/g/0", "/g/1", "/g/2", "/g/3", "/g/4")
    assert anonymous.who == "anonymous"
    assert recorder.store_refusals() == 0


def test_a_flood_of_refusals_takes_bounded_memory_and_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_BURST", 300.0)
    monkeypatch.setattr(audit, "_RATE", 1e-9)
    recorder = Audit(store, Settings())
    for number in range(5000):
        recorder.refused(replace(REFUSAL, who=Identity(subject=str(number))), "/g/x")
        if number % 1000 == 999:
            assert len(recorder._pending) <= 257
            recorder.store_refusals()
    recorder.start()
    recorder.stop()
    records = stored(store)
    assert len(records) <= 302
    assert sum(record.details["count"] for record in records) == 5000
    assert records[0].who == SEVERAL
    assert not records[0].xids


def test_refusals_are_stored_by_themselves(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_GATHER_SECONDS", 0.0)
    recorder = Audit(store, Settings())
    recorder.start()
    recorder.refused(REFUSAL)
    for _ in range(500):
        if stored(store):
            break
        time.sleep(0.01)
    assert len(stored(store)) == 1
    recorder.stop()


def test_refusals_are_kept_while_the_store_is_busy(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Audit(store, Settings())
    recorder.refused(REFUSAL)

    def busy() -> None:
        raise StorageBusy("others write")

    with monkeypatch.context() as patched:
        patched.setattr(store, "write", busy)
        assert recorder.store_refusals() == 0
    recorder.refused(REFUSAL)
    assert recorder.store_refusals() == 1
    assert stored(store)[0].details["count"] == 2


def test_old_entries_are_deleted(store: Store) -> None:
    with store.write() as writer:
        old = [
            AuditEntry(time=values.now() - timedelta(days=days), who=str(days), action="a", outcome="done")
            for days in (3, 1)
        ]
        writer.audit.append(old)
    assert Audit(store, Settings(audit_days=0)).prune() == 0
    assert Audit(store, Settings(audit_days=2)).prune() == 1
    assert [record.who for record in stored(store)] == ["1"]


def test_audit_log_is_private_and_is_reopened_after_a_move(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "audit.jsonl"
    previous = os.umask(0)
    try:
        recorder = Audit(store, Settings(audit_log=str(path), audit_reads="on"))
        changes = [(Action.CREATE, "/g/a\n"), (Action.DELETE, "/g/b")]
        recorder.committed(build_entries(BY_ANN, changes, at=STAMP, correlationid="c"))
        path.rename(tmp_path / "audit.1")
        recorder.read(ANN, ORIGIN, "/g/a", 200)
        recorder.refused(REFUSAL)
        recorder.start()
        recorder.stop()
    finally:
        os.umask(previous)
    first, second = ((tmp_path / name).read_text().splitlines() for name in ("audit.1", "audit.jsonl"))
    assert [json.loads(line)["action"] for line in first] == ["create", "delete"]
    assert [json.loads(line)["outcome"] for line in second] == ["done", "refused"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    assert [record.action for record in stored(store)] == ["update"]


def test_a_migration_is_recorded(store_url: str, tmp_path: Path) -> None:
    settings = Settings(db=store_url, audit_log=str(tmp_path / "audit.jsonl"))
    at_revision("0009", store_url)
    for _ in range(2):
        opened = open_recorded(settings)
        (record,) = stored(opened)
        opened.close()
    assert (record.who, record.action, record.xids) == ("(signalbook)", "administer", ("/",))
    assert record.details == {"about": f"migrated from schema 0009 to {REVISION}"}
    (line,) = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert json.loads(line)["about"] == record.details["about"]


def test_migration_is_not_recorded_without_auditing(store_url: str) -> None:
    at_revision("0011", store_url)
    opened = open_recorded(Settings(db=store_url, audit="off"))
    assert not stored(opened)
    opened.close()


def test_lines_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    AuditLog("-").write(CREATED)
    assert json.loads(capsys.readouterr().out)["who"] == "ann"


def test_unwritable_audit_log_does_not_fail_requests(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit.log_entries(CREATED, Settings(audit_log="/nowhere/audit.jsonl"))
    assert "could not be written to audit_log: audit_log /nowhere/audit.jsonl: No such file" in caplog.text
    folder = tmp_path / "logs"
    folder.mkdir()
    full, gone = AuditLog("/dev/full"), AuditLog(str(folder / "audit.jsonl"))
    shutil.rmtree(folder)
    for log in (full, gone):
        caplog.clear()
        log.write(CREATED)
        assert "could not be written" in caplog.text
        with suppress(OSError):
            log.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"audit": "yes"}, "audit is one of auto, on, off"),
        ({"audit_reads": "on"}, "audit_reads needs audit_log"),
        ({"audit_days": -1.0}, "audit_days"),
        ({"audit_log": "/nowhere/audit.jsonl"}, "there is no folder /nowhere"),
    ],
)
def test_invalid_settings_are_rejected(store: Store, options: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Audit(store, Settings(**options))  # type: ignore[arg-type]
