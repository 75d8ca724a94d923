"""What the endpoint specification demands of an endpoint and no model can say (domain.md H-3 to H-14, H-21)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from signalbook.messages.endpointoptions import option_findings
from signalbook.messages.lint import lint_envelope_options
from signalbook.messages.propertylint import Severity
from signalbook.messages.protocols import canonical_protocol, is_known_protocol
from signalbook.messages.uritemplates import TemplateError, is_template, parse_template
from signalbook.uris import is_uri
from signalbook.values import JSON, Finding, JSONObject

_USAGES: Final = ("subscriber", "consumer", "producer")
_BOTH: Final = frozenset({"MQTT/3.1.1", "MQTT/5.0", "AMQP/1.0", "NATS"})
"""Protocols in which one connection both subscribes and consumes."""
_SCHEMES: Final = {
    "HTTP": ("http", "https"),
    "AMQP/1.0": ("amqp", "amqps"),
    "MQTT/3.1.1": ("mqtt", "mqtts", "tcp", "ssl", "wss"),
    "MQTT/5.0": ("mqtt", "mqtts", "tcp", "ssl", "wss"),
    "NATS": ("nats", "tls", "ws"),
}
_PATHLESS: Final = ("tcp", "ssl", "wss")
_ENVELOPE: Final = re.compile(r"[^/\s]+(/\S+)?")
_AUTHORIZATIONS: Final = ("OAuth2", "Plain", "SASL", "X509Cert", "APIKey")
_CREDENTIALS: Final = re.compile(r"passw|secret|token$|credential|privatekey|apikeyvalue", re.IGNORECASE)
_MISPLACED: Final = ("authorization", "deployed", "endpoints", "options")
_GROUP: Final = re.compile(r"/[^/]+/[^/]+")
_MAX_TEXTS: Final = 1000


def lint_endpoint(endpoint: Mapping[str, JSON]) -> list[Finding]:
    """Findings about an endpoint's own attributes; those of severity ``error`` break a MUST (H-15)."""
    stated = endpoint.get("protocol")
    protocol = canonical_protocol(stated) if isinstance(stated, str) else ""
    options = endpoint.get("protocoloptions")
    found = [*_usage(endpoint.get("usage"), protocol), *_names(endpoint), *_groups(endpoint.get("messagegroups"))]
    found += lint_envelope_options(endpoint.get("envelopeoptions"))
    if isinstance(options, dict):
        usage = endpoint.get("usage")
        roles = frozenset(role for role in usage if isinstance(role, str)) if isinstance(usage, list) else frozenset()
        found += _addresses(options.get("endpoints"), protocol)
        found += _authorization(options.get("authorization"))
        found += option_findings(options, protocol, roles)
        found += _templates(options)
    elif options is not None:
        found.append(_finding("protocoloptions", "structure", "must be an object"))
    return found


def lint_messageids(messages: Iterable[tuple[str, str]]) -> list[Finding]:
    """Ids that several messages of an endpoint have (H-13); ``messages`` are pairs of an id and where it is."""
    places: dict[str, list[str]] = {}
    for messageid, place in messages:
        places.setdefault(messageid.casefold(), []).append(place)
    return [
        _finding("messages", "duplicate_id", f"one id, several messages: {', '.join(sorted(found))}", "warning")
        for found in places.values()
        if len(found) > 1
    ]


def _usage(usage: JSON, protocol: str) -> Iterator[Finding]:
    """H-3."""
    if usage is None:
        yield _finding("usage", "required", f"an endpoint states its usage: {', '.join(_USAGES)}")
        return
    if not isinstance(usage, list) or not usage:
        yield _finding("usage", "structure", "must be a list of at least one value")
        return
    for value in usage:
        if value not in _USAGES:
            yield _finding("usage", "enum", f"{value!r} is none of {', '.join(_USAGES)}")
    roles = {value for value in usage if isinstance(value, str)}
    if len(usage) == 1:
        return
    if len(usage) != len(roles) or roles != {"subscriber", "consumer"}:
        text = 'an endpoint has one usage; only "subscriber" and "consumer" may go together'
        yield _finding("usage", "exclusive", text)
    elif protocol not in _BOTH:
        text = (
            f"subscriber and consumer are two endpoints with {protocol or 'no protocol stated'}; they share a channel"
        )
        yield _finding("usage", "exclusive", text)


def _names(endpoint: Mapping[str, JSON]) -> Iterator[Finding]:
    """H-5, H-6, H-8, H-21, and members of protocoloptions that stand beside it (I-6)."""
    for name in ("channel", "envelope", "protocol"):
        value = endpoint.get(name)
        if value is not None and not (isinstance(value, str) and value.strip()):
            yield _finding(name, "type", "must be a non-empty string")
    envelope, protocol = endpoint.get("envelope"), endpoint.get("protocol")
    if isinstance(envelope, str) and envelope.strip() and not _ENVELOPE.fullmatch(envelope):
        yield _finding("envelope", "format", f"{envelope!r} is not of the form NAME or NAME/VERSION")
    if isinstance(protocol, str) and protocol.strip() and not is_known_protocol(protocol):
        text = f"the specification names no protocol {protocol!r}: its options are not looked at"
        yield _finding("protocol", "unknown", text, "warning")
    deprecated = endpoint.get("deprecated")
    deprecated = deprecated if isinstance(deprecated, dict) else {}
    links = [deprecated[name] for name in ("docs", "documentation") if name in deprecated]
    if links and links[0] != links[-1]:
        yield _finding("deprecated.docs", "alias", "docs and documentation mean the same, but differ")
    for name in _MISPLACED:
        if name in endpoint:
            text = f"{name} belongs into protocoloptions: nobody looks for it here"
            yield _finding(name, "misplaced", text, "warning")


def _groups(groups: JSON) -> Iterator[Finding]:
    """H-12."""
    if groups is None:
        return
    if not isinstance(groups, list):
        yield _finding("messagegroups", "structure", "must be a list of URIs")
        return
    for position, group in enumerate(groups):
        path = f"messagegroups[{position}]"
        if not isinstance(group, str):
            yield _finding(path, "type", "must be a URI")
        elif group.startswith("/") and not _GROUP.fullmatch(group):
            yield _finding(path, "xid", f"{group!r} is not the xid of a group")
        elif not group.startswith("/") and not is_uri(group.removeprefix("#")) and not group.startswith("#/"):
            yield _finding(path, "uri", f"{group!r} is neither an xid nor an absolute URI")


def _addresses(addresses: JSON, protocol: str) -> Iterator[Finding]:
    """H-9; none at all makes an endpoint abstract, which is fine (H-11)."""
    if addresses is None:
        return
    if not isinstance(addresses, list):
        yield _finding("protocoloptions.endpoints", "structure", "must be a list of objects")
        return
    for position, entry in enumerate(addresses):
        path = f"protocoloptions.endpoints[{position}]"
        if not isinstance(entry, dict):
            yield _finding(path, "structure", "must be an object")
        elif protocol == "KAFKA":
            yield from _bootstrap(f"{path}.bootstrap.servers", entry.get("bootstrap.servers"))
        elif protocol in _SCHEMES:
            yield from _address(f"{path}.uri", entry.get("uri"), protocol)


def _bootstrap(path: str, servers: JSON) -> Iterator[Finding]:
    if not isinstance(servers, list) or not servers:
        yield _finding(path, "required", "a Kafka cluster is reached by a list of at least one server")
    elif not all(isinstance(server, str) and server for server in servers):
        yield _finding(path, "type", "must be a list of non-empty strings")


def _address(path: str, uri: JSON, protocol: str) -> Iterator[Finding]:
    if not isinstance(uri, str) or not uri:
        yield _finding(path, "required", f"an address of {protocol} is a URI")
        return
    scheme, separator, rest = uri.partition("://")
    if "{" in scheme:
        return
    allowed = _SCHEMES[protocol]
    if not separator or scheme.lower() not in allowed:
        yield _finding(path, "scheme", f"{uri!r} does not begin with {', '.join(f'{name}://' for name in allowed)}")
    elif scheme.lower() in _PATHLESS and rest.partition("/")[2]:
        yield _finding(path, "path", f"an address with {scheme.lower()}:// has no path")
    elif protocol == "NATS" and not is_template(uri) and not _has_port(uri):
        yield _finding(path, "port", f"an address of NATS names its port: {scheme}://HOST:PORT")


def _has_port(uri: str) -> bool:
    try:
        return urlsplit(uri).port is not None
    except ValueError:
        return False


def _authorization(entries: JSON) -> Iterator[Finding]:
    """H-10."""
    if entries is None:
        return
    if not isinstance(entries, list):
        yield _finding("protocoloptions.authorization", "structure", "must be a list of objects")
        return
    for position, entry in enumerate(entries):
        path = f"protocoloptions.authorization[{position}]"
        if isinstance(entry, dict):
            yield from _way_in(path, entry)
        else:
            yield _finding(path, "structure", "must be an object")


def _way_in(path: str, entry: JSONObject) -> Iterator[Finding]:
    kind = entry.get("type")
    if kind is not None and kind not in _AUTHORIZATIONS:
        yield _finding(f"{path}.type", "enum", f"{kind!r} is none of {', '.join(_AUTHORIZATIONS)}", "warning")
    if "mechanism" in entry and kind != "SASL":
        yield _finding(f"{path}.mechanism", "exclusive", "only SASL has mechanisms")
    for name in ("type", "mechanism", "resourceuri", "authorityuri"):
        if name in entry and not (isinstance(entry[name], str) and entry[name]):
            yield _finding(f"{path}.{name}", "type", "must be a non-empty string")
        elif name.endswith("uri") and name in entry and not (is_uri(entry[name]) or is_template(entry[name])):
            yield _finding(f"{path}.{name}", "uri", f"{entry[name]!r} is no URI")
    for name in entry:
        if _CREDENTIALS.search(name):
            text = "a registry says how to be let in, and holds no credentials"
            yield _finding(f"{path}.{name}", "credentials", text)


def _templates(options: JSONObject) -> Iterator[Finding]:
    """H-14: strings anywhere in the options may hold placeholders; other braces may be meant as such."""
    for path, text in _texts("protocoloptions", options, [_MAX_TEXTS]):
        if "{" in text:
            try:
                parse_template(text)
            except TemplateError as error:
                yield _finding(path, "uritemplate", str(error), "warning")


def _texts(path: str, value: Any, left: list[int]) -> Iterator[tuple[str, str]]:
    """Strings in ``value``, keys of maps too; a bounded number of them."""
    left[0] -= 1
    if left[0] < 0:
        return
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield f"{path}.{name}", name
            yield from _texts(f"{path}.{name}", member, left)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _texts(f"{path}[{position}]", item, left)


def _finding(path: str, rule: str, message: str, severity: Severity = "error") -> Finding:
    return Finding(path=path, rule=rule, message=message, severity=severity)
