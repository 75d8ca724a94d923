"""Compile the readable part of definitions that cannot be used, to recognise their messages (K-44, K-45).

A contract without these definitions still has to report which definition their messages belong to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from signalbook.messages.bindings.base import find_binding
from signalbook.messages.definitions.definition import CompiledDefinition, compile_definition, declare_options
from signalbook.messages.definitions.lint import find_malformed
from signalbook.messages.definitions.normalise import CLOUDEVENTS, Bases, materialise
from signalbook.messages.definitions.schemas import ContractSchemas
from signalbook.messages.policy import Policy
from signalbook.messages.properties import PropertyError, find_malformed_property
from signalbook.values import JSON, Finding, JSONObject

BROKEN: Final = "broken_definition"
"""The rule of findings that name a definition that cannot be used."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a definition is left out of a contract, and how its messages are still recognised.

    Messages are recognised by the readable part of the ``definition``, by the ``id`` of the message as the type of
    events (K-32), or by ``nothing``.
    """

    reasons: tuple[str, ...]
    known_by: Literal["definition", "id", "nothing"] = "nothing"

    def finding(self, xid: str) -> Finding:
        """Return the finding for a message that is, or may be, of the definition ``xid``."""
        text = f"the definition {xid} cannot be used: {'; '.join(self.reasons)}"
        return Finding(path="", rule=BROKEN, message=text)


def compile_broken(
    xid: str, raw: JSON, bases: Bases, schemas: ContractSchemas, policy: Policy, reasons: tuple[str, ...]
) -> tuple[LeftOut, CompiledDefinition | None]:
    """Compile the readable part of a definition: it fits its messages, and rejects them for ``reasons``.

    Protocol, options and attributes count as far as they can be read. The result is None if nothing distinguishes its
    messages.
    """
    whole = materialise({"xid": xid, **raw}, bases).definition if isinstance(raw, Mapping) else {}
    readable = _strip_unreadable(whole)
    findings = (LeftOut(reasons=reasons).finding(xid),)
    compiled = compile_definition(xid, readable, schemas, policy, broken=findings)
    if _is_known(compiled, whole):
        return LeftOut(reasons=reasons, known_by="definition"), compiled
    if not compiled.is_event:
        return LeftOut(reasons=reasons), None
    readable["envelopemetadata"] = {
        **(readable.get("envelopemetadata") or {}),
        "type": {"value": compiled.message_id},
    }
    compiled = compile_definition(xid, readable, schemas, policy, broken=findings)
    return LeftOut(reasons=reasons, known_by="id"), compiled


def _is_known(compiled: CompiledDefinition, whole: JSONObject) -> bool:
    """Return True if the readable part distinguishes its messages as far as the whole definition would."""
    if not compiled.is_event:
        return bool(compiled.protocol_keys)
    metadata = whole.get("envelopemetadata")
    typed = isinstance(metadata, Mapping) and "type" in metadata
    return any(key.name == "type" for key in compiled.event_keys) if typed else bool(compiled.event_keys)


def _strip_unreadable(whole: JSONObject) -> JSONObject:
    """Return a definition without the members, attributes and options that are of the wrong type."""
    definition = dict(whole)
    metadata = definition.get("envelopemetadata")
    if isinstance(metadata, Mapping):
        sound = {name: entry for name, entry in metadata.items() if not [*find_malformed_property(name, entry)]}
        definition["envelopemetadata"] = sound
    for finding in find_malformed(definition):
        definition.pop(finding.path.partition(".")[0], None)
    if "envelope" in whole and "envelope" not in definition:
        definition["envelope"] = CLOUDEVENTS  # the only known envelope
    if find_binding(str(definition.get("protocol") or "")) is None:
        definition.pop("protocol", None)
    options = definition.get("protocoloptions")
    if isinstance(options, Mapping):
        protocol = str(definition.get("protocol") or "")
        definition["protocoloptions"] = {
            name: option for name, option in options.items() if _is_declared(protocol, name, option)
        }
    return definition


def _is_declared(protocol: str, name: str, option: JSON) -> bool:
    """Return True if an option states something about properties of the protocol."""
    try:
        declare_options(protocol, {name: option})
    except PropertyError:
        return False
    return True
