"""Define the interface of protocol bindings, and find the binding of a protocol.

A binding knows which properties messages of its protocol have, how they carry CloudEvents, and what to compare. One
module per protocol has a ``Binding`` and is named in the entry-point group ``signalbook.bindings``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint
from typing import Any, ClassVar, Final, Literal, Protocol

from signalbook import plugins
from signalbook.errors import SignalbookError
from signalbook.formats.base import parse_media_type
from signalbook.messages.cloudevents import BATCH_MEDIA_TYPE, JSON_FORMAT, MEDIA_TYPE, Attribute, CloudEvent, Mode
from signalbook.messages.eventformats import EventError, find_format
from signalbook.messages.message import Message, Reason
from signalbook.messages.properties import Property
from signalbook.values import Finding, JSONObject


class Uncarriable(SignalbookError):
    """The error for values that a protocol cannot carry. ``findings`` has the values and reasons."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("; ".join(str(finding) for finding in self.findings))


class Binding(Protocol):
    """A protocol, with defaults for the parts that most protocols share.

    ``options`` are the protocol options of a definition, as ``normalise`` returns them. ``mandatory`` has, for each
    spelling, the property names of the required attributes of an event in binary mode. ``structured_only`` is set for a
    protocol without binary mode and without a content type, whose events are always JSON: it is the protocol's name in
    errors.
    """

    mandatory: ClassVar[Iterable[tuple[str, ...]]] = ()
    structured_only: ClassVar[str] = ""

    @property
    def protocol(self) -> str:
        """The canonical name, such as ``HTTP`` or ``MQTT/5.0``."""
        ...

    def normalise(self, options: JSONObject, /) -> tuple[JSONObject, list[Finding]]:
        """Return the options in canonical form, and findings about what could not be converted (K-11)."""
        return dict(options), []

    def properties(self, options: JSONObject, /) -> list[Property]:
        """Return the declared properties. Raises ``PropertyError`` if the options have the wrong form."""
        ...

    def lint(self, _options: JSONObject, /) -> list[Finding]:
        """Return findings about options that contradict each other or can never be met (K-13).

        Findings that ``definitions.lint`` makes are left out.
        """
        return []

    def values(self, message: Message, /) -> Mapping[str, Any]:
        """Return the values of a message by property name. Properties that may occur several times have tuples."""
        ...

    def mode(self, message: Message, values: Mapping[str, Any], /) -> Mode:
        """Return the content mode of a message with these ``values`` (K-21).

        It depends on the content type. Binary mode needs all required attributes.
        """
        mode = find_structured_mode(message.content_type)
        if mode is Mode.NONE and any(all(name in values for name in names) for names in self.mandatory):
            return Mode.BINARY
        return mode

    def attributes(self, _message: Message, _values: Mapping[str, Any], /) -> dict[str, Attribute]:
        """Return the context attributes of an event in binary mode. Raises ``EventError`` if they cannot be read."""
        return {}

    def encode(
        self, event: CloudEvent, mode: Literal[Mode.STRUCTURED, Mode.BINARY], format: str = JSON_FORMAT, /
    ) -> Message:
        """Return the event as a message without a destination (K-23).

        In structured mode, ``format`` is the media type of the event format. A protocol without binary mode always uses
        structured mode. Raises ``EventError`` for an unknown format, or one that the protocol cannot state.
        """
        if self.structured_only and parse_media_type(format) != JSON_FORMAT:
            text = f"{self.structured_only} has events in {JSON_FORMAT} only, not in {format!r}"
            raise EventError(Reason.UNSUPPORTED_FORMAT, [Finding(path="format", rule="format", message=text)])
        if mode is Mode.STRUCTURED and not self.structured_only:
            return self.native(find_format(format).encode(event), format)
        return self.binary(event)

    def binary(self, event: CloudEvent, /) -> Message:
        """Return the event in binary mode as a message without a destination (K-23).

        A protocol without binary mode returns it in structured mode, as JSON.
        """
        return self.native(find_format(JSON_FORMAT).encode(event), JSON_FORMAT)

    def native(self, body: bytes | None, content_type: str, /) -> Message:
        """Return a message without a destination that is not an event. An empty ``content_type`` means none."""
        ...

    def carrying(self, message: Message, values: Mapping[str, Any], /) -> Message:
        """Return the message with ``values`` set by property name, in place of its own values of the same names.

        A property that occurs several times has a tuple. Names of headers are written as given. Raises ``Uncarriable``
        for values that the protocol has no place for, or that a receiver would read differently.
        """
        ...

    def identity(self, _message: Message, _values: Mapping[str, Any], /) -> str:
        """Return the id that the transport gave the message, for the id of a mapped event (K-35), or ``""``."""
        return ""


GROUP: Final = "signalbook.bindings"


def find_binding(protocol: str) -> Binding | None:
    """Return the binding of a protocol by its canonical name, or ``None`` if there is none."""
    point = _find_entry_points().get(protocol)
    return None if point is None else _load(point)


def protocols() -> tuple[str, ...]:
    """Return the canonical names of the supported protocols. ``""`` stands for files."""
    return tuple(sorted(_find_entry_points()))


def bound(point: EntryPoint) -> str:
    """Return the canonical name of the protocol that an entry point binds."""
    return _load(point).protocol


def _find_entry_points() -> Mapping[str, EntryPoint]:
    return plugins.offered(GROUP, "protocol", bound)


def _load(point: EntryPoint) -> Binding:
    loaded: Binding = plugins.load(point)
    return loaded


_MAX_PREFIX_CHARS: Final = len(BATCH_MEDIA_TYPE)


def find_structured_mode(content_type: str) -> Mode:
    """Return the mode by the prefix of the content type, in any case: structured, batch, or ``NONE`` for others."""
    if content_type == JSON_FORMAT:
        return Mode.STRUCTURED
    prefix = content_type[:_MAX_PREFIX_CHARS].lower()
    if prefix.startswith(BATCH_MEDIA_TYPE):
        return Mode.BATCH
    return Mode.STRUCTURED if prefix.startswith(MEDIA_TYPE) else Mode.NONE
