"""Servers, channels and operations of AsyncAPI as endpoints, and what a channel says of the messages in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from signalbook.documents.asyncapi.reading import AsyncApiReader, ReadChannel, ReadOperation
from signalbook.documents.headers import constant
from signalbook.documents.references import below
from signalbook.values import JSON, JSONObject

_MQTT: Final = "mqtt"
# Protocol of AsyncAPI -> protocol of endpoints, and the scheme of its addresses.
_PROTOCOLS: Final = {
    "http": ("HTTP", "http"),
    "https": ("HTTP", "https"),
    "kafka": ("KAFKA", ""),
    "kafka-secure": ("KAFKA", ""),
    "mqtt": (_MQTT, "mqtt"),
    "mqtts": (_MQTT, "mqtts"),
    "secure-mqtt": (_MQTT, "mqtts"),
    "mqtt5": ("MQTT/5.0", "mqtt"),
    "mqtt5-secure": ("MQTT/5.0", "mqtts"),
    "nats": ("NATS", "nats"),
    "amqp1": ("AMQP/1.0", "amqp"),
}
BINDINGS: Final = {
    "http": "HTTP", "kafka": "KAFKA", "mqtt": _MQTT, "mqtt5": "MQTT/5.0", "nats": "NATS", "amqp1": "AMQP/1.0",
}  # fmt: skip
_TOPICS: Final = {"HTTP": "path", "KAFKA": "topic", "MQTT/3.1.1": "topic", "MQTT/5.0": "topic", "NATS": "subject"}
_SECURITY: Final = {
    "userPassword": {"type": "Plain"}, "apiKey": {"type": "APIKey"}, "httpApiKey": {"type": "APIKey"},
    "X509": {"type": "X509Cert"}, "oauth2": {"type": "OAuth2"}, "openIdConnect": {"type": "OAuth2"},
    "plain": {"type": "SASL", "mechanism": "PLAIN"}, "gssapi": {"type": "SASL", "mechanism": "GSSAPI"},
    "scramSha256": {"type": "SASL", "mechanism": "SCRAM-SHA-256"},
    "scramSha512": {"type": "SASL", "mechanism": "SCRAM-SHA-512"},
}  # fmt: skip
_SERVER: Final = frozenset(
    {"url", "host", "pathname", "protocol", "protocolVersion", "security", "description", "title", "summary",
     "variables", "bindings"}
)  # fmt: skip
_CHANNEL: Final = frozenset(
    {"address", "messages", "servers", "parameters", "bindings", "description", "title", "summary", "publish",
     "subscribe", "x-xid", "externalDocs"}
)  # fmt: skip
_OPERATION: Final = frozenset({"action", "channel", "messages", "message", "operationId", "bindings"})
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadServer:
    """A server: its protocol (empty: none that messages can be bound to), its address, and how to be let in."""

    protocol: str
    named: str
    address: JSONObject
    security: tuple[JSONObject, ...]


@dataclass(slots=True)
class Servers:
    """The servers of a document; ``has_headers`` decides which version of MQTT is meant where none is stated."""

    reader: AsyncApiReader
    has_headers: bool
    found: dict[str, ReadServer] = field(default_factory=dict)

    def read(self) -> None:
        """Read all."""
        for key, body, path in self.reader.members(self.reader.document, "servers", ""):
            self.found[key] = self._server(body, path)

    def mqtt(self, version: str = "") -> str:
        """The version of MQTT that is meant."""
        return "MQTT/5.0" if version.startswith("5") or (not version and self.has_headers) else "MQTT/3.1.1"

    def _server(self, body: JSONObject, path: str) -> ReadServer:
        text = self.reader.text
        named = text(body, "protocol", path).lower()
        version = str(body.get("protocolVersion") or "")
        protocol, scheme = _PROTOCOLS.get(named, ("", named))
        if named in ("amqp", "amqps") and version.startswith("1"):
            protocol = "AMQP/1.0"
        if protocol == _MQTT:
            protocol = self.mqtt(version)
            if not version:
                self.reader.report(path, f"took its protocol for {protocol}: no protocolVersion is stated", 7)
        if not protocol:
            self.reader.report(path, f"the protocol {named!r} is kept as a name: it has no message bindings", 4)
        url = text(body, "url", path) if self.reader.is_old else text(body, "host", path) + text(body, "pathname", path)
        self.reader.leave_out(body, _SERVER, path)
        bindings = [name for name, each in self.reader.bindings(body, path).items() if each]
        if bindings:
            self.reader.report(below(path, "bindings"), f"left out those of {', '.join(sorted(bindings))}", 2)
        for name, variable, place in self.reader.members(body, "variables", path):
            if variable:
                said = ", ".join(sorted(variable))
                self.reader.report(place, f"left out {said}: {name} is a placeholder of the address", 2)
        return ReadServer(
            protocol=protocol, named=named, address=self._address(url, protocol, scheme, named),
            security=tuple(self._security(body, path)),
        )  # fmt: skip

    def _address(self, url: str, protocol: str, scheme: str, named: str) -> JSONObject:
        before, separator, rest = url.partition("://")
        bare = self.template(rest if separator else url)
        if protocol == "KAFKA":
            servers = [each.strip() for each in bare.rstrip("/").split(",") if each.strip()]
            secure = {"security.protocol": "SSL"} if named == "kafka-secure" else {}
            return {"bootstrap.servers": servers, **secure}
        return {"uri": f"{before if separator else scheme}://{bare}"}

    def template(self, text: str) -> str:
        """``text`` with names in braces that a URI Template may have."""
        return _PLACEHOLDER.sub(lambda found: "{" + re.sub(r"[^A-Za-z0-9_.]", "_", found[1]) + "}", text)

    def _security(self, body: JSONObject, path: str) -> list[JSONObject]:
        found: list[JSONObject] = []
        for value, place in self.reader.items(body, "security", path):
            for scheme in self._schemes(value, place):
                kind = scheme.get("type")
                made = _SECURITY.get(kind) if isinstance(kind, str) else None
                if made is None:
                    self.reader.report(place, f"left out security of type {kind!r}", 2)
                elif made not in found:
                    found.append(dict(made))
        return found

    def _schemes(self, value: JSON, path: str) -> list[JSONObject]:
        """The Security Scheme Objects of a requirement: by name in 2.x, references in 3.0."""
        if not self.reader.is_old:
            followed = self.reader.follow(value, path)
            return [] if followed is None else [self.reader.object(*followed)]
        names = self.reader.object(value, path)
        schemes: list[JSONObject] = []
        for name in names:
            followed = self.reader.follow({"$ref": "#" + below("/components/securitySchemes", name)}, path)
            schemes += [] if followed is None else [self.reader.object(*followed)]
        return schemes


@dataclass(slots=True)
class Channels:
    """The channels of a document with protocols, addresses and options of endpoints."""

    reader: AsyncApiReader
    servers: Servers

    def protocols(self, channel: ReadChannel) -> dict[str, list[ReadServer]]:
        """The servers of a channel by their protocol; without servers, its bindings say one."""
        found: dict[str, list[ReadServer]] = {}
        for name in channel.servers or self.servers.found:
            server = self.servers.found.get(name)
            if server is None:
                self.reader.report(channel.path, f"there is no server {name}", 1)
            else:
                found.setdefault(server.protocol or server.named.upper(), []).append(server)
        return found

    def known(self, channel: ReadChannel) -> set[str]:
        """The protocols that messages of the channel can be bound to."""
        stated = [server.protocol for name in channel.servers or self.servers.found
                  if (server := self.servers.found.get(name)) is not None]  # fmt: skip
        if not stated:
            stated = [self.bound(name) for name in self.reader.bindings(channel.body, channel.path)]
        return {each for each in stated if each}

    def bound(self, binding: str) -> str:
        """The protocol of a binding, empty if messages are not bound to it."""
        protocol = BINDINGS.get(binding, "")
        return self.servers.mqtt() if protocol == _MQTT else protocol

    def address(self, channel: ReadChannel) -> str | None:
        """Topic, subject or path."""
        kafka = self.reader.bindings(channel.body, channel.path).get("kafka", {})
        stated = self.reader.text(kafka, "topic", below(channel.path, "bindings", "kafka")) or channel.address
        return None if stated is None else self.servers.template(stated)

    def report_losses(self, channel: ReadChannel) -> None:
        """Note what nothing is made of in a channel and its operations."""
        reader, path = self.reader, channel.path
        reader.leave_out(channel.body, _CHANNEL, path)
        for name, body, place in reader.members(channel.body, "parameters", path):
            if body:
                reader.report(place, f"left out {', '.join(sorted(body))}: {name} is a placeholder", 2)
        if channel.address is not None and self.servers.template(channel.address) != channel.address:
            reader.report(path, f"its address became {self.servers.template(channel.address)}", 5)
        _leave_bindings(reader, channel.body, path, {"kafka": {"topic"}})
        for operation in channel.operations:
            reader.leave_out(operation.body, _OPERATION, operation.path)
            kept = {"http": {"method"}, "kafka": {"groupId"}, "mqtt": {"qos", "retain"}, "mqtt5": {"qos", "retain"}}
            _leave_bindings(reader, operation.body, operation.path, kept)

    def endpoint(
        self, channel: ReadChannel, protocol: str, servers: list[ReadServer], operation: ReadOperation | None
    ) -> JSONObject:
        """The endpoint of one protocol, and one direction if there is any."""
        options: JSONObject = {"endpoints": [server.address for server in servers]}
        security = [each for server in servers for each in server.security]
        if security:
            options["authorization"] = [each for at, each in enumerate(security) if each not in security[:at]]
        address, option = self.address(channel), _TOPICS.get(protocol)
        if address is not None and protocol == "AMQP/1.0":
            options["node"] = address
        elif address is not None and option:
            options[option] = address
        usage = []
        if operation is not None:
            options |= self.operation_options(operation, protocol)
            usage = ["producer" if operation.action == "send" else self._reads(options, protocol)]
        made: JSONObject = {"usage": usage} if usage else {}
        text = channel.body.get("description") or channel.body.get("summary")
        made |= {"description": text} if isinstance(text, str) else {}
        title = channel.body.get("title")
        made |= {"name": title} if isinstance(title, str) else {}
        return {**made, "protocol": protocol, "protocoloptions": options}

    @staticmethod
    def _reads(options: JSONObject, protocol: str) -> str:
        """A consumer of Kafka joins a group that it names; a subscriber makes its own."""
        return "subscriber" if protocol == "KAFKA" and "consumergroup" not in options else "consumer"

    def operation_options(self, operation: ReadOperation, protocol: str) -> JSONObject:
        """Return the options in the bindings of an operation."""
        bindings: dict[str, Any] = self.reader.bindings(operation.body, operation.path)
        found: JSONObject = {}
        if protocol == "HTTP" and isinstance(bindings.get("http", {}).get("method"), str):
            found["method"] = bindings["http"]["method"]
        if protocol == "KAFKA" and operation.action == "receive":
            group = constant(bindings.get("kafka", {}).get("groupId"))
            found |= {"consumergroup": group} if isinstance(group, str) else {}
        if protocol.startswith("MQTT/"):
            given = {**bindings.get("mqtt", {}), **bindings.get("mqtt5", {})}
            found |= {"qos": given["qos"]} if given.get("qos") in (0, 1, 2) else {}
            found |= {"retain": given["retain"]} if isinstance(given.get("retain"), bool) else {}
        return found


def _leave_bindings(reader: AsyncApiReader, body: JSONObject, path: str, kept: dict[str, set[str]]) -> None:
    for name, given in reader.bindings(body, path).items():
        lost = sorted(given.keys() - kept.get(name, set()) - {"bindingVersion"})
        if lost:
            reader.report(below(path, "bindings", name), f"left out {', '.join(lost)}", 2)


def leave_message_bindings(reader: AsyncApiReader, body: JSONObject, path: str) -> None:
    """Note what nothing is made of in the bindings of a message."""
    kept = {"http": {"headers"}, "kafka": {"key"}, "mqtt": {"contentType"}, "mqtt5": {"contentType"}}
    _leave_bindings(reader, body, path, kept)
