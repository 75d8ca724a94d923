"""What an event format offers: bytes in, a valid event or the reasons why there is none out."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Protocol

from signalbook.errors import SignalbookError
from signalbook.formats.base import shorten
from signalbook.messages.cloudevents import Attribute, CloudEvent, invalid_attributes
from signalbook.messages.reasons import Reason
from signalbook.values import Finding


class EventError(SignalbookError):
    """Bytes that hold no valid CloudEvent; ``reason`` and ``findings`` say why."""

    def __init__(self, reason: Reason, findings: list[Finding]) -> None:
        self.reason = reason
        self.findings = tuple(findings)
        super().__init__("; ".join(str(finding) for finding in self.findings))


class EventFormat(Protocol):
    """One way to write an event as bytes."""

    def decode(self, body: bytes) -> CloudEvent:
        """The valid event in ``body``. Raises ``EventError``."""
        ...

    def encode(self, event: CloudEvent) -> bytes:
        """The event as bytes that ``decode`` reads back."""
        ...

    def split(self, body: bytes) -> list[bytes]:
        """The events of a batch, each as its own bytes. Raises ``EventError``."""
        ...


def undecodable(rule: str, message: str) -> EventError:
    """Bytes that are not of the format at all."""
    return EventError(Reason.DECODE_ERROR, [Finding(path="", rule=rule, message=shorten(message))])


def invalid(path: str, rule: str, message: str) -> EventError:
    """Bytes of the format that are no CloudEvent."""
    return EventError(Reason.INVALID_CLOUDEVENT, [Finding(path=path, rule=rule, message=message)])


def checked(attributes: Mapping[str, Attribute]) -> None:
    """Raise ``EventError`` for context attributes that are no event's (K-24)."""
    findings = invalid_attributes(attributes)
    if findings:
        raise EventError(Reason.INVALID_CLOUDEVENT, findings)


def binary_text(value: bytes) -> str:
    """A binary attribute in its canonical form (CloudEvents "Type System")."""
    return b64encode(value).decode("ascii")
