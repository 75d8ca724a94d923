"""Convert services of the CloudEvents discovery draft 0.1 to groups of messages, with endpoints for subscribing.

A document is one service, a list of services as ``GET /services`` returns it, or an object with ``services``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from signalbook.documents.asyncapi.schemas import find_registry_format, text_type
from signalbook.documents.errors import DocumentError, Repair
from signalbook.documents.references import DocumentReader, FreeIds, add_labels, below
from signalbook.values import JSON, JSONError, JSONObject, parse_json

_CLOUDEVENTS: Final = "CloudEvents/1.0"
_SERVICE: Final = frozenset(
    {"id", "epoch", "name", "url", "description", "docsurl", "specversions", "subscriptionurl", "authscope",
     "protocols", "events", "types"}
)  # fmt: skip
_EVENT: Final = frozenset(
    {"type", "description", "datacontenttype", "dataschema", "dataschematype", "dataschemacontent", "sourcetemplate",
     "extensions"}
)  # fmt: skip
_ATTRIBUTE_TYPES: Final = {
    "string": "string", "boolean": "boolean", "integer": "integer", "binary": "binary", "uri": "uri",
    "uri-reference": "urireference", "urireference": "urireference", "timestamp": "timestamp",
}  # fmt: skip
_SCHEMA_FORMATS: Final = {
    "application/json": "JsonSchema/draft-07", "application/schema+json": "JsonSchema/draft-07",
    "application/avro": "Avro/1.11", "avro/binary": "Avro/1.11", "application/protobuf": "Protobuf",
    "application/x-protobuf": "Protobuf", "application/xml": "XSD", "text/xml": "XSD",
}  # fmt: skip


def convert_discovery(document: JSON, *, source: str) -> tuple[JSONObject, tuple[Repair, ...]]:
    """Return the groups and endpoints of the services, and a list of what was lost or chosen.

    ``source`` is the name of the file. Raises ``DocumentError`` with the place (a JSON Pointer) of a mistake.
    """
    reader = DocumentReader(document=document if isinstance(document, dict) else {"services": document}, family="DS")
    groups: JSONObject = {}
    endpoints: JSONObject = {}
    ids = FreeIds()
    for body, path in _iterate_services(reader, prefix="" if isinstance(document, dict) else "/services"):
        name = _assign_id(reader, ids, reader.text(body, "name", path) or reader.text(body, "id", path), path)
        groups[name] = _build_group(reader, body, path)
        endpoints |= _build_endpoint(reader, body, path, name)
    if not any(group["messages"] for group in groups.values()):
        raise DocumentError("its services have no events, and so nothing to make definitions of")
    reader.report_noted()
    repairs = tuple(dict.fromkeys(reader.repairs))
    definitions = {"messagegroups": groups, **({"endpoints": endpoints} if endpoints else {})}
    return add_labels(definitions, repairs, source), repairs


def _iterate_services(reader: DocumentReader, *, prefix: str) -> Iterator[tuple[JSONObject, str]]:
    if "services" not in reader.document:
        yield reader.document, ""
        return
    for value, path in reader.items(reader.document, "services", ""):
        # A list of services has no name of its own.
        yield reader.object(value, path), path.removeprefix(prefix)


def _assign_id(reader: DocumentReader, ids: FreeIds, requested_id: str, path: str) -> str:
    if not requested_id:
        raise DocumentError(f"{path}: it has no name")
    name = ids.take_id(requested_id, "service")
    if name != requested_id:
        reader.report(path, f"its id is {name}, for {requested_id}", 5)
    return name


def _build_group(reader: DocumentReader, body: JSONObject, path: str) -> JSONObject:
    reader.note_left_out(body, _SERVICE, path)
    versions = [value for value, _ in reader.items(body, "specversions", path)]
    if versions and "1.0" not in versions:
        reader.report(below(path, "specversions"), f"took its events for those of 1.0, not {versions}", 7)
    ids, messages = FreeIds(), dict[str, Any]()
    # The first texts of the draft call them types.
    for section in ("events", "types"):
        for value, place in reader.items(body, section, path):
            event = reader.object(value, place)
            messages[_assign_id(reader, ids, reader.text(event, "type", place), place)] = _build_message(
                reader, event, place
            )
    texts = {name: str(body[name]) for name in ("id", "authscope") if isinstance(body.get(name), str) and body[name]}
    listed = [str(value) for value, _ in reader.items(body, "protocols", path)]
    labels = {f"discovery.{name}": text for name, text in texts.items()}
    labels |= {"discovery.protocols": ", ".join(listed)} if listed else {}
    about = {**body, "externalDocs": {"url": body.get("docsurl")}}
    described = reader.describe(about, path, name="name")
    return {**described, "labels": labels, "envelope": _CLOUDEVENTS, "messages": messages}


def _build_endpoint(reader: DocumentReader, body: JSONObject, path: str, name: str) -> JSONObject:
    """Return the endpoint for subscribing. It is HTTP whatever protocol the events use."""
    url = reader.text(body, "subscriptionurl", path)
    if not url:
        return {}
    return {
        name: {
            "usage": ["subscriber"], "protocol": "HTTP", "protocoloptions": {"endpoints": [{"uri": url}]},
            "messagegroups": [f"/messagegroups/{name}"], "envelope": _CLOUDEVENTS,
        }
    }  # fmt: skip


def _build_message(reader: DocumentReader, body: JSONObject, path: str) -> JSONObject:
    reader.note_left_out(body, _EVENT, path)
    metadata: JSONObject = {"type": {"value": reader.text(body, "type", path)}}
    if template := reader.text(body, "sourcetemplate", path):
        metadata["source"] = {"type": "uritemplate", "value": template}
    if uri := reader.text(body, "dataschema", path):
        metadata["dataschema"] = {"value": uri}
        reader.note(below(path, "dataschema"), "the schema is elsewhere, and was not fetched", 1)
    metadata |= dict(_read_extensions(reader, body, path))
    definition: JSONObject = {"envelope": _CLOUDEVENTS, "envelopemetadata": metadata}
    for name in ("description", "datacontenttype"):
        definition |= {name: text} if (text := reader.text(body, name, path)) else {}
    return definition | _read_schema(reader, body, path)


def _read_extensions(reader: DocumentReader, body: JSONObject, path: str) -> Iterator[tuple[str, JSONObject]]:
    for value, place in reader.items(body, "extensions", path):
        extension = reader.object(value, place)
        reader.note_left_out(extension, frozenset({"name", "type", "specurl"}), place)
        stated = reader.text(extension, "type", place)
        kind = _ATTRIBUTE_TYPES.get(stated.lower())
        if stated and kind is None:
            reader.report(below(place, "type"), f"left out: {stated!r} is no type of CloudEvents", 2)
        url = reader.text(extension, "specurl", place)
        name = reader.text(extension, "name", place)
        if not name:
            raise DocumentError(f"{place}: it has no name")
        yield name, {**({"type": kind} if kind else {}), **({"specurl": url} if url else {})}


def _read_schema(reader: DocumentReader, body: JSONObject, path: str) -> JSONObject:
    text = reader.text(body, "dataschemacontent", path)
    if not text:
        return {}
    stated = reader.text(body, "dataschematype", path) or reader.text(body, "datacontenttype", path)
    bare = stated.partition(";")[0].strip().lower()
    kind = find_registry_format(stated) or _SCHEMA_FORMATS.get(bare, "")
    place = below(path, "dataschemacontent")
    if not kind:
        reader.report(place, f"left out its schema: schemas in {stated or 'no stated type'} are not read", 6)
        return {}
    if text_type(kind):
        return {"dataschemaformat": kind, "dataschema": text}
    try:
        return {"dataschemaformat": kind, "dataschema": parse_json(text)}
    except JSONError as error:
        raise DocumentError(f"{place}: a schema in {kind} is JSON: {error}") from None
