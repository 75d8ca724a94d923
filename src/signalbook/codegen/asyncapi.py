"""Messages and endpoints as an AsyncAPI 3.0 document.

An endpoint is a server for each of its addresses and a channel with the messages it takes; messages that no endpoint
has are in a channel by what their own definition says of topic, subject or path. Operations are those of its clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from signalbook.codegen.base import Generated, Generator, GeneratorInput, Inexpressible
from signalbook.codegen.naming import last_part, unique
from signalbook.codegen.yamlfiles import yaml_file
from signalbook.formats.base import find_family
from signalbook.messages import CompiledDefinition, SchemaDocument
from signalbook.messages.definitions.definition import declare_attributes, declare_options
from signalbook.messages.definitions.normalise import canonical_protocol
from signalbook.messages.properties import Property
from signalbook.values import JSON, JSONError, JSONObject, parse_json
from signalbook.xid import group_of

_ASYNCAPI_VERSION: Final = "3.0.0"
_PROTOCOLS: Final = {
    "HTTP": "http",
    "KAFKA": "kafka",
    "MQTT/3.1.1": "mqtt",
    "MQTT/5.0": "mqtt5",
    "NATS": "nats",
    "AMQP/1.0": "amqp1",
}
# Where a message of each protocol goes: the option of its definition, and that of an endpoint.
_ADDRESSES: Final = {
    "HTTP": ("path", "path"),
    "KAFKA": ("topic", "topic"),
    "MQTT/3.1.1": ("topic_name", "topic"),
    "MQTT/5.0": ("topic_name", "topic"),
    "NATS": ("subject", "subject"),
    "AMQP/1.0": ("", "node"),
}
# What stands before the names of attributes where an event is in binary mode; of no protocol, as in HTTP.
_PREFIXES: Final = {"": "ce-", "HTTP": "ce-", "KAFKA": "ce_", "NATS": "ce-", "AMQP/1.0": "cloudEvents:", "MQTT/5.0": ""}
_FORMATS: Final = {
    "jsonschema": "application/schema+json;version={}",
    "avro": "application/vnd.apache.avro+json;version=1.9.0",
    "protobuf": "application/vnd.google.protobuf;version={}",
    "jsonstructure": "application/vnd.json-structure+json;version={}",
    "xsd": "application/xml;version={}",
}
_ACTIONS: Final = {"producer": "send", "consumer": "receive", "subscriber": "receive"}
_PLACEHOLDER: Final = re.compile(r"\{[+#./;?&]?([^{}]*)\}")
# Where what a protocol has as headers stands among the properties of its messages.
_SECTIONS: Final = {
    "HTTP": "headers.",
    "KAFKA": "headers.",
    "MQTT/5.0": "user_properties.",
    "NATS": "headers.",
    "AMQP/1.0": "application-properties.",
}
_JSON_TYPES: Final = {"boolean": "boolean", "integer": "integer", "ulong": "integer", "number": "number"}
_STRING_FORMATS: Final = {"timestamp": "date-time", "uri": "uri", "urireference": "uri-reference"}
# What bindings of operations say that a registry has in messages.
_OF_OPERATIONS: Final = {"HTTP": ("method",), "MQTT/3.1.1": ("qos", "retain"), "MQTT/5.0": ("qos", "retain")}
_BINDINGS: Final = {
    "HTTP": "http", "KAFKA": "kafka", "MQTT/3.1.1": "mqtt", "MQTT/5.0": "mqtt", "NATS": "nats", "AMQP/1.0": "amqp1",
}  # fmt: skip


@dataclass(slots=True, kw_only=True)
class _Channel:
    """A channel: an address on servers."""

    address: str | None
    protocol: str
    endpoint: str = ""
    xids: list[str] = field(default_factory=list)


def _generate_asyncapi(input: GeneratorInput) -> Generated:
    """Generate one document."""
    document = _Document(input)
    xids = [xid for xid in input.messages if xid not in document.left_out]
    files = (yaml_file(input, "asyncapi.yaml", document.made(), xids),) if xids else ()
    return Generated(files=files, left_out=document.left_out)


class _Document:
    """The parts of the document, each with the names of the others in it."""

    def __init__(self, given: GeneratorInput) -> None:
        self._given = given
        self.left_out: dict[str, str] = {}
        self._schemas: dict[str, JSONObject] = {}
        found = [(xid, server) for xid, entity in given.endpoints.items() for server in _build_servers(entity)]
        keys = unique(map(str, range(len(found))), lambda index: _replace_special(last_part(found[int(index)][0])))
        self._servers = {keys[str(index)]: server for index, (_, server) in enumerate(found)}
        self._served = {keys[str(index)]: xid for index, (xid, _) in enumerate(found)}
        self._schema_names = unique(self._list_documents(), _build_identifier)
        payloads: dict[str, JSONObject | None] = {}
        for xid, definition in given.messages.items():
            try:
                payloads[xid] = self._build_payload(definition)
            except Inexpressible as error:
                self.left_out[xid] = str(error)
        self._names = unique(payloads, _build_identifier)
        self._channels = self._gather_channels(payloads)
        self._messages = {
            self._names[xid]: _build_message(given.messages[xid], payload, self._find_protocol(xid))
            for xid, payload in payloads.items()
        }

    def made(self) -> JSONObject:
        channels = unique((str(index) for index in range(len(self._channels))), self._choose_channel_name)
        operations = dict(self._build_operations(list(channels.values())))
        return {
            "asyncapi": _ASYNCAPI_VERSION,
            "info": self._build_info(),
            **({"servers": self._servers} if self._servers else {}),
            "channels": {
                name: self._build_channel(channel)
                for name, channel in zip(channels.values(), self._channels, strict=True)
            },
            **({"operations": operations} if operations else {}),
            "components": {"messages": self._messages, **({"schemas": self._schemas} if self._schemas else {})},
        }

    def _build_info(self) -> JSONObject:
        root = next(iter(self._given.documents), {})
        description = {"description": str(root["description"])} if root.get("description") else {}
        title = self._given.option("title") or str(root.get("name") or "Messages")
        return {"title": title, "version": self._given.option("version") or "1.0.0", **description}

    def _list_documents(self) -> Iterator[str]:
        documents = (
            definition.schema_use.document
            for definition in self._given.messages.values()
            if definition.schema_use.schema
        )
        return iter(dict.fromkeys(documents))

    def _build_payload(self, definition: CompiledDefinition) -> JSONObject | None:
        """Return a reference to the schema, None if there is none. Raises ``Inexpressible``."""
        use, document = definition.schema_use, self._given.document(definition)
        if use.schema is None or document is None:
            return None
        name = self._schema_names[use.document]
        kind = find_family(use.schema.format)
        if name not in self._schemas:
            schema = _build_schema(document, use.schema.format, f"#/components/schemas/{name}/schema")
            self._schemas[name] = schema | ({"x-xid": use.resource} if use.resource else {})
        if not use.link.strip("#"):
            return {"$ref": f"#/components/schemas/{name}"}
        if kind not in ("jsonschema", "jsonstructure"):
            return {**self._schemas[name], "x-type": use.link}
        pointer = unquote(use.link.lstrip("#"))
        if not pointer.startswith("/"):
            raise Inexpressible(f"its schema is at {use.link}, and AsyncAPI has no links to anchors")
        target = f"#/components/schemas/{name}/schema{pointer}"
        return {"schemaFormat": self._schemas[name]["schemaFormat"], "schema": {"$ref": target}}

    def _gather_channels(self, xids: Iterable[str]) -> list[_Channel]:
        """Return all channels, those of endpoints first."""
        ordered_xids = list(xids)
        channels: dict[tuple[str, str, str | None], _Channel] = {}
        placed: set[str] = set()
        for endpoint, entity in self._given.endpoints.items():
            protocol = canonical_protocol(str(entity.get("protocol") or ""))
            groups = {
                endpoint,
                *(
                    "/" + "/".join(str(xid_text).rstrip("/").split("/")[-2:])
                    for xid_text in entity.get("messagegroups") or ()
                ),
            }
            for xid in ordered_xids:
                message_protocol = self._given.messages[xid].protocol
                if group_of(xid) in groups and message_protocol in ("", protocol):
                    address = self._find_address(xid, protocol) or _find_option(
                        entity, _ADDRESSES.get(protocol, ("", ""))[1]
                    )
                    key = (endpoint, protocol, address)
                    channel = channels.setdefault(key, _Channel(address=address, protocol=protocol, endpoint=endpoint))
                    channel.xids.append(xid)
                    placed.add(xid)
        for xid in ordered_xids:
            if xid not in placed:
                protocol = self._given.messages[xid].protocol
                address = self._find_address(xid, protocol)
                key = (group_of(xid), protocol, address)
                channels.setdefault(key, _Channel(address=address, protocol=protocol)).xids.append(xid)
        return list(channels.values())

    def _find_address(self, xid: str, protocol: str) -> str | None:
        if protocol == "AMQP/1.0":
            to = (value.value for value in _list_properties(self._given.messages[xid]) if value.name == "properties.to")
            return next((value for value in to if isinstance(value, str)), None)
        return _find_option(self._given.messages[xid].definition, _ADDRESSES.get(protocol, ("", ""))[0])

    def _find_protocol(self, xid: str) -> str:
        return next((channel.protocol for channel in self._channels if xid in channel.xids), "")

    def _choose_channel_name(self, index: str) -> str:
        channel = self._channels[int(index)]
        return _replace_special(last_part(channel.endpoint) or channel.address or group_of(channel.xids[0]))

    def _build_channel(self, channel: _Channel) -> JSONObject:
        document: JSONObject = {"address": None}
        if channel.address is not None:
            names = [_replace_special(name) for name in _PLACEHOLDER.findall(channel.address)]
            document["address"] = _PLACEHOLDER.sub(lambda found: f"{{{_replace_special(found[1])}}}", channel.address)
            if names:
                document["parameters"] = {name: {} for name in dict.fromkeys(names)}
        if channel.endpoint:
            names = [name for name, endpoint in self._served.items() if endpoint == channel.endpoint]
            document |= {"servers": [{"$ref": f"#/servers/{name}"} for name in names]} if names else {}
            document["x-xid"] = channel.endpoint
        names = [self._names[xid] for xid in channel.xids]
        document["messages"] = {name: {"$ref": f"#/components/messages/{name}"} for name in names}
        return document

    def _build_operations(self, names: list[str]) -> Iterator[tuple[str, JSONObject]]:
        for name, channel in zip(names, self._channels, strict=True):
            usage = self._given.endpoints[channel.endpoint].get("usage") if channel.endpoint else ()
            actions = [_ACTIONS[use] for use in usage or () if use in _ACTIONS]
            for action in dict.fromkeys(actions):
                messages = [{"$ref": f"#/channels/{name}/messages/{self._names[xid]}"} for xid in channel.xids]
                operation: JSONObject = {
                    "action": action,
                    "channel": {"$ref": f"#/channels/{name}"},
                    "messages": messages,
                }
                bindings = self._build_bindings(channel)
                yield f"{action}-{name}", operation | ({"bindings": bindings} if bindings else {})

    def _build_bindings(self, channel: _Channel) -> JSONObject:
        """Return the bindings that all messages of a channel share."""
        bindings: JSONObject = {}
        for name in _OF_OPERATIONS.get(channel.protocol, ()):
            values = [
                next((value.value for value in _list_properties(self._given.messages[xid]) if value.name == name), None)
                for xid in channel.xids
            ]
            if values[0] is not None and all(value == values[0] for value in values):
                bindings[name] = values[0]
        return {_BINDINGS[channel.protocol]: bindings} if bindings else {}


def _build_servers(endpoint: JSONObject) -> Iterator[JSONObject]:
    """Yield a server for each address of an endpoint that is a URI."""
    options = endpoint.get("protocoloptions")
    addresses = options.get("endpoints") if isinstance(options, dict) else None
    protocol = canonical_protocol(str(endpoint.get("protocol") or ""))
    for text in _list_uris(addresses):
        try:
            uri = urlsplit(text if "://" in text else f"//{text}")
        except ValueError:  # brackets that are not around an IPv6 address
            continue
        # The user in a URI is nobody's business, and may have a password.
        host = uri.netloc.rpartition("@")[2]
        server: JSONObject = {"host": host, "protocol": _PROTOCOLS.get(protocol, protocol.lower() or "unknown")}
        if uri.scheme == "https" and protocol == "HTTP":
            server["protocol"] = "https"
        if uri.path.strip("/"):
            server["pathname"] = uri.path
        variables = [_replace_special(name) for name in _PLACEHOLDER.findall(host + uri.path)]
        if variables:
            server["variables"] = {name: {} for name in dict.fromkeys(variables)}
        yield server


def _list_uris(addresses: JSON) -> Iterator[str]:
    """Yield the addresses of an endpoint: URIs, or the servers of Kafka clusters."""
    for address in addresses if isinstance(addresses, list) else ():
        if not isinstance(address, dict):
            yield str(address)
        elif address.get("uri"):
            yield str(address["uri"])
        elif isinstance(servers := address.get("bootstrap.servers"), list):
            yield from map(str, servers)


def _build_message(definition: CompiledDefinition, payload: JSONObject | None, protocol: str) -> JSONObject:
    raw = definition.definition
    document: JSONObject = {"name": definition.message_id}
    for name, text in (("title", raw.get("name")), ("description", raw.get("description"))):
        document |= {name: str(text)} if text else {}
    if definition.payload_type:
        document["contentType"] = definition.payload_type
    headers = _build_headers(definition, protocol)
    if headers["properties"]:
        document["headers"] = headers
    if payload is not None:
        document["payload"] = payload
    if definition.protocol in _BINDINGS:
        key = [_build_header(prop) for prop in _list_properties(definition) if prop.name == "key"]
        document["bindings"] = {_BINDINGS[definition.protocol]: {"key": key[0]} if key else {}}
    document["x-xid"] = definition.xid
    return document


def _build_headers(definition: CompiledDefinition, protocol: str) -> JSONObject:
    """Return the attributes of an event in binary mode, and the headers that the definition has for its protocol."""
    headers: list[tuple[str, JSONObject, bool]] = []
    prefix = _PREFIXES.get(protocol)
    if definition.is_event and prefix is not None:
        headers.append((f"{prefix}specversion", {"type": "string", "const": "1.0"}, True))
        declared = {prop.name: prop for prop in declare_attributes(definition.definition)}
        for name in dict.fromkeys(("id", "source", "type", *declared)):
            prop = declared.get(name)
            if name != "datacontenttype":
                schema = {"type": "string"} if prop is None else _build_header(prop) | {"type": "string"}
                headers.append((f"{prefix}{name}", schema, prop is None or prop.required))
    section = _SECTIONS.get(definition.protocol)
    for prop in _list_properties(definition) if section is not None else ():
        if prop.name.startswith(section or "") and prop.comparison == "value":
            name = prop.path.removeprefix(f"protocoloptions.{section}")  # as it is written there
            headers.append((name, _build_header(prop), prop.required))
    return {
        "type": "object",
        "required": [name for name, _, required in headers if required],
        "properties": {name: schema for name, schema, _ in headers},
    }


def _list_properties(definition: CompiledDefinition) -> list[Property]:
    """Return the definition's properties of its protocol."""
    return declare_options(definition.protocol, definition.definition.get("protocoloptions"))


def _build_header(declared: Property) -> JSONObject:
    """Return a property as a schema."""
    schema: JSONObject = {"type": _JSON_TYPES.get(declared.type, "string")}
    if declared.type in _STRING_FORMATS:
        schema["format"] = _STRING_FORMATS[declared.type]
    if declared.template() is not None:
        return {**schema, "description": f"as {declared.value}", "x-uritemplate": str(declared.value)}
    if declared.value is not None:
        text = declared.type in _JSON_TYPES and isinstance(declared.value, str)
        schema["const"] = parse_json(str(declared.value)) if text else declared.value
    return schema


def _build_schema(document: SchemaDocument, format: str, place: str) -> JSONObject:
    """Return a schema document with its format; references within it lead to its ``place``.

    Raises ``Inexpressible``.
    """
    kind, _, version = format.partition("/")
    stated = _FORMATS.get(kind.lower(), "application/octet-stream").format(version.replace("draft/", ""))
    if kind.lower() in ("protobuf", "xsd"):
        return {"schemaFormat": stated, "schema": document.content.decode("utf-8", "replace")}
    try:
        return {"schemaFormat": stated, "schema": _rebase(parse_json(document.content), place)}
    except JSONError as error:
        raise Inexpressible(f"its schema is no JSON: {error}") from None


def _rebase(value: JSON, place: str) -> JSON:
    """Return a schema whose references begin at the root of the document that it is in now.

    Raises ``Inexpressible``.
    """
    if isinstance(value, list):
        return [_rebase(part, place) for part in value]
    if not isinstance(value, dict):
        return value
    members: dict[str, Any] = {name: _rebase(part, place) for name, part in value.items()}
    reference = members.get("$ref")
    if isinstance(reference, str):
        pointer = reference.removeprefix("#")
        if pointer == reference or (pointer and not pointer.startswith("/")):
            raise Inexpressible(f"its schema refers to {reference}, and references of AsyncAPI are within the document")
        members["$ref"] = place + pointer
    return members


def _find_option(entity: Mapping[str, JSON], name: str) -> str | None:
    """Return an option of a definition (an object with a value, or the value) or an endpoint."""
    options = entity.get("protocoloptions")
    value = options.get(name) if isinstance(options, dict) else None
    value = value.get("value") if isinstance(value, dict) else value
    return value if isinstance(value, str) and value else None


def _build_identifier(xid: str) -> str:
    """Return the key of a message or schema: letters, digits, dots, hyphens and underscores."""
    return _replace_special(last_part(xid.partition("/versions/")[0]))


def _replace_special(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name) or "_"


GENERATOR: Final = Generator(
    summary="one AsyncAPI 3.0 document of messages, channels, servers and operations",
    generate=_generate_asyncapi,
    options={"title": "the title of the document", "version": "its version, such as 1.0.0"},
)
