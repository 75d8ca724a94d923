"""Associations of subjects with topics."""

from typing import Any

import pytest
from tests.api.confluent.conftest import BREAKING, ONE, TWO, Api, record
from tests.api.conftest import PROXIED, Serve, put_policy

from signalbook.storage.store import Store

LKC = {"resourceName": "orders", "resourceNamespace": "lkc-1", "resourceId": "topic-1"}
OWN = ":.lkc-1:orders-value"
BY_ID, BY_NAME = "/associations/resources/topic-1", "/associations/resources/lkc-1/orders"


def wanted(*associations: dict[str, Any], **resource: str) -> dict[str, Any]:
    return {**LKC, **resource, "associations": list(associations)}


def weak(subject: str = "s", kind: str = "value", **more: Any) -> dict[str, Any]:
    return {"subject": subject, "associationType": kind, **more}


STRONG: dict[str, Any] = {"associationType": "value", "lifecycle": "STRONG", "schema": {"schema": ONE}}


@pytest.fixture
def topics(api: Api) -> Api:
    """Return an API with a subject s that has a version."""
    api.register("s")
    return api


def test_a_weak_association(topics: Api) -> None:
    created = topics.ask("POST", "/associations", wanted(weak()))
    info = {"subject": "s", "associationType": "value", "lifecycle": "WEAK"}
    assert created == {**LKC, "resourceType": "topic", "associations": [info]}
    assert topics.ask("POST", "/associations", wanted(weak())) == created, "the same again"
    (listed,) = topics.get(BY_NAME)
    assert listed.items() >= {**LKC, **info}.items()
    assert listed["createTs"] <= listed["updateTs"]
    by_wildcard = [f"/associations/resources/{row}" for row in ("-/orders", "lkc-1/-", "-/-")]
    for path in (BY_ID, *by_wildcard, "/associations/subjects/s"):
        assert [row["guid"] for row in topics.get(path)] == [listed["guid"]]
    assert topics.get("/associations/resources/lkc-2/orders") == topics.get("/associations/resources/lkc-1/order") == []
    topics.ask("POST", "/associations", wanted(weak(), resourceName="returns", resourceId="topic-2"))
    assert [row["resourceName"] for row in topics.get("/associations/subjects/s")] == ["orders", "returns"]


def test_associations_are_filtered_by_type_and_paginated(topics: Api) -> None:
    topics.ask("POST", "/associations", wanted(weak(), weak(kind="key")))

    def types(query: str) -> list[str]:
        return [association["associationType"] for association in topics.get(f"{BY_NAME}?{query}")]

    assert types("") == types("associationType=key&associationType=value") == types("limit=-1") == ["key", "value"]
    assert types("associationType=key&resourceType=topic") == types("limit=1") == ["key"]
    assert types("offset=1") == ["value"]
    assert types("lifecycle=STRONG") == types("resourceType=other") == []
    assert topics.code("GET", f"{BY_NAME}?lifecycle=STRANGE") == 42212


def test_a_strong_association_brings_its_schema(topics: Api) -> None:
    created = topics.ask("POST", "/associations", wanted(STRONG))["associations"][0]
    assert (created["subject"], created["lifecycle"]) == (OWN, "STRONG")
    assert created["schema"]["version"] == 1
    assert topics.get(f"/subjects/{OWN}/versions") == [1]
    there = topics.client.send("GET", "/schemagroups/lkc-1/schemas/orders-value/versions/1$details").json()
    assert there["formatvalidated"] is True
    assert topics.ask("POST", "/associations", wanted(STRONG))["associations"][0] == created
    other = {**STRONG, "schema": {"schema": TWO}}
    assert topics.code("POST", "/associations", wanted(other)) == 40903
    topics.ask("PUT", BY_ID, wanted({**other, "frozen": True}))
    assert topics.get(f"/subjects/{OWN}/versions") == [1, 2]
    assert topics.code("PUT", BY_ID, wanted({**STRONG, "schema": {"schema": BREAKING}})) == 40901
    assert topics.code("PUT", BY_ID, wanted(weak(OWN, lifecycle="WEAK"))) == 42212
    assert topics.code("POST", "/associations", wanted(weak(OWN), resourceName="b", resourceId="b")) == 40905


def test_deleting(topics: Api) -> None:
    topics.ask("POST", "/associations", wanted(weak(kind="key"), weak()))
    assert topics.code("DELETE", "/subjects/s") == 40904
    assert topics.code("DELETE", "/subjects/s/versions/1") == 40907
    assert topics.send("DELETE", f"{BY_ID}?associationType=key").status_code == 204
    assert [association["associationType"] for association in topics.get(BY_ID)] == ["value"]
    assert topics.send("DELETE", BY_ID).status_code == 204
    assert topics.code("DELETE", BY_ID) == 40410
    assert topics.get("/associations/subjects/s") == topics.get(BY_NAME) == []
    assert topics.ask("DELETE", "/subjects/s") == [1]


def test_deleting_a_strong_association_deletes_its_subject(topics: Api) -> None:
    topics.ask("POST", "/associations", wanted(STRONG))
    assert topics.code("DELETE", BY_ID) == 40908
    assert topics.send("DELETE", f"{BY_ID}?cascadeLifecycle=true&dryRun=true").status_code == 204
    assert len(topics.get(BY_ID)) == 1
    assert topics.send("DELETE", f"{BY_ID}?cascadeLifecycle=true").status_code == 204
    assert topics.get(BY_ID) == []
    assert topics.code("GET", f"/subjects/{OWN}/versions?deleted=true") == 40401
    assert topics.get("/subjects") == ["s"]


def test_changing(topics: Api) -> None:
    """Associations can be added to a topic; existing ones do not change."""
    created = topics.ask("PUT", BY_ID, wanted(weak()))
    assert topics.ask("PUT", BY_ID, wanted(weak())) == created
    topics.register("t", TWO)
    assert topics.ask("PUT", BY_ID, wanted(weak("t", kind="key")))["associations"][0]["subject"] == "t"
    assert topics.code("PUT", BY_ID, wanted(weak("t"))) == 42212
    assert topics.code("PUT", BY_ID, wanted(weak(lifecycle="STRONG"))) == 42212
    assert topics.code("PUT", "/associations/resources/other", wanted(weak())) == 42212
    assert topics.code("PUT", "/associations/resources/new", {**wanted(STRONG), "resourceId": "new"}) == 42212
    assert topics.code("PUT", BY_ID, wanted({**weak(), "schema": {"schema": TWO}})) == 42212
    assert topics.ask("PUT", BY_ID, wanted({"associationType": "value"}))["associations"][0]["subject"] == "s"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {**LKC},
        wanted(),
        wanted({"subject": 5}),
        wanted(5),  # type: ignore[arg-type]
        wanted(weak(), resourceType="table"),
        wanted(weak(), resourceName="a/b"),
        wanted(weak(), resourceName="orders.v1"),
        wanted(weak(), resourceNamespace="n.m"),
        wanted(weak(), resourceNamespace=""),
        wanted(weak(), resourceId=""),
        wanted(weak(), resourceId="\0"),
        wanted(weak(kind="header")),
        wanted(weak(), weak()),
        wanted({"associationType": "value"}),
        wanted(weak(lifecycle="WEAK", schema={"schema": ONE})),
        wanted(weak(lifecycle="WEAK", frozen=True)),
        wanted(weak(lifecycle="STRONG", frozen=False)),
        wanted(weak(lifecycle="STRONG")),
        wanted(weak(frozen="yes")),
        wanted(weak(lifecycle="FIRM")),
        wanted(weak(OWN)),
        wanted(STRONG, weak(kind="key")),
        wanted({**STRONG, "subject": "s"}),
        wanted({**STRONG, "schema": "x"}),
    ],
    ids=str,
)
def test_invalid_association_is_rejected(topics: Api, body: Any) -> None:
    assert topics.code("POST", "/associations", body) == 42212
    assert topics.get("/associations/subjects/s") == topics.get(BY_ID) == []
    assert topics.get("/subjects") == ["s"]


def test_subject_without_versions_cannot_be_associated(topics: Api) -> None:
    assert topics.code("POST", "/associations", wanted(weak("none"))) == 40907
    topics.ask("DELETE", "/subjects/s")
    assert topics.code("POST", "/associations", wanted(weak())) == 40907


def test_a_subject_of_a_topic_has_no_schema_of_others(topics: Api) -> None:
    topics.register(OWN)
    topics.ask("POST", "/associations", wanted(weak(OWN), resourceName="other", resourceId="topic-2"))
    assert topics.code("POST", "/associations", wanted(STRONG)) == 40904
    topics.send("DELETE", "/associations/resources/topic-2")
    topics.ask("POST", "/associations", wanted(STRONG))
    second = {"resourceName": "second", "resourceId": "topic-2"}
    topics.register(OWN.replace("orders", "second"), TWO)
    assert topics.code("POST", "/associations", wanted(STRONG, **second)) == 42212, "another schema is there"
    assert topics.code("PUT", BY_ID, wanted(weak(kind="key"))) == 42212, "of one topic all are of one kind"


def test_a_subject_of_a_topic_and_references_exclude_each_other(topics: Api) -> None:
    reference = {"name": "R", "subject": OWN, "version": 1}
    referring: dict[str, Any] = {"schema": record("S", r={"type": "R"}), "references": [reference]}
    topics.register(OWN)
    topics.register("referrer", **referring)
    for query in ("", "?permanent=true"):
        assert topics.code("POST", "/associations", wanted(STRONG)) == 42206
        topics.ask("DELETE", f"/subjects/referrer{query}")
    key = {"associationType": "key", "schema": referring}
    assert topics.code("POST", "/associations", wanted(STRONG, key)) == 42206, "in one request, too"
    topics.ask("POST", "/associations", wanted(STRONG))
    topics.ask("POST", "/associations", wanted(weak(), resourceName="a", resourceId="a"))
    for index, subject in enumerate(("s", "t", ":.lkc-1:orders")):
        topics.register(subject)
        referring["references"].insert(index, {"name": f"S{index}", "subject": subject, "version": 1})
    assert topics.code("POST", "/subjects/referrer/versions", referring) == 42205
    topics.register("referrer", **{**referring, "schema": TWO, "references": referring["references"][:-1]})


@pytest.mark.parametrize(
    ("mode", "method", "body", "code"),
    [
        ("IMPORT", "POST", STRONG, 42212),
        ("IMPORT", "PUT", {"associationType": "value", "lifecycle": "STRONG"}, 200),
        ("READONLY", "POST", STRONG, 42205),
    ],
)
def test_modes(topics: Api, mode: str, method: str, body: Any, code: int) -> None:
    """An association in mode IMPORT needs no schema."""
    topics.register(OWN)
    topics.ask("PUT", f"/mode/{OWN}?force=true", {"mode": mode})
    sent = topics.send(method, BY_ID if method == "PUT" else "/associations", wanted(body))
    assert sent.json().get("error_code", 200) == code


def test_the_default_group_as_a_namespace(topics: Api) -> None:
    """The context of the default group has two names."""
    body = wanted({**STRONG, "subject": ":.default:orders-value"}, resourceNamespace="default")
    assert topics.ask("POST", "/associations", body)["associations"][0]["subject"] == "orders-value"


def test_trial_changes_nothing(topics: Api) -> None:
    body = {**wanted(STRONG), "resourceId": ""}
    trial = {"resourceName": "orders", "resourceNamespace": "lkc-1", "resourceType": "topic"}
    assert topics.ask("POST", "/associations?dryRun=true", body) == trial
    plain = topics.send("POST", "/associations?dryRun=true", body, headers={"Accept": "application/json"})
    assert (plain.json(), plain.headers["Content-Type"]) == (trial, "application/json")
    assert topics.get(BY_NAME) == []
    assert topics.get("/subjects") == ["s"]
    assert topics.client.send("GET", "/schemagroups/lkc-1").status_code == 404
    batch = {"requests": [wanted({"opType": "CREATE", **weak()})]}
    assert "result" in topics.ask("POST", "/associations:batchMutate?dryRun=true", batch)["results"][0]
    assert topics.get(BY_NAME) == []
    topics.ask("POST", "/associations", wanted(STRONG))
    assert topics.ask("POST", "/associations?dryRun=true", body) == trial, "tried again, when it is there"


def test_contexts(topics: Api) -> None:
    topics.register(":.dev:s")
    topics.ask("POST", "/associations?context=.dev", wanted(weak(), resourceId="a"))
    topics.ask("POST", "/contexts/.dev/associations", wanted(weak(kind="key"), resourceId="a"))
    assert len(topics.get("/associations/subjects/:.dev:s")) == 2
    assert topics.get("/associations/subjects/s") == []


def test_batches(topics: Api) -> None:
    half = {"resourceName": "half", "resourceId": "half"}
    body = {
        "requests": [
            wanted({"opType": "CREATE", **weak()}),
            wanted({"opType": "CREATE", **weak("none")}, resourceId="x"),
            wanted({"opType": "UPSERT", **weak(kind="key")}),
            wanted({"opType": "CREATE", **STRONG}, resourceName="own", resourceId="own"),
            wanted({"opType": "ALTER", **weak()}),
            wanted({"opType": "CREATE", **weak(kind="key")}, {"opType": "UPSERT", **weak("none")}, **half),
        ]
    }
    results = topics.ask("POST", "/associations:batchMutate", body)["results"]
    assert [result.get("error", {}).get("error_code") for result in results] == [None, 40907, None, None, 42212, 40907]
    assert [result["associationType"] for result in results[2]["result"]["associations"]] == ["key", "value"]
    assert len(topics.get("/associations/resources/half")) == 1, "what was done before an error stays"
    request = {"requests": [{"resourceId": "topic-1"}, {**LKC, "resourceName": "own", "resourceId": None}, {}]}
    first, second, third = topics.ask("POST", "/associations:batchGet?includeSchemas=true", request)["results"]
    assert [result["associationType"] for result in first["result"]["associations"]] == ["key", "value"]
    assert second["result"]["associations"][0]["schema"]["schemaType"] == "AVRO"
    assert third["error"]["error_code"] == 42212
    gone = {
        "requests": [
            wanted({"opType": "DELETE", "associationType": "key"}),
            wanted({"opType": "DELETE"}, resourceName="own", resourceId="own"),
            wanted({"opType": "DELETE", "cascadeLifecycle": True}, resourceName="own", resourceId="own"),
            wanted({"opType": "DELETE"}, resourceId="none"),
        ]
    }
    results = topics.ask("POST", "/associations:batchMutate", gone)["results"]
    assert [result.get("error", {}).get("error_code") for result in results] == [None, 40908, None, 40410]
    assert len(topics.get("/associations/resources/-/orders")) == 1
    assert topics.code("POST", "/associations:batchGet", {"requests": [{}] * 1001}) == 42213
    assert topics.code("POST", "/associations:batchGet", {"requests": 5}) == 422


def test_resource_names_with_special_characters(topics: Api) -> None:
    """A resource is not matched by a prefix of its name."""
    names = ["a", "a/", "a/b", "a%2Fb", "ä", "a.b"]
    for name in names:
        topics.ask(
            "PUT",
            "/associations/resources/" + "".join(f"%{row:02X}" for row in name.encode()),
            {**wanted(weak()), "resourceId": name},
        )
    assert {row["resourceId"] for row in topics.get("/associations/subjects/s")} == set(names)
    assert [row["resourceId"] for row in topics.get("/associations/resources/a")] == ["a"]
    assert [row["resourceId"] for row in topics.get("/associations/resources/a%2Fb")] == ["a/b"]


def test_associations_require_rights_on_the_subject(store: Store, serve: Serve) -> None:
    """Callers who can write the subject can associate it; those who cannot read it do not see the association."""
    client = serve(store, model="default", **PROXIED)
    api = Api(client)
    for subject in ("open", "secret"):
        api.register(subject)
        api.ask("POST", "/associations", wanted(weak(subject), resourceId=subject))
    rule = {"who": ["subject:ann"], "allow": ["read"], "on": ["/schemagroups/default/schemas/open"]}
    put_policy(store, rule)
    ann = {"headers": {"X-User": "ann"}}
    seen = api.send("GET", BY_NAME, **ann).json()
    assert [association["subject"] for association in seen] == ["open"]
    for method, path, body in (
        ("POST", "/associations", wanted(weak("open"), resourceId="new")),
        ("POST", "/associations", wanted(weak("secret"), resourceId="new")),
        ("DELETE", "/associations/resources/open", None),
    ):
        assert api.code(method, path, body, **ann) == 403
    put_policy(store, {**rule, "allow": ["read", "update"]})
    assert api.send("DELETE", "/associations/resources/open", **ann).status_code == 204


OWN_UNNAMED = {"associationType": "value", "schema": {"schema": ONE}}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/associations", wanted(OWN_UNNAMED, resourceId="new")),
        ("POST", "/associations", wanted({**OWN_UNNAMED, "subject": ":.:"}, resourceId="new")),
        ("POST", "/contexts/.a/associations", wanted(OWN_UNNAMED, resourceId="new")),
        ("PUT", BY_ID, wanted({"associationType": "value"})),
        ("PUT", f"/contexts/.a{BY_ID}", wanted({"associationType": "value"})),
        ("PUT", f"{BY_ID}?context=.a", wanted({"associationType": "value"})),
        ("PUT", f"/contexts/.a{BY_ID}", wanted({"associationType": "value", "subject": ":.:"})),
        ("DELETE", f"/contexts/.a{BY_ID}", None),
        ("POST", "/contexts/.a/associations:batchMutate", {"requests": [wanted({"opType": "DELETE"})]}),
        (
            "POST",
            "/associations:batchMutate",
            {
                "requests": [
                    wanted({"opType": "DELETE"}, resourceId="mine"),
                    wanted({"opType": "CREATE", **OWN_UNNAMED}, resourceId="mine"),
                ]
            },
        ),
    ],
)
def test_right_is_checked_for_the_subject_that_is_written(
    store: Store, serve: Serve, method: str, path: str, body: dict[str, Any] | None
) -> None:
    """Ann may write only context a, which has subjects of the same names as contexts that she may only read."""
    api = Api(serve(store, model="default", **PROXIED))
    for subject in ("s", OWN, ":.a:s", ":.a:mine"):
        api.register(subject)
    api.ask("POST", "/associations", wanted(weak()))
    api.ask("POST", "/associations", wanted(weak(":.a:mine"), resourceId="mine"))
    before = api.get(BY_NAME)
    put_policy(
        store,
        {"who": ["subject:ann"], "role": "reader"},
        {"who": ["subject:ann"], "role": "owner", "on": ["/schemagroups/a"]},
    )
    ann = {"headers": {"X-User": "ann"}}
    assert api.code(method, path, body, **ann) == 403
    assert api.send("GET", BY_NAME, **ann).json() == before
