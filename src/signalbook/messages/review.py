"""A message definition in its place: completed by its bases, and held to what its group or endpoint states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from signalbook.messages.lint import lint, lint_inline, lint_member
from signalbook.messages.materialise import Bases, materialise
from signalbook.messages.structure import malformed
from signalbook.values import JSON, Finding, JSONObject


def review(
    raw: Mapping[str, JSON], group: Mapping[str, JSON], bases: Bases, *, endpoint: bool = False
) -> list[Finding]:
    """All findings about a raw definition in ``group``, or in an ``endpoint`` (F-7 to F-34, H-6, H-8).

    Those of severity ``error`` break a MUST. A base that leads back is one here: whoever writes it is told (F-16); one
    that is missing is not (F-17).
    """
    found = materialise(raw, bases)
    findings = [_firm(finding) for finding in found.findings] + lint(found.definition)
    return findings if malformed(found.definition) else findings + _membership(group, found.definition, endpoint)


def review_borrowed(
    raw: Mapping[str, JSON], group: Mapping[str, JSON], bases: Bases, *, endpoint: bool = False
) -> list[Finding]:
    """What a group that borrows a message has against it; what is wrong with the message is told at its home (F-8)."""
    definition = materialise(raw, bases).definition
    return [] if malformed(definition) else _membership(group, definition, endpoint)


def _membership(group: Mapping[str, JSON], definition: JSONObject, endpoint: bool) -> list[Finding]:
    return lint_inline(group, definition) if endpoint else lint_member(group, definition)


def _firm(finding: Finding) -> Finding:
    return replace(finding, severity="error") if finding.rule == "basemessage_cycle" else finding
