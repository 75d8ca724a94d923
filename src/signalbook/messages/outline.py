"""What has to be known of every definition of a contract, so that all else can wait until a message leads to one."""

from __future__ import annotations

import msgspec

from signalbook.messages.definition import CompiledDefinition


class Outline(msgspec.Struct, frozen=True, array_like=True):
    """A definition in outline.

    ``type`` is the type that its events must have, ``None`` where they may have several. ``constants`` are all values
    that an event's attributes must have, with their names.
    """

    xid: str
    is_event: bool
    protocol: str
    type: str | None
    constants: tuple[tuple[str, str], ...]


def outline(definition: CompiledDefinition) -> Outline:
    """The outline of a definition: what a contract files it by."""
    constants = {key.name: key.value for key in definition.event_keys if isinstance(key.value, str)}
    return Outline(
        definition.xid, definition.is_event, definition.protocol, constants.get("type"), tuple(constants.items())
    )
