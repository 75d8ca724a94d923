import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.documents import DocumentError, parse_source, read_folder

OLD = """
openapi: 3.0.3
info: {title: Repo hooks, version: "1", license: {name: MIT}}
paths: {}
x-webhooks:
  issue-opened:
    post:
      summary: An issue was opened.
      description: Somebody opened it.
      operationId: issues/opened
      externalDocs: {url: "https://docs.example/webhooks#issues"}
      parameters:
        - {name: X-Github-Event, in: header, required: true, example: issues, schema: {type: string}}
        - {name: X-Count, in: header, schema: {type: integer, minimum: 1}}
        - {name: page, in: query, schema: {type: integer}}
        - {name: session, in: cookie, schema: {type: string}}
      requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/opened"}, examples: {}}}}
      responses: {"200": {description: fine}}
      x-github: {subcategory: issues, category: webhooks}
components:
  schemas:
    opened:
      type: object
      required: [action, issue]
      properties:
        action: {type: string, enum: [opened]}
        issue: {$ref: "#/components/schemas/issue"}
        nullable: {type: boolean, example: true}
    issue:
      type: object
      properties:
        number: {type: integer, minimum: 0, exclusiveMinimum: true, maximum: 9, exclusiveMaximum: false}
        title: {type: string, nullable: true}
        state: {type: string, nullable: true, enum: [open, closed]}
        parent: {nullable: true, allOf: [{$ref: "#/components/schemas/issue"}]}
      discriminator: {propertyName: kind}
    answer: {type: object}
"""
A = {"$ref": "#/components/schemas/a"}


def read(text: str | dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    data = text if isinstance(text, str) else json.dumps(text)
    source = parse_source(data.encode(), name="api.json" if isinstance(text, dict) else "api.yaml")
    return source.document, [str(repair) for repair in source.repairs]


def hooks(**operations: Any) -> dict[str, Any]:
    webhooks = {name: {"post": body} for name, body in operations.items()}
    return {"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "webhooks": webhooks}


def body(schema: Any, content_type: str = "application/json") -> dict[str, Any]:
    return {"requestBody": {"content": {content_type: {"schema": schema}}}}


def messages(document: dict[str, Any]) -> dict[str, Any]:
    return dict(read(document)[0]["messagegroups"]["T"]["messages"])


def test_a_webhook_of_3_0() -> None:
    imported, losses = read(OLD)
    assert imported["messagegroups"]["Repo-hooks"]["messages"]["issue-opened"] == {
        "name": "An issue was opened.",
        "description": "Somebody opened it.",
        "documentation": "https://docs.example/webhooks#issues",
        "datacontenttype": "application/json",
        "dataschemaformat": "JsonSchema/draft-07",
        "dataschemauri": "/schemagroups/Repo-hooks/schemas/opened",
        "protocol": "HTTP",
        "protocoloptions": {
            "method": "POST",
            "headers": [
                {"name": "X-Github-Event", "value": "issues", "required": True},
                {"name": "X-Count", "type": "integer"},
            ],
            "query": [{"name": "page", "type": "integer"}],
        },
    }
    for loss in (
        "/: left out paths",
        "/info: left out license",
        "parameters/1: left out minimum of X-Count",
        "'session' in 'cookie'",
        "X-Github-Event has the value of x-github's subcategory",
        "left out responses, x-github",
        "/components/schemas: left out answer: no webhook",
    ):
        assert any(loss.lstrip("/: ") in line for line in losses), loss


def test_the_dialect_of_3_0() -> None:
    imported, losses = read(OLD)
    schema = imported["schemagroups"]["Repo-hooks"]["schemas"]["opened"]["schema"]
    assert schema["properties"]["nullable"] == {"type": "boolean", "examples": [True]}
    issue = schema["definitions"]["issue"]
    assert issue["properties"] == {
        "number": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
        "title": {"type": ["string", "null"]},
        "state": {"type": ["string", "null"], "enum": ["open", "closed", None]},
        "parent": {"anyOf": [{"allOf": [{"$ref": "#/definitions/issue"}]}, {"type": "null"}]},
    }
    assert "discriminator" not in issue
    place = "/components/schemas/issue"
    assert f"{place}: nullable became the type null (and in 1 more place of it) [OA-4]" in losses
    assert any(line.startswith(f"{place}/properties/state: nullable, and so null") for line in losses)
    valid = jsonschema_rs.Draft7Validator(schema).is_valid
    assert valid({"action": "opened", "issue": {"number": 1, "title": None, "state": None, "parent": {"parent": None}}})
    assert not valid({"action": "opened", "issue": {"number": 0}})


def test_json_schema_of_3_1_is_unchanged() -> None:
    schema = {"$ref": "#/components/schemas/a", "description": "beside it", "exclusiveMinimum": 3, "nullable": True}
    document = hooks(m=body(schema)) | {"components": {"schemas": {"a": {"type": ["integer", "null"], "example": 5}}}}
    message = messages(document)["m"]
    assert message["dataschemaformat"] == "JsonSchema/draft/2020-12"
    shared = {"$defs": {"a": {"type": ["integer", "null"], "example": 5}}}
    assert message["dataschema"] == {**schema, "$ref": "#/$defs/a", **shared}
    inline = body({"properties": {"a": schema}})
    inline_schema = messages(hooks(m=inline) | {"components": document["components"]})["m"]["dataschema"]
    assert inline_schema == {"properties": {"a": {**schema, "$ref": "#/$defs/a"}}, **shared}
    depending: Any = {"dependentRequired": {"nullable": ["a"]}, "dependencies": {"discriminator": ["b"]}}
    assert messages(hooks(m=body(depending)))["m"]["dataschema"] == depending
    stated = messages({**hooks(m=body({})), "jsonSchemaDialect": "http://json-schema.org/draft-07/schema#"})
    assert stated["m"]["dataschemaformat"] == "JsonSchema/draft-07"


def test_events_over_http() -> None:
    """CloudEvents in binary mode by their headers, in structured mode by their content type."""
    schemas = {"ce-specversion": {}, "ce-type": {"const": "a.b"}, "ce-region": {}, "X-Own": {}}
    parameters = [{"name": n, "in": "header", "required": True, "schema": schema} for n, schema in schemas.items()]
    event = {"properties": {"type": {"const": "a.b"}, "data": {"$ref": "#/components/schemas/a"}}}
    binary, structured = body({"type": "object"}), body(event, "application/cloudevents+json")
    document = hooks(binary={"parameters": parameters, **binary}, structured=structured)
    document["components"] = {"schemas": {"a": {"type": "object"}}}
    messages_ = messages(document)
    assert messages_["binary"]["envelopemetadata"] == {"type": {"value": "a.b"}, "region": {"required": True}}
    assert messages_["binary"]["protocoloptions"]["headers"] == [{"name": "X-Own", "required": True}]
    assert messages_["structured"]["envelopeoptions"]["mode"] == "structured"
    assert messages_["structured"]["dataschemauri"] == "/schemagroups/T/schemas/a"


def test_path_items_content_types_and_names() -> None:
    operation = {"requestBody": {"$ref": "#/components/requestBodies/both"}, "deprecated": True}
    document = hooks(**{"/orders/{id}": operation})
    parameters = [{"name": "A", "in": "header", "schema": {"type": "boolean"}}, {"name": "x-OWN", "in": "header"}]
    shared = [{"name": name, "in": "header", "required": True} for name in ("X-Own", "a", "B")]
    document["webhooks"]["/orders/{id}"] |= {"put": {"parameters": parameters}, "parameters": shared}
    content = {"application/x-www-form-urlencoded": {"schema": {}}, "application/json": {"schema": {"type": "object"}}}
    document["components"] = {"requestBodies": {"both": {"content": content}}}
    imported, losses = read(document)
    messages_ = imported["messagegroups"]["T"]["messages"]
    assert list(messages_) == ["orders-id--post", "orders-id--put"]
    assert messages_["orders-id--post"]["meta"] == {"deprecated": {}}
    assert messages_["orders-id--post"]["datacontenttype"] == "application/json"
    headers = messages_["orders-id--put"]["protocoloptions"]["headers"]
    assert headers == [{"name": "B", "required": True}, {"name": "A", "type": "boolean"}, {"name": "x-OWN"}]
    assert any("took application/json, not application/x-www-form-urlencoded [OA-7]" in line for line in losses)
    assert any("its id is orders-id--post, for /orders/{id}-post" in line for line in losses)
    form = messages(hooks(m=body({"type": "object"}, "application/x-www-form-urlencoded")))["m"]
    assert form["datacontenttype"] == "application/x-www-form-urlencoded"
    assert "dataschema" not in form


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"openapi": "2.0", "info": {}}, "/openapi: OpenAPI 3.0 to 3.2 is read"),
        ({"swagger": "2.0", "info": {}}, "not 'Swagger'"),
        (hooks(), "it has no webhooks"),
        (hooks(m=5), "/webhooks/m/post: must be an object"),
        (hooks(m={"parameters": {}}), "/webhooks/m/post/parameters: must be a list"),
        (hooks(m={"summary": 5}), "/webhooks/m/post/summary: must be a string"),
        (hooks(m=body(5)), "schema: a schema is an object"),
        (hooks(m=body(A)), "there is no #/components/schemas/a"),
        (hooks(m=body({"properties": {"a": {"$ref": "#/no"}}})), "there is no #/no"),
        (hooks(m=body(A)) | {"components": {"schemas": {"a": A}}}, "in a circle"),
    ],
)
def test_errors_have_their_place(document: dict[str, Any], reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        read(document)


def test_external_references_are_not_fetched(tmp_path: Path) -> None:
    document = hooks(m=body({"$ref": "../secret.json"}), n=body({"items": {"$ref": "https://x.example/a"}}))
    (tmp_path / "api.json").write_text(json.dumps(document))
    (source,) = read_folder(tmp_path)
    assert all("dataschema" not in entry for entry in source.document["messagegroups"]["T"]["messages"].values())
    assert [entry.rule for entry in source.repairs].count("OA-1") == 2


def test_files_of_a_document(tmp_path: Path) -> None:
    hook = {"post": body({"$ref": "../types.yaml#/Order"})}
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "placed.json").write_text(json.dumps(hook))
    (tmp_path / "types.yaml").write_text('Order: {items: {$ref: "#/Address"}}\nAddress: {type: object}')
    (tmp_path / "api.json").write_text(json.dumps(hooks() | {"webhooks": {"placed": {"$ref": "hooks/placed.json"}}}))
    (source,) = read_folder(tmp_path)
    expected = "/schemagroups/T/schemas/Order"
    assert source.document["messagegroups"]["T"]["messages"]["placed"]["dataschemauri"] == expected
    assert source.document["schemagroups"]["T"]["schemas"]["Order"]["schema"] == {
        "items": {"$ref": "#/$defs/Address"}, "$defs": {"Address": {"type": "object"}},
    }  # fmt: skip


def test_twenty_thousand_headers() -> None:
    parameters = [{"name": f"h{n}", "in": "header", "schema": {}} for n in range(20_000)]
    message = messages(hooks(m={"parameters": parameters}))["m"]
    assert len(message["protocoloptions"]["headers"]) == 20_000


_old = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"]), "nullable": st.booleans(), "minimum": st.integers(-5, 5)},
        optional={"exclusiveMinimum": st.booleans(), "enum": st.lists(st.integers(-9, 9), min_size=1, max_size=3)},
    ),
    lambda inner: st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner, "nullable": st.booleans(), "maxItems": st.integers(0, 3)}
    ),
    max_leaves=3,
)
_values = st.recursive(st.none() | st.integers(-9, 9), lambda inner: st.lists(inner, max_size=4), max_leaves=4)


def allows(schema: dict[str, Any], value: Any) -> bool:
    """Return True if a schema of OpenAPI 3.0 allows a value; null is allowed where ``nullable`` is true."""
    if value is None:
        return bool(schema["nullable"])
    if schema["type"] == "array":
        items = schema["items"]
        fits = isinstance(value, list) and len(value) <= schema["maxItems"]
        return fits and all(allows(items, element) for element in value)
    if isinstance(value, list) or value not in schema.get("enum", [value]):
        return False
    return bool(value > schema["minimum"] if schema.get("exclusiveMinimum") else value >= schema["minimum"])


@given(_old, _values)
def test_the_same_values_are_allowed(schema: dict[str, Any], value: Any) -> None:
    converted = messages({**hooks(m=body(schema)), "openapi": "3.0.1"})["m"]["dataschema"]
    assert jsonschema_rs.Draft7Validator(converted).is_valid(value) == allows(schema, value)
