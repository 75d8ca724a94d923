"""The content modes that the fast path knows: how events come apart, and how their payloads are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol

from signalbook.messages import CompiledDefinition, Message, Mode
from signalbook.pipeline import binarymode, payloads
from signalbook.pipeline.blocks import Block
from signalbook.pipeline.envelopes import Envelopes
from signalbook.pipeline.landing.rows import Target
from signalbook.pipeline.payloads import Reader
from signalbook.pipeline.sources.base import Frame

_NOTHING: Final = Message()


class Way(Protocol):
    """One content mode. ``kind`` are the attributes that payloads of one reader share, the type first."""

    kind: ClassVar[tuple[str, ...]]
    # whether payloads have to be JSON
    json: ClassVar[bool]

    def block(self, frame: Frame, /) -> tuple[Block, list[int]]:
        """The events of a frame, and the indices of messages that are not taken."""
        ...

    def learn(self, attributes: Mapping[str, Any], /) -> None:
        """Take note of the attributes of an event that was not taken."""
        ...

    def settles(self, definition: CompiledDefinition, /) -> bool:
        """Whether a definition asks nothing of an event but its attributes and payload."""
        ...

    def reader(self, definition: CompiledDefinition, kind: tuple[Any, ...], target: Target, /) -> Reader | None:
        """What reads payloads of the definition's own schema, if anything does."""
        ...


class Structured:
    """Structured mode in JSON."""

    kind: ClassVar[tuple[str, ...]] = ("type",)
    json: ClassVar[bool] = True

    def __init__(self) -> None:
        self._envelopes = Envelopes()

    def block(self, frame: Frame) -> tuple[Block, list[int]]:
        """By the decoder of envelopes."""
        return self._envelopes.decode(frame)

    def learn(self, attributes: Mapping[str, Any]) -> None:
        """Extension attributes have to be known to be taken."""
        self._envelopes.learn(attributes)

    def settles(self, definition: CompiledDefinition) -> bool:
        """Without demands on mode or format."""
        return definition.simple

    def reader(self, definition: CompiledDefinition, kind: tuple[Any, ...], target: Target) -> Reader | None:  # noqa: ARG002
        """Of JSON alone, which data is."""
        use = definition.schema_use
        return payloads.json_reader(use.schema, target) if use.schema is not None and use.of_values else None


class Binary:
    """Binary mode of one protocol."""

    kind: ClassVar[tuple[str, ...]] = ("type", "datacontenttype")
    json: ClassVar[bool] = False

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._extensions: dict[str, None] = {}

    def block(self, frame: Frame) -> tuple[Block, list[int]]:
        """By columns of headers."""
        return binarymode.taken_apart(frame, self._protocol, self._extensions)

    def learn(self, attributes: Mapping[str, Any]) -> None:
        """Nothing: all headers are looked at."""

    def settles(self, definition: CompiledDefinition) -> bool:
        """Where what it demands of mode and format is true of all events in this mode."""
        return all(check(_NOTHING, Mode.BINARY) is None for check in definition.message_checks)

    def reader(self, definition: CompiledDefinition, kind: tuple[Any, ...], target: Target) -> Reader | None:
        """Any payload."""
        schema = definition.schema_use.schema
        if schema is None:
            return None
        found = payloads.reader(schema, kind[1] or definition.payload_type, target)
        return found if definition.policy.wire_prefix == "none" else payloads.PrefixedReader(definition, found)
