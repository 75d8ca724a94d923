"""The Confluent-compatible API, path by path as it is routed."""

from __future__ import annotations

from typing import Final

from signalbook.api.confluent.requests import CONTENT_TYPE
from signalbook.api.confluent.routes import MOUNTS, ROUTES, Operation
from signalbook.api.openapi.components import TEXT, query, response
from signalbook.model import Model
from signalbook.values import JSONObject

_NAMES: Final = {
    "subjects": "subject",
    "versions": "version",
    "ids": "id",
    "guids": "guid",
    "contexts": "context",
    "config": "subject",
    "mode": "subject",
}
_NUMBER: Final[JSONObject] = {"type": "integer"}
_FLAG: Final[JSONObject] = {"type": "boolean"}
_QUERIES: Final[dict[str, JSONObject]] = {
    **dict.fromkeys(("deleted", "deletedOnly", "permanent", "normalize", "verbose", "defaultToGlobal", "force"), _FLAG),
    **dict.fromkeys(("offset", "limit"), _NUMBER),
    **dict.fromkeys(("subjectPrefix", "format", "subject"), TEXT),
}
_BODIES: Final[dict[str, JSONObject]] = {
    "config": {"type": "object", "properties": {"compatibility": TEXT}},
    "mode": {"type": "object", "properties": {"mode": TEXT}, "required": ["mode"]},
    "": {"type": "object", "properties": {"schema": TEXT, "schemaType": TEXT}, "required": ["schema"]},
}
_ERROR: Final[JSONObject] = {
    "type": "object",
    "properties": {"error_code": _NUMBER, "message": TEXT},
    "required": ["error_code", "message"],
}


def confluent_paths(model: Model, *, mutable: bool) -> JSONObject:
    """All paths, if the ``model`` has schemas; OPTIONS and HEAD go without saying."""
    groups = model.groups.get("schemagroups")
    kind = groups.resources.get("schemas") if groups is not None else None
    if kind is None or not kind.hasdocument:
        return {}
    return {_path(words): _item(words, methods, mutable=mutable) for words, methods in ROUTES.items()}


def _path(words: tuple[str, ...]) -> str:
    named = (f"{{{_NAMES[words[n - 1]]}}}" if word == "{}" else word for n, word in enumerate(words))
    return "/".join((MOUNTS[0], *named))


def _item(words: tuple[str, ...], methods: dict[str, Operation], *, mutable: bool) -> JSONObject:
    ids = [_NAMES[words[n - 1]] for n, word in enumerate(words) if word == "{}"]
    item: JSONObject = {"parameters": [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in ids]}
    for method, operation in methods.items():
        if mutable or operation.writes is None:
            item[method.lower()] = _operation(words, method)
    return item


def _operation(words: tuple[str, ...], method: str) -> JSONObject:
    named = "_".join(_NAMES[words[n - 1]] if word == "{}" else word for n, word in enumerate(words)) or "liveness"
    gone = words == ("contexts", "{}")
    answered: JSONObject = {} if gone else {CONTENT_TYPE: {"schema": {}}}
    failed = {CONTENT_TYPE: {"schema": _ERROR}}
    found: JSONObject = {
        "operationId": f"{method.lower()}_confluent_{named}",
        "tags": ["Confluent-compatible"],
        "parameters": [query(name, {"schema": kind}) for name, kind in _QUERIES.items()] if words else [],
        "responses": {
            ("204" if gone else "200"): response("As clients of Confluent's registry expect it.", content=answered),
            "default": response("What is wrong, by a code.", content=failed),
        },
    }
    if words and method in ("POST", "PUT"):
        body = _BODIES.get(words[0], _BODIES[""])
        found["requestBody"] = {"required": True, "content": {CONTENT_TYPE: {"schema": body}}}
    return found
