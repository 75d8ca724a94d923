"""What a protocol binding offers: which properties its messages have, how they carry CloudEvents, and what to compare.

One module per protocol has a ``Binding`` and is named in the entry-point group ``signalbook.bindings``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint
from typing import Any, ClassVar, Final, Literal, Protocol

from signalbook import plugins
from signalbook.errors import SignalbookError
from signalbook.formats.base import parse_media_type
from signalbook.messages.cloudevents import BATCH_MEDIA_TYPE, JSON_FORMAT, MEDIA_TYPE, Attribute, CloudEvent, Mode
from signalbook.messages.definitions.properties import Property
from signalbook.messages.eventformats import EventError, find_format
from signalbook.messages.message import Message, Reason
from signalbook.values import Finding, JSONObject


class Uncarriable(SignalbookError):
    """Values that a protocol does not carry; ``findings`` says which, and why."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("; ".join(str(finding) for finding in self.findings))


class Binding(Protocol):
    """A protocol, with common parts of most. ``options`` are a definition's, as ``normalise`` leaves them.

    ``mandatory`` are the names that the required attributes of an event have among the values of a message in binary
    mode, in each of their spellings. ``structured_only`` is the name in errors of a carrier without binary mode and
    without a place for the name of the event format: its events are always JSON.
    """

    mandatory: ClassVar[Iterable[tuple[str, ...]]] = ()
    structured_only: ClassVar[str] = ""

    @property
    def protocol(self) -> str:
        """The canonical name, such as ``HTTP`` or ``MQTT/5.0``."""
        ...

    def normalise(self, options: JSONObject, /) -> tuple[JSONObject, list[Finding]]:
        """The options in their one canonical form, and what had to be changed (K-11)."""
        return dict(options), []

    def properties(self, options: JSONObject, /) -> list[Property]:
        """The declared properties. Raises ``PropertyError`` for options of the wrong shape."""
        ...

    def lint(self, _options: JSONObject, /) -> list[Finding]:
        """Options that contradict each other or can never be met (K-13), beyond what ``definitions.lint`` knows."""
        return []

    def values(self, message: Message, /) -> Mapping[str, Any]:
        """Return the values of a message by property name; tuples for properties that may recur."""
        ...

    def mode(self, message: Message, values: Mapping[str, Any], /) -> Mode:
        """Return the mode in which a message with these ``values`` carries CloudEvents, if it does (K-21).

        It depends on the content type; binary mode needs all required attributes.
        """
        mode = find_structured_mode(message.content_type)
        if mode is Mode.NONE and any(all(name in values for name in names) for names in self.mandatory):
            return Mode.BINARY
        return mode

    def attributes(self, _message: Message, _values: Mapping[str, Any], /) -> dict[str, Attribute]:
        """The context attributes of an event in binary mode. Raises ``EventError`` where they cannot be read."""
        return {}

    def encode(
        self, event: CloudEvent, mode: Literal[Mode.STRUCTURED, Mode.BINARY], format: str = JSON_FORMAT, /
    ) -> Message:
        """The event as a message to no place yet, structured in an event ``format`` by its media type (K-23).

        A protocol without binary mode has it structured whatever the mode. Raises ``EventError`` for a format that
        there is none for, or that the protocol cannot name.
        """
        if self.structured_only and parse_media_type(format) != JSON_FORMAT:
            text = f"{self.structured_only} has events in {JSON_FORMAT} only, not in {format!r}"
            raise EventError(Reason.UNSUPPORTED_FORMAT, [Finding(path="format", rule="format", message=text)])
        if mode is Mode.STRUCTURED and not self.structured_only:
            return self.native(find_format(format).encode(event), format)
        return self.binary(event)

    def binary(self, event: CloudEvent, /) -> Message:
        """The event in binary mode, as a message to no place yet (K-23); without such a mode, structured in JSON."""
        return self.native(find_format(JSON_FORMAT).encode(event), JSON_FORMAT)

    def native(self, body: bytes | None, content_type: str, /) -> Message:
        """A message to no place yet that is no event; ``""`` is no content type."""
        ...

    def carrying(self, message: Message, values: Mapping[str, Any], /) -> Message:
        """The message with ``values`` in place of what it has under their names: what ``values`` reads from it.

        Several values for what may recur are a tuple. Names of headers and the like are written as given. Raises
        ``Uncarriable`` for values that the protocol has no place for, or that would be read as something else.
        """
        ...

    def identity(self, _message: Message, _values: Mapping[str, Any], /) -> str:
        """Return the transport's own id of a message, for the id of a mapped event (K-35), or ``""``."""
        return ""


GROUP: Final = "signalbook.bindings"


def find_binding(protocol: str) -> Binding | None:
    """The binding of a protocol by its canonical name, or ``None`` if there is none."""
    point = _find_entry_points().get(protocol)
    return None if point is None else _load(point)


def protocols() -> tuple[str, ...]:
    """Canonical names of the protocols that can be read; ``""`` stands for files."""
    return tuple(sorted(_find_entry_points()))


def bound(point: EntryPoint) -> str:
    """The canonical name of the protocol that an entry point binds."""
    return _load(point).protocol


def _find_entry_points() -> Mapping[str, EntryPoint]:
    return plugins.offered(GROUP, "protocol", bound)


def _load(point: EntryPoint) -> Binding:
    loaded: Binding = plugins.load(point)
    return loaded


_MAX_PREFIX_CHARS: Final = len(BATCH_MEDIA_TYPE)


def find_structured_mode(content_type: str) -> Mode:
    """Structured or batch by the prefix of the content type, in any case; ``NONE`` for a type of another kind."""
    if content_type == JSON_FORMAT:
        return Mode.STRUCTURED
    prefix = content_type[:_MAX_PREFIX_CHARS].lower()
    if prefix.startswith(BATCH_MEDIA_TYPE):
        return Mode.BATCH
    return Mode.STRUCTURED if prefix.startswith(MEDIA_TYPE) else Mode.NONE
