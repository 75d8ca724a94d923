"""Convert values of outgoing messages to text, and reject values that a protocol cannot carry unchanged."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from signalbook.messages.bindings.base import Uncarriable
from signalbook.values import Finding, format_timestamp

# Takes the name and text of a property. Returns the reason why it cannot be carried, or "".
Rule = Callable[[str, str], str]

# The name of a header, and a method (RFC 9110, 5.6.2).
TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_PRINTABLE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?", re.ASCII)
_PATH: Final = re.compile(r"[\x21\x22\x24-\x3e\x40-\x7e]+", re.ASCII)
_QUERY: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]*")
_TOPIC: Final = re.compile(r"[^+#\x00\ud800-\udfff]+")
_SUBJECT: Final = re.compile(r"[^\s.*>\x00-\x1f\x7f\ud800-\udfff]+(\.[^\s.*>\x00-\x1f\x7f\ud800-\udfff]+)*")
_TEXT_PATTERN: Final = re.compile(r"[^\x00\ud800-\udfff]*")
_MAX_TEXT_BYTES: Final = 65_535


def text(value: Any) -> str:
    """Return a value as canonical text (CloudEvents "Type System")."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return b64encode(value).decode("ascii")
        case datetime():
            return format_timestamp(value)
    return str(value)


def texts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return all values as text. Several values under one name are a tuple."""
    return {
        name: tuple(map(text, value)) if isinstance(value, tuple) else text(value) for name, value in values.items()
    }


def refuse(values: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Raise ``Uncarriable`` for values under names without a rule, or that break their rule.

    A rule has the whole name, or the part of the name up to and including the first dot.
    """
    findings = [finding for name, value in values.items() for finding in _check_value(name, value, rules)]
    if findings:
        raise Uncarriable(findings)


def _check_value(name: str, value: Any, rules: Mapping[str, Rule]) -> Iterator[Finding]:
    # Names of members may contain dots. Names of sections do not.
    section, dot, member = name.partition(".")
    rule = rules.get(name) or (rules.get(section + dot) if member else None)
    if rule is None:
        there = ", ".join(f"{rule_name}…" if rule_name.endswith(".") else rule_name for rule_name in rules) or "none"
        message = f"the protocol has no {name}; there are: {there}"
        yield Finding(path=f"protocoloptions.{name}", rule="unknown", message=message)
        return
    for part in value if isinstance(value, tuple) else (value,):
        if why := rule(member, text(part)):
            yield Finding(path=f"protocoloptions.{name}", rule="value", message=f"{text(part)[:100]!r} {why}")


def _make_rule(pattern: re.Pattern[str], why: str) -> Rule:
    return lambda _, value: "" if pattern.fullmatch(value) else why


def header(name: str, value: str) -> str:
    """Check a header of HTTP or NATS: printable ASCII on one line, because a line break would begin another header."""
    if not TOKEN.fullmatch(name):
        return f"is for {name[:100]!r}, which is no name of a header"
    fits = not value or _PRINTABLE.fullmatch(value)
    return (
        "" if fits else "is no value of a header: these are printable ASCII, without spaces around; percent-encode it"
    )


def topic(_: str, value: str) -> str:
    """Check an MQTT topic. Return the reason why it is invalid, or ``""``."""
    if not _TOPIC.fullmatch(value) or len(value.encode()) > _MAX_TEXT_BYTES:
        return "is no topic to publish to: it is empty, too long, or has +, # or a NUL in it"
    return ""


def sized(_: str, value: str) -> str:
    """Check the length of an MQTT string. Return the reason why it is invalid, or ``""``."""
    fits = _TEXT_PATTERN.fullmatch(value) and len(value.encode()) <= _MAX_TEXT_BYTES
    return "" if fits else f"is no text of at most {_MAX_TEXT_BYTES} bytes"


anything: Final[Rule] = lambda _, __: ""  # noqa: E731
kafka_topic: Final = _make_rule(
    re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}", re.ASCII),
    "is no topic of Kafka: these are at most 249 letters, digits, dots, dashes and underscores",
)
plain: Final = _make_rule(_TEXT_PATTERN, "is no text: it has a NUL or half a character in it")
parameter: Final = _make_rule(_QUERY, "is no value of a query parameter: it has a control character in it")
path: Final = _make_rule(_PATH, "is no path: these are printable ASCII, without ? and #; percent-encode the rest")
method: Final = _make_rule(TOKEN, "is no HTTP method")
status: Final = _make_rule(re.compile(r"[1-5]\d\d", re.ASCII), "is no HTTP status code")
subject: Final = _make_rule(
    _SUBJECT, "is no subject to publish to: words without spaces, * and >, with dots between them"
)
number: Final = _make_rule(re.compile(r"\d{1,20}", re.ASCII), "is no whole number")
truth: Final = _make_rule(re.compile("true|false"), "is neither true nor false")


def names(rules: Iterable[str], rule: Rule) -> dict[str, Rule]:
    """Return the same rule for several names."""
    return dict.fromkeys(rules, rule)


_UNSAFE: Final = re.compile(r"[^\x21\x23\x24\x26-\x7e]")


def escape_header(text: str) -> str:
    """Return an attribute as the value of a header, with percent-encoding."""
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8")), text)


T = TypeVar("T")


def regroup(
    pairs: Iterable[tuple[str, T]], values: Mapping[str, Any], prefix: str, *, fold: bool
) -> tuple[tuple[str, T], ...]:
    """Return ``pairs`` with those replaced that ``values`` has by property name. This reverses ``group_values``.

    With ``fold``, names are compared in lower case.
    """
    new_values = {key[len(prefix) :]: value for key, value in values.items() if key.startswith(prefix)}
    replaced_names = {name.lower() if fold else name for name in new_values}
    # A new value replaces all pairs of its name. Otherwise a header would be sent with its old and its new value.
    kept_pairs = [(name, value) for name, value in pairs if (name.lower() if fold else name) not in replaced_names]
    added = [
        (name, part) for name, value in new_values.items() for part in (value if isinstance(value, tuple) else (value,))
    ]
    return (*kept_pairs, *added)
