"""What one request makes the registry tell: the sample interactions of xRegistry's core/events.md, and more of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from signalbook.storage.store import Store
from signalbook.values import JSONObject

from .conftest import MODEL, Client, Serve

SAMPLE_MODEL = {"groups": {"dirs": {"singular": "dir", "resources": {"files": {"singular": "file"}}}}}
D1 = "/dirs/d1"
F1 = f"{D1}/files/f1"
V1, V2, V3 = (f"{F1}/versions/v{number}" for number in (1, 2, 3))
STAMPS = {"epoch", "modifiedat"}
META = {"meta.epoch", "meta.modifiedat"}
MEMBERS = {*META, "versions", "versionscount"}
VERSION = {"fileid", "versionid", "self", "xid", "epoch", "isdefault", "createdat", "modifiedat", "ancestorid"}

Step = tuple[str, str, Any]
Told = dict[tuple[str, str], set[str] | None]
"""What is expected: the last part of the type and the subject of each event, and the names it lists, if any."""


@dataclass(frozen=True, slots=True)
class Sample:
    """An interaction, what there was before, and what it tells."""

    before: Sequence[Step]
    request: Step
    told: Told


ONE: list[Step] = [("PUT", f"{V1}$details", {})]
TWO = [*ONE, ("PUT", f"{V2}$details", {})]
STUCK = [*ONE, ("PATCH", f"{F1}/meta", {"defaultversionid": "v1"})]
REGISTRY: Told = {("registry.updated", "/"): {*STAMPS, "dirs", "dirscount"}}
GROUP: Told = {("group.updated", D1): {*STAMPS, "files", "filescount"}}
CREATED: Told = {**REGISTRY, ("group.created", D1): None, ("resource.created", F1): None, ("version.created", V1): None}
NEW_2: Told = {("version.created", V2): None}
GONE_1: Told = {("version.deleted", V1): None}
GONE_2: Told = {("version.deleted", V2): None}
GONE: Told = {("resource.deleted", F1): None, **GONE_1}
MOVED = {*VERSION, *META, "meta.defaultversionid"}
NEWER: Told = {("resource.updated", F1): MOVED | MEMBERS, **NEW_2}
MANY: list[Step] = [*ONE, ("POST", f"{F1}/versions", {f"v1.{number}": {} for number in range(20)})]
BESIDE: Told = {("resource.updated", F1): MEMBERS, **NEW_2}
NAMED = {*STAMPS, "name"}
BOTH_NAMED: Told = {("resource.updated", F1): NAMED, ("version.updated", V1): NAMED}
GROUP_DEPRECATED: Told = {("group.deprecation", D1): {"alternative", "effective"}}
RESOURCE_DEPRECATED: Told = {("resource.deprecation", F1): {"alternative", "effective"}}
DEPRECATED = {"deprecated": {"alternative": "https://x.example", "effective": "2030-01-01T00:00:00Z"}}
WHOLE = {
    "name": "all of it",
    "modelsource": SAMPLE_MODEL,
    "capabilities": {"flags": []},
    "dirs": {f"d{number}": {"files": {"f1": {"versions": {"v1": {}, "v2": {}}}}} for number in (1, 2)},
}

SAMPLES = {
    "update a Registry attribute": Sample([], ("PATCH", "/", {"name": "foo"}), {("registry.updated", "/"): NAMED}),
    "create a tree of entities (E-21, R307)": Sample([], ("PUT", f"{V1}$details", {}), CREATED),
    "create a tree of entities, as a document": Sample([], ("PUT", V1, {}), CREATED),
    "update a Resource attribute (E-20)": Sample(ONE, ("PATCH", f"{F1}$details", {"name": "foo"}), BOTH_NAMED),
    "update a Resource's meta sub-object (E-17)": Sample(
        ONE, ("PATCH", f"{F1}/meta", {"labels": {"a": "b"}}), {("resource.updated", F1): {*META, "meta.labels"}}
    ),
    "update and deprecate (E-18, E-30)": Sample(
        ONE,
        ("PATCH", f"{F1}/meta", {"labels": {"a": "b"}, **DEPRECATED}),
        {("resource.updated", F1): {*META, "meta.labels", "meta.deprecated"}, **RESOURCE_DEPRECATED},
    ),
    "create a new Version, not sticky (E-11, E-22)": Sample(ONE, ("PUT", f"{V2}$details", {}), NEWER),
    "create a new Version, sticky (E-22)": Sample(STUCK, ("PUT", f"{V2}$details", {}), BESIDE),
    "change the defaultversionid pointer (E-11, R306)": Sample(
        [*TWO, ("PATCH", f"{F1}/meta", {"defaultversionid": "v2"})],
        ("PATCH", f"{F1}/meta", {"defaultversionid": "v1"}),
        {("resource.updated", F1): MOVED},
    ),
    "update a Version attribute, of the default (E-20)": Sample(
        ONE, ("PATCH", f"{V1}$details", {"name": "foo"}), BOTH_NAMED
    ),
    "update a Version attribute, not of the default (R306)": Sample(
        [*STUCK, ("PUT", f"{V2}$details", {})],
        ("PATCH", f"{V2}$details", {"name": "foo"}),
        {("version.updated", V2): NAMED},
    ),
    "POST a new Version, not sticky (E-22)": Sample(ONE, ("POST", f"{F1}$details", {"versionid": "v2"}), NEWER),
    "POST a new Version, sticky (E-22)": Sample(STUCK, ("POST", f"{F1}$details", {"versionid": "v2"}), BESIDE),
    "delete a Group (E-23, R308)": Sample(
        TWO, ("DELETE", D1, None), {**REGISTRY, ("group.deleted", D1): None, **GONE, **GONE_2}
    ),
    "create a Group (E-14, E-25)": Sample([], ("PUT", D1, {}), {**REGISTRY, ("group.created", D1): None}),
}
"""Those of the specification; all but the import, which wants a registry without a model."""

MORE = {
    "nothing but a touch (R34)": Sample(ONE, ("PATCH", D1, {}), {("group.updated", D1): STAMPS}),
    "a touched Resource is its default Version (R222)": Sample(
        ONE, ("PATCH", f"{F1}$details", {}), {("resource.updated", F1): STAMPS, ("version.updated", V1): STAMPS}
    ),
    "a Resource created in a Group (E-14, E-26, R302)": Sample(
        ONE,
        ("PUT", f"{D1}/files/f2/versions/v1$details", {}),
        {
            **GROUP,
            ("resource.created", f"{D1}/files/f2"): None,
            ("version.created", f"{D1}/files/f2/versions/v1"): None,
        },
    ),
    "a Resource deleted (E-16, E-26)": Sample(TWO, ("DELETE", F1, None), {**GROUP, **GONE, **GONE_2}),
    "its only Version deleted": Sample(ONE, ("DELETE", V1, None), {**GROUP, **GONE}),
    "an old Version deleted, its successor made a root (E-19)": Sample(
        TWO,
        ("DELETE", V1, None),
        {
            ("resource.updated", F1): {*MEMBERS, *STAMPS, "ancestorid"},
            ("version.updated", V2): {*STAMPS, "ancestorid"},
            **GONE_1,
        },
    ),
    "the default Version deleted (E-11, E-19)": Sample(
        TWO, ("DELETE", V2, None), {("resource.updated", F1): MOVED | MEMBERS, **GONE_2}
    ),
    "what the old and the new default have (E-11, R299)": Sample(
        [("PUT", f"{V1}$details", {"name": "one"})],
        ("PUT", f"{V2}$details", {"description": "two", "file": {"a": 1}}),
        {("resource.updated", F1): {*MOVED, *MEMBERS, "name", "description", "file", "contenttype"}, **NEW_2},
    ),
    "one more of many Versions (E-11)": Sample(
        [*MANY, ("PUT", f"{V2}$details", {"name": "two"})],
        ("PUT", f"{V3}$details", {}),
        {("resource.updated", F1): {*MOVED, *MEMBERS, "name"}, ("version.created", V3): None},
    ),
    "a pointer moved and the new default changed (E-9)": Sample(
        STUCK + TWO[1:],
        ("PATCH", f"{F1}/versions?setdefaultversionid=v2", {"v2": {"name": "two"}}),
        {("resource.updated", F1): {*MOVED, "name"}, ("version.updated", V2): NAMED},
    ),
    "a Version with its Resource's meta (E-9)": Sample(
        ONE,
        ("PATCH", f"{F1}$details", {"name": "foo", "meta": {"labels": {"a": "b"}}}),
        {("resource.updated", F1): {*NAMED, *META, "meta.labels"}, ("version.updated", V1): NAMED},
    ),
    "a Group deprecated (E-15, R303)": Sample(
        ONE, ("PATCH", D1, DEPRECATED), {("group.updated", D1): {*STAMPS, "deprecated"}, **GROUP_DEPRECATED}
    ),
    "a deprecation altered (E-15)": Sample(
        [*ONE, ("PATCH", D1, DEPRECATED)],
        ("PATCH", D1, {"deprecated": {"alternative": "https://y.example", "effective": "2030-01-01T00:00:00Z"}}),
        {("group.updated", D1): {*STAMPS, "deprecated"}, ("group.deprecation", D1): {"alternative"}},
    ),
    "a deprecation taken back (E-15)": Sample(
        [*ONE, ("PATCH", D1, DEPRECATED)],
        ("PATCH", D1, {"deprecated": None}),
        {("group.updated", D1): {*STAMPS, "deprecated"}, **GROUP_DEPRECATED},
    ),
    "a Resource's deprecation taken back (E-18)": Sample(
        [*ONE, ("PATCH", f"{F1}/meta", DEPRECATED)],
        ("PATCH", f"{F1}/meta", {"deprecated": None}),
        {("resource.updated", F1): {*META, "meta.deprecated"}, **RESOURCE_DEPRECATED},
    ),
    "a Group created deprecated (E-8, R303)": Sample(
        [], ("PUT", D1, DEPRECATED), {**REGISTRY, ("group.created", D1): None, **GROUP_DEPRECATED}
    ),
    "capabilities (E-12, E-13)": Sample(
        [],
        ("PATCH", "/capabilities", {"pagination": False}),
        {
            ("capabilities.updated", "/capabilities"): {"pagination"},
            ("registry.updated", "/"): {*STAMPS, "capabilities"},
        },
    ),
    "modelsource (E-10, E-13, R301)": Sample(
        [],
        ("PUT", "/modelsource", MODEL),
        {
            ("modelsource.updated", "/modelsource"): None,
            ("model.updated", "/model"): None,
            ("registry.updated", "/"): {*STAMPS, "model", "modelsource"},
        },
    ),
    "a Resource made a reference to another (E-16)": Sample(
        [*TWO, ("PUT", f"{D1}/files/f2/versions/v1$details", {})],
        ("PUT", f"{F1}/meta", {"xref": f"{D1}/files/f2"}),
        {("resource.updated", F1): MOVED | MEMBERS | {"meta.xref"}, **GONE_1, **GONE_2},
    ),
    "several Groups in one map (E-9)": Sample(
        ONE,
        ("POST", "/dirs", {"d1": {"name": "foo"}, "d2": {}}),
        {**REGISTRY, ("group.updated", D1): NAMED, ("group.created", "/dirs/d2"): None},
    ),
    "several Versions in one map, the newest the default": Sample(
        ONE,
        ("POST", f"{F1}/versions", {"v2": {}, "v3": {}}),
        {("resource.updated", F1): MOVED | MEMBERS, **NEW_2, ("version.created", V3): None},
    ),
}
"""What the text of the specification says and no sample shows."""


def told(client: Client, after: int) -> list[JSONObject]:
    """Return all events behind a position."""
    events: list[JSONObject] = client.get(f"/events?after={after}&limit=10000").json()
    return events


def newest(client: Client) -> int:
    return int(told(client, 0)[-1]["id"])


def named(events: list[JSONObject]) -> Told:
    """Return the changed attributes by type and subject. Each pair has one event (R297)."""
    changes: Told = {}
    for event in events:
        key = (event["type"].removeprefix("io.xregistry."), event["subject"])
        assert key not in changes
        changes[key] = set(event["data"]["changed"]) if "data" in event else None
        assert "data" not in event or len(event["data"]["changed"]) == len(changes[key] or ())
    return changes


@pytest.fixture
def sampled(store: Store, serve: Serve) -> Client:
    client = serve(store)
    assert client.put("/modelsource", SAMPLE_MODEL).status_code == 200
    return client


@pytest.mark.parametrize("sample", [*SAMPLES.values(), *MORE.values()], ids=[*SAMPLES, *MORE])
def test_interactions(sampled: Client, sample: Sample) -> None:
    """The events have the expected types, subjects and names (E-1, E-2, E-7, E-27 to E-31), one time (E-4), and one
    correlation id (E-5), which the response has too (E-6, R293 to R308).
    """
    for method, path, body in sample.before:
        sampled.send(method, path, json=body).raise_for_status()
    before = newest(sampled)
    method, path, body = sample.request
    answer = sampled.send(method, path, **({} if body is None else {"json": body}))
    assert answer.is_success, answer.text
    events = told(sampled, before)
    assert named(events) == sample.told
    assert {event["xregcorrelationid"] for event in events} == {answer.headers["xRegistry-xregcorrelationid"]}
    assert len({event["time"] for event in events}) == 1


def test_pruned_version_is_reported_as_deleted(sampled: Client) -> None:
    """A pruned version is reported like any other deletion (E-19, R304)."""
    model = {"groups": {"dirs": {"singular": "dir", "resources": {"files": {"singular": "file", "maxversions": 2}}}}}
    sampled.put("/modelsource", model).raise_for_status()
    for path in (V1, V2):
        sampled.put(f"{path}$details", {}).raise_for_status()
    before = newest(sampled)
    sampled.put(f"{V3}$details", {}).raise_for_status()
    changes = named(told(sampled, before))
    assert changes.pop(("resource.updated", F1)) == MOVED | MEMBERS
    assert changes == {
        ("version.created", V3): None,
        ("version.deleted", V1): None,
        ("version.updated", V2): {*STAMPS, "ancestorid"},
    }


def test_every_request_has_its_own_correlation_id(sampled: Client) -> None:
    """Ids that differ only in case are equal; a request that changes nothing has no id (E-5, E-6, R296)."""
    answers = [sampled.put(f"/dirs/d{number}", {}) for number in range(20)]
    ids = {answer.headers["xRegistry-xregcorrelationid"].casefold() for answer in answers}
    assert len(ids - {""}) == len({event["xregcorrelationid"] for event in told(sampled, 0)}) - 1 == 20
    idle = sampled.send("DELETE", "/dirs", json={})
    assert (idle.status_code, "xRegistry-xregcorrelationid" in idle.headers) == (204, False)
    assert "xRegistry-xregcorrelationid" not in sampled.get("/dirs/d1").headers


def test_importing_a_whole_registry(store: Store, serve: Serve) -> None:
    """E-24, the sample "Import an entire Registry" """
    client = serve(store)
    assert client.put("/", WHOLE).status_code == 200
    changes = named(told(client, 0))
    assert "flags" in (changes.pop(("capabilities.updated", "/capabilities")) or ())
    created: Told = {}
    for number in (1, 2):
        created[("group.created", f"/dirs/d{number}")] = None
        created[("resource.created", f"/dirs/d{number}/files/f1")] = None
        for version in ("v1", "v2"):
            created[("version.created", f"/dirs/d{number}/files/f1/versions/{version}")] = None
    assert changes == {
        ("registry.updated", "/"): {*NAMED, "model", "modelsource", "capabilities", "dirs", "dirscount"},
        ("model.updated", "/model"): None,
        ("modelsource.updated", "/modelsource"): None,
        **created,
    }


def test_a_complete_exchange(sampled: Client) -> None:
    """The test checks every member of the events, the header, and the time of the written entity
    (E-25, R294 to R296).
    """
    before = newest(sampled)
    answer = sampled.put(D1, {})
    assert answer.status_code == 201  # the sample has 200, against the HTTP binding
    shared = {
        "specversion": "1.0",
        "source": "http://r.example/",
        "time": answer.json()["modifiedat"],
        "xregcorrelationid": answer.headers["xRegistry-xregcorrelationid"],
    }
    registry, group = told(sampled, before)
    assert set(registry.pop("data")["changed"]) == {*STAMPS, "dirs", "dirscount"}
    assert registry.pop("datacontenttype") == "application/json"
    assert registry == {**shared, "id": str(before + 1), "type": "io.xregistry.registry.updated", "subject": "/"}
    assert group == {**shared, "id": str(before + 2), "type": "io.xregistry.group.created", "subject": D1}
