"""What a protocol binding offers: which properties its messages have, how they carry CloudEvents, and what to compare.

One module per protocol keeps to ``Binding`` and is named in the entry-point group ``signalbook.bindings``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from signalbook.messages.cloudevents import Attribute, CloudEvent, Mode
from signalbook.messages.message import Message
from signalbook.messages.properties import Property
from signalbook.values import Finding, JSONObject


class Binding(Protocol):
    """One protocol. ``options`` are the ``protocoloptions`` of a definition, as ``normalise`` leaves them."""

    @property
    def protocol(self) -> str:
        """The canonical name, such as ``HTTP`` or ``MQTT/5.0``."""
        ...

    def normalise(self, options: JSONObject, /) -> tuple[JSONObject, list[Finding]]:
        """The options in their one canonical form, and what had to be changed (K-11)."""
        ...

    def properties(self, options: JSONObject, /) -> list[Property]:
        """The declared properties. Raises ``PropertyError`` for options of the wrong shape."""
        ...

    def lint(self, options: JSONObject, /) -> list[Finding]:
        """Options that contradict each other or can never be met (K-13)."""
        ...

    def values(self, message: Message, /) -> Mapping[str, Any]:
        """What a message carries, by property name; tuples for properties that may recur."""
        ...

    def mode(self, message: Message, values: Mapping[str, Any], /) -> Mode:
        """Whether and how a message with these ``values`` carries CloudEvents (K-21)."""
        ...

    def attributes(self, message: Message, values: Mapping[str, Any], /) -> dict[str, Attribute]:
        """The context attributes of an event in binary mode. Raises ``EventError`` where they cannot be read."""
        ...

    def encode(self, event: CloudEvent, mode: Literal[Mode.STRUCTURED, Mode.BINARY], /) -> Message:
        """The event as a message (K-23)."""
        ...

    def identity(self, message: Message, values: Mapping[str, Any], /) -> str:
        """What the transport itself knows a message by, for the id of a mapped event (K-35); ``""`` if nothing."""
        ...
