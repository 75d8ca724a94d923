"""What becomes of a message: accepted with a definition, rejected for a reason, passed or dropped (domain.md K-47)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from signalbook.formats import Schema
from signalbook.messages.cloudevents import CloudEvent
from signalbook.messages.definition import CompiledDefinition
from signalbook.messages.message import Message
from signalbook.messages.reasons import Reason
from signalbook.values import JSON, Finding


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A message that conforms to ``definition``.

    ``event`` is the CloudEvent it carries (or was mapped to), ``context`` the values of the placeholders, ``data`` the
    decoded payload, validated by ``schema``; it is ``UNSET`` where there is no payload, or no schema to decode it by.
    ``bare`` is the payload without its wire prefix, if it had one.
    """

    message: Message
    definition: CompiledDefinition
    event: CloudEvent | None
    context: Mapping[str, str]
    data: JSON = msgspec.UNSET
    schema: Schema | None = None
    warnings: tuple[Finding, ...] = ()
    bare: bytes | None = None

    def payload(self) -> bytes | None:
        """The payload's bytes as they were sent, but for a wire prefix; ``None`` if there is no payload."""
        if self.bare is not None:
            return self.bare
        return self.message.body if self.event is None else self.event.payload()


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A message for the dead letters: what is wrong with it, and the xids of the definitions it may have meant."""

    message: Message
    reason: Reason
    violations: tuple[Finding, ...]
    candidates: tuple[str, ...] = ()


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """A message no definition fits, let through because the policy says so."""

    message: Message


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A message no definition fits, dropped because the policy says so."""

    message: Message


Outcome = Accepted | Rejected | Passed | Dropped
