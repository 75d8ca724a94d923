"""The rights that writes of the Confluent-compatible API take, what they leave in the audit, and what stays hidden."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.api.confluent.conftest import BREAKING, MOUNT, ONE, TWO, record
from tests.api.conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy

from signalbook.api import confluent
from signalbook.api.confluent.routes import ROUTES, Operation, Write
from signalbook.storage.store import Store

ANN = {"X-User": "ann"}
GROUP = "/schemagroups/shared"
SUBJECT = f"{GROUP}/schemas/orders"
ASSOCIATED = {"resourceName": "t", "resourceNamespace": "k", "resourceId": "r"}
DELETED = {"requests": [{**ASSOCIATED, "associations": [{"opType": "DELETE", "associationType": "value"}]}]}
TAGS = {"tagsToAdd": [{"schemaEntity": {"entityPath": "R.a", "entityType": "sr_field"}, "tags": ["PII"]}]}
WEAK = {"associations": [{"associationType": "value", "subject": ":.shared:orders"}]}

SET, FIRST = ("update", SUBJECT), f"{SUBJECT}/versions/1"
ORDERS = "/subjects/:.shared:orders"
WRITES: list[tuple[str, str, str, Any, str, str]] = [
    # The route, what is sent, and what the audit says of it: an action and an xid. In this order all of them succeed.
    ("subjects/{}/versions", "POST", f"{ORDERS}/versions", {"schema": ONE}, "create", SUBJECT),
    ("subjects/{}/versions/{}/tags", "POST", f"{ORDERS}/versions/1/tags", TAGS, "update", f"{SUBJECT}/versions/2"),
    ("config/{}", "PUT", "/config/:.shared:orders", {"compatibility": "NONE", "alias": "x"}, *SET),
    ("config/{}", "DELETE", "/config/:.shared:orders", None, *SET),
    ("config/{}", "PUT", "/config/:.shared:", {"compatibility": "NONE"}, "update", GROUP),
    ("mode/{}", "PUT", "/mode/:.shared:orders", {"mode": "READONLY"}, *SET),
    ("mode/{}", "DELETE", "/mode/:.shared:?recursive=true", None, *SET),
    ("mode/{}", "PUT", "/mode/:.shared:a%20b", {"mode": "READONLY"}, "update", f"{GROUP}/schemas/a-b~"),
    ("config", "PUT", "/config", {"compatibility": "NONE"}, "update", "/"),
    ("config", "DELETE", "/config", None, "update", "/"),
    ("mode", "PUT", "/mode", {"mode": "READWRITE"}, "update", "/"),
    ("mode", "DELETE", "/mode", None, "update", "/"),
    ("associations", "POST", "/associations", {**ASSOCIATED, **WEAK}, *SET),
    ("associations/resources/{}", "PUT", "/associations/resources/r", {**ASSOCIATED, **WEAK}, *SET),
    ("associations:batchMutate", "POST", "/associations:batchMutate", DELETED, *SET),
    ("associations", "POST", "/associations", {**ASSOCIATED, **WEAK}, *SET),
    ("associations/resources/{}", "DELETE", "/associations/resources/r", None, *SET),
    ("subjects/{}/versions/{}", "DELETE", f"{ORDERS}/versions/1", None, "delete", FIRST),
    ("subjects/{}/versions/{}", "DELETE", f"{ORDERS}/versions/1?permanent=true", None, "delete", FIRST),
    ("subjects/{}", "DELETE", ORDERS, None, "delete", SUBJECT),
    ("subjects/{}", "DELETE", f"{ORDERS}?permanent=true", None, "delete", f"{SUBJECT}/versions/2"),
    ("contexts/{}", "DELETE", "/contexts/.shared", None, "delete", GROUP),
]


@pytest.fixture
def client(store: Store, serve: Serve) -> Client:
    """A registry whose callers are named by a trusted proxy."""
    return serve(store, model="default", **PROXIED)


def test_every_write_is_refused_to_readers_and_audited(client: Client, store: Store) -> None:
    """Every route that writes must have an example, so that new routes are tested too."""
    operations: list[tuple[str, str, Operation]] = [
        ("/".join(path), method, operation) for path, methods in ROUTES.items() for method, operation in methods.items()
    ]
    routes = {(path, method) for path, method, operation in operations if isinstance(operation, Write)}
    assert routes == {(path, method) for path, method, *_ in WRITES}
    put_policy(store, {"who": ["subject:ann"], "role": "reader"})
    assert client.put(GROUP, {}, headers=ADMINISTRATOR).is_success
    for _, method, path, body, action, xid in WRITES:
        before = newest(client)
        sent = {} if body is None else {"json": body}
        for headers, status in ((ANN, 403), ({}, 401)):
            answer = client.send(method, MOUNT + path, headers=headers, **sent)
            # To somebody who reads nothing there is no association that could be deleted.
            hidden = not headers and "associations" in path and (method == "DELETE" or "batch" in path)
            assert hidden or (answer.status_code, answer.json()["error_code"]) == (status, status), (path, answer.text)
        assert newest(client) == before
        answer = client.send(method, MOUNT + path, headers=ADMINISTRATOR, **sent)
        assert answer.is_success, (path, answer.text)
        entries = audited(client, before)
        assert any(entry["action"] == action and listed(entry, xid) for entry in entries), (path, entries)
        assert {entry["who"] for entry in entries} == {"root"}


def audited(client: Client, after: int = 0) -> list[dict[str, Any]]:
    query = f"?outcome=done&after={after}" if after else "?outcome=done"
    entries: list[dict[str, Any]] = client.get(f"/audit{query}", headers=ADMINISTRATOR).json()
    return entries


def newest(client: Client) -> int:
    return max((entry["number"] for entry in audited(client)), default=0)


def listed(entry: dict[str, Any], xid: str) -> bool:
    return any(entity_xid == xid or (xid.endswith("~") and entity_xid.startswith(xid)) for entity_xid in entry["xids"])


def test_audit_records_changed_settings(client: Client, store: Store) -> None:
    put_policy(store)
    for method, body, about in (
        ("PUT", {"compatibility": "NONE"}, "config set"),
        ("PUT", {"compatibility": "NONE"}, None),
        ("DELETE", None, "config removed"),
    ):
        before = newest(client)
        client.send(method, f"{MOUNT}/config/orders", headers=ADMINISTRATOR, **({"json": body} if body else {}))
        assert [entry.get("about") for entry in audited(client, before)] == ([] if about is None else [about])


def test_only_one_module_writes_outside_the_registry() -> None:
    """``SubjectWriter`` audits and counts; which schemas refer to which is no more than an index."""
    folder = Path(next(iter(confluent.__path__)))
    writers = {module.name for module in folder.glob("*.py") if "transaction.confluent" in module.read_text("utf-8")}
    assert writers == {"changes.py", "references.py"}


NAMES = ("{}", "{}.pii", "a {}.pii")
EVERYTHING = ("read", "list", "create", "update", "delete")


def deny(store: Store, *patterns: str, actions: Sequence[str] = EVERYTHING) -> None:
    """Ann may write everything in the group but what these patterns name."""
    put_policy(
        store,
        {"who": ["subject:ann"], "role": "owner", "on": [GROUP]},
        {"who": ["subject:ann"], "deny": list(actions), "on": [f"{GROUP}/schemas/{pattern}" for pattern in patterns]},
    )


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    sent = {} if body is None else {"json": body}
    answer = client.send(method, MOUNT + path, headers=headers or ADMINISTRATOR, **sent)
    return answer.status_code, answer.text


def requests_about(subject: str, resource: str) -> list[tuple[str, str, Any]]:
    """Return requests of all kinds about one subject and the resource that it is associated with."""
    association = {
        **ASSOCIATED,
        "resourceId": resource,
        "associations": [{"associationType": "value", "subject": subject}],
    }
    deletion = {**association, "associations": [{"opType": "DELETE", "associationType": "value"}]}
    name = quote(subject)
    return [
        ("GET", f"/subjects/{name}/versions", None),
        ("GET", f"/subjects/{name}/versions?deleted=true", None),
        ("GET", f"/subjects/{name}/versions/1", None),
        ("GET", f"/subjects/{name}/versions/latest/schema", None),
        ("GET", f"/subjects/{name}/versions/1/referencedby", None),
        ("GET", f"/subjects/{name}/metadata", None),
        ("GET", f"/subjects?subjectPrefix={name}&deleted=true", None),
        ("GET", f"/schemas?subjectPrefix={name}&deleted=true", None),
        ("GET", f"/config/{name}", None),
        ("GET", f"/config/{name}?defaultToGlobal=true", None),
        ("GET", f"/mode/{name}", None),
        ("GET", f"/mode/{name}?defaultToGlobal=true", None),
        ("GET", f"/associations/subjects/{name}", None),
        ("GET", f"/associations/resources/{resource}", None),
        ("POST", f"/subjects/{name}", {"schema": ONE}),
        ("POST", f"/compatibility/subjects/{name}/versions", {"schema": record(c={})}),
        ("POST", f"/compatibility/subjects/{name}/versions/latest", {"schema": record(c={})}),
        ("POST", f"/compatibility/subjects/{name}/versions/1", {"schema": record(c={})}),
        ("POST", f"/subjects/{name}/versions", {"schema": ONE}),
        ("POST", f"/subjects/{name}/versions/1/tags", TAGS),
        ("PUT", f"/config/{name}", {"alias": "evil"}),
        ("DELETE", f"/config/{name}", None),
        ("PUT", f"/mode/{name}", {"mode": "READONLY"}),
        ("DELETE", f"/mode/{name}", None),
        ("DELETE", f"/subjects/{name}", None),
        ("DELETE", f"/subjects/{name}/versions/1", None),
        ("DELETE", f"/subjects/{name}/versions/2?permanent=true", None),
        ("POST", "/associations", association),
        ("PUT", f"/associations/resources/{resource}", association),
        ("POST", "/associations:batchMutate", {"requests": [deletion]}),
        ("DELETE", f"/associations/resources/{resource}?cascadeLifecycle=true", None),
    ]


@pytest.mark.parametrize("form", NAMES)
def test_hidden_subject_is_answered_like_a_missing_one(client: Client, store: Store, form: str) -> None:
    """Whatever the id of its schema is: rules are about its name."""
    there, absent = (f":.shared:{form.format(entry)}" for entry in ("there", "other"))
    requests: list[tuple[str, str, Any]] = [
        ("POST", f"/subjects/{quote(there)}/versions", {"schema": ONE}),
        ("POST", f"/subjects/{quote(there)}/versions", {"schema": TWO}),
        ("DELETE", f"/subjects/{quote(there)}/versions/2", None),
        ("POST", "/subjects/:.shared:open/versions", {"schema": ONE}),
        ("PUT", f"/config/{quote(there)}", {"compatibility": "NONE", "normalize": True}),
        ("PUT", f"/mode/{quote(there)}", {"mode": "READONLY"}),
    ]
    association = [{"associationType": "value", "subject": there}]
    requests.insert(3, ("POST", "/associations", {**ASSOCIATED, "resourceId": "r-there", "associations": association}))
    for request in requests:
        assert send(client, *request)[0] == 200, request
    deny(store, *({"{}": ("there", "other")}.get(form, ("*.pii",))))
    both = (requests_about(there, "r-there"), requests_about(absent, "r-other"))
    for mine, other in zip(*both, strict=True):
        pair = [
            (status, text.replace("there", "other")) if index == 0 else (status, text)
            for index, (status, text) in enumerate(send(client, *entry, **ANN) for entry in (mine, other))
        ]
        if "~" in pair[0][1]:  # the ids of schemas are digests of their names
            pair = [(status, text[: text.index("~")]) for status, text in pair]
        assert pair[0] == pair[1], mine
    assert send(client, "GET", f"/subjects/{quote(there)}/versions?deleted=true") == (200, "[1,2]")
    assert send(client, "GET", f"/config/{quote(there)}")[1] == '{"normalize":true,"compatibilityLevel":"NONE"}'
    listed = client.get(f"{MOUNT}/subjects?subjectPrefix=:.shared:", headers=ANN)
    assert listed.json() == [":.shared:open"]
    assert client.get(f"{MOUNT}/contexts/.shared/schemas/ids/1/versions", headers=ANN).json() == [
        {"subject": ":.shared:open", "version": 1}
    ]


def test_alias_of_a_hidden_subject_is_not_resolved(client: Client, store: Store) -> None:
    assert send(client, "POST", "/subjects/:.shared:there.pii/versions", {"schema": ONE})[0] == 200
    for name in ("there", "other"):
        assert send(client, "PUT", f"/config/:.shared:to-{name}", {"alias": f"{name}.pii"})[0] == 200
    deny(store, "*.pii")
    both = (requests_about(f":.shared:to-{name}", "r") for name in ("there", "other"))
    for mine, other in zip(*both, strict=True):
        if "/config/" in mine[1]:  # the alias itself is there for those that can read its config
            continue
        answers = [send(client, *request, **ANN) for request in (mine, other)]
        assert (answers[0][0], answers[0][1].replace("there", "other")) == answers[1], mine
        assert ".pii" not in answers[0][1]


def test_the_other_id_of_a_hidden_subject_captures_nothing(client: Client, store: Store) -> None:
    """A schema by the id that the subject would have beside one in another case, by another API."""
    client.put(GROUP, {}, headers=ADMINISTRATOR)
    deny(store, "payroll")
    other = f"{GROUP}/schemas/payroll~{hashlib.sha256(b'payroll').hexdigest()[:32]}"
    body = {"format": "Avro/1.12.0", "schema": {"type": "record", "name": "Evil", "fields": []}}
    refused = client.put(f"{other}$details", {**body, "subject": "payroll"}, headers=ANN)
    assert (refused.status_code, "you may not create" in refused.text) == (403, True)
    versions = {"schemas": {other.rpartition("/")[2]: {"versions": {"1": {**body, "subject": "payroll"}}}}}
    assert client.send("PATCH", GROUP, json=versions, headers=ANN).status_code == 403
    # The id alone is not the name.
    assert client.put(f"{other}$details", body, headers=ANN).status_code == 201
    assert client.send("PATCH", f"{other}$details", json={"subject": "payroll"}, headers=ANN).status_code == 403
    assert send(client, "POST", "/subjects/:.shared:payroll/versions", {"schema": ONE})[0] == 200
    assert client.get(f"{GROUP}/schemas/payroll", headers=ADMINISTRATOR).status_code == 200
    assert send(client, "GET", "/subjects/:.shared:payroll/versions/latest", **ANN)[0] == 404


def test_the_id_of_a_schema_is_no_second_name_of_its_subject(client: Client, store: Store) -> None:
    subject = "/subjects/:.shared:a%20b.pii"
    for schema in (ONE, TWO):
        assert send(client, "POST", f"{subject}/versions", {"schema": schema})[0] == 200
    deny(store, "*.pii", actions=["create", "update", "delete"])
    (schema_id,) = client.get(f"{GROUP}/schemas", headers=ADMINISTRATOR).json()
    by_id = f"/subjects/:.shared:{schema_id}"
    for method, path, body, status in (
        ("POST", f"{by_id}/versions/2/tags", TAGS, 404),
        ("DELETE", f"{by_id}/versions/2", None, 404),
        ("DELETE", by_id, None, 404),
        ("POST", f"{by_id}/versions", {"schema": ONE}, 200),
        ("POST", f"{by_id}/versions?force=true", {"schema": BREAKING}, 200),
    ):
        assert send(client, method, path, body, **ANN)[0] == status, (method, path)
    assert send(client, "GET", f"{by_id}/versions") == send(client, "GET", f"{subject}/versions") == (200, "[1,2]")
    assert len(client.get(f"{GROUP}/schemas", headers=ADMINISTRATOR).json()) == 2
    # What is softly deleted keeps its id.
    for path in (by_id, f"{by_id}?permanent=true", subject):
        assert send(client, "DELETE", path) == (200, "[1,2]")
    assert send(client, "POST", f"{by_id}/versions", {"schema": ONE, "version": 1}, **ANN)[0] == 200
    assert send(client, "GET", f"{subject}/versions?deleted=true") == (200, "[1,2]")


def test_a_new_default_version_takes_no_subject_from_its_schema(client: Client, store: Store) -> None:
    assert send(client, "POST", "/subjects/:.shared:a%20b.pii/versions", {"schema": ONE})[0] == 200
    deny(store, "*.pii", actions=["create", "update", "delete"])
    (schema_id,) = client.get(f"{GROUP}/schemas", headers=ADMINISTRATOR).json()
    version = f"{GROUP}/schemas/{schema_id}/versions/7$details"
    stored = client.get(f"{GROUP}/schemas/{schema_id}$details", headers=ADMINISTRATOR).json()
    body = {"format": stored["format"], "schema": ONE}
    for headers, status in ((ANN, 403), (ADMINISTRATOR, 201)):
        answer = client.send("PUT", version, json=body, headers=headers)
        assert answer.status_code == status, answer.text
    back = {"defaultversionid": "1", "defaultversionsticky": True}
    meta = f"{GROUP}/schemas/{schema_id}/meta"
    for headers, status in ((ANN, 403), (ADMINISTRATOR, 200)):
        assert client.send("PATCH", meta, json=back, headers=headers).status_code == status


def test_hidden_subjects_are_not_deleted_by_the_ids_of_their_schemas(client: Client, store: Store) -> None:
    for name in ("a%20b.pii", "a%20b", "orders"):
        for schema in (ONE, TWO):
            assert send(client, "POST", f"/subjects/:.shared:{name}/versions", {"schema": schema})[0] == 200
    deny(store, "*.pii")
    schemas = client.get(f"{GROUP}/schemas", headers=ADMINISTRATOR).json()
    hidden, free = sorted((name for name in schemas if "~" in name), key=lambda name: ".pii" not in name)
    path = f"{GROUP}/schemas/{hidden}"
    for target, body in (
        (path, None),
        (f"{path}/versions/1", None),
        (f"{path}/versions", {"1": {}}),
        (f"{path}/versions", None),
        (f"{GROUP}/schemas", {"orders": {}, hidden: {}}),
        (f"{GROUP}/schemas", None),
        (GROUP, None),
        ("/schemagroups", {"shared": {}}),
    ):
        answer = client.send("DELETE", target, headers=ANN, **({} if body is None else {"json": body}))
        assert (answer.status_code, "you may not delete" in answer.text) == (403, True), (target, answer.text)
    assert client.get(f"{GROUP}/schemas", headers=ADMINISTRATOR).json() == schemas
    for target in (f"{GROUP}/schemas/{free}/versions/1", f"{GROUP}/schemas/{free}", f"{GROUP}/schemas/orders"):
        assert client.send("DELETE", target, headers=ANN).status_code == 204
    assert client.send("DELETE", path, headers=ADMINISTRATOR).status_code == 204


def test_new_version_does_not_remove_hidden_versions(client: Client, store: Store) -> None:
    model = client.get("/modelsource", headers=ADMINISTRATOR).json()
    model["groups"]["schemagroups"]["resources"]["schemas"]["maxversions"] = 1
    assert client.put("/modelsource", model, headers=ADMINISTRATOR).is_success
    assert send(client, "POST", "/subjects/:.shared:a%20b.pii/versions", {"schema": ONE})[0] == 200
    deny(store, "*.pii")
    ((schema, hidden),) = client.get(f"{GROUP}/schemas", headers=ADMINISTRATOR).json().items()
    body = {"format": hidden["format"], "schema": {"type": "record", "name": "R", "fields": []}}
    answer = client.put(f"{GROUP}/schemas/{schema}/versions/2$details", body, headers=ANN)
    assert (answer.status_code, "you may not update" in answer.text) == (403, True), answer.text


def test_context_settings_require_rights_on_the_whole_context(client: Client, store: Store) -> None:
    client.put(GROUP, {}, headers=ADMINISTRATOR)
    deny(store, "payroll")
    for path, body in (("/mode/:.shared:", {"mode": "READONLY"}), ("/config/:.shared:", {"compatibility": "NONE"})):
        status, text = send(client, "PUT", path, body, **ANN)
        assert (status, "everything under it" in text) == (403, True)
    assert send(client, "PUT", "/mode/:.shared:orders", {"mode": "READONLY"}, **ANN)[0] == 200


def test_groups_with_colons_do_not_touch_one_another(client: Client, store: Store) -> None:
    put_policy(
        store,
        {"who": ["subject:ann"], "role": "owner", "on": ["/schemagroups/team"]},
        {"who": ["subject:eva"], "role": "owner", "on": ["/schemagroups/team:eu"]},
    )
    eva = {"X-User": "eva"}
    for path in ("/contexts/.team:eu/subjects/orders", "/subjects/:.team=eu:orders"):
        assert send(client, "POST", f"{path}/versions", {"schema": ONE}, **eva)[0] == 200
    for subject in ("eu:", "eu:orders", ""):
        assert send(client, "PUT", f"/mode/:.team:{subject}", {"mode": "READONLY"}, **ANN)[0] == 200
    assert send(client, "POST", "/subjects/:.team=eu:orders/versions", {"schema": TWO}, **eva)[0] == 200
    assert send(client, "PUT", "/mode/:.team=eu:orders", {"mode": "READONLY"}, **ANN)[0] == 403
    assert send(client, "GET", "/subjects", **eva) == (200, '[":.team=eu:orders"]')
    assert send(client, "GET", "/contexts", **eva) == (200, '[".",".team=eu"]')
    assert client.get("/schemagroups/team:eu/schemas/orders/versions/2", headers=eva).status_code == 200


def test_soft_deletion_works_in_a_group_with_capitals(client: Client) -> None:
    assert send(client, "POST", "/subjects/:.Shop:s/versions", {"schema": ONE})[0] == 200
    assert send(client, "DELETE", "/subjects/:.Shop:s") == (200, "[1]")
    assert send(client, "GET", "/subjects?deleted=true") == (200, '[":.Shop:s"]')
    assert send(client, "DELETE", "/subjects/:.Shop:s?permanent=true") == (200, "[1]")
