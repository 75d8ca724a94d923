"""Registries with Confluent's API, copied between real servers and compared id by id."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.replication.confluent.conftest import Answering
from tests.replication.confluent.registries import MOUNT, ask, content, copy, fill, mounts, record, register
from tests.replication.servers import Server, ServerProcess, wait_until

from signalbook.client.confluent import UnusableRegistry
from signalbook.replication.confluent.settings import GLOBAL_SCOPE
from signalbook.replication.replicating import StateError, StateFile

Serve = Callable[..., Server]


@pytest.fixture
def pair(serve: Serve) -> list[str]:
    """The API of two servers, the first one filled."""
    urls = mounts([serve(), serve()])
    fill(urls[0])
    return urls


@pytest.mark.parametrize("stored", ["sqlite", "postgres"])
def test_copy_is_complete_and_idempotent(serve: Serve, stored: str, request: pytest.FixtureRequest) -> None:
    database = {} if stored == "sqlite" else {"db": request.getfixturevalue("postgres_database")}
    source, target = mounts([serve(), serve(**database)])
    fill(source)
    before = content(source)
    report = copy(source, target)
    assert not report.refused
    assert (
        str(report) == "created 10 versions, 3 configs, 2 modes; updated 1 config; deleted 3 versions; "
        "unchanged 1 config, 2 modes"
    )
    assert content(target) == before
    again = copy(source, target)
    assert str(again) == "unchanged 10 versions, 5 configs, 4 modes"
    assert content(target) == before == content(source)


@pytest.mark.merge
def test_new_and_deleted_versions_are_copied(pair: list[str]) -> None:
    """Subjects are made writable one by one if the target is not empty, and restored afterwards."""
    source, target = pair
    copy(source, target)
    for subject in ("money", ":.dev:"):
        ask(source, "PUT", f"/mode/{subject}", {"mode": "READWRITE"})
    register(
        source,
        "money",
        'syntax = "proto3";\npackage shop;\nmessage Money { int64 cents = 1; int32 x = 2; }\n',
        schemaType="PROTOBUF",
    )
    register(source, ":.dev:new", record("New", "id"))
    ask(source, "DELETE", "/config/orders%2Fvalue")
    ask(source, "PUT", "/mode/money", {"mode": "READONLY_OVERRIDE"})
    ask(source, "DELETE", "/subjects/:.dev:late")
    ask(source, "PUT", "/mode", {"mode": "READONLY_OVERRIDE"})
    report = copy(source, target)
    assert not report.refused
    assert content(target) == content(source)
    assert str(copy(source, target)).startswith("unchanged")


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE"])
def test_settings_of_all_contexts(pair: list[str], mode: str) -> None:
    source, target = pair
    for subject in ("first", "later"):
        ask(source, "DELETE", f"/mode/{GLOBAL_SCOPE}")
        register(source, subject, record("R", subject))
        ask(source, "PUT", f"/config/{GLOBAL_SCOPE}", {"compatibility": "FULL"})
        ask(source, "PUT", f"/mode/{GLOBAL_SCOPE}", {"mode": mode})
        assert not copy(source, target).refused
        assert content(target) == content(source)
        assert ask(target, "GET", f"/config/{GLOBAL_SCOPE}") == {"compatibilityLevel": "FULL"}
        assert ask(target, "GET", f"/mode/{GLOBAL_SCOPE}") == {"mode": mode}
    assert str(copy(source, target)).startswith("unchanged")


@pytest.mark.merge
def test_occupied_ids_are_reported(pair: list[str]) -> None:
    """Schemas of the target remain, and all others are copied."""
    source, target = pair
    register(target, "own", record("Own", "id"))
    register(target, "same", record("Another", "id"))
    report = copy(source, target)
    refused = {str(refusal.xid): refusal.reason for refusal in report.refused}
    assert refused.keys() == {"orders/value version 1", "orders/value version 2", "same version 1"}
    assert "1 is the id of another schema (42205): " in refused["orders/value version 1"]
    assert "the id 2 instead of 1" in refused["same version 1"]
    assert ask(target, "GET", "/subjects/own/versions/1")["id"] == 1
    copied, original = (ask(url, "GET", "/subjects/a-paid/versions/1") for url in (target, source))
    assert copied | {"guid": "", "ts": 0} == original | {"guid": "", "ts": 0}
    assert ask(target, "GET", "/mode") == {"mode": "READWRITE"}


def test_one_content_with_several_ids_and_an_id_that_is_used_again(serve: Serve, tmp_path: Path) -> None:
    """Ids are all copied, even if the target used one of them for another schema."""
    source, target = mounts([serve(), serve()])
    state = StateFile(tmp_path / "state")
    ask(source, "PUT", "/mode", {"mode": "IMPORT"})
    for subject, number in (("a", 100), ("b", 200), ("gone", 300)):
        register(source, subject, record("Order", "id"), version=1, id=number)
    assert not copy(source, target, state).refused
    assert content(target) == content(source)
    remove(source, "gone")
    register(source, "c", record("Other", "id"), version=1, id=300)
    assert not copy(source, target, state).refused
    assert content(target) == content(source)
    assert ask(target, "GET", "/schemas/ids/300/versions") == [{"subject": "c", "version": 1}]


@pytest.mark.merge
def test_killed_in_the_middle_and_run_again(serve: Serve) -> None:
    """Existing versions are not written again, and at the end the modes equal those of the source."""
    source, target = mounts([serve(), serve()])
    for number in range(400):
        register(source, f"s{number % 100}", record(f"R{number % 100}"), metadata={"properties": {"n": str(number)}})
    command = [sys.executable, "-m", "signalbook", "replicate", f"confluent+{source}", target]
    killed = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(ask(target, "GET", "/schemas")) > 20)
    killed.send_signal(signal.SIGKILL)
    killed.wait(300)
    there = len(ask(target, "GET", "/schemas"))
    assert there < 400
    assert ask(target, "GET", "/mode") == {"mode": "IMPORT"}
    report = copy(source, target)
    counts = report.summary()
    # What was on its way when it was killed may have arrived since.
    assert counts["unchanged"]["versions"] >= there
    assert counts["created"]["versions"] + counts["unchanged"]["versions"] == 400
    assert (counts["updated"], counts["refusedcount"]) == ({"modes": 1}, 0)
    assert content(target) == content(source)


def remove(url: str, subject: str) -> None:
    """Delete a subject for good."""
    for path in (f"/subjects/{subject}", f"/subjects/{subject}?permanent=true"):
        ask(url, "DELETE", path)


@pytest.mark.merge
def test_permanently_deleted_versions(pair: list[str], tmp_path: Path) -> None:
    """Versions are deleted at the target if they were copied from there; otherwise they remain."""
    source, target = pair
    state = StateFile(tmp_path / "state")
    copy(source, target, state)
    register(target, "own", record("Order", "id"))
    for subject in ("a-paid", "money", ":.dev:late"):
        ask(source, "PUT", f"/mode/{subject}", {"mode": "READWRITE"})
        remove(source, subject)
    # The same number, and another schema.
    ask(source, "DELETE", "/config/same")
    remove(source, "same")
    register(source, "same", record("Same", "other"))
    assert "same version 1" in [str(refusal.xid) for refusal in copy(source, target).refused]
    report = copy(source, target, state)
    assert not report.refused
    assert report.summary()["deleted"]["versions"] == 4
    there = content(target)
    assert there["versions"].pop(("own", 1))
    for kind in ("config", "mode"):
        there[kind].pop("own")
    assert there == content(source)
    assert copy(source, target, state).moved == 0


@pytest.mark.merge
def test_emptied_source_is_an_error(serve: Serve, pair: list[str], tmp_path: Path) -> None:
    """An empty source is assumed to be another registry instead of one whose schemas were all deleted permanently."""
    state = StateFile(tmp_path / "state")
    source, target = pair
    copy(source, target, state)
    before = content(target)
    saved = json.loads((tmp_path / "state").read_text())
    (empty,) = mounts([serve()])
    (tmp_path / "state").write_text(json.dumps({**saved, "link": [empty, target]}))
    with pytest.raises(UnusableRegistry, match=r"none of the versions that were copied from it \(10\)"):
        copy(empty, target, state)
    assert content(target) == before
    (tmp_path / "state").write_text(json.dumps({**saved, "versions": {"a": 1}}))
    with pytest.raises(StateError, match="remove its file"):
        copy(source, target, state)


@pytest.mark.merge
def test_deleted_version_is_kept_while_it_is_referenced(pair: list[str], tmp_path: Path) -> None:
    """The target does not let it go: it is reported, and deleted as soon as nobody refers to it."""
    source, target = pair
    state = StateFile(tmp_path / "state")
    copy(source, target, state)
    reference = {"name": "Order", "subject": "same", "version": 1}
    text = '{"type": "record", "name": "Q", "fields": [{"name": "r", "type": "Order"}]}'
    register(target, "own", text, references=[reference])
    ask(source, "DELETE", "/config/same")
    remove(source, "same")
    (refused,) = copy(source, target, state).refused
    assert (str(refused.xid), "(42206)" in refused.reason) == ("same version 1", True)
    remove(target, "own")
    assert copy(source, target, state).summary()["deleted"]["versions"] == 1
    assert content(target) == content(source)


@pytest.mark.merge
def test_following(pair: list[str], tmp_path: Path) -> None:
    """The follower copies new, deleted and changed entities; after a restart, it also copies what happened in
    between.
    """
    source, target = pair
    command = [sys.executable, "-m", "signalbook", "replicate", f"confluent+{source}", target]
    command += ["--follow", "--state", str(tmp_path / "state")]
    follower = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: content(target) == content(source))
    register(source, "orders/value", record("Order", "id", "another"))
    wait_until(lambda: content(target) == content(source))
    ask(source, "DELETE", "/subjects/orders%2Fvalue/versions/1")
    ask(source, "PUT", "/config/same", {"compatibility": "NONE"})
    wait_until(lambda: content(target) == content(source))
    ask(source, "DELETE", "/subjects/orders%2Fvalue/versions/1?permanent=true")
    wait_until(lambda: content(target) == content(source))
    follower.send_signal(signal.SIGKILL)
    follower.communicate(timeout=300)
    ask(source, "DELETE", "/subjects/orders%2Fvalue/versions/2?permanent=true")
    register(source, "new", record("New", "id"))
    follower = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: content(target) == content(source))
    # Somebody else writes to the target.
    ask(target, "DELETE", "/subjects/new")
    wait_until(lambda: content(target) == content(source))
    follower.send_signal(signal.SIGINT)
    _, output = follower.communicate(timeout=300)
    assert (follower.returncode, output.count("\n"), output.startswith("created 2 versions")) == (0, 1, True), output


@pytest.mark.merge
def test_following_through_an_outage(pair: list[str], serve_process: Callable[..., ServerProcess]) -> None:
    source = serve_process()
    register(source.url + MOUNT, "s", record("R", "a"))
    target = pair[1]
    command = [sys.executable, "-m", "signalbook", "replicate", source.url, f"confluent+{target}", "--every", "0.2"]
    follower = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: ask(target, "GET", "/subjects") == ["s"])
    source.kill()
    assert follower.stderr is not None
    assert "cannot reach the server" in follower.stderr.readline()
    source.start()
    register(source.url + MOUNT, "t", record("T", "a"))
    wait_until(lambda: ask(target, "GET", "/subjects") == ["s", "t"])
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=300)
    assert follower.returncode == 0


def test_a_target_that_does_not_keep_ids(answering: Answering, pair: list[str]) -> None:
    """The target has no modes, or assigns its own ids: nothing more is written to it."""
    answers: dict[str, Any] = {"/schemas/types": [], "/subjects": [], "/config": {}}
    with pytest.raises(UnusableRegistry, match="has no mode IMPORT, so that ids cannot be kept there"):
        copy(pair[0], answering(answers))
    # It says that it does.
    anything = {"mode": "IMPORT", "id": 4711}
    with pytest.raises(UnusableRegistry, match=r"the id 4711 instead of [0-9]+: it cannot keep ids"):
        copy(pair[0], answering({**answers, "/mode": {"mode": "READWRITE"}, "*": anything}))


def test_circular_reference_is_reported(answering: Answering, serve: Serve) -> None:
    """A registry may list what cannot be: it is named, and all the rest is copied."""
    rows = [listed("a", 1, "b"), listed("b", 2, "c"), listed("c", 3, "b"), listed("d", 4)]
    source = answering({"/schemas": rows, "/schemas/types": [], "/v1/metadata/version": {"version": "8.1.0"}})
    (target,) = mounts([serve()])
    report = copy(source, target)
    assert [(str(refusal.xid), refusal.reason) for refusal in report.refused] == [
        ("a version 1", "what it refers to never ends: a version 1 -> b version 1 -> c version 1 -> b version 1"),
        ("b version 1", "what it refers to never ends: b version 1 -> c version 1 -> b version 1"),
        ("c version 1", "what it refers to never ends: c version 1 -> b version 1 -> c version 1"),
    ]
    assert ask(target, "GET", "/subjects/d/versions/1")["id"] == 4
    assert ask(target, "GET", "/mode") == {"mode": "READWRITE"}


def listed(subject: str, schemaid: int, *references: str) -> dict[str, Any]:
    """A version as a list of schemas has it."""
    refers = [{"name": reference, "subject": reference, "version": 1} for reference in references]
    return {"subject": subject, "version": 1, "id": schemaid, "schema": record("R"), "references": refers}
