"""Data contracts of the Open Data Contract Standard 3 as schemas, and as messages that have them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from signalbook.documents.errors import DocumentError, Repair
from signalbook.documents.references import DocumentReader, FreeIds, below, id_of, labelled
from signalbook.values import JSON, JSONObject

_VERSION: Final = re.compile(r"v3\.[0-2]\.[0-9]+", re.ASCII)
_FORMAT: Final = "JsonSchema/draft/2020-12"
_LABELS: Final = ("id", "version", "status", "domain", "tenant", "dataProduct")
_ROOT: Final = frozenset(
    {*_LABELS, "kind", "apiVersion", "name", "schema", "servers", "description", "customProperties"}
)  # fmt: skip
_ELEMENT: Final = frozenset(
    {"id", "name", "businessName", "description", "logicalType", "physicalType", "physicalName", "properties",
     "deprecated"}
)  # fmt: skip
_PROPERTY: Final = _ELEMENT | {
    "logicalTypeOptions", "required", "unique", "primaryKey", "primaryKeyPosition", "examples", "enum", "quality",
    "items", "map",
}  # fmt: skip
_TYPES: Final[dict[str, JSONObject]] = {
    "string": {"type": "string"}, "integer": {"type": "integer"}, "number": {"type": "number"},
    "boolean": {"type": "boolean"}, "object": {"type": "object"}, "array": {"type": "array"},
    "date": {"type": "string", "format": "date"}, "timestamp": {"type": "string", "format": "date-time"},
    "time": {"type": "string", "format": "time"}, "map": {"type": "object"}, "vector": {"type": "array"},
}  # fmt: skip
_OPTIONS: Final = {
    "string": {"minLength", "maxLength", "pattern", "format"},
    "integer": {"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "number": {"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "array": {"minItems", "maxItems", "uniqueItems"}, "object": {"minProperties", "maxProperties", "required"},
    "date": {"format"}, "timestamp": {"format"}, "time": {"format"}, "vector": {"dimensions"},
}  # fmt: skip
# What JSON has dates and times in; another pattern of theirs is other text.
_ISO: Final = {
    "date": {"yyyy-MM-dd"}, "time": {"HH:mm:ss"}, "timestamp": {"yyyy-MM-dd'T'HH:mm:ssXXX", "yyyy-MM-ddTHH:mm:ssZ"},
}  # fmt: skip
_WORD: Final = re.compile(r"[a-z]+", re.ASCII)
_PHYSICAL: Final = {
    **dict.fromkeys(("varchar", "nvarchar", "char", "nchar", "text", "string", "uuid", "clob"), "string"),
    **dict.fromkeys(("int", "integer", "bigint", "smallint", "tinyint", "long", "serial", "bigserial"), "integer"),
    **dict.fromkeys(("decimal", "numeric", "number", "float", "double", "real"), "number"),
    **dict.fromkeys(("timestamp", "timestamptz", "datetime"), "timestamp"),
    **dict.fromkeys(("struct", "record"), "object"),
    "bool": "boolean", "boolean": "boolean", "date": "date", "time": "time", "array": "array", "object": "object",
}  # fmt: skip
_CONTENT_TYPES: Final = {"json": "application/json", "": "application/json"}


def convert_contract(document: JSONObject, *, source: str) -> tuple[JSONObject, tuple[Repair, ...]]:
    """The schemas and messages of a contract, and what was lost or chosen; ``source`` is the file's name.

    Raises ``DocumentError`` with the place (a JSON Pointer) of what is wrong.
    """
    stated = document["apiVersion"]
    if not isinstance(stated, str) or not _VERSION.fullmatch(stated):
        raise DocumentError(f"/apiVersion: v3.0.0 to v3.2.0 of the standard are read, not {stated!r}")
    reader = DocumentReader(document=document, family="DC")
    made = _Contract(reader).made()
    repairs = tuple(dict.fromkeys(reader.repairs))
    return labelled(made, repairs, source), repairs


class _Contract:
    def __init__(self, reader: DocumentReader) -> None:
        self._reader = reader
        document = reader.document
        named = reader.text(document, "name", "") or reader.text(document, "id", "")
        self._group = id_of(named, "contract")
        self._servers = self._kafka_servers()

    def made(self) -> JSONObject:
        """The document."""
        reader, schemas, messages = self._reader, dict[str, Any](), dict[str, Any]()
        # A contract that was generated of definitions says what these land as: they stay what they are.
        group, ids = self._group, FreeIds()
        generated = "/messagegroups/" in _custom(reader.document, "xid")
        schema_group = f"{group}.tables" if generated else group
        for value, path in reader.items(reader.document, "schema", ""):
            body = reader.object(value, path)
            wanted = _required_name(reader, body, path)
            name = ids.free(wanted, "schema")
            if name != wanted:
                reader.report(path, f"its id is {name}, for {wanted}", 5)
            schemas[name] = self._schema(body, path)
            if generated or _custom(body, "xid"):
                reader.report(path, f"no message is made: {_custom(body, 'xid')} is what it was generated of", 7)
            else:
                messages[name] = self._message(body, path, f"/schemagroups/{schema_group}/schemas/{name}")
        if not schemas:
            raise DocumentError("/schema: it has none, and so nothing to make definitions of")
        about = self._about()
        made: JSONObject = {"schemagroups": {schema_group: {**about, "schemas": schemas}}}
        if messages:
            made["messagegroups"] = {group: {**about, "messages": messages}}
            made |= self._endpoints(messages)
        reader.leave_out(reader.document, _ROOT, "")
        reader.report_noted()
        return made

    def _about(self) -> JSONObject:
        """Name, description and labels of the groups."""
        document = self._reader.document
        found: JSONObject = {"name": name} if (name := self._reader.text(document, "name", "")) else {}
        description = document.get("description")
        if isinstance(description, dict):
            self._reader.note_left_out(description, frozenset({"purpose", "usage", "limitations"}), "/description")
            parts = [description.get(each) for each in ("purpose", "usage", "limitations")]
            description = "\n\n".join(each for each in parts if isinstance(each, str))
        found |= {"description": description} if isinstance(description, str) and description else {}
        said = {f"odcs.{each.lower()}": str(document[each]) for each in _LABELS if document.get(each) is not None}
        custom = [each for each, _ in self._reader.items(document, "customProperties", "")]
        if any(not isinstance(each, dict) or each.get("property") != "xid" for each in custom):
            self._reader.note("/customProperties", "left out customProperties", 2)
        return {**found, "labels": {name: text for name, text in said.items() if text}}

    def _kafka_servers(self) -> list[tuple[JSONObject, str]]:
        reader, found = self._reader, list[tuple[JSONObject, str]]()
        for value, path in reader.items(reader.document, "servers", ""):
            server = reader.object(value, path)
            kind = reader.text(server, "type", path)
            if kind.lower() == "kafka" and reader.text(server, "host", path):
                found.append((server, path))
            else:
                reader.report(path, f"left out a server of type {kind!r}: no messages are sent there", 2)
        return found

    def _message(self, body: JSONObject, path: str, schema: str) -> JSONObject:
        """A message with this schema; what a topic has is one of Kafka."""
        reader = self._reader
        made = {
            "name": reader.text(body, "businessName", path),
            "description": reader.text(body, "description", path),
        }
        made = {name: text for name, text in made.items() if text}
        found: JSONObject = {**made, "dataschemaformat": _FORMAT, "dataschemauri": schema}
        if not self._is_topic(body, path):
            return {**found, "datacontenttype": "application/json"}
        topic = reader.text(body, "physicalName", path) or reader.text(body, "name", path)
        found |= {"protocol": "KAFKA", "protocoloptions": {"topic": topic}}
        formats = {reader.text(server, "format", place).lower() for server, place in self._servers}
        if formats <= _CONTENT_TYPES.keys():
            return {**found, "datacontenttype": "application/json"}
        other = ", ".join(sorted(formats - _CONTENT_TYPES.keys()))
        reader.report(path, f"the message has no schema: it is in {other}, and the contract has none for that", 6)
        return {name: value for name, value in found.items() if not name.startswith("dataschema")}

    def _is_topic(self, body: JSONObject, path: str) -> bool:
        return bool(self._servers) and self._reader.text(body, "physicalType", path).lower() in ("topic", "")

    def _endpoints(self, messages: JSONObject) -> JSONObject:
        """An endpoint for each server of Kafka, to read from."""
        topics = [each["protocoloptions"]["topic"] for each in messages.values() if "protocoloptions" in each]
        ids, made = FreeIds(), dict[str, Any]()
        for server, path in self._servers:
            hosts = [each.strip() for each in self._reader.text(server, "host", path).split(",") if each.strip()]
            options: JSONObject = {"endpoints": [{"bootstrap.servers": hosts}]}
            options |= {"topic": topics[0]} if len(topics) == 1 else {}
            self._reader.note_left_out(server, frozenset({"server", "type", "host", "format", "description"}), path)
            name = ids.free(f"{self._group}-{self._reader.text(server, 'server', path) or 'kafka'}", "kafka")
            made[name] = {
                "usage": ["subscriber"], "protocol": "KAFKA", "protocoloptions": options,
                "messagegroups": [f"/messagegroups/{self._group}"],
            }  # fmt: skip
        return {"endpoints": made} if made and topics else {}

    def _schema(self, body: JSONObject, path: str) -> JSONObject:
        """The schema of a schema object; keys and what is unique are labels: they are about several rows."""
        self._reader.note_left_out(body, _ELEMENT | {"customProperties"}, path)
        document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **self._described(body, path)}
        document |= {"type": "object", **self._members(body, path)}
        labels: JSONObject = {}
        for label, wanted in (("odcs.primarykey", "primaryKey"), ("odcs.unique", "unique")):
            keys = [each for each, _ in self._properties(body, path) if each.get(wanted) is True]
            if wanted == "primaryKey":
                keys.sort(key=_position)
            labels |= {label: ", ".join(str(each["name"]) for each in keys)} if keys else {}
        return {"format": _FORMAT, **({"labels": labels} if labels else {}), "schema": document}

    def _properties(self, body: JSONObject, path: str) -> Iterator[tuple[JSONObject, str]]:
        for value, place in self._reader.items(body, "properties", path):
            yield self._reader.object(value, place), place

    def _members(self, body: JSONObject, path: str) -> JSONObject:
        """``properties`` and ``required``."""
        properties: JSONObject = {}
        required: list[str] = []
        for each, place in self._properties(body, path):
            name = _required_name(self._reader, each, place)
            if name in properties:
                raise DocumentError(f"{place}/name: there are two properties called {name!r}")
            if not_null := _is_required(each):
                required.append(name)
            properties[name] = self._type(each, place, not_null=not_null)
        found: JSONObject = {"properties": properties} if properties else {}
        return found | ({"required": required} if required else {})

    def _described(self, body: JSONObject, path: str) -> JSONObject:
        text = self._reader.text
        said: JSONObject = {"title": text(body, "businessName", path), "description": text(body, "description", path)}
        said = {name: value for name, value in said.items() if value}
        return said | ({"deprecated": True} if body.get("deprecated") is True else {})

    def _type(self, body: JSONObject, path: str, *, not_null: bool) -> JSONObject:
        """The schema of a property; without ``required`` it may be null, as the standard has it."""
        self._reader.note_left_out(body, _PROPERTY, path)
        kind = self._logical_type(body, path)
        made = {**self._described(body, path), **_TYPES.get(kind, {})}
        made = {name: value for name, value in (made | self._options(body, path, kind)).items() if value is not None}
        if kind == "object":
            inner = self._members(body, path)
            names = self._reader.items(made, "required", below(path, "logicalTypeOptions"))
            listed = [*inner.get("required", ()), *(each for each, _ in names if isinstance(each, str))]
            made.pop("required", None)
            made |= {**inner, **({"required": list(dict.fromkeys(listed))} if listed else {})}
        elif kind == "array" and body.get("items") is not None:
            item = self._reader.object(body["items"], below(path, "items"))
            # Null is one of its values only where something says so.
            made["items"] = self._type(item, below(path, "items"), not_null=item.get("required") is not False)
        elif kind == "map":
            made["additionalProperties"] = self._map_value(body, path)
        elif kind == "vector":
            made["items"] = {"type": "number"}
        if isinstance(body.get("examples"), list):
            made["examples"] = body["examples"]
        made |= self._values(body, path)
        return made if not_null else _with_null(made)

    def _logical_type(self, body: JSONObject, path: str) -> str:
        """Return the stated logical type, else one by the physical type."""
        stated, physical = (self._reader.text(body, name, path) for name in ("logicalType", "physicalType"))
        if stated and stated not in _TYPES:
            raise DocumentError(f"{below(path, 'logicalType')}: {stated!r} is no type of the standard")
        if stated or not physical:
            return stated
        word = _WORD.match(physical.lower())
        found = _PHYSICAL.get(word[0], "") if word else ""
        self._reader.note(path, f"took {physical} for {found or 'a value of any type'}: no logicalType is stated", 7)
        return found

    def _options(self, body: JSONObject, path: str, kind: str) -> JSONObject:
        place = below(path, "logicalTypeOptions")
        given = dict(self._reader.object(body.get("logicalTypeOptions"), place))
        known = _OPTIONS.get(kind, set())
        self._reader.note_left_out(given, frozenset(known), place)
        found = {name: value for name, value in given.items() if name in known}
        if kind in _ISO and "format" in found:
            stated = found.pop("format")
            if str(stated) not in _ISO[kind]:
                self._reader.note(place, f"left out the format {stated}: the value is taken for any text", 2)
                found["format"] = None
        for limit, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(found.get(limit), bool):  # as 3.0 has it
                exclusive = found.pop(limit)
                found |= {limit: found.pop(bound)} if exclusive and bound in found else {}
        if (size := found.pop("dimensions", None)) is not None:
            found |= {"minItems": size, "maxItems": size}
        return found

    def _map_value(self, body: JSONObject, path: str) -> JSON:
        place = below(path, "map")
        pair = self._reader.object(body.get("map"), place)
        key = self._reader.object(pair.get("key"), below(place, "key"))
        if key.get("logicalType", "string") != "string" or key.get("logicalTypeOptions"):
            self._reader.note(below(place, "key"), "left out the type of its keys: names of members are text", 2)
        value = self._reader.object(pair.get("value"), below(place, "value"))
        return self._type(value, below(place, "value"), not_null=value.get("required") is not False) if value else True

    def _values(self, body: JSONObject, path: str) -> JSONObject:
        """The values there are: ``enum``, and rules of quality that no row may break."""
        found: JSONObject = {}
        if "enum" in body:
            listed = [self._reader.object(*each).get("value") for each in self._reader.items(body, "enum", path)]
            found["enum"] = listed
        for value, place in self._reader.items(body, "quality", path):
            rule = self._reader.object(value, place)
            arguments = rule.get("arguments") if isinstance(rule.get("arguments"), dict) else {}
            if rule.get("mustBe") == 0 and rule.get("metric") == "invalidValues" and arguments:
                valid, pattern = arguments.get("validValues"), arguments.get("pattern")
                found |= {"enum": valid} if isinstance(valid, list) else {}
                found |= {"pattern": pattern} if isinstance(pattern, str) else {}
            elif not _forbids_null(rule):
                kind = rule.get("metric") or rule.get("type") or "quality"
                self._reader.note(place, f"left out a rule of quality ({kind})", 2)
        return found


def _required_name(reader: DocumentReader, body: JSONObject, path: str) -> str:
    name = reader.text(body, "name", path)
    if not name:
        raise DocumentError(f"{path}: it has no name")
    return name


def _position(body: JSONObject) -> int:
    position = body.get("primaryKeyPosition")
    return position if isinstance(position, int) else 0


def _custom(body: JSONObject, name: str) -> str:
    """A custom property that is text, empty if it is not there."""
    listed = body.get("customProperties")
    pairs = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    found = next((each.get("value") for each in pairs if each.get("property") == name), "")
    return found if isinstance(found, str) else ""


def _is_required(body: JSONObject) -> bool:
    rules = body.get("quality")
    listed = rules if isinstance(rules, list) else []
    return body.get("required") is True or any(_forbids_null(each) for each in listed if isinstance(each, dict))


def _forbids_null(rule: JSONObject) -> bool:
    return rule.get("metric") == "nullValues" and rule.get("mustBe") == 0


def _with_null(schema: JSONObject) -> JSONObject:
    """The same, or null."""
    kind = schema.get("type")
    made = {**schema, "type": [kind, "null"]} if isinstance(kind, str) else dict(schema)
    if isinstance(enum := made.get("enum"), list) and None not in enum:
        made["enum"] = [*enum, None]
    return made
