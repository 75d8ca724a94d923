"""The paths of pipelines and their reports, which are the same whatever the model."""

from __future__ import annotations

from typing import Final

import msgspec

from signalbook.api.openapi import parts
from signalbook.api.openapi.schemas import reference
from signalbook.pipelinereports import BatchReport
from signalbook.values import JSONObject, dump_json, parse_json

_TAG: Final = "pipelines"
_PREFIX: Final = "Pipeline."
_SHOWN, _KEPT, _FILED = "Pipeline", "Pipeline.kept", "Pipeline.filed"
_REPORT: Final = f"{_PREFIX}Report"
_PUBLISHED: Final = {
    "BatchReport": "Report",
    "DefinitionCounts": "OfMessage",
    "ViolationCount": "Violation",
    "ViolationExample": "Example",
}
"""Names in the document, where those of the classes are others."""
_NUMBER: Final[JSONObject] = {"type": "integer", "minimum": 1}
_CURSOR: Final[JSONObject] = {"description": "From the link to the next page.", "schema": parts.TEXT}


def paths() -> JSONObject:
    """``/pipelines`` and what is beneath it; OPTIONS and HEAD go without saying."""
    pages = [parts.query("limit", parts.LIMIT), parts.query("cursor", _CURSOR)]
    name, filed = parts.identifier("name"), reference(_FILED)
    body = {"required": True, "content": {parts.JSON: {"schema": reference(_REPORT)}}}
    return {
        "/pipelines": {
            "get": _operation("getPipelines", "A page of them.", _list(reference(_SHOWN)), 400, parameters=pages),
        },
        "/pipelines/{name}": {
            "parameters": [name],
            "get": _operation("getPipeline", "With its newest report.", reference(_SHOWN), 404),
            "delete": {
                **_named("deletePipeline"),
                "responses": {"204": parts.answer("Forgotten."), **parts.errors(404, 503)},
            },
        },
        "/pipelines/{name}/reports": {
            "parameters": [name],
            "get": _operation("getReports", "The newest first.", _list(reference(_KEPT)), 400, 404, parameters=pages),
            "post": {
                **_named("addReport"),
                "requestBody": body,
                "responses": {
                    "200": parts.answer("The batch was known.", "Location", json=filed),
                    "201": parts.answer("Kept.", "Location", json=filed),
                    **parts.errors(400, 503),
                },
            },
        },
        "/pipelines/{name}/reports/{number}": {
            "parameters": [name, {"name": "number", "in": "path", "required": True, "schema": _NUMBER}],
            "get": _operation("getReport", "One of them.", reference(_KEPT), 404),
        },
    }


def schemas() -> JSONObject:
    """What the paths refer to; reports look as they are checked."""
    _, found = msgspec.json.schema_components([BatchReport], ref_template=f"#/components/schemas/{_PREFIX}{{name}}")
    text = dump_json(found).decode()
    for name, published in _PUBLISHED.items():  # as key, as title, and at the end of references
        text = text.replace(f'{_PREFIX}{name}"', f'{_PREFIX}{published}"').replace(f'"{name}"', f'"{published}"')
    kept = {"number": _NUMBER, "received": parts.TEXT, "report": reference(_REPORT)}
    return {
        **{f"{_PREFIX}{name}": schema for name, schema in parse_json(text.encode()).items()},
        _KEPT: _object(kept),
        _FILED: _object({"pipeline": parts.TEXT, "number": _NUMBER}),
        _SHOWN: _object({"name": parts.TEXT, "last": {"type": ["object", "null"]}}),
    }


def _operation(id: str, text: str, schema: JSONObject, *failures: int, **more: object) -> JSONObject:
    answers = {"200": parts.answer(text, json=schema), **parts.errors(*failures, 503)}
    return {**_named(id), **more, "responses": answers}


def _named(operation: str) -> JSONObject:
    return {"operationId": operation, "tags": [_TAG]}


def _list(schema: JSONObject) -> JSONObject:
    return {"type": "array", "items": schema}


def _object(properties: JSONObject) -> JSONObject:
    return {"type": "object", "properties": properties, "required": list(properties)}
