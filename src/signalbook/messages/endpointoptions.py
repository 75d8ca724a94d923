"""Protocol options of endpoints: what each may be, and which go together (domain.md H-16 to H-20, H-22).

Which role an option is meant for is only told where the specification forbids it to others: a registry writes defaults
out, for any role.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from signalbook.messages.propertylint import Severity
from signalbook.messages.uritemplates import is_template
from signalbook.values import JSON, Finding, JSONObject

Roles = frozenset[str]
_METHOD: Final = re.compile(r"[!#$%&'*+.^_`|~A-Za-z0-9-]+", re.ASCII)
_WILL: Final = re.compile(r"/[^/]+/[^/]+/messages/[^/]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: the kind of its value and, where the specification says so, the values or the range it has."""

    kind: str = "string"
    values: tuple[Any, ...] = ()
    least: int | None = None
    most: int | None = None


_KINDS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
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
"""The options that the specification has, by protocol and name; others are extensions."""


def option_findings(options: JSONObject, protocol: str, roles: Roles) -> Iterator[Finding]:
    """What is wrong with the options of an endpoint of ``protocol`` (its canonical name) with these usages."""
    known = OPTIONS.get(protocol, {})
    for name, value in options.items():
        path = f"protocoloptions.{name}"
        if name in known:
            yield from _value(path, known[name], value)
        else:
            yield from _stranger(path, name, protocol)
    if protocol in _RULES:
        yield from _RULES[protocol](options, roles)


def _value(path: str, option: Option, value: JSON) -> Iterator[Finding]:
    if isinstance(value, str) and option.kind != "string" and is_template(value):
        return
    said, fits = _KINDS[option.kind]
    if not fits(value):
        yield _finding(path, "type", f"must be {said}")
    elif option.values and value not in option.values and not (isinstance(value, str) and is_template(value)):
        yield _finding(path, "enum", f"{value!r} is none of {', '.join(map(str, option.values))}")
    elif option.least is not None and value < option.least:
        yield _finding(path, "minimum", f"{value} is less than {option.least}")
    elif option.most is not None and value > option.most:
        yield _finding(path, "maximum", f"{value} is more than {option.most}")


def _stranger(path: str, name: str, protocol: str) -> Iterator[Finding]:
    """An extension, unless it is an option misspelt or one of another version of the protocol."""
    known = OPTIONS.get(protocol, {})
    meant = next((other for other in known if _bare(other) == _bare(name)), None)
    if meant is not None:
        yield _finding(path, "name", f"is {meant} meant? As it is, nobody knows this option", "warning")
    elif protocol.startswith("MQTT/"):
        other = "MQTT/5.0" if protocol == "MQTT/3.1.1" else "MQTT/3.1.1"
        if name in OPTIONS[other]:
            yield _finding(path, "version", f"this is an option of {other}, not of {protocol}", "warning")


def _bare(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(".", "")


def _http(options: JSONObject, _: Roles) -> Iterator[Finding]:
    """H-16."""
    method = options.get("method")
    if isinstance(method, str) and not is_template(method) and not _METHOD.fullmatch(method):
        yield _finding("protocoloptions.method", "value", f"{method!r} is no HTTP method")


def _mqtt(options: JSONObject, _: Roles) -> Iterator[Finding]:
    """H-18."""
    topic, pattern, shared = (_text(options, name) for name in ("topic", "topicfilter", "sharedsubscriptiongroup"))
    if topic is not None and pattern is not None:
        yield _exclusive("topic", "topicfilter")
    for name in ("topic", "willtopic"):
        if set(_text(options, name) or "") & set("+#"):
            yield _finding(f"protocoloptions.{name}", "wildcard", "nothing is published to a topic with + or # in it")
    if pattern is not None and not _is_topic_filter(pattern):
        text = "+ stands for a whole level, # for all levels that are left, at the end"
        yield _finding("protocoloptions.topicfilter", "wildcard", text)
    if shared is not None and pattern is None:
        yield _needs("sharedsubscriptiongroup", "topicfilter")
    if shared is not None and ("/" in shared or not shared):
        text = "this is the bare name of the group, without $share and without /"
        yield _finding("protocoloptions.sharedsubscriptiongroup", "value", text)
    will = _text(options, "willmessage")
    if will is not None and not _WILL.fullmatch(will):
        yield _finding("protocoloptions.willmessage", "xid", f"{will!r} is not the xid of a message")


def _is_topic_filter(pattern: str) -> bool:
    levels = pattern.split("/")
    return all(level in ("+", "#") or not set(level) & set("+#") for level in levels) and "#" not in levels[:-1]


def _kafka(options: JSONObject, roles: Roles) -> Iterator[Finding]:
    """H-19."""
    group = options.get("consumergroup")
    if "consumer" in roles and not group:
        text = "a consumer joins a group, and says which"
        yield _finding("protocoloptions.consumergroup", "required", text)
    if "subscriber" in roles and group is not None:
        text = "a subscriber makes the group: it joins none"
        yield _finding("protocoloptions.consumergroup", "exclusive", text)
    for name in ("autooffsetreset", "enableautocommit"):
        if name in options and roles & {"producer", "subscriber"}:
            yield _finding(f"protocoloptions.{name}", "exclusive", "only a consumer has offsets")


def _nats(options: JSONObject, _: Roles) -> Iterator[Finding]:
    """H-20."""
    subject, pattern = _text(options, "subject"), _text(options, "subjectfilter")
    if subject is not None and pattern is not None:
        yield _exclusive("subject", "subjectfilter")
    if set(subject or "") & set("*>"):
        yield _finding("protocoloptions.subject", "wildcard", "nothing is published to a subject with * or > in it")
    if "queuegroup" in options and pattern is None:
        yield _needs("queuegroup", "subjectfilter")


_RULES: Final[Mapping[str, Callable[[JSONObject, Roles], Iterator[Finding]]]] = {
    "HTTP": _http,
    "MQTT/3.1.1": _mqtt,
    "MQTT/5.0": _mqtt,
    "KAFKA": _kafka,
    "NATS": _nats,
}


def _text(options: JSONObject, name: str) -> str | None:
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


def _exclusive(one: str, other: str) -> Finding:
    return _finding(f"protocoloptions.{other}", "exclusive", f"an endpoint has {one} or {other}, not both")


def _needs(name: str, other: str) -> Finding:
    return _finding(f"protocoloptions.{name}", "requires", f"it means nothing without {other}")


def _finding(path: str, rule: str, message: str, severity: Severity = "error") -> Finding:
    return Finding(path=path, rule=rule, message=message, severity=severity)
