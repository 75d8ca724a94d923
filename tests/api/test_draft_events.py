"""What requests through the drafts' APIs, and through others, tell in the drafts' words."""

from typing import Any

import pytest

from signalbook.storage.store import Store

from .conftest import Client, Serve

SCHEMAS = "/compat/schemaregistry/v0.2"
GROUP = f"{SCHEMAS}/schemagroups/g"
UPDATED, DELETED = ("io.cloudevents.schemaregistry.updated.v1", "io.cloudevents.schemaregistry.deleted.v1")
ORDER = "/schemagroups/g/schemas/order"
TEXT = {"Content-Type": "text/plain"}

Step = tuple[str, str, Any]
GROUPED: list[Step] = [("PUT", GROUP, b'{"id": "g"}')]
FIRST: list[Step] = [*GROUPED, ("POST", f"{GROUP}/schemas/order?format=text", b"one")]
SECOND: list[Step] = [*FIRST, ("POST", f"{GROUP}/schemas/order", b"two")]
THIRD: list[Step] = [*SECOND, ("POST", f"{GROUP}/schemas/order", b"three")]
AVRO: list[Step] = [("POST", f"{GROUP}/schemas/order?format=avro", f'"{name}"'.encode()) for name in ("int", "long")]
RULED: list[Step] = [
    *GROUPED,
    *AVRO,
    ("POST", f"{GROUP}/schemas/order", b'"float"'),
    ("PATCH", f"{ORDER}/meta", b'{"compatibility": "backward"}'),
]
OTHER: list[Step] = [*SECOND, ("POST", f"{GROUP}/schemas/other?format=text", b"one")]


@pytest.fixture
def registry(store: Store, serve: Serve) -> Client:
    return serve(store, model="default")


def told(client: Client, after: int) -> list[dict[str, Any]]:
    """The events of the draft behind a position."""
    events: list[dict[str, Any]] = client.get(f"/events?source={SCHEMAS}&after={after}").json()
    return events


@pytest.mark.parametrize(
    ("before", "request_", "expected"),
    [
        ([], GROUPED[0], [(UPDATED, "/schemagroups/g")]),
        (GROUPED, FIRST[-1], [(UPDATED, ORDER), (UPDATED, f"{ORDER}/versions/1")]),
        (FIRST, SECOND[-1], [(UPDATED, f"{ORDER}/versions/2")]),
        (FIRST, FIRST[-1], []),
        (SECOND, ("DELETE", f"{GROUP}/schemas/order", b""), [(DELETED, ORDER)]),
        (OTHER, ("DELETE", f"{GROUP}/schemas", b""), [(DELETED, ORDER), (DELETED, "/schemagroups/g/schemas/other")]),
        (OTHER, ("DELETE", GROUP, b""), [(DELETED, "/schemagroups/g")]),
        (OTHER, ("DELETE", "/schemagroups/g", b""), [(DELETED, "/schemagroups/g")]),
        (SECOND, ("DELETE", f"{ORDER}/versions/2", b""), [(DELETED, f"{ORDER}/versions/2")]),
        (FIRST, ("DELETE", f"{ORDER}/versions/1", b""), [(DELETED, ORDER)]),
        (SECOND, ("DELETE", f"{ORDER}/versions/1", b""), [(DELETED, f"{ORDER}/versions/1")]),
        (SECOND, ("DELETE", f"{GROUP}/schemas/order/versions/1", b""), [(DELETED, f"{ORDER}/versions/1")]),
        (THIRD, ("DELETE", f"{ORDER}/versions/2", b""), [(DELETED, f"{ORDER}/versions/2")]),
        (RULED, ("DELETE", f"{ORDER}/versions/2", b""), [(DELETED, f"{ORDER}/versions/2")]),
        (SECOND, ("PATCH", f"{ORDER}/versions/2$details", b'{"ancestorid": "2"}'), []),
        (
            SECOND,
            ("PATCH", f"{ORDER}/versions/2$details", b'{"ancestorid": "2", "description": "x"}'),
            [(UPDATED, ORDER), (UPDATED, f"{ORDER}/versions/2")],
        ),
        (FIRST, ("PATCH", "/schemagroups/g", b'{"description": "x"}'), [(UPDATED, "/schemagroups/g")]),
        (FIRST, ("PUT", f"{ORDER}/versions/x$details", b'{"format": "text"}'), []),
    ],
)
def test_one_event_for_each_object(
    registry: Client, before: list[Step], request_: Step, expected: list[tuple[str, str]]
) -> None:
    """The API of the request does not matter (D-18, D-19, A-45, J-10)."""
    for method, path, content in before:
        registry.send(method, path, content=content, headers=TEXT).raise_for_status()
    start = int(registry.get("/events?limit=1").links["last"]["url"].rpartition("=")[2])
    method, path, content = request_
    answer = registry.send(method, path, content=content, headers=TEXT)
    assert answer.is_success, answer.text
    assert [(event["type"], event["subject"]) for event in told(registry, start)] == expected


def test_event_has_the_time_of_the_object(registry: Client) -> None:
    """The time is that of the group; `source` and `subject` form its URL (D-18, D-20)."""
    registry.send("PUT", GROUP, content=b'{"id": "g"}').raise_for_status()
    (event,) = told(registry, 0)
    url = event["source"] + event["subject"]
    assert url == f"http://r.example{GROUP}"
    assert registry.get(url).json()["updatedtimeutc"] == event["time"]
    assert "data" not in event


STAMP = "2020-10-30T17:31:00Z"


def test_the_time_is_as_recorded(registry: Client) -> None:
    """The time is the one that a client of xRegistry or an import set, and of a version the time of its creation (D-4,
    D-18).
    """
    version = {"format": "text", "createdat": STAMP, "modifiedat": "2022-01-01T00:00:00Z"}
    group = {"modifiedat": STAMP, "createdat": STAMP, "schemas": {"order": {"versions": {"1": version}}}}
    registry.send("POST", "/schemagroups", json={"g": group}).raise_for_status()
    events = {event["subject"]: event["time"] for event in told(registry, 0)}
    assert events["/schemagroups/g"] == registry.get(GROUP).json()["updatedtimeutc"] == STAMP
    created = registry.get(f"{GROUP}/schemas/order/versions/1").headers["Schema-Createdtimeutc"]
    assert events[f"{ORDER}/versions/1"] == created == STAMP
    assert events[ORDER] == "2022-01-01T00:00:00Z"
    start = int(registry.get("/events?limit=1").links["last"]["url"].rpartition("=")[2])
    registry.send("PATCH", f"{ORDER}/versions/1$details", json={"description": "x"}).raise_for_status()
    registry.send("DELETE", "/schemagroups/g").raise_for_status()
    events_since = told(registry, start)
    changed, deleted = [event for event in events_since if "versions" in event["subject"]][-1], events_since[-1]
    assert (changed["type"], changed["time"]) == (UPDATED, STAMP)
    xregistry = registry.get(f"/events?after={start}").json()
    assert (deleted["type"], deleted["time"]) == (DELETED, xregistry[-1]["time"])
    assert deleted["time"] != STAMP


def test_the_time_of_a_definition(registry: Client) -> None:
    """The time is the `updatedtimeutc` that 0.1 shows, which is that of the latest version (D-18)."""
    messages = {"d": {"versions": {"1": {"modifiedat": STAMP}, "2": {"modifiedat": "2023-01-01T00:00:00Z"}}}}
    registry.send("PUT", "/messagegroups/m", json={"envelope": "CloudEvents/1.0", "messages": messages})
    mount = "/compat/messagecatalog/v0.1"
    events = registry.get(f"/events?source={mount}").json()
    (event,) = [candidate for candidate in events if candidate["subject"] == "/messagecatalog/m/messagedefinitions/d"]
    definition = registry.get(f"{mount}{event['subject']}").json()
    assert event["time"] == definition["updatedtimeutc"] == "2023-01-01T00:00:00Z"


CATALOG = "/compat/messagecatalog/v0.1/messagecatalog/g"
PLACED = "/messagecatalog/g/messagedefinitions/com.example.placed"


def definition(description: str) -> dict[str, Any]:
    """A definition of the second draft."""
    attributes = {"type": {"value": "com.example.placed", "required": True}, "subject": {"description": description}}
    return {"id": "com.example.placed", "format": "CloudEvents", "definition": {"attributes": attributes}}


@pytest.mark.parametrize("source", ["/compat/messagecatalog/v0", "/compat/messagecatalog/v0.1"])
def test_both_catalogs_have_equal_events(registry: Client, source: str) -> None:
    """One change causes the events of both APIs, each with its own source (D-18, J-21)."""
    expected_events: list[tuple[str, str]] = []
    group = {"id": "g", "format": "CloudEvents", "specversion": "0.1"}
    definitions = f"{CATALOG}/messagedefinitions"
    steps: list[tuple[str, str, Any, list[tuple[str, str]]]] = [
        ("PUT", CATALOG, group, [("updated", "/messagecatalog/g")]),
        ("POST", definitions, definition("a"), [("updated", PLACED), ("updated", f"{PLACED}/versions/1")]),
        ("POST", definitions, definition("b"), [("updated", f"{PLACED}/versions/2")]),
        ("POST", definitions, definition("b"), []),
        ("DELETE", f"{definitions}/com.example.placed", None, [("deleted", PLACED)]),
        ("DELETE", CATALOG, None, [("deleted", "/messagecatalog/g")]),
    ]  # fmt: skip
    for method, path, body, expected in steps:
        answer = registry.send(method, path, **({} if body is None else {"json": body}))
        assert answer.is_success, answer.text
        expected_events += expected
    events = registry.get(f"/events?source={source}").json()
    types = "io.cloudevents.messagecatalog"
    assert [(event["type"], event["subject"]) for event in events] == [
        (f"{types}.{how}.v1", of) for how, of in expected_events
    ]
    assert {event["source"] for event in events} == {f"http://r.example{source}"}
