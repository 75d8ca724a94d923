"""Convert an AsyncAPI document to a registry document with a group of messages, a group of schemas, and endpoints."""

from __future__ import annotations

import re
from typing import Final

from signalbook.documents import headers
from signalbook.documents.asyncapi.endpoints import BINDINGS, Channels, Servers, leave_message_bindings
from signalbook.documents.asyncapi.reading import AsyncApiReader, ReadChannel, ReadMessage, ReadOperation
from signalbook.documents.asyncapi.schemas import Payloads, ReadPayload, parse_schema_xid, text_type
from signalbook.documents.errors import DocumentError, Repair
from signalbook.documents.localfiles import LocalFiles
from signalbook.documents.references import FreeIds, add_labels, below, id_of
from signalbook.values import JSON, JSONObject
from signalbook.xid import ID

_MESSAGE_XID: Final = re.compile(r"/(messagegroups|endpoints)/([^/]+)/messages/([^/]+)")
_ENDPOINT_XID: Final = re.compile(r"/endpoints/([^/]+)")
_MESSAGE_MEMBERS: Final = frozenset(
    {"name", "title", "summary", "description", "contentType", "headers", "payload", "schemaFormat", "bindings",
     "messageId", "externalDocs", "x-xid"}
)  # fmt: skip
_ROOT_MEMBERS: Final = frozenset(
    {"asyncapi", "info", "servers", "channels", "operations", "components", "defaultContentType"}
)  # fmt: skip
_INFO_MEMBERS: Final = frozenset({"title", "description", "externalDocs"})
_COMPONENTS: Final = frozenset(
    {"schemas", "messages", "servers", "channels", "operations", "securitySchemes", "parameters", "serverVariables",
     "messageTraits", "operationTraits", "serverBindings", "channelBindings", "operationBindings", "messageBindings"}
)  # fmt: skip
_TOPICS: Final = {
    "HTTP": "path", "KAFKA": "topic", "MQTT/3.1.1": "topic_name", "MQTT/5.0": "topic_name", "NATS": "subject",
}  # fmt: skip


def convert_asyncapi(
    document: JSONObject, *, source: str, files: LocalFiles | None
) -> tuple[JSONObject, tuple[Repair, ...]]:
    """Return the definitions in an AsyncAPI document, and a list of what was lost or chosen.

    ``source`` is the name of the file. ``files`` are the files that the document may refer to. Raises ``DocumentError``
    with the place (a JSON Pointer) of a mistake.
    """
    reader = AsyncApiReader(document, files=files)
    reader.check_version()
    if "info" not in document:
        raise DocumentError("/info: it is not there: AsyncAPI asks for it, and its title names the groups")
    definitions = _Conversion(reader).convert()
    if not definitions:
        elsewhere = any(repair.rule == "AS-1" for repair in reader.repairs)
        reason = "what it has is in other documents" if elsewhere else "it has no messages, no channels with servers"
        raise DocumentError(f"nothing can be made of it: {reason}")
    repairs = tuple(dict.fromkeys(reader.repairs))
    return add_labels(definitions, repairs, source), repairs


class _Conversion:
    def __init__(self, reader: AsyncApiReader) -> None:
        self._reader = reader
        self._payloads = Payloads(reader)
        self._read_channels = reader.read_channels()
        has_headers = any("headers" in message.body for message in reader.messages.values())
        self._servers = Servers(reader, has_headers)
        self._servers.read()
        self._channels = Channels(reader, self._servers)
        self._channels_by_message: dict[str, list[ReadChannel]] = {}
        for channel in self._read_channels:
            for place in channel.messages:
                self._channels_by_message.setdefault(place, []).append(channel)
        info = reader.object(reader.document.get("info"), "/info")
        self._info = info
        self._group = id_of(reader.text(info, "title", "/info"), "asyncapi")
        self._document: JSONObject = {}
        self._xids: dict[str, str] = {}
        self._schemas: dict[str, str] = {}
        self._ids: dict[str, FreeIds] = {}

    def convert(self) -> JSONObject:
        """Return the registry document."""
        for message in self._reader.messages.values():
            self._add_message(message)
        if self._group in self._document.get("messagegroups", {}):
            self._document["messagegroups"][self._group] |= self._reader.describe(self._info, "/info", name="title")
        for channel in self._read_channels:
            self._channels.report_losses(channel)
            self._add_endpoints(channel)
        self._report_groups()
        self._report_rest()
        return self._document

    def _ensure_collection(self, *names: str) -> JSONObject:
        """Return the collection at these names, which is created if it is missing."""
        collection = self._document
        for name in names:
            collection = collection.setdefault(name, {})
        return collection

    def _add_message(self, message: ReadMessage) -> None:
        """Put the definitions of a message into its group: those that ``_split_by_address`` lists."""
        body, path = message.body, message.path
        kind, group, name = self._locate_message(message)
        definition = self._reader.describe(body, path, name="title")
        if not definition.get("name") and body.get("name") not in (None, name):
            definition |= {"name": self._reader.text(body, "name", path)}
        self._reader.leave_out(body, _MESSAGE_MEMBERS, path)
        leave_message_bindings(self._reader, body, path)
        protocol = self._find_protocol(message)
        members = headers.collect_members(self._reader, body.get("headers"), below(path, "headers"))
        self._add_bound_headers(members, body, path, protocol)
        content_type = self._find_content_type(body, path)
        if headers.is_structured(content_type):
            definition |= self._read_structured_event(message, content_type)
            prefix = None
        else:
            definition |= {"datacontenttype": content_type} if content_type else {}
            prefix = headers.find_attribute_prefix(members)
            if prefix is not None:
                metadata = headers.build_attributes(self._reader, members, prefix)
                definition |= {"envelope": headers.CLOUDEVENTS, **({"envelopemetadata": metadata} if metadata else {})}
            definition |= self._add_schema(body.get("payload"), below(path, "payload"), body)
        stated = headers.build_protocol_headers(self._reader, members, protocol, prefix, below(path, "headers"))
        for own_name, channels in self._split_by_address(message, protocol, (kind, group, name)):
            options = self._build_options(message, protocol, channels) | stated
            bound = {"protocol": protocol, **({"protocoloptions": options} if options else {})} if protocol else {}
            self._ensure_collection(kind, group, "messages")[own_name] = definition | bound

    def _split_by_address(
        self, message: ReadMessage, protocol: str, place: tuple[str, str, str]
    ) -> list[tuple[str, list[ReadChannel]]]:
        """Return the ids of the definitions of a message, each with its channels. There is one definition per topic.

        A definition has one topic. A definition without a topic would match the messages of all topics.
        """
        kind, group, name = place
        message_channels = self._channels_by_message.get(message.path, [])
        channels = [
            channel for channel in message_channels if protocol in self._channels.find_message_protocols(channel)
        ] or message_channels
        by_address: dict[str, list[ReadChannel]] = {}
        for channel in channels:
            if (address := self._channels.find_address(channel)) is not None:
                by_address.setdefault(address, []).append(channel)
        if not protocol or len(by_address) < 2 or "x-xid" in message.body:
            return [(name, channels)]
        ids = self._ids[f"/{kind}/{group}"]
        definitions = [(ids.take_id(f"{name}-{alike[0].key}", "message"), alike) for alike in by_address.values()]
        listed = ", ".join(definition_id for definition_id, _ in definitions)
        text = f"it is a definition for each of its topics, subjects or paths: {listed}"
        self._reader.report(message.path, text, 7)
        return definitions

    def _locate_message(self, message: ReadMessage) -> tuple[str, str, str]:
        """Return collection, group and id of a message.

        They come from its ``x-xid``, which ``generate`` writes, or its name.
        """
        match = _MESSAGE_XID.fullmatch(str(message.body.get("x-xid") or ""))
        if match and ID.fullmatch(match[2]) and ID.fullmatch(match[3]):
            kind, group, name = match.groups()
            ids = self._ids.setdefault(f"/{kind}/{group}", FreeIds())
            if name.lower() in ids.taken:
                raise DocumentError(f"{message.path}/x-xid: two messages have {match[0]}")
            ids.taken.add(name.lower())
        else:
            kind, group = "messagegroups", self._group
            requested_id = str(message.body.get("messageId") or "") if self._reader.is_old else ""
            requested_id = requested_id if "/components/" not in message.path and requested_id else message.key
            name = self._ids.setdefault(f"/{kind}/{group}", FreeIds()).take_id(requested_id, "message")
            if name != requested_id:
                self._reader.report(message.path, f"its id is {name}, for {requested_id}", 5)
        self._xids[message.path] = f"/{kind}/{group}"
        return kind, group, name

    def _find_protocol(self, message: ReadMessage) -> str:
        """Return the protocol of a message: that of its bindings if they have only one, else that of its servers."""
        bindings = self._reader.read_bindings(message.body, message.path)
        channels = self._channels_by_message.get(message.path, ())
        channel_protocols = {
            protocol for channel in channels for protocol in self._channels.find_message_protocols(channel)
        }
        bound_protocols = {self._channels.find_bound_protocol(name) for name in bindings if name in BINDINGS}
        if (
            "mqtt" in bindings
            and len(mqtt := {protocol for protocol in channel_protocols if protocol.startswith("MQTT/")}) == 1
        ):
            bound_protocols = {protocol for protocol in bound_protocols if not protocol.startswith("MQTT/")} | mqtt
        if len(bound_protocols) == 1:
            return bound_protocols.pop()
        # What generate writes states the protocol by bindings wherever the definition does.
        if "x-xid" in message.body:
            return ""
        if len(channel_protocols) > 1:
            protocol_names = ", ".join(sorted(channel_protocols))
            self._reader.report(message.path, f"it is bound to no protocol: its channels have {protocol_names}", 7)
        return channel_protocols.pop() if len(channel_protocols) == 1 else ""

    def _build_options(self, message: ReadMessage, protocol: str, channels: list[ReadChannel]) -> JSONObject:
        """Return the protocol options of a message: its address in these channels, and what its bindings state."""
        options: JSONObject = {}
        addresses = {address for channel in channels if (address := self._channels.find_address(channel)) is not None}
        if protocol and len(addresses) > 1:
            text = f"its topic, subject or path is left open: its channels have {len(addresses)}"
            self._reader.report(message.path, text, 7)
        elif protocol and addresses:
            address = addresses.pop()
            to = {"properties": {"to": {"type": "uritemplate", "value": address}}}
            options |= {_TOPICS[protocol]: address} if protocol in _TOPICS else to
        bindings = self._reader.read_bindings(message.body, message.path)
        if protocol == "KAFKA" and "key" in bindings.get("kafka", {}):
            stated = bindings["kafka"]["key"]
            template = stated.get("x-uritemplate") if isinstance(stated, dict) else None
            key = template if isinstance(template, str) else headers.find_constant(stated)
            if isinstance(key, str):
                options["key"] = key
            else:
                self._reader.report(f"{message.path}/bindings/kafka/key", "left out: only one value can be said", 3)
        operations = [operation for channel in channels for operation in channel.operations]
        options_of_operations = [
            self._channels.build_operation_options(operation, protocol) for operation in operations
        ]
        for name in ("method", "qos", "retain"):
            values = {str(stated[name]): stated[name] for stated in options_of_operations if name in stated}
            options |= {name: next(iter(values.values()))} if len(values) == 1 and len(channels) == 1 else {}
        return options

    def _add_bound_headers(self, members: headers.SchemaMembers, body: JSONObject, path: str, protocol: str) -> None:
        """Add the headers that an HTTP binding states."""
        http = self._reader.read_bindings(body, path).get("http", {})
        if protocol == "HTTP" and "headers" in http:
            more = headers.collect_members(self._reader, http["headers"], below(path, "bindings", "http", "headers"))
            members.schemas |= more.schemas
            members.required |= more.required

    def _find_content_type(self, body: JSONObject, path: str) -> str:
        bindings = self._reader.read_bindings(body, path)
        mqtt = {
            content_type
            for name in ("mqtt", "mqtt5")
            if isinstance(content_type := bindings.get(name, {}).get("contentType"), str)
        }
        stated = self._reader.text(body, "contentType", path) or (mqtt.pop() if len(mqtt) == 1 else "")
        return stated or self._reader.text(self._reader.document, "defaultContentType", "")

    def _read_structured_event(self, message: ReadMessage, content_type: str) -> JSONObject:
        """Return the definition of a structured event: its attributes and data are members of the payload's schema."""
        path = below(message.path, "payload")
        payload = message.body.get("payload")
        if not self._reader.is_old and isinstance(payload, dict) and {"schemaFormat", "schema"} <= payload.keys():
            payload, path = payload["schema"], below(path, "schema")
        event, data = headers.read_structured_event(self._reader, payload, path, content_type)
        return event if data is None else event | self._add_schema(*data, message.body)

    def _add_schema(self, value: JSON, path: str, body: JSONObject) -> JSONObject:
        """Return the attributes for the schema of a message: a reference to a shared schema, else the schema itself."""
        payload = self._payloads.of(value, path, self._reader.text(body, "schemaFormat", path))
        if payload is None:
            return {}
        place = parse_schema_xid(payload.xid)
        if place is None and not payload.name:
            document = self._payloads.build_document(payload)
            return {} if document is None else {"dataschemaformat": payload.format, "dataschema": document}
        xid = self._add_shared_schema(payload, place or (self._group, payload.name))
        if not xid:
            return {}
        link = payload.link if not payload.link or payload.link[0] in "#:" else f":{payload.link}"
        return {"dataschemaformat": payload.format, "dataschemauri": f"{xid}{link}"}

    def _add_shared_schema(self, payload: ReadPayload, place: tuple[str, str]) -> str:
        """Return the xid of a shared schema, which is created on first use. Return "" if it cannot be created."""
        schema_key = payload.xid or payload.file or payload.path
        if schema_key in self._schemas:
            return self._schemas[schema_key]
        group, requested_id = place
        group = id_of(group, self._group)
        name = self._ids.setdefault(f"/schemagroups/{group}", FreeIds()).take_id(requested_id, "schema")
        schema: JSONObject = {"format": payload.format}
        if payload.file:
            schema["schemaurl"] = payload.file
        else:
            document = self._payloads.build_document(payload)
            if document is None:
                self._schemas[schema_key] = ""
                return ""
            content_type = text_type(payload.format)
            schema |= {"contenttype": content_type} if content_type else {}
            schema["schema"] = document
        self._ensure_collection("schemagroups", group, "schemas")[name] = schema
        self._schemas[schema_key] = xid = f"/schemagroups/{group}/schemas/{name}"
        return xid

    def _add_endpoints(self, channel: ReadChannel) -> None:
        """Add an endpoint for each protocol and direction of a channel."""
        if self._is_generated(channel) and "x-xid" not in channel.body:
            return  # of no endpoint, though AsyncAPI takes it to be on all servers
        stated = _ENDPOINT_XID.fullmatch(str(channel.body.get("x-xid") or ""))
        protocols = self._channels.group_servers(channel)
        operations = {operation.action: operation for operation in channel.operations}
        groups = list(dict.fromkeys(self._xids[place] for place in channel.messages))
        for protocol, servers in protocols.items():
            directions: list[ReadOperation | None] = [*operations.values()]
            for operation in directions or [None]:
                endpoint = self._channels.build_endpoint(channel, protocol, servers, operation)
                message_groups = [group for group in groups if group.startswith("/messagegroups/")]
                endpoint |= {"messagegroups": message_groups} if message_groups else {}
                if stated and ID.fullmatch(stated[1]):
                    _merge_endpoint(self._ensure_collection("endpoints", stated[1]), endpoint)
                    continue
                parts = [channel.key, *([protocol.lower()] if len(protocols) > 1 else ())]
                parts += [operation.action] if operation is not None and len(operations) > 1 else []
                name = self._ids.setdefault("/endpoints", FreeIds()).take_id("-".join(parts), "channel")
                self._ensure_collection("endpoints")[name] = endpoint

    def _is_generated(self, channel: ReadChannel) -> bool:
        """Return True if ``generate`` wrote the channel: its messages have xids."""
        bodies = [self._reader.messages[place].body for place in channel.messages]
        return bool(bodies) and all("x-xid" in body for body in bodies)

    def _report_groups(self) -> None:
        """Report that an endpoint names groups of messages, and not the messages of its channel."""
        sizes: dict[str, int] = {}
        for group in self._xids.values():
            sizes[group] = sizes.get(group, 0) + 1
        for channel in self._read_channels:
            groups = {self._xids[place] for place in channel.messages}
            if not self._is_generated(channel) and sum(sizes[group] for group in groups) > len(set(channel.messages)):
                text = "its endpoints name the whole group: which messages are in it, their own options tell"
                self._reader.report(channel.path, text, 7)

    def _report_rest(self) -> None:
        """Report the parts that belong to no message."""
        self._reader.leave_out(self._reader.document, _ROOT_MEMBERS, "")
        self._reader.leave_out(self._info, _INFO_MEMBERS, "/info")
        components = self._reader.object(self._reader.document.get("components"), "/components")
        self._reader.leave_out(components, _COMPONENTS, "/components")
        schemas = self._reader.object(components.get("schemas"), "/components/schemas")
        for name, schema in schemas.items():
            xid = schema.get("x-xid") if isinstance(schema, dict) else None
            if below("", name)[1:] not in self._payloads.used and str(xid) not in self._schemas:
                path = below("/components/schemas", name)
                self._reader.report(path, "left out: no payload refers to it", 2)


def _merge_endpoint(existing: JSONObject, endpoint: JSONObject) -> None:
    """Merge two channels of one endpoint. Attributes in which they differ are removed."""
    if not existing:
        existing.update(endpoint)
        return
    for name in ("usage", "messagegroups"):
        if name in endpoint:
            existing[name] = list(dict.fromkeys([*existing.get(name, ()), *endpoint[name]]))
    options, other = existing["protocoloptions"], endpoint["protocoloptions"]
    existing["protocoloptions"] = {name: value for name, value in options.items() if other.get(name) == value}
