"""What every decision of one command may look at, and where it puts the errors it finds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from signalbook.engine.write.commands import Flags
from signalbook.errors import RegistryError
from signalbook.formats.base import Resolve, family
from signalbook.model import Model
from signalbook.values import Finding, JSONError, JSONObject, digest, parse_json
from signalbook.xid import Xid

# Enough to repair a document by; a hostile one does not get to fill memory with complaints.
MAX_ERRORS: Final = 100


class Problems:
    """Errors found so far. One bad entity does not hide the next: all are reported at once.

    As a context (``with problems:``) it keeps a ``RegistryError`` raised in the block and goes on behind it.
    """

    def __init__(self) -> None:
        self.errors: list[RegistryError] = []
        self.count = 0

    def __enter__(self) -> None:
        """Begin a block whose error is to be kept."""

    def __exit__(self, type: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """Keep the block's error, unless there are ``MAX_ERRORS`` already; ``count`` counts all."""
        if not isinstance(error, RegistryError):
            return False
        self.count += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(error)
        return True

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all errors, each with the entity it is in."""
        return tuple(finding for error in self.errors for finding in _findings_of(error))

    def raise_any(self) -> None:
        """Raise what was found, if anything: the first error, with the findings of all."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            first = self.errors[0]
            raise RegistryError(
                first.code,
                subject=first.subject,
                detail=first.detail,
                faults=self.findings,
                **first.arguments,
            )


def _findings_of(error: RegistryError) -> list[Finding]:
    """The findings of one error, each path led by the entity it is in."""
    if not error.faults:
        return [Finding(path=error.subject, rule=error.code, message=error.title)]
    return [replace(finding, path=_located(error.subject, finding.path)) for finding in error.faults]


def _located(subject: str, path: str) -> str:
    """``path`` behind the entity it is in, unless it begins with that already."""
    if not path or path.startswith(f"{subject}/"):
        return path or subject
    return f"{subject}#{path}"


class Documents:
    """Document bytes by digest: those this command brings, and stored ones when a check needs them."""

    def __init__(self, stored: Callable[[Collection[str]], Mapping[str, bytes]]) -> None:
        self.new: dict[str, bytes] = {}
        self._stored = stored

    def keep(self, content: bytes) -> str | None:
        """Remember ``content``; returns its digest, None for the empty document."""
        if not content:
            return None
        name = digest(content)
        self.new[name] = content
        return name

    def read(self, name: str | None) -> bytes:
        """The bytes behind a digest; no digest is the empty document."""
        if name is None:
            return b""
        return self.new[name] if name in self.new else self._stored([name])[name]


def schema_text(content: bytes, format: str = "") -> bytes:
    """What a format reads of a document: of one that is a JSON string, the text in it.

    A schema that is no JSON (Protobuf, XSD) sent inline without a ``contenttype`` is a JSON string by R248; what it
    says is in the string. To Avro a string that holds no JSON is a schema: the name of a type.
    """
    if not content.startswith(b'"'):
        return content
    try:
        value = parse_json(content)
    except JSONError:
        return content
    if not isinstance(value, str) or (family(format) == "avro" and not value.lstrip().startswith(("{", "[", '"'))):
        return content
    return value.encode("utf-8")


def nothing(_: str) -> None:
    """Resolves no reference of a schema document to another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One command's surroundings. ``now`` is the one instant all its timestamps share (R42).

    ``admin`` means that whoever sent it may set ``readonly`` and write to what is read-only (R261). ``resolve`` finds
    the documents that schemas refer to. ``compatibility`` is a rule to be taken for that of every Resource, whatever
    its own: for questions, never stored.
    """

    model: Model
    capabilities: JSONObject
    flags: Flags
    target: Xid
    now: datetime
    documents: Documents
    admin: bool = False
    resolve: Resolve = nothing
    compatibility: str | None = None
    problems: Problems = field(default_factory=Problems)

    def ignores(self, name: str) -> bool:
        """Whether the request asked to ignore ``name`` (R204)."""
        return name in self.flags.ignore
