"""Convert data contracts (Open Data Contract Standard 3) to schemas, and to messages with these schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from signalbook.documents.errors import DocumentError, Repair
from signalbook.documents.references import DocumentReader, FreeIds, add_labels, below, id_of
from signalbook.values import JSON, JSONObject

_SUPPORTED_VERSION: Final = re.compile(r"v3\.[0-2]\.[0-9]+", re.ASCII)
_SCHEMA_FORMAT: Final = "JsonSchema/draft/2020-12"
_LABELS: Final = ("id", "version", "status", "domain", "tenant", "dataProduct")
_ROOT_MEMBERS: Final = frozenset(
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
_JSON_TYPES: Final[dict[str, JSONObject]] = {
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
# The patterns of dates and times that JSON Schema has formats for. Values with other patterns are plain text.
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
    """Return the schemas and messages of a contract, and a list of what was lost or chosen.

    ``source`` is the name of the file. Raises ``DocumentError`` with the place (a JSON Pointer) of a mistake.
    """
    stated = document["apiVersion"]
    if not isinstance(stated, str) or not _SUPPORTED_VERSION.fullmatch(stated):
        raise DocumentError(f"/apiVersion: v3.0.0 to v3.2.0 of the standard are read, not {stated!r}")
    reader = DocumentReader(document=document, family="DC")
    definitions = _Contract(reader).convert()
    repairs = tuple(dict.fromkeys(reader.repairs))
    return add_labels(definitions, repairs, source), repairs


class _Contract:
    def __init__(self, reader: DocumentReader) -> None:
        self._reader = reader
        document = reader.document
        title = reader.text(document, "name", "") or reader.text(document, "id", "")
        self._group = id_of(title, "contract")
        self._servers = self._find_kafka_servers()

    def convert(self) -> JSONObject:
        """Return the registry document."""
        reader, schemas, messages = self._reader, dict[str, Any](), dict[str, Any]()
        # A contract that was generated from definitions describes their tables; the definitions already exist.
        group, ids = self._group, FreeIds()
        generated = "/messagegroups/" in _find_custom_property(reader.document, "xid")
        schema_group = f"{group}.tables" if generated else group
        for value, path in reader.items(reader.document, "schema", ""):
            body = reader.object(value, path)
            requested_id = _require_name(reader, body, path)
            name = ids.take_id(requested_id, "schema")
            if name != requested_id:
                reader.report(path, f"its id is {name}, for {requested_id}", 5)
            schemas[name] = self._build_schema(body, path)
            if generated or _find_custom_property(body, "xid"):
                reader.report(
                    path, f"no message is made: {_find_custom_property(body, 'xid')} is what it was generated of", 7
                )
            else:
                messages[name] = self._build_message(body, path, f"/schemagroups/{schema_group}/schemas/{name}")
        if not schemas:
            raise DocumentError("/schema: it has none, and so nothing to make definitions of")
        about = self._describe_group()
        registry: JSONObject = {"schemagroups": {schema_group: {**about, "schemas": schemas}}}
        if messages:
            registry["messagegroups"] = {group: {**about, "messages": messages}}
            registry |= self._build_endpoints(messages)
        reader.leave_out(reader.document, _ROOT_MEMBERS, "")
        reader.report_noted()
        return registry

    def _describe_group(self) -> JSONObject:
        """Return name, description and labels of the groups."""
        document = self._reader.document
        attributes: JSONObject = {"name": name} if (name := self._reader.text(document, "name", "")) else {}
        description = document.get("description")
        if isinstance(description, dict):
            self._reader.note_left_out(description, frozenset({"purpose", "usage", "limitations"}), "/description")
            parts = [description.get(key) for key in ("purpose", "usage", "limitations")]
            description = "\n\n".join(part for part in parts if isinstance(part, str))
        attributes |= {"description": description} if isinstance(description, str) and description else {}
        label_texts = {f"odcs.{key.lower()}": str(document[key]) for key in _LABELS if document.get(key) is not None}
        custom = [entry for entry, _ in self._reader.items(document, "customProperties", "")]
        if any(not isinstance(entry, dict) or entry.get("property") != "xid" for entry in custom):
            self._reader.note("/customProperties", "left out customProperties", 2)
        return {**attributes, "labels": {name: text for name, text in label_texts.items() if text}}

    def _find_kafka_servers(self) -> list[tuple[JSONObject, str]]:
        reader, servers = self._reader, list[tuple[JSONObject, str]]()
        for value, path in reader.items(reader.document, "servers", ""):
            server = reader.object(value, path)
            kind = reader.text(server, "type", path)
            if kind.lower() == "kafka" and reader.text(server, "host", path):
                servers.append((server, path))
            else:
                reader.report(path, f"left out a server of type {kind!r}: no messages are sent there", 2)
        return servers

    def _build_message(self, body: JSONObject, path: str, schema: str) -> JSONObject:
        """Return a message with this schema. An object that is a topic becomes a message for Kafka."""
        reader = self._reader
        texts = {
            "name": reader.text(body, "businessName", path),
            "description": reader.text(body, "description", path),
        }
        texts = {name: text for name, text in texts.items() if text}
        message: JSONObject = {**texts, "dataschemaformat": _SCHEMA_FORMAT, "dataschemauri": schema}
        if not self._is_topic(body, path):
            return {**message, "datacontenttype": "application/json"}
        topic = reader.text(body, "physicalName", path) or reader.text(body, "name", path)
        message |= {"protocol": "KAFKA", "protocoloptions": {"topic": topic}}
        formats = {reader.text(server, "format", place).lower() for server, place in self._servers}
        if formats <= _CONTENT_TYPES.keys():
            return {**message, "datacontenttype": "application/json"}
        other = ", ".join(sorted(formats - _CONTENT_TYPES.keys()))
        reader.report(path, f"the message has no schema: it is in {other}, and the contract has none for that", 6)
        return {name: value for name, value in message.items() if not name.startswith("dataschema")}

    def _is_topic(self, body: JSONObject, path: str) -> bool:
        return bool(self._servers) and self._reader.text(body, "physicalType", path).lower() in ("topic", "")

    def _build_endpoints(self, messages: JSONObject) -> JSONObject:
        """Return an endpoint for reading from each Kafka server."""
        topics = [message["protocoloptions"]["topic"] for message in messages.values() if "protocoloptions" in message]
        ids, endpoints = FreeIds(), dict[str, Any]()
        for server, path in self._servers:
            hosts = [host.strip() for host in self._reader.text(server, "host", path).split(",") if host.strip()]
            options: JSONObject = {"endpoints": [{"bootstrap.servers": hosts}]}
            options |= {"topic": topics[0]} if len(topics) == 1 else {}
            self._reader.note_left_out(server, frozenset({"server", "type", "host", "format", "description"}), path)
            name = ids.take_id(f"{self._group}-{self._reader.text(server, 'server', path) or 'kafka'}", "kafka")
            endpoints[name] = {
                "usage": ["subscriber"], "protocol": "KAFKA", "protocoloptions": options,
                "messagegroups": [f"/messagegroups/{self._group}"],
            }  # fmt: skip
        return {"endpoints": endpoints} if endpoints and topics else {}

    def _build_schema(self, body: JSONObject, path: str) -> JSONObject:
        """Return the JSON Schema of a schema object.

        Keys and unique properties become labels, because they are rules about several rows.
        """
        self._reader.note_left_out(body, _ELEMENT | {"customProperties"}, path)
        document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **self._describe(body, path)}
        document |= {"type": "object", **self._build_members(body, path)}
        labels: JSONObject = {}
        for label, member in (("odcs.primarykey", "primaryKey"), ("odcs.unique", "unique")):
            keys = [
                definition for definition, _ in self._iterate_properties(body, path) if definition.get(member) is True
            ]
            if member == "primaryKey":
                keys.sort(key=_find_key_position)
            labels |= {label: ", ".join(str(definition["name"]) for definition in keys)} if keys else {}
        return {"format": _SCHEMA_FORMAT, **({"labels": labels} if labels else {}), "schema": document}

    def _iterate_properties(self, body: JSONObject, path: str) -> Iterator[tuple[JSONObject, str]]:
        for value, place in self._reader.items(body, "properties", path):
            yield self._reader.object(value, place), place

    def _build_members(self, body: JSONObject, path: str) -> JSONObject:
        """Return ``properties`` and ``required``."""
        properties: JSONObject = {}
        required: list[str] = []
        for definition, place in self._iterate_properties(body, path):
            name = _require_name(self._reader, definition, place)
            if name in properties:
                raise DocumentError(f"{place}/name: there are two properties called {name!r}")
            if not_null := _is_required(definition):
                required.append(name)
            properties[name] = self._build_type(definition, place, not_null=not_null)
        members: JSONObject = {"properties": properties} if properties else {}
        return members | ({"required": required} if required else {})

    def _describe(self, body: JSONObject, path: str) -> JSONObject:
        text = self._reader.text
        annotations: JSONObject = {
            "title": text(body, "businessName", path),
            "description": text(body, "description", path),
        }
        annotations = {name: value for name, value in annotations.items() if value}
        return annotations | ({"deprecated": True} if body.get("deprecated") is True else {})

    def _build_type(self, body: JSONObject, path: str, *, not_null: bool) -> JSONObject:
        """Return the schema of a property. As in the standard, it may be null unless it is ``required``."""
        self._reader.note_left_out(body, _PROPERTY, path)
        kind = self._find_logical_type(body, path)
        schema = {**self._describe(body, path), **_JSON_TYPES.get(kind, {})}
        schema = {
            name: value for name, value in (schema | self._read_options(body, path, kind)).items() if value is not None
        }
        if kind == "object":
            inner = self._build_members(body, path)
            names = self._reader.items(schema, "required", below(path, "logicalTypeOptions"))
            listed = [*inner.get("required", ()), *(name for name, _ in names if isinstance(name, str))]
            schema.pop("required", None)
            schema |= {**inner, **({"required": list(dict.fromkeys(listed))} if listed else {})}
        elif kind == "array" and body.get("items") is not None:
            item = self._reader.object(body["items"], below(path, "items"))
            # Null is one of its values only where something says so.
            schema["items"] = self._build_type(item, below(path, "items"), not_null=item.get("required") is not False)
        elif kind == "map":
            schema["additionalProperties"] = self._map_value(body, path)
        elif kind == "vector":
            schema["items"] = {"type": "number"}
        if isinstance(body.get("examples"), list):
            schema["examples"] = body["examples"]
        schema |= self._read_value_rules(body, path)
        return schema if not_null else _with_null(schema)

    def _find_logical_type(self, body: JSONObject, path: str) -> str:
        """Return the stated logical type, else one by the physical type."""
        stated, physical = (self._reader.text(body, name, path) for name in ("logicalType", "physicalType"))
        if stated and stated not in _JSON_TYPES:
            raise DocumentError(f"{below(path, 'logicalType')}: {stated!r} is no type of the standard")
        if stated or not physical:
            return stated
        word = _WORD.match(physical.lower())
        logical_type = _PHYSICAL.get(word[0], "") if word else ""
        self._reader.note(
            path, f"took {physical} for {logical_type or 'a value of any type'}: no logicalType is stated", 7
        )
        return logical_type

    def _read_options(self, body: JSONObject, path: str, kind: str) -> JSONObject:
        place = below(path, "logicalTypeOptions")
        stated_options = dict(self._reader.object(body.get("logicalTypeOptions"), place))
        supported = _OPTIONS.get(kind, set())
        self._reader.note_left_out(stated_options, frozenset(supported), place)
        options = {name: value for name, value in stated_options.items() if name in supported}
        if kind in _ISO and "format" in options:
            stated = options.pop("format")
            if str(stated) not in _ISO[kind]:
                self._reader.note(place, f"left out the format {stated}: the value is taken for any text", 2)
                options["format"] = None
        for limit, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(options.get(limit), bool):  # as 3.0 has it
                exclusive = options.pop(limit)
                options |= {limit: options.pop(bound)} if exclusive and bound in options else {}
        if (size := options.pop("dimensions", None)) is not None:
            options |= {"minItems": size, "maxItems": size}
        return options

    def _map_value(self, body: JSONObject, path: str) -> JSON:
        place = below(path, "map")
        pair = self._reader.object(body.get("map"), place)
        key = self._reader.object(pair.get("key"), below(place, "key"))
        if key.get("logicalType", "string") != "string" or key.get("logicalTypeOptions"):
            self._reader.note(below(place, "key"), "left out the type of its keys: names of members are text", 2)
        value = self._reader.object(pair.get("value"), below(place, "value"))
        return (
            self._build_type(value, below(place, "value"), not_null=value.get("required") is not False)
            if value
            else True
        )

    def _read_value_rules(self, body: JSONObject, path: str) -> JSONObject:
        """Return the allowed values: ``enum``, and quality rules that no row may break."""
        constraints: JSONObject = {}
        if "enum" in body:
            listed = [self._reader.object(*entry).get("value") for entry in self._reader.items(body, "enum", path)]
            constraints["enum"] = listed
        for value, place in self._reader.items(body, "quality", path):
            rule = self._reader.object(value, place)
            arguments = rule.get("arguments") if isinstance(rule.get("arguments"), dict) else {}
            if rule.get("mustBe") == 0 and rule.get("metric") == "invalidValues" and arguments:
                valid, pattern = arguments.get("validValues"), arguments.get("pattern")
                constraints |= {"enum": valid} if isinstance(valid, list) else {}
                constraints |= {"pattern": pattern} if isinstance(pattern, str) else {}
            elif not _forbids_null(rule):
                kind = rule.get("metric") or rule.get("type") or "quality"
                self._reader.note(place, f"left out a rule of quality ({kind})", 2)
        return constraints


def _require_name(reader: DocumentReader, body: JSONObject, path: str) -> str:
    name = reader.text(body, "name", path)
    if not name:
        raise DocumentError(f"{path}: it has no name")
    return name


def _find_key_position(body: JSONObject) -> int:
    position = body.get("primaryKeyPosition")
    return position if isinstance(position, int) else 0


def _find_custom_property(body: JSONObject, name: str) -> str:
    """Return the text of a custom property, or "" if it is missing or not text."""
    listed = body.get("customProperties")
    pairs = [pair for pair in listed if isinstance(pair, dict)] if isinstance(listed, list) else []
    value = next((pair.get("value") for pair in pairs if pair.get("property") == name), "")
    return value if isinstance(value, str) else ""


def _is_required(body: JSONObject) -> bool:
    rules = body.get("quality")
    listed = rules if isinstance(rules, list) else []
    return body.get("required") is True or any(_forbids_null(rule) for rule in listed if isinstance(rule, dict))


def _forbids_null(rule: JSONObject) -> bool:
    return rule.get("metric") == "nullValues" and rule.get("mustBe") == 0


def _with_null(schema: JSONObject) -> JSONObject:
    """Return the schema changed to allow null."""
    kind = schema.get("type")
    nullable = {**schema, "type": [kind, "null"]} if isinstance(kind, str) else dict(schema)
    if isinstance(enum := nullable.get("enum"), list) and None not in enum:
        nullable["enum"] = [*enum, None]
    return nullable
