"""Check rules of the endpoint specification that a model cannot express (H-3 to H-14, H-21)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from signalbook.messages.bindings.outgoing import TOKEN
from signalbook.messages.definitions.lint import lint_envelope_options, lint_header_names
from signalbook.messages.definitions.normalise import canonical_protocol, is_known_protocol
from signalbook.messages.properties import finding
from signalbook.messages.uritemplates import TemplateError, is_template, parse_template
from signalbook.uris import is_uri
from signalbook.values import JSON, Finding, JSONObject

Roles = frozenset[str]
_WILL: Final = re.compile(r"/[^/]+/[^/]+/messages/[^/]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of an endpoint: the kind of its value, and the set or range of allowed values, if it is limited."""

    kind: str = "string"
    values: tuple[Any, ...] = ()
    least: int | None = None
    most: int | None = None


_OPTION_KINDS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "integer": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "strings": ("a list of strings", lambda value: _are_strings(value)),
    "texts": ("a map of strings", lambda value: _are_texts(value)),
    "map": ("a map", lambda value: isinstance(value, dict)),
    "headers": ("a list of objects with name and value", lambda value: _are_headers(value)),
    "query": ("a map of strings", lambda value: _are_texts(value) or _are_headers(value)),
}
_UINT32: Final = 2**32 - 1
_MQTT: Final = {
    "topic": Option(),
    "topicfilter": Option(),
    "qos": Option(kind="integer", values=(0, 1, 2)),
    "retain": Option(kind="boolean"),
    "willtopic": Option(),
    "willmessage": Option(),
}
OPTIONS: Final[Mapping[str, Mapping[str, Option]]] = {
    "HTTP": {
        "method": Option(),
        "headers": Option(kind="headers"),
        "query": Option(kind="query"),
        "apikeyname": Option(),
        "apikeyin": Option(values=("header", "query")),
        "plainscheme": Option(values=("basic", "form", "query")),
        "plainusernamefield": Option(),
        "plainpasswordfield": Option(),
    },
    "AMQP/1.0": {
        "node": Option(),
        "durable": Option(kind="boolean"),
        "link-properties": Option(kind="texts"),
        "connection-properties": Option(kind="texts"),
        "distribution-mode": Option(values=("move", "copy")),
        "connection-capabilities": Option(kind="strings"),
        "node-capabilities": Option(kind="strings"),
        "source-filters": Option(kind="map"),
        "dynamic": Option(kind="boolean"),
        "terminus-durability": Option(values=("none", "configuration", "unsettled-state")),
        "expiry-policy": Option(values=("link-detach", "session-end", "connection-close", "never")),
        "timeout": Option(kind="integer", least=0),
        "sender-settle-mode": Option(values=("unsettled", "settled", "mixed")),
        "receiver-settle-mode": Option(values=("first", "second")),
    },
    "MQTT/3.1.1": {**_MQTT, "cleansession": Option(kind="boolean")},
    "MQTT/5.0": {
        **_MQTT,
        "cleanstart": Option(kind="boolean"),
        "sessionexpiryinterval": Option(kind="integer", least=0, most=_UINT32),
        "sharedsubscriptiongroup": Option(),
        "nolocal": Option(kind="boolean"),
        "retainaspublished": Option(kind="boolean"),
        "retainhandling": Option(kind="integer", values=(0, 1, 2)),
    },
    "KAFKA": {
        "topic": Option(),
        "acks": Option(kind="integer", least=-1, most=1),
        "key": Option(),
        "partition": Option(kind="integer", least=0),
        "consumergroup": Option(),
        "headers": Option(kind="texts"),
        "keyserializer": Option(),
        "valueserializer": Option(),
        "autooffsetreset": Option(values=("earliest", "latest", "none")),
        "enableautocommit": Option(kind="boolean"),
    },
    "NATS": {"subject": Option(), "subjectfilter": Option(), "queuegroup": Option()},
}
"""The options that the specification defines, by protocol and name. Other options are extensions."""


def check_options(options: JSONObject, protocol: str, roles: Roles) -> Iterator[Finding]:
    """Yield findings about the options of an endpoint of ``protocol`` (canonical name) with these usages."""
    specified = OPTIONS.get(protocol, {})
    for name, value in options.items():
        path = f"protocoloptions.{name}"
        if name in specified:
            yield from _check_value(path, specified[name], value)
        else:
            yield from _check_unknown_option(path, name, protocol)
    if protocol in _PROTOCOL_RULES:
        yield from _PROTOCOL_RULES[protocol](options, roles)


def _check_value(path: str, option: Option, value: JSON) -> Iterator[Finding]:
    # A placeholder may stand for a value of any kind, so it cannot be checked.
    if isinstance(value, str) and option.kind != "string" and is_template(value):
        return
    kind_text, fits = _OPTION_KINDS[option.kind]
    if not fits(value):
        yield finding(path, "type", f"must be {kind_text}")
    elif option.values and value not in option.values and not (isinstance(value, str) and is_template(value)):
        yield finding(path, "enum", f"{value!r} is none of {', '.join(map(str, option.values))}")
    elif option.least is not None and value < option.least:
        yield finding(path, "minimum", f"{value} is less than {option.least}")
    elif option.most is not None and value > option.most:
        yield finding(path, "maximum", f"{value} is more than {option.most}")


def _check_unknown_option(path: str, name: str, protocol: str) -> Iterator[Finding]:
    """Yield a warning if an unknown option is probably misspelt, or belongs to another version of the protocol."""
    specified = OPTIONS.get(protocol, {})
    # Extensions are legal, so warn only about names that look like spelling mistakes.
    meant = next((other for other in specified if _strip_separators(other) == _strip_separators(name)), None)
    if meant is not None:
        yield finding(path, "name", f"is {meant} meant? As it is, nobody knows this option", "warning")
    elif protocol.startswith("MQTT/"):
        other = "MQTT/5.0" if protocol == "MQTT/3.1.1" else "MQTT/3.1.1"
        if name in OPTIONS[other]:
            yield finding(path, "version", f"this is an option of {other}, not of {protocol}", "warning")


def _strip_separators(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(".", "")


def _check_http(options: JSONObject, _: Roles) -> Iterator[Finding]:
    """Check HTTP options (H-16)."""
    method = options.get("method")
    if isinstance(method, str) and not is_template(method) and not TOKEN.fullmatch(method):
        yield finding("protocoloptions.method", "value", f"{method!r} is no HTTP method")
    yield from lint_header_names(options.get("headers"))


def _check_mqtt(options: JSONObject, _: Roles) -> Iterator[Finding]:
    """Check MQTT options (H-18)."""
    topic, pattern, shared = (_find_text(options, name) for name in ("topic", "topicfilter", "sharedsubscriptiongroup"))
    if topic is not None and pattern is not None:
        yield _report_exclusive("topic", "topicfilter")
    for name in ("topic", "willtopic"):
        if set(_find_text(options, name) or "") & set("+#"):
            yield finding(f"protocoloptions.{name}", "wildcard", "nothing is published to a topic with + or # in it")
    if pattern is not None and not _is_topic_filter(pattern):
        text = "+ stands for a whole level, # for all levels that are left, at the end"
        yield finding("protocoloptions.topicfilter", "wildcard", text)
    if shared is not None and pattern is None:
        yield _report_requirement("sharedsubscriptiongroup", "topicfilter")
    if shared is not None and ("/" in shared or not shared):
        text = "this is the bare name of the group, without $share and without /"
        yield finding("protocoloptions.sharedsubscriptiongroup", "value", text)
    will = _find_text(options, "willmessage")
    if will is not None and not _WILL.fullmatch(will):
        yield finding("protocoloptions.willmessage", "xid", f"{will!r} is not the xid of a message")


def _is_topic_filter(pattern: str) -> bool:
    levels = pattern.split("/")
    return all(level in ("+", "#") or not set(level) & set("+#") for level in levels) and "#" not in levels[:-1]


def _check_kafka(options: JSONObject, roles: Roles) -> Iterator[Finding]:
    """Check Kafka options (H-19)."""
    group = options.get("consumergroup")
    if "consumer" in roles and not group:
        text = "a consumer joins a group, and says which"
        yield finding("protocoloptions.consumergroup", "required", text)
    if "subscriber" in roles and group is not None:
        text = "a subscriber makes the group: it joins none"
        yield finding("protocoloptions.consumergroup", "exclusive", text)
    for name in ("autooffsetreset", "enableautocommit"):
        if name in options and roles & {"producer", "subscriber"}:
            yield finding(f"protocoloptions.{name}", "exclusive", "only a consumer has offsets")


def _check_nats(options: JSONObject, _: Roles) -> Iterator[Finding]:
    """Check NATS options (H-20)."""
    subject, pattern = _find_text(options, "subject"), _find_text(options, "subjectfilter")
    if subject is not None and pattern is not None:
        yield _report_exclusive("subject", "subjectfilter")
    if set(subject or "") & set("*>"):
        yield finding("protocoloptions.subject", "wildcard", "nothing is published to a subject with * or > in it")
    if "queuegroup" in options and pattern is None:
        yield _report_requirement("queuegroup", "subjectfilter")


_PROTOCOL_RULES: Final[Mapping[str, Callable[[JSONObject, Roles], Iterator[Finding]]]] = {
    "HTTP": _check_http,
    "MQTT/3.1.1": _check_mqtt,
    "MQTT/5.0": _check_mqtt,
    "KAFKA": _check_kafka,
    "NATS": _check_nats,
}


def _find_text(options: JSONObject, name: str) -> str | None:
    value = options.get(name)
    return value if isinstance(value, str) else None


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _are_headers(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, dict) and isinstance(item.get("name"), str) and isinstance(item.get("value", ""), str)
        for item in value
    )


def _report_exclusive(first: str, second: str) -> Finding:
    return finding(f"protocoloptions.{second}", "exclusive", f"an endpoint has {first} or {second}, not both")


def _report_requirement(name: str, other: str) -> Finding:
    return finding(f"protocoloptions.{name}", "requires", f"it means nothing without {other}")


_USAGES: Final = ("subscriber", "consumer", "producer")
_BOTH: Final = frozenset({"MQTT/3.1.1", "MQTT/5.0", "AMQP/1.0", "NATS"})
"""Protocols in which one connection both subscribes and consumes."""
_URI_SCHEMES: Final = {
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
    """Return findings about the attributes of an endpoint. Severity ``error`` means that a MUST is violated (H-15)."""
    stated = endpoint.get("protocol")
    protocol = canonical_protocol(stated) if isinstance(stated, str) else ""
    options = endpoint.get("protocoloptions")
    findings = [*_check_usage(endpoint.get("usage"), protocol), *_check_names(endpoint)]
    findings += _check_list("messagegroups", endpoint.get("messagegroups"), "URIs", _check_group)
    findings += lint_envelope_options(endpoint.get("envelopeoptions"))
    if isinstance(options, dict):
        usage = endpoint.get("usage")
        roles = frozenset(role for role in usage if isinstance(role, str)) if isinstance(usage, list) else frozenset()
        addresses = partial(_check_address_entry, protocol)
        findings += _check_list("protocoloptions.endpoints", options.get("endpoints"), "objects", addresses)
        findings += _check_list(
            "protocoloptions.authorization", options.get("authorization"), "objects", _check_authorization
        )
        findings += check_options(options, protocol, roles)
        findings += _check_templates(options)
    elif options is not None:
        findings.append(finding("protocoloptions", "structure", "must be an object"))
    return findings


def lint_messageids(messages: Iterable[tuple[str, str]]) -> list[Finding]:
    """Return findings for ids that several messages of an endpoint have (H-13).

    ``messages`` are pairs of an id and the place of its message.
    """
    places: dict[str, list[str]] = {}
    for messageid, place in messages:
        places.setdefault(messageid.casefold(), []).append(place)
    return [
        finding("messages", "duplicate_id", f"one id, several messages: {', '.join(sorted(id_places))}", "warning")
        for id_places in places.values()
        if len(id_places) > 1
    ]


def _check_usage(usage: JSON, protocol: str) -> Iterator[Finding]:
    """Check the usages of an endpoint (H-3)."""
    if usage is None:
        yield finding("usage", "required", f"an endpoint states its usage: {', '.join(_USAGES)}")
        return
    if not isinstance(usage, list) or not usage:
        yield finding("usage", "structure", "must be a list of at least one value")
        return
    for value in usage:
        if value not in _USAGES:
            yield finding("usage", "enum", f"{value!r} is none of {', '.join(_USAGES)}")
    roles = {value for value in usage if isinstance(value, str)}
    if len(usage) == 1:
        return
    if len(usage) != len(roles) or roles != {"subscriber", "consumer"}:
        text = 'an endpoint has one usage; only "subscriber" and "consumer" may go together'
        yield finding("usage", "exclusive", text)
    elif protocol not in _BOTH:
        text = (
            f"subscriber and consumer are two endpoints with {protocol or 'no protocol stated'}; they share a channel"
        )
        yield finding("usage", "exclusive", text)


def _check_names(endpoint: Mapping[str, JSON]) -> Iterator[Finding]:
    """Check channel, envelope, protocol and links, and warn about misplaced members (H-5, H-6, H-8, H-21, I-6)."""
    for name in ("channel", "envelope", "protocol"):
        value = endpoint.get(name)
        if value is not None and not (isinstance(value, str) and value.strip()):
            yield finding(name, "type", "must be a non-empty string")
    envelope, protocol = endpoint.get("envelope"), endpoint.get("protocol")
    if isinstance(envelope, str) and envelope.strip() and not _ENVELOPE.fullmatch(envelope):
        yield finding("envelope", "format", f"{envelope!r} is not of the form NAME or NAME/VERSION")
    if isinstance(protocol, str) and protocol.strip() and not is_known_protocol(protocol):
        text = f"the specification names no protocol {protocol!r}: its options are not looked at"
        yield finding("protocol", "unknown", text, "warning")
    deprecated = endpoint.get("deprecated")
    deprecated = deprecated if isinstance(deprecated, dict) else {}
    links = [deprecated[name] for name in ("docs", "documentation") if name in deprecated]
    # The text of the specification uses one name, its model the other (H-21).
    if links and links[0] != links[-1]:
        yield finding("deprecated.docs", "alias", "docs and documentation mean the same, but differ")
    for name in _MISPLACED:
        if name in endpoint:
            text = f"{name} belongs into protocoloptions: nobody looks for it here"
            yield finding(name, "misplaced", text, "warning")


def _check_list(
    path: str, value: JSON, item_kind: str, check: Callable[[str, Any], Iterator[Finding]]
) -> Iterator[Finding]:
    """Check each item of a list of ``item_kind``. An absent list has no findings."""
    if value is not None and not isinstance(value, list):
        yield finding(path, "structure", f"must be a list of {item_kind}")
    for position, item in enumerate(value if isinstance(value, list) else ()):
        yield from check(f"{path}[{position}]", item)


def _check_group(path: str, group: Any) -> Iterator[Finding]:
    """Check a reference to a message group (H-12)."""
    if not isinstance(group, str):
        yield finding(path, "type", "must be a URI")
    elif group.startswith("/") and not _GROUP.fullmatch(group):
        yield finding(path, "xid", f"{group!r} is not the xid of a group")
    elif not group.startswith("/") and not is_uri(group.removeprefix("#")) and not group.startswith("#/"):
        yield finding(path, "uri", f"{group!r} is neither an xid nor an absolute URI")


def _check_address_entry(protocol: str, path: str, entry: Any) -> Iterator[Finding]:
    """Check an address of an endpoint (H-9). An endpoint without addresses is abstract, which is allowed (H-11)."""
    if not isinstance(entry, dict):
        yield finding(path, "structure", "must be an object")
    elif protocol == "KAFKA":
        yield from _check_bootstrap(f"{path}.bootstrap.servers", entry.get("bootstrap.servers"))
    elif protocol in _URI_SCHEMES:
        yield from _check_address(f"{path}.uri", entry.get("uri"), protocol)


def _check_bootstrap(path: str, servers: JSON) -> Iterator[Finding]:
    if not isinstance(servers, list) or not servers:
        yield finding(path, "required", "a Kafka cluster is reached by a list of at least one server")
    elif not all(isinstance(server, str) and server for server in servers):
        yield finding(path, "type", "must be a list of non-empty strings")


def _check_address(path: str, uri: JSON, protocol: str) -> Iterator[Finding]:
    if not isinstance(uri, str) or not uri:
        yield finding(path, "required", f"an address of {protocol} is a URI")
        return
    scheme, separator, after = uri.partition("://")
    if "{" in scheme:
        return
    allowed = _URI_SCHEMES[protocol]
    if not separator or scheme.lower() not in allowed:
        yield finding(path, "scheme", f"{uri!r} does not begin with {', '.join(f'{name}://' for name in allowed)}")
    elif scheme.lower() in _PATHLESS and after.partition("/")[2]:
        yield finding(path, "path", f"an address with {scheme.lower()}:// has no path")
    elif protocol == "NATS" and not is_template(uri) and not _has_port(uri):
        yield finding(path, "port", f"an address of NATS names its port: {scheme}://HOST:PORT")


def _has_port(uri: str) -> bool:
    try:
        return urlsplit(uri).port is not None
    except ValueError:
        return False


def _check_authorization(path: str, entry: Any) -> Iterator[Finding]:
    """Check an entry of ``authorization`` (H-10)."""
    if not isinstance(entry, dict):
        yield finding(path, "structure", "must be an object")
        return
    kind = entry.get("type")
    if kind is not None and kind not in _AUTHORIZATIONS:
        yield finding(f"{path}.type", "enum", f"{kind!r} is none of {', '.join(_AUTHORIZATIONS)}", "warning")
    if "mechanism" in entry and kind != "SASL":
        yield finding(f"{path}.mechanism", "exclusive", "only SASL has mechanisms")
    for name in ("type", "mechanism", "resourceuri", "authorityuri"):
        if name in entry and not (isinstance(entry[name], str) and entry[name]):
            yield finding(f"{path}.{name}", "type", "must be a non-empty string")
        elif name.endswith("uri") and name in entry and not (is_uri(entry[name]) or is_template(entry[name])):
            yield finding(f"{path}.{name}", "uri", f"{entry[name]!r} is no URI")
    for name in entry:
        if _CREDENTIALS.search(name):
            text = "a registry says how to be let in, and holds no credentials"
            yield finding(f"{path}.{name}", "credentials", text)


def _check_templates(options: JSONObject) -> Iterator[Finding]:
    """Warn about strings in the options whose braces are not valid placeholders (H-14)."""
    for path, text in _iterate_texts("protocoloptions", options, [_MAX_TEXTS]):
        if "{" in text:
            try:
                parse_template(text)
            except TemplateError as error:
                yield finding(path, "uritemplate", str(error), "warning")


def _iterate_texts(path: str, value: Any, remaining: list[int]) -> Iterator[tuple[str, str]]:
    """Yield the strings in ``value`` with their paths, including keys of maps.

    Their number is limited by ``remaining``.
    """
    # One counter for the whole tree: hostile options may be as wide as they are deep.
    remaining[0] -= 1
    if remaining[0] < 0:
        return
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield f"{path}.{name}", name
            yield from _iterate_texts(f"{path}.{name}", member, remaining)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _iterate_texts(f"{path}[{position}]", item, remaining)
