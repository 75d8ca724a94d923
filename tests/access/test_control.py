"""Which policy is in force: the stored one, on every server, or the one of a file."""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from signalbook.access.audit import read_entries
from signalbook.access.base import ANONYMOUS, Forbidden, Identity
from signalbook.access.control import AccessControl, PolicyRefused
from signalbook.access.decisions import UNRESTRICTED
from signalbook.access.policy import read_policy
from signalbook.errors import SignalbookError
from signalbook.settings import SettingError, Settings
from signalbook.storage.audit import AuditQuery
from signalbook.storage.store import Store
from signalbook.values import JSON, JSONObject
from signalbook.xid import ROOT

PAT, SAM = Identity(subject="pat"), Identity(subject="sam")
ADMINISTRATOR: JSONObject = {"who": ["subject:pat"], "role": "administrator"}


def document(*rules: JSONObject) -> JSONObject:
    return {"rules": [ADMINISTRATOR, *rules]}


OPEN_TO_READ = document({"who": ["anyone"], "role": "reader"})


def put(control: AccessControl, store: Store, policy: JSON, by: Identity | None = None) -> None:
    access = UNRESTRICTED
    if by is not None:
        in_force = control.policy(store.generation())
        assert in_force is not None
        access = in_force.access(by)
    with store.write() as transaction:
        control.put(transaction, read_policy(policy), by=access)


def current(control: AccessControl) -> JSON:
    policy = control.current()
    return policy and policy.document


def readable(control: AccessControl, store: Store) -> bool:
    """Return True if anonymous callers may read."""
    policy = control.policy(store.generation())
    assert policy is not None
    return policy.access(ANONYMOUS).is_readable(ROOT)


def test_a_stored_policy_is_in_force_on_every_server_with_its_next_request(store: Store) -> None:
    here, there = AccessControl(store, Settings()), AccessControl(store, Settings())
    assert here.policy(store.generation()) is there.policy(store.generation()) is None
    put(here, store, document())
    assert there.is_stale(store.generation())
    assert not readable(here, store)
    assert not readable(there, store)
    put(there, store, OPEN_TO_READ, by=PAT)
    assert readable(here, store)
    assert current(here) == current(there) == OPEN_TO_READ


def test_other_writes_keep_the_compiled_policy(store: Store) -> None:
    control = AccessControl(store, Settings())
    put(control, store, document())
    before = control.policy(store.generation())
    with store.write() as transaction:
        transaction.settings.put_config("capabilities", {})
    generation = store.generation()
    assert control.is_stale(generation)
    assert control.policy(generation) is before
    assert not control.is_stale(generation)


def test_invalid_stored_policy_admits_nobody(store: Store) -> None:
    control = AccessControl(store, Settings())
    with store.write() as transaction:
        transaction.settings.put_config("access", {"rules": [{"who": ["anyone"], "role": "king"}]})
    for _ in range(2):
        with pytest.raises(SignalbookError, match=r"(?s)/rules/0/role: .*replace it by signalbook access set"):
            control.policy(store.generation())
    put(control, store, document())
    assert not readable(control, store)


@pytest.mark.parametrize(
    ("policy", "by", "message"),
    [
        ({"rules": []}, None, "nobody could change this policy"),
        ({"rules": [{"who": ["anyone"], "role": "administrator"}]}, None, "nobody could change this policy"),
        (document({"who": ["subject:pat"], "deny": ["administer"]}), None, "nobody could change this policy"),
        ({"rules": [{"who": ["subject:sam"], "role": "administrator"}]}, PAT, "pat could not change this policy back"),
    ],
)
def test_policy_without_administrators_is_rejected(
    store: Store, policy: JSON, by: Identity | None, message: str
) -> None:
    control = AccessControl(store, Settings())
    put(control, store, OPEN_TO_READ)
    with pytest.raises(PolicyRefused, match=message):
        put(control, store, policy, by=by)
    assert current(control) == OPEN_TO_READ
    assert readable(control, store)


def test_former_administrator_cannot_change_the_policy(store: Store) -> None:
    control = AccessControl(store, Settings())
    put(control, store, {"rules": [ADMINISTRATOR, {"who": ["subject:sam"], "role": "administrator"}]})
    before = control.policy(store.generation())
    assert before is not None
    put(control, store, document(), by=PAT)
    with store.write() as transaction, pytest.raises(Forbidden):
        control.put(transaction, before, by=before.access(SAM))
    assert current(control) == document()


def test_administrator_by_group_may_keep_the_policy(store: Store) -> None:
    control = AccessControl(store, Settings())
    team: JSONObject = {"rules": [{"who": ["group:platform"], "role": "administrator"}]}
    put(control, store, team)
    put(control, store, {"rules": [*team["rules"], ADMINISTRATOR]}, by=Identity(groups=frozenset({"platform"})))
    narrowed = Identity(subject="pat", token="t", scopes=frozenset({"read"}))
    with pytest.raises(Forbidden):
        put(control, store, team, by=narrowed)


def test_open_access_needs_no_policy(local: Store) -> None:
    control = AccessControl(local, Settings(access="open"))
    put(control, local, document())
    assert control.open
    assert not control.is_stale(local.generation())
    assert control.policy(local.generation()) is None
    assert current(control) == document()


def test_invalid_settings_are_rejected(local: Store, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="access is \"open\" or empty, not 'all'"):
        AccessControl(local, Settings(access="all"))
    with pytest.raises(SettingError, match="leave out one of them"):
        AccessControl(local, Settings(access="open", access_file=str(tmp_path / "p.json")))


class PolicyFile:
    """A file that changes as files do: by another one in its place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = Settings(access_file=str(path), reload_seconds=1e-9)

    def write(self, text: str) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self.path)


@pytest.fixture
def file(tmp_path: Path) -> PolicyFile:
    policy_file = PolicyFile(tmp_path / "policy.yaml")
    policy_file.write("rules:\n- {who: ['subject:pat'], role: administrator}\n")
    return policy_file


@pytest.fixture
def local(sqlite_store: Callable[[], Store]) -> Store:
    """A store where it does not matter on which database."""
    return sqlite_store()


def test_policy_file_is_followed_and_broken_versions_are_ignored(
    local: Store, file: PolicyFile, caplog: pytest.LogCaptureFixture
) -> None:
    control = AccessControl(local, file.settings)
    assert not readable(control, local)
    file.write("rules:\n- {who: [anyone], role: reader}\n")
    assert readable(control, local)
    with caplog.at_level(logging.ERROR):
        for text in ("rules: [", "rules: 1", "rules: 1"):
            file.write(text)
            assert readable(control, local)
            assert readable(control, local)
        file.path.unlink()
        assert readable(control, local)
        assert readable(control, local)
    assert [record.getMessage().splitlines()[-1].split(": ", 2)[-1] for record in caplog.records] == [
        f"{file.path}: line 2, column 1: did not find expected node content",
        "it is the list of rules [type]",
        f"{file.path}: cannot be read: No such file or directory",
    ]
    file.write("rules: []\n")
    assert not readable(control, local)


def test_server_with_a_broken_file_uses_the_last_good_policy(local: Store, file: PolicyFile) -> None:
    AccessControl(local, file.settings)
    good = file.path.read_text(encoding="utf-8")
    file.write("rules: 1\n")
    control = AccessControl(local, file.settings)
    assert not readable(control, local)
    assert current(control) == {"rules": [ADMINISTRATOR]}
    # Another file is another policy.
    other = file.path.with_name("other.yaml")
    other.write_text("rules: 1\nroles: 2\n", encoding="utf-8")
    with pytest.raises(SettingError, match=r"(?s)access_file .*other.yaml.*/roles: .*/rules: "):
        AccessControl(local, Settings(access_file=str(other)))
    with pytest.raises(SettingError, match="No such file"):
        AccessControl(local, Settings(access_file=str(file.path.with_name("gone.yaml"))))
    other.write_text(good, encoding="utf-8")
    assert AccessControl(local, Settings(access_file=str(other))).policy(None) is not None


def test_changed_policy_file_is_audited_once(local: Store, file: PolicyFile, tmp_path: Path) -> None:
    lines = tmp_path / "audit.jsonl"
    settings = replace(file.settings, audit_log=str(lines))
    here, there = AccessControl(local, settings), AccessControl(local, settings)
    # A copy of it at another place is the same policy, and text that says the same, too.
    copied = PolicyFile(tmp_path / "copy.yaml")
    copied.write(file.path.read_text(encoding="utf-8") + "# as before\n")
    AccessControl(local, copied.settings)
    for text in ("rules:\n- {who: [anyone], role: reader, description: swordfish}\n", "rules: ["):
        file.write(text)
        for control in (here, there, here):
            assert readable(control, local)
    entries = read_entries(local, AuditQuery(), 10)
    assert [(entry.who, entry.action, entry.xids, entry.details) for entry in entries] == [
        ("(signalbook)", "administer", ("/access",), {"api": "access_file", "file": str(file.path)})
    ] * 2
    assert len(lines.read_text(encoding="utf-8").splitlines()) == 2
    assert "swordfish" not in lines.read_text(encoding="utf-8")
    file.write("rules: []\n")
    AccessControl(local, replace(file.settings, audit="off"))
    assert len(read_entries(local, AuditQuery(), 10)) == 2


def test_policy_of_a_file_cannot_be_put(local: Store, file: PolicyFile) -> None:
    control = AccessControl(local, file.settings)
    with pytest.raises(PolicyRefused, match=r"the policy is the file policy.yaml: change that"):
        put(control, local, document())


def test_without_reloading_a_file_is_read_at_the_start_only(local: Store, file: PolicyFile) -> None:
    control = AccessControl(local, Settings(access_file=str(file.path), reload_seconds=0))
    file.write(json.dumps(OPEN_TO_READ))
    assert not control.is_stale(local.generation())
    assert not readable(control, local)
