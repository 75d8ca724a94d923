"""Lists of schemas, chosen by what they have (GET /schemas), and what is never passed over unheard."""

from typing import Any

from tests.api.confluent.conftest import BREAKING, ONE, TWO, Api

RULES = {"domainRules": [{"name": "r", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "true"}]}


def names(api: Api, query: str) -> list[str]:
    return [schema["subject"] for schema in api.get(f"/schemas?subjectPrefix=:*:&{query}")]


def associate(api: Api, topic: str, **association: Any) -> None:
    body = {"resourceName": topic, "resourceNamespace": "n", "resourceId": topic, "associations": [association]}
    api.ask("POST", "/associations", body)


def test_schemas_by_the_associations_of_their_subjects(api: Api) -> None:
    """resourceType, associationType and lifecycle, of which NONE is of those without any."""
    for subject in ("free", "k", "v"):
        api.register(subject)
    api.register("v", TWO)
    associate(api, "t", associationType="value", subject="v")
    associate(api, "u", associationType="key", subject="k")
    associate(api, "own", associationType="value", lifecycle="STRONG", schema={"schema": ONE})
    own_subject = ":.n:own-value"
    assert sorted(names(api, "resourceType=topic")) == sorted(["k", "v", "v", own_subject])
    assert names(api, "associationType=key") == ["k"]
    assert sorted(names(api, "associationType=value&latestOnly=true")) == sorted(["v", own_subject])
    assert names(api, "lifecycle=STRONG") == [own_subject]
    assert names(api, "lifecycle=WEAK&latestOnly=true") == ["k", "v"]
    assert names(api, "lifecycle=NONE") == ["free"]
    assert sorted(names(api, "lifecycle=NONE&lifecycle=STRONG")) == sorted(["free", own_subject])
    associations = api.get("/schemas?associationType=key")[0]["associations"]
    assert [
        (association["resourceName"], association["associationType"], association["subject"])
        for association in associations
    ] == [("u", "key", "k")]
    assert "associations" not in api.get("/schemas?latestOnly=true")[0]
    assert names(api, "lifecycle=WEAK&offset=1&limit=1") == ["v"]
    assert [schema["subject"] for schema in api.get("/schemas?lifecycle=WEAK&deleted=true&subjectPrefix=k")] == ["k"]
    for query in ("lifecycle=X", "associationType=x&lifecycle=x"):
        assert api.code("GET", f"/schemas?{query}") == 42212


def test_schemas_of_the_default_context(api: Api) -> None:
    """Without a prefix GET /schemas lists the default context alone, while GET /subjects lists all contexts."""
    for subject in ("s", ":.one:s"):
        api.register(subject)
    assert api.get("/subjects") == [":.one:s", "s"]
    assert [schema["subject"] for schema in api.get("/schemas")] == ["s"]
    assert [schema["subject"] for schema in api.get("/contexts/.one/schemas")] == [":.one:s"]
    assert sorted(schema["subject"] for schema in api.get("/schemas?subjectPrefix=:*:")) == [":.one:s", "s"]


def test_schemas_by_the_types_of_their_rules(api: Api) -> None:
    api.register("s")
    api.register("s", TWO, ruleSet=RULES)
    assert [schema["version"] for schema in api.get("/schemas?ruleType=CEL")] == [2]
    assert [schema["version"] for schema in api.get("/schemas?ruleType=CEL&deleted=true&latestOnly=true")] == [2]
    assert api.get("/schemas?ruleType=ENCRYPT") == []


def test_references_with_their_contexts(api: Api) -> None:
    """The parameter referenceFormat=qualified returns references with their contexts."""
    api.register(":.dev:r")
    schema = '{"type":"record","name":"Q","fields":[{"name":"r","type":"R"}]}'
    api.register(":.dev:q", schema, references=[{"name": "R", "subject": "r", "version": 1}])
    path = "/subjects/%3A.dev%3Aq/versions/1"
    assert api.get(path)["references"] == [{"name": "R", "subject": "r", "version": 1}]
    for where in (path, "/contexts/.dev/schemas/ids/2"):
        assert api.get(f"{where}?referenceFormat=qualified")["references"][0]["subject"] == ":.dev:r"
    assert "references" not in api.get("/subjects/%3A.dev%3Ar/versions/1?referenceFormat=qualified")
    assert api.code("GET", f"{path}?referenceFormat=other") == 422


def test_schemas_by_aliases(api: Api) -> None:
    for subject in ("s", "other", ":.dev:s", ":.Team:s"):
        api.register(subject)
    for alias in ("old", "older", ":.dev:old", ":.Team:old"):
        api.ask("PUT", f"/config/{alias}", {"alias": "s"})

    def listed(query: str) -> list[tuple[str, Any]]:
        return [(schema["subject"], schema.get("aliases")) for schema in api.get(f"/schemas?{query}")]

    expected = ("s", ["old", "older"])
    assert listed("subjectPrefix=old") == []
    assert listed("subjectPrefix=old&aliases=true") == [expected]
    assert listed("subjectPrefix=o&aliases=true") == [("other", None), expected]
    assert listed("subjectPrefix=s&aliases=true") == [expected]
    team, dev = ((f":.{context}:s", [f":.{context}:old"]) for context in ("Team", "dev"))
    assert listed("subjectPrefix=:*:old&aliases=true") == [expected, dev, team]
    assert listed("subjectPrefix=:.Team:old&aliases=true") == listed("subjectPrefix=:.Team:&aliases=true") == [team]


def test_registering_by_force(api: Api) -> None:
    """Whoever may write a subject may also write what does not fit."""
    api.register("s")
    assert api.code("POST", "/subjects/s/versions", {"schema": BREAKING}) == 40901
    assert api.ask("POST", "/subjects/s/versions?force=true", {"schema": BREAKING})["version"] == 2
    assert api.code("POST", "/subjects/s/versions?force=true", {"schema": "{"}) == 42201


def test_recursive_deletion_removes_the_modes_of_all_subjects(api: Api) -> None:
    """DELETE /mode with recursive."""
    scopes = ("s", ":.dev:t", ":.dev:")
    for scope in scopes:
        api.ask("PUT", f"/mode/{scope}", {"mode": "READONLY"})
    assert api.ask("DELETE", "/mode/:.dev:?recursive=true") == {"mode": "READONLY"}
    assert api.ask("DELETE", "/mode/:.dev:?recursive=true") == {}
    assert api.get("/mode/s") == {"mode": "READONLY"}
    assert [api.code("GET", f"/mode/{scope}") for scope in scopes[1:]] == [40409, 40409]
    api.ask("PUT", "/mode/:.dev:t", {"mode": "READONLY"})
    api.ask("DELETE", "/mode?recursive=true")
    assert api.code("GET", "/mode/s") == 40409
    assert api.get("/mode/:.dev:t") == {"mode": "READONLY"}
    api.ask("PUT", "/mode", {"mode": "IMPORT"})
    assert api.ask("DELETE", "/mode/:.__GLOBAL:?recursive=true") == {"mode": "READWRITE"}
    assert api.get("/mode") == {"mode": "READWRITE"}
    assert [api.code("GET", f"/mode/{scope}") for scope in scopes[:2]] == [40409, 40409]
