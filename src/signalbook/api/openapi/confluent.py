"""The Confluent-compatible API, path by path as it is routed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from signalbook.api.confluent.requests import CONTENT_TYPE
from signalbook.api.confluent.routes import MOUNTS, ROUTES, Operation, Read
from signalbook.api.openapi.components import TEXT, query, reference, response
from signalbook.confluent.associations import LIFECYCLES, TOPIC, TYPES
from signalbook.confluent.settings import CONFIG_FIELDS, LEVELS, MODES
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
    "resources": "resource",
}
_NUMBER: Final[JSONObject] = {"type": "integer"}
_POSITIVE: Final[JSONObject] = {"type": "integer", "minimum": 1}
_FLAG: Final[JSONObject] = {"type": "boolean"}
_OBJECT: Final[JSONObject] = {"type": "object"}
_OBJECT_OR_NULL: Final[JSONObject] = {"type": ["object", "null"]}
_RULES: Final[JSONObject] = {
    **_OBJECT_OR_NULL,
    "properties": {"domainRules": {"type": ["array", "null"], "items": _OBJECT}},
}


def _object(required: str = "", /, **properties: JSONObject) -> JSONObject:
    found: JSONObject = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": required.split()} if required else found


def _array(item: JSONObject) -> JSONObject:
    return {"type": "array", "items": item}


_SCHEMA: Final = "Confluent.Schema"
_ASSOCIATION: Final = "Confluent.Association"
_ASSOCIATIONS: Final = "Confluent.Associations"
_CONFIG: Final = "Confluent.Config"
_MODE: Final = "Confluent.Mode"
_ERROR: Final = "Confluent.Error"
_PLACE: Final = _object("subject version", subject=TEXT, version=_POSITIVE)
_REFERENCE: Final = _object("name subject version", name=TEXT, subject=TEXT, version=_NUMBER)
_CONTENT: Final[JSONObject] = {
    "schemaType": {"enum": ["AVRO", "JSON", "PROTOBUF", None]},
    "references": {**_array(_REFERENCE), "type": ["array", "null"]},
    "metadata": _OBJECT_OR_NULL,
    "ruleSet": _RULES,
}
_ENTITY: Final = _object("entityPath entityType", entityPath=TEXT, entityType={"enum": ["sr_record", "sr_field"]})
_TAGS: Final = _array(_object("schemaEntity", schemaEntity=_ENTITY, tags=_array(TEXT)))
_SETTINGS: Final[JSONObject] = {
    **dict.fromkeys(sorted(name for name in CONFIG_FIELDS if name.endswith(("Metadata", "RuleSet"))), _OBJECT),
    **dict.fromkeys(("normalize", "validateFields", "validateNewSchemas", "validateRules"), _FLAG),
    **dict.fromkeys(("alias", "aliasForDeks", "compatibilityGroup"), TEXT),
    "compatibilityPolicy": {"enum": ["STRICT", "LENIENT", "LOGICAL"]},
}
_LEVEL: Final[JSONObject] = {"enum": [*LEVELS]}


_RESOURCE: Final[dict[str, JSONObject]] = {
    **dict.fromkeys(("resourceName", "resourceNamespace", "resourceId"), TEXT),
    "resourceType": {"enum": [TOPIC]},
}
_INFO: Final[dict[str, JSONObject]] = {
    "subject": TEXT,
    "associationType": {"enum": [*TYPES]},
    "lifecycle": {"enum": [*LIFECYCLES]},
    "frozen": _FLAG,
    "schema": reference(_SCHEMA),
}
_TIMES: Final[dict[str, JSONObject]] = {"guid": TEXT, "createTs": _NUMBER, "updateTs": _NUMBER}
_RESULT: Final = _object(result=reference(_ASSOCIATIONS), error=reference(_ERROR))
_RESULTS: Final = _object("results", results=_array(_RESULT))
_BATCH: Final[JSONObject] = {
    "type": "object",
    "properties": {"requests": _array(_OBJECT)},
    "required": ["requests"],
}
_WANTED: Final[JSONObject] = {
    "type": "object",
    "properties": {**_RESOURCE, "associations": {**_array(_OBJECT), "minItems": 1, "maxItems": len(TYPES)}},
    "required": ["resourceName", "resourceNamespace", "associations"],
}


def confluent_schemas() -> JSONObject:
    """The components that the paths refer to."""
    numbers = {"version": _POSITIVE, "id": _POSITIVE, "maxId": _NUMBER, "ts": _NUMBER}
    named = {"subject": TEXT, "guid": {"type": "string", "format": "uuid"}, "schema": TEXT, "deleted": _FLAG}
    beside = {"schemaTags": _TAGS, "associations": _array(reference(_ASSOCIATION))}
    return {
        _SCHEMA: _object("schemaType guid", **named, **numbers, **_CONTENT, **beside),
        _CONFIG: _object(compatibilityLevel=_LEVEL, compatibility=_LEVEL, **_SETTINGS),
        _MODE: _object(mode={"enum": [*MODES]}),
        _ASSOCIATION: _object("subject associationType lifecycle", **_INFO, **_RESOURCE, **_TIMES),
        _ASSOCIATIONS: _object(associations=_array(_object(**_INFO)), **_RESOURCE),
        _ERROR: _object("error_code message", error_code=_NUMBER, message=TEXT),
    }


_S, _V = ("subjects", "{}"), ("subjects", "{}", "versions", "{}")
_DOCUMENT: Final[JSONObject] = {}
"""A schema itself, whatever that is."""
_METADATA: Final = {
    "id": _object("id scope", id=TEXT, scope=_OBJECT),
    "version": _object("version commitId", version=TEXT, commitId=TEXT),
    "deployment": _object("attributes", attributes=_array(TEXT)),
}
_ANSWERS: Final[dict[tuple[str, ...], JSONObject]] = {
    (): _object(),
    ("contexts",): _array(TEXT),
    ("subjects",): _array(TEXT),
    _S: reference(_SCHEMA),
    (*_S, "versions"): _array(_NUMBER),
    _V: reference(_SCHEMA),
    (*_V, "schema"): _DOCUMENT,
    (*_V, "referencedby"): _array(_POSITIVE),
    (*_S, "metadata"): reference(_SCHEMA),
    ("schemas",): _array(reference(_SCHEMA)),
    ("schemas", "types"): _array({"enum": ["JSON", "PROTOBUF", "AVRO"]}),
    ("schemas", "ids", "{}"): reference(_SCHEMA),
    ("schemas", "ids", "{}", "schema"): _DOCUMENT,
    ("schemas", "ids", "{}", "subjects"): _array(TEXT),
    ("schemas", "ids", "{}", "versions"): _array(_PLACE),
    ("schemas", "guids", "{}"): reference(_SCHEMA),
    ("schemas", "guids", "{}", "ids"): _array(_object("context id", context=TEXT, id=_POSITIVE)),
    **{("v1", "metadata", name): shown for name, shown in _METADATA.items()},
}
"""What is answered, by path; what is posted or deleted may be answered otherwise."""
_OTHERWISE: Final[dict[tuple[str, tuple[str, ...]], JSONObject]] = {
    ("POST", (*_S, "versions")): reference(_SCHEMA),
    ("POST", (*_V, "tags")): reference(_SCHEMA),
    ("DELETE", _S): _array(_POSITIVE),
    ("DELETE", _V): _POSITIVE,
}
_COMPARED: Final = _object("is_compatible", is_compatible=_FLAG, messages=_array(TEXT))
_SET: Final[dict[str, JSONObject]] = {"compatibility": _LEVEL, "compatibilityLevel": _LEVEL, **_SETTINGS}
_BODIES: Final[dict[str, JSONObject]] = {
    # null takes a setting away
    "config": _object(**{name: {"anyOf": [kind, {"type": "null"}]} for name, kind in _SET.items()}),
    "mode": _object(mode={"enum": [*MODES, None]}),
    "associations": _WANTED,
    "associations:batchGet": _BATCH,
    "associations:batchMutate": _BATCH,
    # what is wrong with a schema is an answer
    "compatibility": _OBJECT,
    "tags": _object(tagsToAdd=_TAGS, tagsToRemove=_TAGS, newVersion=_NUMBER, metadata=_OBJECT, ruleSet=_RULES),
    # with metadata or rules alone, the schema is that of the latest version
    "": {
        **_object(
            schema=TEXT,
            schemaTagsToAdd=_TAGS,
            schemaTagsToRemove=_TAGS,
            propagateSchemaTags={"type": "boolean"},
            **_CONTENT,
        ),
        "anyOf": [{"required": [name]} for name in ("schema", "metadata", "ruleSet")],
    },
}
_PAGE: Final = {"offset": _NUMBER, "limit": _NUMBER}
_DELETED: Final = {"deleted": _FLAG}
_FORMAT: Final[dict[str, JSONObject]] = {
    "format": {"type": "string", "enum": ["", "resolved", "serialized", "ignore_extensions"]}
}
_CHOICE: Final = {"resourceType": {"enum": [TOPIC]}, "associationType": _array({"enum": [*TYPES]})}
_SHOWN: Final[dict[str, JSONObject]] = {
    "referenceFormat": {"type": "string", "enum": ["", "qualified"]},
    "findTags": _array(TEXT),
    **_FORMAT,
}
_QUERIES: Final[dict[tuple[str, str], dict[str, JSONObject]]] = {
    ("GET", "contexts"): {"contextPrefix": TEXT, **_PAGE},
    ("GET", "subjects"): {"subjectPrefix": TEXT, "deletedOnly": _FLAG, **_DELETED, **_PAGE},
    ("GET", "schemas"): {
        "subjectPrefix": TEXT,
        "latestOnly": _FLAG,
        "ruleType": TEXT,
        "lifecycle": _array({"enum": [*LIFECYCLES, "NONE"]}),
        **_CHOICE,
        **_DELETED,
        **_PAGE,
        **_SHOWN,
    },
    ("GET", "versions"): {"deletedOnly": _FLAG, "deletedAsNegative": _FLAG, **_DELETED, **_PAGE},
    ("GET", "version"): {**_DELETED, **_SHOWN},
    ("GET", "schema"): {**_DELETED, "subject": TEXT, **_FORMAT},
    ("GET", "referencedby"): {**_DELETED, **_PAGE},
    ("GET", "id"): {"subject": TEXT, "fetchMaxId": _FLAG, **_SHOWN},
    ("GET", "guid"): _SHOWN,
    ("GET", "config"): {"defaultToGlobal": _FLAG},
    ("GET", "mode"): {"defaultToGlobal": _FLAG},
    ("PUT", "mode"): {"force": _FLAG},
    ("POST", "subject"): {"normalize": _FLAG, **_DELETED, **_FORMAT},
    ("POST", "versions"): {"normalize": _FLAG, "force": _FLAG, **_FORMAT},
    ("DELETE", "mode"): {"recursive": _FLAG},
    ("DELETE", "subject"): {"permanent": _FLAG},
    ("DELETE", "version"): {"permanent": _FLAG},
}
"""What may be asked, by method and the last word of the path or what it names."""
_KEYS: Final = {"key": _array(TEXT), "value": _array(TEXT), **_DELETED}
_BY_ID: Final = {"subject": TEXT, **_DELETED, **_PAGE}


def confluent_paths(model: Model, *, mutable: bool) -> JSONObject:
    """Return all paths if the ``model`` has schemas, without OPTIONS and HEAD."""
    groups = model.groups.get("schemagroups")
    kind = groups.resources.get("schemas") if groups is not None else None
    if kind is None or not kind.hasdocument:
        return {}
    return {_path(words): _item(words, methods, mutable=mutable) for words, methods in ROUTES.items()}


def _path(words: tuple[str, ...]) -> str:
    return "/".join((MOUNTS[0], *(f"{{{name}}}" if word == "{}" else word for word, name in _named(words))))


def _named(words: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the words of a path, each with the name of its parameter, or the word itself."""
    found = [_NAMES.get(words[n - 1], "name") if word == "{}" else word for n, word in enumerate(words)]
    if found[-2:] == ["resource", "name"]:
        found[-2] = "namespace"
    return list(zip(words, found, strict=True))


def _item(words: tuple[str, ...], methods: dict[str, Operation], *, mutable: bool) -> JSONObject:
    ids = [name for word, name in _named(words) if word == "{}"]
    item: JSONObject = {"parameters": [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in ids]}
    for method, operation in methods.items():
        if mutable or isinstance(operation, Read):
            item[method.lower()] = _operation(words, method)
    return item


def _operation(words: tuple[str, ...], method: str) -> JSONObject:
    named = "_".join(name.replace(":", "_") for _, name in _named(words)) or "liveness"
    gone = method == "DELETE" and words[0] in ("contexts", "associations")
    answered: JSONObject = {} if gone else {CONTENT_TYPE: {"schema": _answered(words, method)}}
    failed = {CONTENT_TYPE: {"schema": reference(_ERROR)}}
    found: JSONObject = {
        "operationId": f"{method.lower()}_confluent_{named}",
        "tags": ["Confluent-compatible"],
        "parameters": [query(name, {"schema": kind}) for name, kind in _asked(words, method)],
        "responses": {
            ("204" if gone else "200"): response("As clients of Confluent's registry expect it.", content=answered),
            "default": response("What is wrong, by a code.", content=failed),
        },
    }
    if words and method in ("POST", "PUT"):
        body = _BODIES.get("tags" if words[-1] == "tags" else words[0], _BODIES[""])
        found["requestBody"] = {"required": True, "content": {CONTENT_TYPE: {"schema": body}}}
    return found


def _answered(words: tuple[str, ...], method: str) -> JSONObject:
    match words:
        case ("config", *_):
            return reference(_CONFIG)
        case ("mode", *_):
            return reference(_MODE)
        case ("compatibility", *_):
            return _COMPARED
        case ("associations", *_):
            return _array(reference(_ASSOCIATION)) if method == "GET" else reference(_ASSOCIATIONS)
        case ("associations:batchGet" | "associations:batchMutate",):
            return _RESULTS
    return _OTHERWISE[method, words] if (method, words) in _OTHERWISE else _ANSWERS[words]


def _asked(words: tuple[str, ...], method: str) -> Iterator[tuple[str, JSONObject]]:
    match words:
        case ("compatibility", *_):
            found = {"normalize": _FLAG, "verbose": _FLAG}
        case ("subjects", _, "metadata"):
            found = {**_KEYS, **_FORMAT}
        case ("associations", *_) if method == "GET":
            found = {**_CHOICE, "lifecycle": {"enum": [*LIFECYCLES]}, **_PAGE}
        case ("associations", *_) if method == "DELETE":
            found = {**_CHOICE, "cascadeLifecycle": _FLAG, "dryRun": _FLAG}
        case ("associations" | "associations:batchMutate", *_):
            found = {"context": TEXT, "dryRun": _FLAG}
        case ("associations:batchGet",):
            found = {"includeSchemas": _FLAG}
        case ("schemas", "ids", _, "subjects" | "versions"):
            found = _BY_ID
        case ("config" | "mode" as kind, *_):
            found = _QUERIES.get((method, kind), {})
        case _:
            last = words[-1] if words else ""
            found = _QUERIES.get((method, _NAMES[words[-2]] if last == "{}" else last), {})
    yield from found.items()
