"""Associations that are copied from one registry to another."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.replication.confluent.conftest import Change
from tests.replication.confluent.registries import ask, copy, mounts, record, register
from tests.replication.servers import HTTP, Server

from signalbook.replication.replicating import StateFile

Found = list[tuple[str, str, str, str]]
WEAK, STRONG = "t-weak", "t-strong"
ALL: Found = [
    (WEAK, "key", "keys", "WEAK"),
    (WEAK, "value", ":.dev:values", "WEAK"),
    (STRONG, "value", ":.n:t-strong-value", "STRONG"),
]


def associate(url: str, topic: str, **association: Any) -> None:
    body = {"resourceName": topic, "resourceNamespace": "n", "resourceId": topic, "associations": [association]}
    ask(url, "POST", "/associations", body)


def associations(url: str) -> Found:
    associations_ = [
        association for topic in (WEAK, STRONG) for association in ask(url, "GET", f"/associations/resources/{topic}")
    ]
    return [
        (association["resourceName"], association["associationType"], association["subject"], association["lifecycle"])
        for association in associations_
    ]


def fill(url: str) -> None:
    for subject in ("keys", "values", ":.dev:values"):
        register(url, subject, record("R", "a"))
    associate(url, WEAK, associationType="key", subject="keys")
    associate(url, WEAK, associationType="value", subject=":.dev:values")
    associate(url, STRONG, associationType="value", lifecycle="STRONG", schema={"schema": record("S", "a")})


@pytest.fixture
def pair(serve: Callable[..., Server]) -> list[str]:
    """The API of two servers."""
    return mounts([serve(), serve()])


def test_associations_follow_the_source(pair: list[str], tmp_path: Path) -> None:
    """Weak and strong associations are copied, a second copy writes nothing, and deletions follow."""
    source, target = pair
    state = StateFile(tmp_path / "state.json")
    fill(source)
    report = copy(source, target, state)
    assert not report.refused
    assert "3 associations" in str(report)
    assert associations(target) == associations(source) == ALL
    again = str(copy(source, target, state))
    assert again.startswith("unchanged 4 versions")
    assert "3 associations" in again
    HTTP.request("DELETE", f"{source}/associations/resources/{WEAK}?associationType=key")
    HTTP.request("DELETE", f"{source}/associations/resources/{STRONG}?cascadeLifecycle=true")
    ask(source, "DELETE", "/subjects/keys")
    report = copy(source, target, state)
    assert not report.refused
    assert associations(target) == ALL[1:2]
    assert ask(target, "GET", "/subjects") == ask(source, "GET", "/subjects") == [":.dev:values", "values"]


def test_associations_of_the_target_remain(
    pair: list[str], changing: Callable[[str, Change], str], tmp_path: Path
) -> None:
    """Associations that the source no longer shows remain too; a target without associations is reported."""
    source, target = pair
    register(target, "keys", record("R", "a"))
    register(target, "other", record("R", "a"))
    associate(target, WEAK, associationType="key", subject="other")
    fill(source)
    state = StateFile(tmp_path / "state.json")
    report = copy(source, target, state)
    assert [(str(row.xid), row.reason) for row in report.refused] == [
        ("keys", f"its association with the key of {WEAK}: the target has the subject other for it (WEAK)")
    ]
    assert associations(target) == [(WEAK, "key", "other", "WEAK"), *ALL[1:]]

    def unknown(path: str, status: int, value: Any) -> tuple[int, Any]:
        return (404, {"error_code": 404, "message": "no"}) if "associations" in path else (status, value)

    assert not copy(changing(source, unknown), target).refused
    assert len(associations(target)) == 3
    skipped = copy(source, changing(target, unknown)).skipped
    assert [row.reason for row in skipped] == ["the target has no associations: 3 are not copied"]
