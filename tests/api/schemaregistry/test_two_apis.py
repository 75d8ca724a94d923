"""What is written through one API reads rightly through the other (section J of docs/requirements)."""

from collections.abc import Callable
from typing import Any, TypeAlias

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.schemaregistry.conftest import BASE, Schemas

from signalbook.cncf.ids import draft_id, entity_id
from signalbook.cncf.schemaregistry import render_group
from signalbook.xid import version_number

Act: TypeAlias = Callable[[Schemas], httpx.Response]

IDS = st.sampled_from(["g", "a!b", "x%3Ay"])
CONTENTS = st.sampled_from([b"one", b"two", b'"three"', b"\x00\xff"])
TYPES = st.sampled_from(["text/plain; charset=utf-8", "application/json", ""])
VERSIONS = st.sampled_from(["1", "2", "7", "v1", "2147483648"])
ATTRIBUTES = st.fixed_dictionaries(
    {},
    optional={
        "globaluri": st.sampled_from(["urn:a", "urn:b", "/c"]),
        "authority": st.sampled_from(["urn:x", "https://a.example/"]),
        "description": st.sampled_from(["d", "é %"]),
    },
)
QUERIES = st.sampled_from(["", "format=own", "format=own&id=urn:a", "authority=urn:y"])
FORMATS = st.sampled_from(["own", "Own/1"])


def put_group(id: str, group: dict[str, Any]) -> Act:
    return lambda api: api.put(id, **group)


def post(id: str, content: bytes, contenttype: str, query: str) -> Act:
    headers = {"content_type": contenttype} if contenttype else {}
    return lambda api: api.post(f"{id}/s", content, f"?{query}", **headers)


def delete(path: str) -> Act:
    return lambda api: api.send("DELETE", path)


def there(method: str, path: str, body: Any) -> Act:
    return lambda api: api.other.send(method, path, json=body)


def put_there(path: str, content: bytes, contenttype: str, format: str) -> Act:
    return lambda api: api.other.put_document(path, content, contenttype or None, format=format)


PATHS = st.builds(lambda g, rest: f"/schemagroups/{g}{rest}", IDS, st.sampled_from(["", "/schemas", "/schemas/s"]))
OURS = st.builds(lambda group: f"/schemagroups/{entity_id(group)}", IDS)
ACTS = st.one_of(
    st.builds(put_group, IDS, st.fixed_dictionaries({}, optional={"description": st.just("g"), "format": FORMATS})),
    st.builds(post, IDS, CONTENTS, TYPES, QUERIES),
    st.builds(delete, PATHS | st.builds(lambda g, n: f"/schemagroups/{g}/schemas/s/versions/{n}", IDS, VERSIONS)),
    st.builds(there, st.just("PATCH"), OURS, st.fixed_dictionaries({"name": st.just("n")})),
    st.builds(
        lambda path, version, *rest: put_there(f"{path}/schemas/s/versions/{version}", *rest),
        OURS, VERSIONS, CONTENTS, TYPES, FORMATS,
    ),
    st.builds(
        lambda path, version, body: there("PATCH", f"{path}/schemas/s/versions/{version}$details", body),
        OURS, VERSIONS, ATTRIBUTES,
    ),
    st.builds(
        lambda path, version: there("PATCH", f"{path}/schemas/s/meta", {"defaultversionid": version,
                                                                        "defaultversionsticky": True}),
        OURS, VERSIONS,
    ),
)  # fmt: skip


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ACTS, min_size=1, max_size=12))
def test_both_apis_show_the_same_entities(schemas: Schemas, acts: list[Act]) -> None:
    """The entities are the same regardless of what was written through which API (J-7, J-8, J-9, J-10, J-19)."""
    schemas.other.send("DELETE", "/schemagroups")
    for act in acts:
        assert act(schemas).status_code < 500
    groups = schemas.other.get("/schemagroups?inline=schemas.versions").json()
    assert schemas.get("/schemagroups").json() == [draft_id(name) for name in groups]
    for name, group in groups.items():
        path = f"/schemagroups/{draft_id(name)}"
        assert schemas.get(path).json() == render_group(group)
        assert schemas.get(f"{path}/schemas").json() == [draft_id(schema_id) for schema_id in group["schemas"]]
        for schema_id, schema in group["schemas"].items():
            check_versions(schemas, f"{path}/schemas/{draft_id(schema_id)}", group, schema["versions"])


def check_versions(schemas: Schemas, path: str, group: dict[str, Any], versions: dict[str, Any]) -> None:
    counted = sorted(number for version_id in versions if (number := version_number(version_id)) is not None)
    assert schemas.get(f"{path}/versions").json() == counted
    if counted:
        assert schemas.get(path).headers["Schema-Version"] == str(counted[-1])
    for number in counted:
        version = versions[str(number)]
        here, there = schemas.get(f"{path}/versions/{number}"), schemas.other.get(version["self"])
        stored = schemas.other.get(version["self"].removesuffix("$details"))
        assert there.status_code == 200
        assert here.content == stored.content
        assert here.headers["Content-Type"] == version.get("contenttype", "application/octet-stream")
        assert here.headers["Schema-Id"] == version.get("globaluri", f"{path}/versions/{number}")
        assert here.headers["Schema-Format"] == group.get("format", version["format"])
        assert here.headers.get("Schema-Authority") == version.get("authority")
        assert ("Schema-Description" in here.headers) == ("description" in version)
        assert schemas.get(here.headers["Schema-Id-Location"].removeprefix(BASE)).status_code == 200


def test_request_causes_an_event_in_each_api(filled: Schemas) -> None:
    """A write here is an event of both APIs, with the names of each (A-45, J-21)."""
    changes = {(event["type"], event["subject"]) for event in filled.events()}
    path = "/schemagroups/g/schemas/s"
    assert ("io.xregistry.resource.created", path) in changes
    assert ("io.xregistry.version.created", f"{path}/versions/2") in changes
    here = filled.other.get("/events", params={"source": "/compat/schemaregistry/v0.2"}).json()
    assert {event["subject"] for event in here} == {
        "/schemagroups/g", "/schemagroups/open", path, f"{path}/versions/1", f"{path}/versions/2"
    }  # fmt: skip
    correlation = filled.post("g/s", b'{"type": "bytes"}').headers["xRegistry-xregcorrelationid"]
    assert {event["xregcorrelationid"] for event in filled.events()[-1:]} == {correlation}
