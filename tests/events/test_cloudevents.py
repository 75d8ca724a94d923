from datetime import UTC, datetime

import pytest
import yaml

from signalbook.events.dialects import cloudevent, lists_changes
from signalbook.storage.outbox import Record


def record(entity: str, action: str, changed: list[str]) -> Record:
    change = {"xid": "/dirs/d1", "entity": entity, "action": action, "changed": changed}
    return Record(position=7, time=datetime(2030, 12, 19, 6, tzinfo=UTC), correlationid="c-1", change=change)


def test_an_update_names_what_changed() -> None:
    """R293, R294, R295, R296, R298."""
    updated = record("group", "updated", ["epoch", "name"])
    assert cloudevent(updated, source="https://example.com/registry") == yaml.safe_load("""
    {specversion: "1.0", id: "7", type: io.xregistry.group.updated, source: "https://example.com/registry",
      subject: /dirs/d1, time: "2030-12-19T06:00:00Z", xregcorrelationid: c-1, datacontenttype: application/json,
      data: {changed: [epoch, name]}}
    """)


@pytest.mark.parametrize(
    ("entity", "action", "expected"),
    [
        ("group", "created", False),
        ("version", "deleted", False),
        ("model", "updated", False),
        ("modelsource", "updated", False),
        ("capabilities", "updated", True),
        ("resource", "deprecation", True),
    ],
)
def test_only_specified_events_list_changes(entity: str, action: str, expected: bool) -> None:
    """Only the events of the specification list changes (R298)."""
    assert lists_changes(entity, action) is expected
    assert ("data" in cloudevent(record(entity, action, ["a"]), source="https://x.example")) is expected
