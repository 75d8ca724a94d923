"""Whether readers of one schema can read what was written with another, and what is in the way where they cannot.

core/spec.md "compatibility" names the six rules; what "can read" means is up to each format (domain.md G-30).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from signalbook.formats.base import Resolve
from signalbook.formats.registry import find
from signalbook.values import JSON

RULES: Final = ("backward", "backward_transitive", "forward", "forward_transitive", "full", "full_transitive")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaText:
    """A schema document with what is needed to understand it; ``format`` as in ``Format.parse``."""

    document: bytes
    format: str
    resolve: Resolve | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One reason why payloads written with one schema are not safe for readers of another.

    ``path`` says where, in the terms of the format: a JSON Pointer into the reader's document (into the writer's where
    the reader has no such part), a dotted Avro or Protobuf name. ``rule`` is a stable machine name, such as
    ``required_added``; ``old`` is the writer's side, ``new`` the reader's, None where that side has nothing;
    ``message`` is for people: what is different and why it matters.
    """

    path: str
    rule: str
    old: JSON
    new: JSON
    message: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.message} [{self.rule}]"


@runtime_checkable
class Comparing(Protocol):
    """What a ``Format`` has beside its other methods if it can compare schemas."""

    def differences(self, reader: SchemaText, writer: SchemaText) -> list[Difference]:
        """Why ``reader`` cannot be trusted to read what ``writer`` allows; empty if every such payload is fine.

        Sound: no difference means compatible. Where the answer is not certain the difference says so (``undecided``).
        Raises ``SchemaError`` for a document that cannot be used.
        """
        ...


def comparing(format: str) -> Comparing | None:
    """The comparison for ``format``, or None where there is none."""
    found = find(format)
    return found if isinstance(found, Comparing) else None


def rules(format: str) -> tuple[str, ...]:
    """The rules that can be checked for ``format``: all six or none."""
    return RULES if comparing(format) else ()
