"""Convert servers, channels and operations of AsyncAPI to endpoints, and find what a channel says of its messages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from signalbook.documents.asyncapi.reading import AsyncApiReader, ReadChannel, ReadOperation
from signalbook.documents.headers import find_constant
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
    """A server: its protocol, its address, and its authentication options.

    ``protocol`` is empty if messages cannot be bound to the server's protocol.
    """

    protocol: str
    protocol_name: str
    address: JSONObject
    security: tuple[JSONObject, ...]


@dataclass(slots=True)
class Servers:
    """The servers of a document. If they do not state a version of MQTT, ``has_headers`` decides which one is meant."""

    reader: AsyncApiReader
    has_headers: bool
    by_name: dict[str, ReadServer] = field(default_factory=dict)

    def read(self) -> None:
        """Read all servers of the document."""
        for key, body, path in self.reader.members(self.reader.document, "servers", ""):
            self.by_name[key] = self._read_server(body, path)

    def choose_mqtt_version(self, version: str = "") -> str:
        """Return the version of MQTT that is meant."""
        return "MQTT/5.0" if version.startswith("5") or (not version and self.has_headers) else "MQTT/3.1.1"

    def _read_server(self, body: JSONObject, path: str) -> ReadServer:
        text = self.reader.text
        protocol_name = text(body, "protocol", path).lower()
        version = str(body.get("protocolVersion") or "")
        protocol, scheme = _PROTOCOLS.get(protocol_name, ("", protocol_name))
        if protocol_name in ("amqp", "amqps") and version.startswith("1"):
            protocol = "AMQP/1.0"
        if protocol == _MQTT:
            protocol = self.choose_mqtt_version(version)
            if not version:
                self.reader.report(path, f"took its protocol for {protocol}: no protocolVersion is stated", 7)
        if not protocol:
            self.reader.report(path, f"the protocol {protocol_name!r} is kept as a name: it has no message bindings", 4)
        url = text(body, "url", path) if self.reader.is_old else text(body, "host", path) + text(body, "pathname", path)
        self.reader.leave_out(body, _SERVER, path)
        bindings = [name for name, binding in self.reader.read_bindings(body, path).items() if binding]
        if bindings:
            self.reader.report(below(path, "bindings"), f"left out those of {', '.join(sorted(bindings))}", 2)
        for name, variable, place in self.reader.members(body, "variables", path):
            if variable:
                member_names = ", ".join(sorted(variable))
                self.reader.report(place, f"left out {member_names}: {name} is a placeholder of the address", 2)
        return ReadServer(
            protocol=protocol, protocol_name=protocol_name,
            address=self._build_address(url, protocol, scheme, protocol_name),
            security=tuple(self._read_security(body, path)),
        )  # fmt: skip

    def _build_address(self, url: str, protocol: str, scheme: str, protocol_name: str) -> JSONObject:
        url_scheme, separator, after = url.partition("://")
        bare = self.make_template(after if separator else url)
        if protocol == "KAFKA":
            servers = [server.strip() for server in bare.rstrip("/").split(",") if server.strip()]
            secure = {"security.protocol": "SSL"} if protocol_name == "kafka-secure" else {}
            return {"bootstrap.servers": servers, **secure}
        return {"uri": f"{url_scheme if separator else scheme}://{bare}"}

    def make_template(self, text: str) -> str:
        """Return ``text`` with the names in braces changed to names that a URI Template may have."""
        return _PLACEHOLDER.sub(lambda match: "{" + re.sub(r"[^A-Za-z0-9_.]", "_", match[1]) + "}", text)

    def _read_security(self, body: JSONObject, path: str) -> list[JSONObject]:
        authorizations: list[JSONObject] = []
        for value, place in self.reader.items(body, "security", path):
            for scheme in self._find_schemes(value, place):
                kind = scheme.get("type")
                authorization = _SECURITY.get(kind) if isinstance(kind, str) else None
                if authorization is None:
                    self.reader.report(place, f"left out security of type {kind!r}", 2)
                elif authorization not in authorizations:
                    authorizations.append(dict(authorization))
        return authorizations

    def _find_schemes(self, value: JSON, path: str) -> list[JSONObject]:
        """Return the Security Scheme Objects of a requirement: 2.x names them, 3.0 refers to them."""
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
    """The channels of a document, with the protocols, addresses and options for endpoints."""

    reader: AsyncApiReader
    servers: Servers

    def group_servers(self, channel: ReadChannel) -> dict[str, list[ReadServer]]:
        """Return the servers of a channel by protocol. A channel that names no server is on all servers."""
        by_protocol: dict[str, list[ReadServer]] = {}
        for name in channel.servers or self.servers.by_name:
            server = self.servers.by_name.get(name)
            if server is None:
                self.reader.report(channel.path, f"there is no server {name}", 1)
            else:
                by_protocol.setdefault(server.protocol or server.protocol_name.upper(), []).append(server)
        return by_protocol

    def find_message_protocols(self, channel: ReadChannel) -> set[str]:
        """Return the protocols that messages of the channel can be bound to: of its servers, else of its bindings."""
        stated = [server.protocol for name in channel.servers or self.servers.by_name
                  if (server := self.servers.by_name.get(name)) is not None]  # fmt: skip
        if not stated:
            stated = [self.find_bound_protocol(name) for name in self.reader.read_bindings(channel.body, channel.path)]
        return {protocol for protocol in stated if protocol}

    def find_bound_protocol(self, binding: str) -> str:
        """Return the protocol of a binding, or "" if messages cannot be bound to it."""
        protocol = BINDINGS.get(binding, "")
        return self.servers.choose_mqtt_version() if protocol == _MQTT else protocol

    def find_address(self, channel: ReadChannel) -> str | None:
        """Return the topic, subject or path of a channel."""
        kafka = self.reader.read_bindings(channel.body, channel.path).get("kafka", {})
        stated = self.reader.text(kafka, "topic", below(channel.path, "bindings", "kafka")) or channel.address
        return None if stated is None else self.servers.make_template(stated)

    def report_losses(self, channel: ReadChannel) -> None:
        """Note the parts of a channel and its operations that are lost."""
        reader, path = self.reader, channel.path
        reader.leave_out(channel.body, _CHANNEL, path)
        for name, body, place in reader.members(channel.body, "parameters", path):
            if body:
                reader.report(place, f"left out {', '.join(sorted(body))}: {name} is a placeholder", 2)
        if channel.address is not None and self.servers.make_template(channel.address) != channel.address:
            reader.report(path, f"its address became {self.servers.make_template(channel.address)}", 5)
        _leave_bindings(reader, channel.body, path, {"kafka": {"topic"}})
        for operation in channel.operations:
            reader.leave_out(operation.body, _OPERATION, operation.path)
            used_members = {
                "http": {"method"},
                "kafka": {"groupId"},
                "mqtt": {"qos", "retain"},
                "mqtt5": {"qos", "retain"},
            }
            _leave_bindings(reader, operation.body, operation.path, used_members)

    def build_endpoint(
        self, channel: ReadChannel, protocol: str, servers: list[ReadServer], operation: ReadOperation | None
    ) -> JSONObject:
        """Return the endpoint for one protocol, and for one direction if the channel has operations."""
        options: JSONObject = {"endpoints": [server.address for server in servers]}
        security = [authorization for server in servers for authorization in server.security]
        if security:
            options["authorization"] = [
                authorization for at, authorization in enumerate(security) if authorization not in security[:at]
            ]
        address, option = self.find_address(channel), _TOPICS.get(protocol)
        if address is not None and protocol == "AMQP/1.0":
            options["node"] = address
        elif address is not None and option:
            options[option] = address
        usage = []
        if operation is not None:
            options |= self.build_operation_options(operation, protocol)
            usage = ["producer" if operation.action == "send" else self._choose_reader_usage(options, protocol)]
        endpoint: JSONObject = {"usage": usage} if usage else {}
        text = channel.body.get("description") or channel.body.get("summary")
        endpoint |= {"description": text} if isinstance(text, str) else {}
        title = channel.body.get("title")
        endpoint |= {"name": title} if isinstance(title, str) else {}
        return {**endpoint, "protocol": protocol, "protocoloptions": options}

    @staticmethod
    def _choose_reader_usage(options: JSONObject, protocol: str) -> str:
        """Return the usage of an endpoint for readers: Kafka's consumers join a group, subscribers create their own."""
        return "subscriber" if protocol == "KAFKA" and "consumergroup" not in options else "consumer"

    def build_operation_options(self, operation: ReadOperation, protocol: str) -> JSONObject:
        """Return the options in the bindings of an operation."""
        bindings: dict[str, Any] = self.reader.read_bindings(operation.body, operation.path)
        options: JSONObject = {}
        if protocol == "HTTP" and isinstance(bindings.get("http", {}).get("method"), str):
            options["method"] = bindings["http"]["method"]
        if protocol == "KAFKA" and operation.action == "receive":
            group = find_constant(bindings.get("kafka", {}).get("groupId"))
            options |= {"consumergroup": group} if isinstance(group, str) else {}
        if protocol.startswith("MQTT/"):
            binding = {**bindings.get("mqtt", {}), **bindings.get("mqtt5", {})}
            options |= {"qos": binding["qos"]} if binding.get("qos") in (0, 1, 2) else {}
            options |= {"retain": binding["retain"]} if isinstance(binding.get("retain"), bool) else {}
        return options


def _leave_bindings(reader: AsyncApiReader, body: JSONObject, path: str, used_members: dict[str, set[str]]) -> None:
    for name, binding in reader.read_bindings(body, path).items():
        lost = sorted(binding.keys() - used_members.get(name, set()) - {"bindingVersion"})
        if lost:
            reader.report(below(path, "bindings", name), f"left out {', '.join(lost)}", 2)


def leave_message_bindings(reader: AsyncApiReader, body: JSONObject, path: str) -> None:
    """Note the parts of a message's bindings that are lost."""
    used_members = {"http": {"headers"}, "kafka": {"key"}, "mqtt": {"contentType"}, "mqtt5": {"contentType"}}
    _leave_bindings(reader, body, path, used_members)
