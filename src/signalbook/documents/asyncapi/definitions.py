"""An AsyncAPI document as a document of a registry: a group of messages, one of schemas, and endpoints."""

from __future__ import annotations

import re
from typing import Final

from signalbook.documents import headers
from signalbook.documents.asyncapi.endpoints import BINDINGS, Channels, Servers, leave_message_bindings
from signalbook.documents.asyncapi.reading import AsyncApiReader, ReadChannel, ReadMessage, ReadOperation
from signalbook.documents.asyncapi.schemas import Payloads, ReadPayload, schema_place, text_type
from signalbook.documents.errors import DocumentError, Repair
from signalbook.documents.localfiles import LocalFiles
from signalbook.documents.references import FreeIds, below, id_of, labelled
from signalbook.values import JSON, JSONObject
from signalbook.xid import ID

_MESSAGE_XID: Final = re.compile(r"/(messagegroups|endpoints)/([^/]+)/messages/([^/]+)")
_ENDPOINT_XID: Final = re.compile(r"/endpoints/([^/]+)")
_KNOWN: Final = frozenset(
    {"name", "title", "summary", "description", "contentType", "headers", "payload", "schemaFormat", "bindings",
     "messageId", "externalDocs", "x-xid"}
)  # fmt: skip
_ROOT: Final = frozenset(
    {"asyncapi", "info", "servers", "channels", "operations", "components", "defaultContentType"}
)  # fmt: skip
_INFO: Final = frozenset({"title", "description", "externalDocs"})
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
    """The definitions in an AsyncAPI document, and what was lost or chosen; ``source`` is the file's name.

    ``files`` are those that it may refer to. Raises ``DocumentError`` with the place (a JSON Pointer) of what is wrong.
    """
    reader = AsyncApiReader(document, files=files)
    reader.check_version()
    if "info" not in document:
        raise DocumentError("/info: it is not there: AsyncAPI asks for it, and its title names the groups")
    made = _Conversion(reader).made()
    if not made:
        elsewhere = any(repair.rule == "AS-1" for repair in reader.repairs)
        reason = "what it has is in other documents" if elsewhere else "it has no messages, no channels with servers"
        raise DocumentError(f"nothing can be made of it: {reason}")
    repairs = tuple(dict.fromkeys(reader.repairs))
    return labelled(made, repairs, source), repairs


class _Conversion:
    def __init__(self, reader: AsyncApiReader) -> None:
        self._reader = reader
        self._payloads = Payloads(reader)
        self._read = reader.channels()
        has_headers = any("headers" in each.body for each in reader.messages.values())
        self._servers = Servers(reader, has_headers)
        self._servers.read()
        self._channels = Channels(reader, self._servers)
        self._in: dict[str, list[ReadChannel]] = {}
        for channel in self._read:
            for place in channel.messages:
                self._in.setdefault(place, []).append(channel)
        info = reader.object(reader.document.get("info"), "/info")
        self._info = info
        self._group = id_of(reader.text(info, "title", "/info"), "asyncapi")
        self._made: JSONObject = {}
        self._xids: dict[str, str] = {}
        self._schemas: dict[str, str] = {}
        self._ids: dict[str, FreeIds] = {}

    def made(self) -> JSONObject:
        """The document."""
        for message in self._reader.messages.values():
            self._message(message)
        if self._group in self._made.get("messagegroups", {}):
            self._made["messagegroups"][self._group] |= self._reader.described(self._info, "/info", name="title")
        for channel in self._read:
            self._channels.report_losses(channel)
            self._endpoints(channel)
        self._report_groups()
        self._report_rest()
        return self._made

    def _entities(self, *names: str) -> JSONObject:
        """The collection at these names, made if it is not there."""
        found = self._made
        for name in names:
            found = found.setdefault(name, {})
        return found

    def _message(self, message: ReadMessage) -> None:
        """Put the definition of a message into its group."""
        body, path = message.body, message.path
        kind, group, name = self._place(message)
        made = self._reader.described(body, path, name="title")
        if not made.get("name") and body.get("name") not in (None, name):
            made |= {"name": self._reader.text(body, "name", path)}
        self._reader.leave_out(body, _KNOWN, path)
        leave_message_bindings(self._reader, body, path)
        protocol = self._protocol(message)
        members = headers.members_of(self._reader, body.get("headers"), below(path, "headers"))
        self._bound_headers(members, body, path, protocol)
        content_type = self._content_type(body, path)
        if headers.is_structured(content_type):
            made |= self._structured(message, content_type)
            prefix = None
        else:
            made |= {"datacontenttype": content_type} if content_type else {}
            prefix = headers.attribute_prefix(members)
            if prefix is not None:
                found = headers.attributes(self._reader, members, prefix)
                made |= {"envelope": headers.CLOUDEVENTS, **({"envelopemetadata": found} if found else {})}
            made |= self._schema(body.get("payload"), below(path, "payload"), body)
        stated = headers.protocol_headers(self._reader, members, protocol, prefix, below(path, "headers"))
        for own_name, channels in self._by_address(message, protocol, (kind, group, name)):
            options = self._options(message, protocol, channels) | stated
            bound = {"protocol": protocol, **({"protocoloptions": options} if options else {})} if protocol else {}
            self._entities(kind, group, "messages")[own_name] = made | bound

    def _by_address(
        self, message: ReadMessage, protocol: str, place: tuple[str, str, str]
    ) -> list[tuple[str, list[ReadChannel]]]:
        """Return the ids of the definitions of a message, and the channels of each: one for each topic it is sent to.

        A definition has one topic, and one without would match the messages of all.
        """
        kind, group, name = place
        found = self._in.get(message.path, [])
        channels = [each for each in found if protocol in self._channels.known(each)] or found
        by_address: dict[str, list[ReadChannel]] = {}
        for channel in channels:
            if (address := self._channels.address(channel)) is not None:
                by_address.setdefault(address, []).append(channel)
        if not protocol or len(by_address) < 2 or "x-xid" in message.body:
            return [(name, channels)]
        ids = self._ids[f"/{kind}/{group}"]
        definitions = [(ids.free(f"{name}-{alike[0].key}", "message"), alike) for alike in by_address.values()]
        text = (
            f"it is a definition for each of its topics, subjects or paths: {', '.join(own for own, _ in definitions)}"
        )
        self._reader.report(message.path, text, 7)
        return definitions

    def _place(self, message: ReadMessage) -> tuple[str, str, str]:
        """Collection, group and id of a message: by its ``x-xid``, as ``generate`` writes it, else by its name."""
        found = _MESSAGE_XID.fullmatch(str(message.body.get("x-xid") or ""))
        if found and ID.fullmatch(found[2]) and ID.fullmatch(found[3]):
            kind, group, name = found.groups()
            ids = self._ids.setdefault(f"/{kind}/{group}", FreeIds())
            if name.lower() in ids.taken:
                raise DocumentError(f"{message.path}/x-xid: two messages have {found[0]}")
            ids.taken.add(name.lower())
        else:
            kind, group = "messagegroups", self._group
            wanted = str(message.body.get("messageId") or "") if self._reader.is_old else ""
            wanted = wanted if "/components/" not in message.path and wanted else message.key
            name = self._ids.setdefault(f"/{kind}/{group}", FreeIds()).free(wanted, "message")
            if name != wanted:
                self._reader.report(message.path, f"its id is {name}, for {wanted}", 5)
        self._xids[message.path] = f"/{kind}/{group}"
        return kind, group, name

    def _protocol(self, message: ReadMessage) -> str:
        """Return the protocol of a message: that of its bindings, if only one, else that of its channels' servers."""
        bindings = self._reader.bindings(message.body, message.path)
        channels = self._in.get(message.path, ())
        around = {each for channel in channels for each in self._channels.known(channel)}
        own = {self._channels.bound(name) for name in bindings if name in BINDINGS}
        if "mqtt" in bindings and len(mqtt := {each for each in around if each.startswith("MQTT/")}) == 1:
            own = {each for each in own if not each.startswith("MQTT/")} | mqtt
        if len(own) == 1:
            return own.pop()
        # What generate writes states the protocol by bindings wherever the definition does.
        if "x-xid" in message.body:
            return ""
        if len(around) > 1:
            named = ", ".join(sorted(around))
            self._reader.report(message.path, f"it is bound to no protocol: its channels have {named}", 7)
        return around.pop() if len(around) == 1 else ""

    def _options(self, message: ReadMessage, protocol: str, channels: list[ReadChannel]) -> JSONObject:
        """Return where the message goes by these channels, and what its bindings state."""
        found: JSONObject = {}
        addresses = {address for each in channels if (address := self._channels.address(each)) is not None}
        if protocol and len(addresses) > 1:
            text = f"its topic, subject or path is left open: its channels have {len(addresses)}"
            self._reader.report(message.path, text, 7)
        elif protocol and addresses:
            address = addresses.pop()
            to = {"properties": {"to": {"type": "uritemplate", "value": address}}}
            found |= {_TOPICS[protocol]: address} if protocol in _TOPICS else to
        bindings = self._reader.bindings(message.body, message.path)
        if protocol == "KAFKA" and "key" in bindings.get("kafka", {}):
            stated = bindings["kafka"]["key"]
            template = stated.get("x-uritemplate") if isinstance(stated, dict) else None
            key = template if isinstance(template, str) else headers.constant(stated)
            if isinstance(key, str):
                found["key"] = key
            else:
                self._reader.report(f"{message.path}/bindings/kafka/key", "left out: only one value can be said", 3)
        operations = [operation for each in channels for operation in each.operations]
        said = [self._channels.operation_options(each, protocol) for each in operations]
        for name in ("method", "qos", "retain"):
            values = {str(each[name]): each[name] for each in said if name in each}
            found |= {name: next(iter(values.values()))} if len(values) == 1 and len(channels) == 1 else {}
        return found

    def _bound_headers(self, members: headers.SchemaMembers, body: JSONObject, path: str, protocol: str) -> None:
        """The headers that a binding of HTTP adds."""
        http = self._reader.bindings(body, path).get("http", {})
        if protocol == "HTTP" and "headers" in http:
            more = headers.members_of(self._reader, http["headers"], below(path, "bindings", "http", "headers"))
            members.schemas |= more.schemas
            members.required |= more.required

    def _content_type(self, body: JSONObject, path: str) -> str:
        mqtt = {each for name, given in self._reader.bindings(body, path).items() if name in ("mqtt", "mqtt5")
                and isinstance(each := given.get("contentType"), str)}  # fmt: skip
        stated = self._reader.text(body, "contentType", path) or (mqtt.pop() if len(mqtt) == 1 else "")
        return stated or self._reader.text(self._reader.document, "defaultContentType", "")

    def _structured(self, message: ReadMessage, content_type: str) -> JSONObject:
        """An event whose payload is the whole event: attributes and data are members of its schema."""
        path = below(message.path, "payload")
        payload = message.body.get("payload")
        if not self._reader.is_old and isinstance(payload, dict) and {"schemaFormat", "schema"} <= payload.keys():
            payload, path = payload["schema"], below(path, "schema")
        made, data = headers.structured_event(self._reader, payload, path, content_type)
        return made if data is None else made | self._schema(*data, message.body)

    def _schema(self, value: JSON, path: str, body: JSONObject) -> JSONObject:
        """The schema of a message: a reference to one that is shared, or the schema itself."""
        payload = self._payloads.of(value, path, self._reader.text(body, "schemaFormat", path))
        if payload is None:
            return {}
        place = schema_place(payload.xid)
        if place is None and not payload.name:
            document = self._payloads.document(payload)
            return {} if document is None else {"dataschemaformat": payload.format, "dataschema": document}
        xid = self._shared(payload, place or (self._group, payload.name))
        if not xid:
            return {}
        link = payload.link if not payload.link or payload.link[0] in "#:" else f":{payload.link}"
        return {"dataschemaformat": payload.format, "dataschemauri": f"{xid}{link}"}

    def _shared(self, payload: ReadPayload, place: tuple[str, str]) -> str:
        """The xid of a schema, which is made once; empty if it cannot be made."""
        known = payload.xid or payload.file or payload.path
        if known in self._schemas:
            return self._schemas[known]
        group, wanted = place
        group = id_of(group, self._group)
        name = self._ids.setdefault(f"/schemagroups/{group}", FreeIds()).free(wanted, "schema")
        made: JSONObject = {"format": payload.format}
        if payload.file:
            made["schemaurl"] = payload.file
        else:
            document = self._payloads.document(payload)
            if document is None:
                self._schemas[known] = ""
                return ""
            content_type = text_type(payload.format)
            made |= {"contenttype": content_type} if content_type else {}
            made["schema"] = document
        self._entities("schemagroups", group, "schemas")[name] = made
        self._schemas[known] = xid = f"/schemagroups/{group}/schemas/{name}"
        return xid

    def _endpoints(self, channel: ReadChannel) -> None:
        """An endpoint for each protocol of a channel, and each direction."""
        if self._is_generated(channel) and "x-xid" not in channel.body:
            return  # of no endpoint, though AsyncAPI takes it to be on all servers
        stated = _ENDPOINT_XID.fullmatch(str(channel.body.get("x-xid") or ""))
        protocols = self._channels.protocols(channel)
        operations = {each.action: each for each in channel.operations}
        groups = list(dict.fromkeys(self._xids[place] for place in channel.messages))
        for protocol, servers in protocols.items():
            directions: list[ReadOperation | None] = [*operations.values()]
            for operation in directions or [None]:
                made = self._channels.endpoint(channel, protocol, servers, operation)
                own = [group for group in groups if group.startswith("/messagegroups/")]
                made |= {"messagegroups": own} if own else {}
                if stated and ID.fullmatch(stated[1]):
                    _join(self._entities("endpoints", stated[1]), made)
                    continue
                parts = [channel.key, *([protocol.lower()] if len(protocols) > 1 else ())]
                parts += [operation.action] if operation is not None and len(operations) > 1 else []
                name = self._ids.setdefault("/endpoints", FreeIds()).free("-".join(parts), "channel")
                self._entities("endpoints")[name] = made

    def _is_generated(self, channel: ReadChannel) -> bool:
        """Return True if ``generate`` wrote the channel: its messages have xids."""
        found = [self._reader.messages[place].body for place in channel.messages]
        return bool(found) and all("x-xid" in body for body in found)

    def _report_groups(self) -> None:
        """An endpoint names groups, not messages."""
        sizes: dict[str, int] = {}
        for group in self._xids.values():
            sizes[group] = sizes.get(group, 0) + 1
        for channel in self._read:
            groups = {self._xids[place] for place in channel.messages}
            if not self._is_generated(channel) and sum(sizes[group] for group in groups) > len(set(channel.messages)):
                text = "its endpoints name the whole group: which messages are in it, their own options tell"
                self._reader.report(channel.path, text, 7)

    def _report_rest(self) -> None:
        """Report the parts that belong to no message."""
        self._reader.leave_out(self._reader.document, _ROOT, "")
        self._reader.leave_out(self._info, _INFO, "/info")
        components = self._reader.object(self._reader.document.get("components"), "/components")
        self._reader.leave_out(components, _COMPONENTS, "/components")
        schemas = self._reader.object(components.get("schemas"), "/components/schemas")
        for name, schema in schemas.items():
            xid = schema.get("x-xid") if isinstance(schema, dict) else None
            if below("", name)[1:] not in self._payloads.used and str(xid) not in self._schemas:
                path = below("/components/schemas", name)
                self._reader.report(path, "left out: no payload refers to it", 2)


def _join(there: JSONObject, made: JSONObject) -> None:
    """Several channels of one endpoint: what they do not agree on is not said of it."""
    if not there:
        there.update(made)
        return
    for name in ("usage", "messagegroups"):
        if name in made:
            there[name] = list(dict.fromkeys([*there.get(name, ()), *made[name]]))
    own, other = there["protocoloptions"], made["protocoloptions"]
    there["protocoloptions"] = {name: value for name, value in own.items() if other.get(name) == value}
