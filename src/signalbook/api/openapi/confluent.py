"""The paths of the Confluent-compatible API, made from its routes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from signalbook.api.confluent.requests import CONTENT_TYPE
from signalbook.api.confluent.routes import MOUNTS, ROUTES, Operation, Read
from signalbook.api.openapi.components import TEXT, array_of, complete_object, object_of, query, reference, response
from signalbook.confluent.associations import LIFECYCLES, TOPIC, TYPES
from signalbook.confluent.settings import CONFIG_FIELDS, LEVELS, MODES
from signalbook.model import Model
from signalbook.values import JSONObject

_PARAMETER_NAMES: Final = {
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


def _build_object_schema(required: str = "", /, **properties: JSONObject) -> JSONObject:
    schema: JSONObject = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required.split()} if required else schema


_SCHEMA: Final = "Confluent.Schema"
_ASSOCIATION: Final = "Confluent.Association"
_ASSOCIATIONS: Final = "Confluent.Associations"
_CONFIG: Final = "Confluent.Config"
_MODE: Final = "Confluent.Mode"
_ERROR: Final = "Confluent.Error"
_PLACE: Final = _build_object_schema("subject version", subject=TEXT, version=_POSITIVE)
_REFERENCE: Final = _build_object_schema("name subject version", name=TEXT, subject=TEXT, version=_NUMBER)
_CONTENT: Final[JSONObject] = {
    "schemaType": {"enum": ["AVRO", "JSON", "PROTOBUF", None]},
    "references": {**array_of(_REFERENCE), "type": ["array", "null"]},
    "metadata": _OBJECT_OR_NULL,
    "ruleSet": _RULES,
}
_ENTITY: Final = _build_object_schema(
    "entityPath entityType", entityPath=TEXT, entityType={"enum": ["sr_record", "sr_field"]}
)
_TAGS: Final = array_of(_build_object_schema("schemaEntity", schemaEntity=_ENTITY, tags=array_of(TEXT)))
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
_RESULT: Final = _build_object_schema(result=reference(_ASSOCIATIONS), error=reference(_ERROR))
_RESULTS: Final = _build_object_schema("results", results=array_of(_RESULT))
_BATCH: Final = complete_object({"requests": array_of(_OBJECT)})
_WANTED: Final = object_of(
    {**_RESOURCE, "associations": {**array_of(_OBJECT), "minItems": 1, "maxItems": len(TYPES)}},
    *("resourceName", "resourceNamespace", "associations"),
)


def confluent_schemas() -> JSONObject:
    """Return the components that the paths refer to."""
    numbers = {"version": _POSITIVE, "id": _POSITIVE, "maxId": _NUMBER, "ts": _NUMBER}
    texts = {"subject": TEXT, "guid": {"type": "string", "format": "uuid"}, "schema": TEXT, "deleted": _FLAG}
    beside = {"schemaTags": _TAGS, "associations": array_of(reference(_ASSOCIATION))}
    return {
        _SCHEMA: _build_object_schema("schemaType guid", **texts, **numbers, **_CONTENT, **beside),
        _CONFIG: _build_object_schema(compatibilityLevel=_LEVEL, compatibility=_LEVEL, **_SETTINGS),
        _MODE: _build_object_schema(mode={"enum": [*MODES]}),
        _ASSOCIATION: _build_object_schema("subject associationType lifecycle", **_INFO, **_RESOURCE, **_TIMES),
        _ASSOCIATIONS: _build_object_schema(associations=array_of(_build_object_schema(**_INFO)), **_RESOURCE),
        _ERROR: _build_object_schema("error_code message", error_code=_NUMBER, message=TEXT),
    }


_S, _V = ("subjects", "{}"), ("subjects", "{}", "versions", "{}")
_DOCUMENT: Final[JSONObject] = {}
"""The response schema for the text of a schema, of any type."""
_METADATA: Final = {
    "id": _build_object_schema("id scope", id=TEXT, scope=_OBJECT),
    "version": _build_object_schema("version commitId", version=TEXT, commitId=TEXT),
    "deployment": _build_object_schema("attributes", attributes=array_of(TEXT)),
}
_ANSWERS: Final[dict[tuple[str, ...], JSONObject]] = {
    (): _build_object_schema(),
    ("contexts",): array_of(TEXT),
    ("subjects",): array_of(TEXT),
    _S: reference(_SCHEMA),
    (*_S, "versions"): array_of(_NUMBER),
    _V: reference(_SCHEMA),
    (*_V, "schema"): _DOCUMENT,
    (*_V, "referencedby"): array_of(_POSITIVE),
    (*_S, "metadata"): reference(_SCHEMA),
    ("schemas",): array_of(reference(_SCHEMA)),
    ("schemas", "types"): array_of({"enum": ["JSON", "PROTOBUF", "AVRO"]}),
    ("schemas", "ids", "{}"): reference(_SCHEMA),
    ("schemas", "ids", "{}", "schema"): _DOCUMENT,
    ("schemas", "ids", "{}", "subjects"): array_of(TEXT),
    ("schemas", "ids", "{}", "versions"): array_of(_PLACE),
    ("schemas", "guids", "{}"): reference(_SCHEMA),
    ("schemas", "guids", "{}", "ids"): array_of(_build_object_schema("context id", context=TEXT, id=_POSITIVE)),
    **{("v1", "metadata", name): shown for name, shown in _METADATA.items()},
}
"""The responses by path. POST and DELETE may have different responses."""
_OTHERWISE: Final[dict[tuple[str, tuple[str, ...]], JSONObject]] = {
    ("POST", (*_S, "versions")): reference(_SCHEMA),
    ("POST", (*_V, "tags")): reference(_SCHEMA),
    ("DELETE", _S): array_of(_POSITIVE),
    ("DELETE", _V): _POSITIVE,
}
_COMPARED: Final = _build_object_schema("is_compatible", is_compatible=_FLAG, messages=array_of(TEXT))
_SET: Final[dict[str, JSONObject]] = {"compatibility": _LEVEL, "compatibilityLevel": _LEVEL, **_SETTINGS}
_BODIES: Final[dict[str, JSONObject]] = {
    # null takes a setting away
    "config": _build_object_schema(**{name: {"anyOf": [kind, {"type": "null"}]} for name, kind in _SET.items()}),
    "mode": _build_object_schema(mode={"enum": [*MODES, None]}),
    "associations": _WANTED,
    "associations:batchGet": _BATCH,
    "associations:batchMutate": _BATCH,
    # any object is valid, because the response says what is wrong with a schema
    "compatibility": _OBJECT,
    "tags": _build_object_schema(
        tagsToAdd=_TAGS, tagsToRemove=_TAGS, newVersion=_NUMBER, metadata=_OBJECT, ruleSet=_RULES
    ),
    # with metadata or rules alone, the schema is that of the latest version
    "": {
        **_build_object_schema(
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
_CHOICE: Final = {"resourceType": {"enum": [TOPIC]}, "associationType": array_of({"enum": [*TYPES]})}
_SHOWN: Final[dict[str, JSONObject]] = {
    "referenceFormat": {"type": "string", "enum": ["", "qualified"]},
    "findTags": array_of(TEXT),
    **_FORMAT,
}
_QUERIES: Final[dict[tuple[str, str], dict[str, JSONObject]]] = {
    ("GET", "contexts"): {"contextPrefix": TEXT, **_PAGE},
    ("GET", "subjects"): {"subjectPrefix": TEXT, "deletedOnly": _FLAG, **_DELETED, **_PAGE},
    ("GET", "schemas"): {
        "subjectPrefix": TEXT,
        "latestOnly": _FLAG,
        "ruleType": TEXT,
        "lifecycle": array_of({"enum": [*LIFECYCLES, "NONE"]}),
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
"""The query parameters, by method and the last word of the path or the name of its parameter."""
_KEYS: Final = {"key": array_of(TEXT), "value": array_of(TEXT), **_DELETED}
_BY_ID: Final = {"subject": TEXT, **_DELETED, **_PAGE}


def confluent_paths(model: Model, *, mutable: bool) -> JSONObject:
    """Return all paths if the ``model`` has schemas, without OPTIONS and HEAD."""
    groups = model.groups.get("schemagroups")
    kind = groups.resources.get("schemas") if groups is not None else None
    if kind is None or not kind.hasdocument:
        return {}
    return {_build_path(words): _build_path_item(words, methods, mutable=mutable) for words, methods in ROUTES.items()}


def _build_path(words: tuple[str, ...]) -> str:
    return "/".join(
        (MOUNTS[0], *(f"{{{name}}}" if word == "{}" else word for word, name in _assign_parameter_names(words)))
    )


def _assign_parameter_names(words: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the words of a path, each with the name of its parameter, or the word itself."""
    names = [_PARAMETER_NAMES.get(words[n - 1], "name") if word == "{}" else word for n, word in enumerate(words)]
    if names[-2:] == ["resource", "name"]:
        names[-2] = "namespace"
    return list(zip(words, names, strict=True))


def _build_path_item(words: tuple[str, ...], methods: dict[str, Operation], *, mutable: bool) -> JSONObject:
    ids = [name for word, name in _assign_parameter_names(words) if word == "{}"]
    item: JSONObject = {"parameters": [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in ids]}
    for method, operation in methods.items():
        if mutable or isinstance(operation, Read):
            item[method.lower()] = _build_operation(words, method)
    return item


def _build_operation(words: tuple[str, ...], method: str) -> JSONObject:
    path_name = "_".join(name.replace(":", "_") for _, name in _assign_parameter_names(words)) or "liveness"
    gone = method == "DELETE" and words[0] in ("contexts", "associations")
    content: JSONObject = {} if gone else {CONTENT_TYPE: {"schema": _choose_answer_schema(words, method)}}
    failed = {CONTENT_TYPE: {"schema": reference(_ERROR)}}
    operation: JSONObject = {
        "operationId": f"{method.lower()}_confluent_{path_name}",
        "tags": ["Confluent-compatible"],
        "parameters": [query(name, {"schema": kind}) for name, kind in _list_parameters(words, method)],
        "responses": {
            ("204" if gone else "200"): response("As clients of Confluent's registry expect it.", content=content),
            "default": response("What is wrong, by a code.", content=failed),
        },
    }
    if words and method in ("POST", "PUT"):
        body = _BODIES.get("tags" if words[-1] == "tags" else words[0], _BODIES[""])
        operation["requestBody"] = {"required": True, "content": {CONTENT_TYPE: {"schema": body}}}
    return operation


def _choose_answer_schema(words: tuple[str, ...], method: str) -> JSONObject:
    match words:
        case ("config", *_):
            return reference(_CONFIG)
        case ("mode", *_):
            return reference(_MODE)
        case ("compatibility", *_):
            return _COMPARED
        case ("associations", *_):
            return array_of(reference(_ASSOCIATION)) if method == "GET" else reference(_ASSOCIATIONS)
        case ("associations:batchGet" | "associations:batchMutate",):
            return _RESULTS
    return _OTHERWISE[method, words] if (method, words) in _OTHERWISE else _ANSWERS[words]


def _list_parameters(words: tuple[str, ...], method: str) -> Iterator[tuple[str, JSONObject]]:
    match words:
        case ("compatibility", *_):
            parameters = {"normalize": _FLAG, "verbose": _FLAG}
        case ("subjects", _, "metadata"):
            parameters = {**_KEYS, **_FORMAT}
        case ("associations", *_) if method == "GET":
            parameters = {**_CHOICE, "lifecycle": {"enum": [*LIFECYCLES]}, **_PAGE}
        case ("associations", *_) if method == "DELETE":
            parameters = {**_CHOICE, "cascadeLifecycle": _FLAG, "dryRun": _FLAG}
        case ("associations" | "associations:batchMutate", *_):
            parameters = {"context": TEXT, "dryRun": _FLAG}
        case ("associations:batchGet",):
            parameters = {"includeSchemas": _FLAG}
        case ("schemas", "ids", _, "subjects" | "versions"):
            parameters = _BY_ID
        case ("config" | "mode" as kind, *_):
            parameters = _QUERIES.get((method, kind), {})
        case _:
            last = words[-1] if words else ""
            parameters = _QUERIES.get((method, _PARAMETER_NAMES[words[-2]] if last == "{}" else last), {})
    yield from parameters.items()
