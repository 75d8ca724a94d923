"""A message on its way out: complete, but for the protocol that will carry it (domain.md K-50)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from signalbook.errors import SignalbookError
from signalbook.messages.cloudevents import CloudEvent
from signalbook.messages.definition import CompiledDefinition
from signalbook.values import Finding


class OutboundError(SignalbookError):
    """A message that its definition, or the endpoint it is for, does not allow; ``findings`` says all that is wrong."""

    def __init__(self, xid: str, findings: Iterable[Finding]) -> None:
        self.xid = xid
        self.findings = tuple(findings)
        super().__init__(f"{xid}: " + "; ".join(str(finding) for finding in self.findings))


class Outbound(msgspec.Struct, frozen=True, kw_only=True):
    """A message of ``definition``.

    ``context`` has the values of all its placeholders, ``event`` is there if its envelope is CloudEvents, ``options``
    are the values of its protocol's properties by name, as ``Binding.carrying`` takes them. ``body`` is the payload,
    written by the schema, ``content_type`` its type.
    """

    definition: CompiledDefinition
    context: Mapping[str, str]
    event: CloudEvent | None
    options: Mapping[str, Any]
    body: bytes | None
    content_type: str
