"""Checks of what is more than one property: content modes, event formats, content types, schema references."""

from __future__ import annotations

from collections.abc import Callable

from signalbook.messages.cloudevents import Mode
from signalbook.messages.contenttypes import same_content_type
from signalbook.messages.message import Message
from signalbook.messages.properties import Check, Context, Values
from signalbook.messages.references import version_named
from signalbook.values import Finding

# Looks at what is neither an attribute nor a property.
MessageCheck = Callable[[Message, Mode], Finding | None]


def has_mode(expected: str) -> MessageCheck:
    """The content mode a definition demands (F-34, K-26.7)."""

    def check(_: Message, mode: Mode) -> Finding | None:
        if mode.value == expected:
            return None
        return Finding(path="mode", rule="mode", message=f"the content mode must be {expected}, not {mode.value}")

    return check


def has_format(expected: str, path: str) -> MessageCheck:
    """The event format a definition demands under ``path`` (F-14, F-34, K-26.7)."""

    def check(message: Message, mode: Mode) -> Finding | None:
        if mode is Mode.STRUCTURED and same_content_type(expected, message.content_type):
            return None
        found = message.content_type or "none"
        return Finding(path=path, rule="format", message=f"the event format must be {expected}, not {found}")

    return check


def content_type(name: str, expected: str, same: Callable[[str, str], bool]) -> Check:
    """The content type of an event's data, where it is stated (K-26.6)."""

    def check(values: Values, _: Context) -> Finding | None:
        actual = values.get(name)
        if actual is None or actual == expected or same(expected, str(actual)):
            return None
        return Finding(path=name, rule="content_type", message=f"{name} must be {expected}, not {actual}")

    return check


def message_content_type(expected: str, same: Callable[[str, str], bool]) -> MessageCheck:
    """The content type of a message without envelope, where it is stated (K-26.6)."""

    def check(message: Message, _: Mode) -> Finding | None:
        actual = message.content_type
        if not actual or actual == expected or same(expected, actual):
            return None
        return Finding(path="content_type", rule="content_type", message=f"must be {expected}, not {actual}")

    return check


def names_schema(xid: str, required: bool) -> Check:
    """``dataschema`` is an absolute URI; a definition that gives an xid means it on any host (F-32, L-31)."""

    def check(values: Values, _: Context) -> Finding | None:
        actual = values.get("dataschema")
        if actual is None:
            text = "dataschema is required"
            return Finding(path="dataschema", rule="required", message=text) if required else None
        if version_named(str(actual), xid) is not None:
            return None
        return Finding(path="dataschema", rule="value", message=f"dataschema must name {xid}, not {actual!r}")

    return check
