from datetime import UTC, datetime

import pytest

from signalbook.events.dialects import API_PATHS, EventDialect, cloudevent, of_source
from signalbook.storage.outbox import Record

ROOT = "https://r.example/registry"
SCHEMAS, FIRST, CATALOG = (f"{ROOT}{path}" for path in API_PATHS)
G = "/schemagroups/g"
S = f"{G}/schemas/s"
STAMPS = ("epoch", "modifiedat")
META = ("meta.epoch", "meta.modifiedat")


def record(xid: str, action: str, *changed: str, cascaded: bool = False) -> Record:
    change = {"xid": xid, "entity": "group", "action": action, "changed": list(changed), "cascaded": cascaded}
    return Record(position=7, time=datetime(2030, 12, 19, 6, tzinfo=UTC), correlationid="c-1", change=change)


def dialect(source: str) -> EventDialect:
    matching = of_source(source, ROOT)
    assert matching is not None
    return matching


@pytest.mark.parametrize("source", ["", ROOT, f"{ROOT}/"])
def test_root_source_has_all_events_of_xregistry(source: str) -> None:
    """E-3, J-21"""
    update = record("/dirs/d1", "updated", *STAMPS)
    assert dialect(source).events(update) == (cloudevent(update, source=f"{ROOT}/"),)


@pytest.mark.parametrize("source", ["https://other.example/registry", f"{ROOT}/compat", "urn:x", f"{ROOT}x"])
def test_unknown_source_is_rejected(source: str) -> None:
    """The source must be the root of a registry (D-25)."""
    assert of_source(source, ROOT) is None


@pytest.mark.parametrize(
    ("source", "xid", "action", "type", "subject"),
    [
        (SCHEMAS, G, "created", "io.cloudevents.schemaregistry.updated.v1", G),
        (SCHEMAS, f"{S}/versions/3", "deleted", "io.cloudevents.schemaregistry.deleted.v1", f"{S}/versions/3"),
        (FIRST, "/messagegroups/g:1", "deleted", "io.cloudevents.messagecatalog.deleted.v1", "/messagecatalog/g%3A1"),
        (
            CATALOG, "/messagegroups/g/messages/m/versions/1", "created",
            "io.cloudevents.messagecatalog.updated.v1", "/messagecatalog/g/messagedefinitions/m/versions/1",
        ),
    ],
)  # fmt: skip
def test_draft_reports_creations_updates_and_deletions(
    source: str, xid: str, action: str, type: str, subject: str
) -> None:
    """The events have the paths of the draft, the base of the API as source, and no data (D-18, D-20, D-21, E-32)."""
    assert dialect(f"{source}/").events(record(xid, action)) == (
        {
            "specversion": "1.0",
            "id": "7",
            "type": type,
            "source": source,
            "subject": subject,
            "time": "2030-12-19T06:00:00Z",
        },
    )


@pytest.mark.parametrize(
    ("change_record", "count"),
    [
        (record(G, "updated", *STAMPS), 1),
        (record(G, "updated", *STAMPS, "name"), 1),
        (record(G, "updated", *STAMPS, "schemas", "schemascount"), 0),
        (record(G, "updated", *STAMPS, "schemas", "schemascount", "name"), 1),
        (record(S, "updated", *STAMPS, "name"), 1),
        (record(S, "updated", *META, "meta.deprecated"), 1),
        (record(S, "updated", *META, "meta.defaultversionid", "name"), 1),
        (record(S, "updated", *META, "versions", "versionscount"), 0),
        (record(S, "updated", *META, "versions", "versionscount", "meta.defaultversionid", "name", "versionid"), 0),
        (record(S, "updated", *META, "versions", "versionscount", "meta.labels"), 1),
        (record(S, "deprecation", "effective"), 0),
        (record(S, "deleted"), 1),
        (record(S, "deleted", cascaded=True), 0),
        (record(f"{S}/versions/v1", "created"), 0),
        (record(f"{S}/versions/1", "updated", *STAMPS, "ancestorid"), 0),
        (record(f"{S}/versions/1", "updated", *STAMPS, "ancestorid", "compatibilityvalidated"), 0),
        (record(f"{S}/versions/1", "updated", *STAMPS, "ancestorid", "schema"), 1),
        (record("/", "updated", "name"), 0),
        (record("/model", "updated"), 0),
        (record("/messagegroups/g", "created"), 0),
    ],
)
def test_one_event_for_each_object(change_record: Record, count: int) -> None:
    """Members have their own events, except those deleted with their owner (D-18, D-19, J-10)."""
    assert len(dialect(SCHEMAS).events(change_record)) == count


def test_drafts_use_the_time_of_the_object() -> None:
    """The time of the object may differ from that of the write; only the drafts use it (D-18)."""
    update = record(G, "updated", *STAMPS)
    update.change["time"] = "2020-01-01T00:00:00Z"
    assert [event["time"] for event in dialect(SCHEMAS).events(update)] == ["2020-01-01T00:00:00Z"]
    assert [event["time"] for event in dialect("").events(update)] == ["2030-12-19T06:00:00Z"]
