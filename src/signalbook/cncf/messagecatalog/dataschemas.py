"""Data Schema objects: which schema the payload has (domain.md C-23, C-24, J-14)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from signalbook.cncf.messagecatalog.templates import has_expressions, is_uri_template
from signalbook.uris import is_uri_reference
from signalbook.values import JSON, Finding, JSONObject

_DRAFT: Final = re.compile(r"https?://json-schema\.org/(draft(?:-0\d|/\d{4}-\d\d))/schema#?", re.ASCII)
_TYPES: Final = {"avro": "Avro", "jsonschema": "JSON", "protobuf": "Protobuf"}
_FORMATS: Final = {"Avro": "Avro/1.11", "Protobuf": "Protobuf/3"}
_JSON_SCHEMA: Final = "JsonSchema/draft-07"
_BY_MEDIA_TYPE: Final = {"avro": "Avro/1.11", "json": _JSON_SCHEMA, "protobuf": "Protobuf/3", "xml": "XSD/1.0"}


def faults(dataschema: JSON, path: str, *, uri: bool = True) -> Iterator[Finding]:
    """What is wrong with a Data Schema object; ``uri`` tells that its value is a reference and no template."""
    if not isinstance(dataschema, dict):
        yield _fault(path, "it needs to be an object with value, schematype or schema")
        return
    value, kind, schema = (dataschema.get(name) for name in ("value", "schematype", "schema"))
    if uri and value not in (None, "") and not (isinstance(value, str) and is_uri_reference(value)):
        yield _fault(f"{path}.value", "it needs to be a URI")
    if kind is not None and not (isinstance(kind, str) and kind):
        yield _fault(f"{path}.schematype", "it needs to be a string")
    if schema is not None and not isinstance(schema, dict | str):
        yield _fault(f"{path}.schema", "it needs to be a JSON object, or a string with the schema")
    if kind in ("Avro", "JSON") and isinstance(schema, str):
        yield _fault(f"{path}.schema", f"a schema of type {kind} needs to be a JSON object")
    if kind == "Protobuf" and isinstance(schema, dict):
        yield _fault(f"{path}.schema", "a schema of type Protobuf needs to be a string")


def project(dataschema: JSONObject, contenttype: JSON) -> JSONObject:
    """A message's attributes for it: one inline wins over one that is only named (C-23).

    ``dataschemaformat`` follows from the type, the schema itself or the content type; what has none is left out.
    """
    schema, value = dataschema.get("schema"), dataschema.get("value")
    found = _format(dataschema.get("schematype"), schema, contenttype)
    if found is None:
        return {}
    if schema is not None:
        return {"dataschemaformat": found, "dataschema": schema}
    if isinstance(value, str) and value and not has_expressions(value) and is_uri_template(value):
        return {"dataschemaformat": found, "dataschemauri": value}
    return {}


def render(message: JSONObject) -> JSONObject:
    """The Data Schema object of a message, empty if it has no schema."""
    found: JSONObject = {}
    value = message.get("dataschemauri") or message.get("dataschemaxid")
    if isinstance(value, str):
        found["value"] = value
    if message.get("dataschemaformat") and (found or "dataschema" in message):
        found["schematype"] = _type(str(message["dataschemaformat"]), message.get("dataschema"))
    if message.get("dataschema") is not None:
        found["schema"] = message["dataschema"]
    return found


def _format(kind: JSON, schema: JSON, contenttype: JSON) -> str | None:
    if kind == "JSON" or (kind is None and isinstance(schema, dict) and "$schema" in schema):
        return _json_schema(schema)
    if isinstance(kind, str):
        return _FORMATS.get(kind) or (kind if "/" in kind else None)
    if isinstance(schema, dict):
        return "Avro/1.11" if schema.get("type") == "record" else _JSON_SCHEMA
    if isinstance(schema, str):
        return "XSD/1.0" if schema.lstrip().startswith("<") else "Protobuf/3"
    return _by_media_type(contenttype)


def _json_schema(schema: JSON) -> str:
    stated = schema.get("$schema") if isinstance(schema, dict) else None
    match = _DRAFT.fullmatch(stated) if isinstance(stated, str) else None
    return f"JsonSchema/{match[1]}" if match else _JSON_SCHEMA


def _by_media_type(contenttype: JSON) -> str | None:
    if not isinstance(contenttype, str):
        return None
    kind = contenttype.partition(";")[0].strip().lower().rpartition("/")[2]
    return next((found for name, found in _BY_MEDIA_TYPE.items() if kind.endswith(name)), None)


def _type(format: str, schema: JSON) -> str:
    """The well-known name, if it leads back to this very format."""
    name = _TYPES.get(format.partition("/")[0].lower(), format)
    return name if _format(name, schema, None) == format else format


def _fault(path: str, message: str) -> Finding:
    return Finding(path=path, rule="dataschema", message=message)
