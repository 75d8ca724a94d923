"""Ways to ask what would become of documents and schemas: a server, a database, a new registry, another schema."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import typer

from signalbook import settings
from signalbook.cli.opening import open_client, open_engine
from signalbook.errors import RegistryError, SignalbookError
from signalbook.formats.compatibility import SchemaText, comparing, finding, violations
from signalbook.formats.registry import find, supported
from signalbook.values import JSON, JSONObject
from signalbook.verdict import Verdict
from signalbook.xid import ROOT, Xid

if TYPE_CHECKING:
    from signalbook.client import Client
    from signalbook.engine.engine import Batch, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFile:
    """A schema in a file; ``stated`` is the format that the person in front of the screen says, or ``""``."""

    name: str
    content: bytes = field(repr=False)
    stated: str = ""

    @property
    def format(self) -> str:
        """What is stated, or what the file itself tells; ``""`` for neither."""
        return self.stated or guess_format(self.name, self.content)


class Checks(Protocol):
    """Somebody to ask. What is accepted may count for what is asked next."""

    def document(self, document: JSON, ignore: Sequence[str]) -> Verdict:
        """What would become of an import of ``document``."""

    def version(self, xid: Xid, schema: SchemaFile, compatibility: str | None) -> Verdict:
        """What would become of ``schema`` as the next Version of the Resource ``xid``."""


@contextmanager
def open_checks(server: str | None, db: str | None, *, offline: bool) -> Iterator[Checks]:
    """Whom the options name: a server, a database (by default the setting ``db``), or a new registry in memory.

    Raises ``SignalbookError``, and ``typer.BadParameter`` for options that exclude each other.
    """
    if sum((server is not None, db is not None, offline)) > 1:
        raise typer.BadParameter("give one of --server, --db and --offline")
    if server is not None:
        with open_client(server) as client:
            yield ServerChecks(client)
        return
    chosen = settings.load({"db": "sqlite://" if offline else db}, environ=os.environ)
    with open_engine(chosen, create=offline) as engine, engine.trying() as batch:
        yield LocalChecks(batch)


class ServerChecks:
    """A server, asked document by document: it forgets each before the next."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def document(self, document: JSON, ignore: Sequence[str]) -> Verdict:
        """As the protocol says."""
        return self._client.check_document(document, ignore=ignore)

    def version(self, xid: Xid, schema: SchemaFile, compatibility: str | None) -> Verdict:
        """As the protocol says."""
        attributes = {"format": schema.stated or self._format_of(xid) or schema.format or _unknown(xid)}
        return self._client.check(
            "POST", xid, content=schema.content, attributes=attributes, compatibility=compatibility
        )

    def _format_of(self, xid: Xid) -> str:
        from signalbook.client import NotFound

        try:
            return str(self._client.get(xid).get("format") or "")
        except NotFound:
            return ""


class LocalChecks:
    """A registry in this process. What it accepts stays until all is asked, so that documents may build on others."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def document(self, document: JSON, ignore: Sequence[str]) -> Verdict:
        """As the protocol says."""
        from signalbook.documents import aim, extend_model
        from signalbook.engine.config.capabilities import resolve_ignore
        from signalbook.engine.write.commands import Command, Flags, Method

        upload = aim(document)

        def command(session: Session) -> Command:
            sent = upload
            if "modelsource" in upload.body and upload.target == ROOT and "modelsource" not in ignore:
                sent = extend_model(upload, session.view.modelsource())
            names = resolve_ignore(session.view.capabilities, [*upload.ignore, *ignore], upload.target)
            return Command(method=Method.PATCH, target=upload.target, body=sent.body, flags=Flags(ignore=names))

        return self._ask(command, None)

    def version(self, xid: Xid, schema: SchemaFile, compatibility: str | None) -> Verdict:
        """As the protocol says."""
        from signalbook.engine.write.commands import Command, DocumentBody, Method

        def command(session: Session) -> Command:
            name = schema.stated or self._format_of(session, xid) or schema.format or _unknown(xid)
            document = DocumentBody(content=schema.content, attributes={"format": name})
            return Command(method=Method.POST, target=xid, document=document)

        return self._ask(command, compatibility)

    def _ask(self, command: Callable[[Session], Any], compatibility: str | None) -> Verdict:
        opened = self._batch.writing() if compatibility is None else self._batch.trying(compatibility)
        try:
            with opened as session:
                result = session.execute(command(session))
                changes = tuple(change.to_json() for change in session.changes)
                return Verdict(changes=changes, findings=(*result.findings, *session.doubts))
        except RegistryError as error:
            return Verdict.refused(error)

    @staticmethod
    def _format_of(session: Session, xid: Xid) -> str:
        from signalbook.engine.read.view import ViewOptions

        try:
            return str(session.view.entity(xid, ViewOptions()).get("format") or "")
        except RegistryError:
            return ""


def compare(new: SchemaFile, old: SchemaFile, rule: str) -> Verdict:
    """What is against ``new`` as the successor of ``old`` under ``rule``; no registry is asked.

    Raises ``SignalbookError`` for a format that is unknown or has no comparison.
    """
    for schema in (new, old):
        if not schema.format:
            raise _no_format(f"nothing tells the format of {schema.name}")
        if comparing(schema.format) is None:
            known = ", ".join(name for name in supported() if comparing(name) is not None)
            raise SignalbookError(f"schemas of format {schema.format!r} cannot be compared; those of {known} can")
    broken = [_violation(schema) for schema in (new, old)]
    if any(broken):
        return Verdict.refused(*(error for error in broken if error is not None))
    texts = [SchemaText(document=schema.content, format=schema.format) for schema in (new, old)]
    found = violations(rule, *texts)
    if not found:
        return Verdict()
    faults = [finding(*told, document=new.name, against=old.name) for told in found]
    detail = f"{new.name} does not fit behind {old.name}"
    return Verdict.refused(
        RegistryError("compatibility_violation", subject=new.name, compat=rule, detail=detail, faults=faults)
    )


def _no_format(reason: str) -> SignalbookError:
    return SignalbookError(f"{reason}: say it with --format, such as --format JsonSchema/draft-07")


def _unknown(xid: Xid) -> str:
    raise _no_format(f"there is no {xid} yet, and nothing in the file tells its format")


def _violation(schema: SchemaFile) -> RegistryError | None:
    reader = find(schema.format)
    faults = reader.check(schema.content, schema.format) if reader is not None else []
    faults = [fault for fault in faults if fault.severity == "error"]
    if not faults:
        return None
    return RegistryError("format_violation", subject=schema.name, format=schema.format, faults=faults)


def guess_format(name: str, content: bytes) -> str:
    """The format that a file's name or its own words tell, ``""`` if they do not."""
    from signalbook.values import JSONError, parse_json

    lowered = name.lower()
    if lowered.endswith(".avsc"):
        return "Avro/1.12.0"
    if lowered.endswith(".proto"):
        return "Protobuf/2" if b'"proto2"' in content else "Protobuf/3"
    if lowered.endswith(".xsd"):
        return "XSD/1.1"
    try:
        document: JSONObject = parse_json(content)
    except JSONError:
        return ""
    stated = document.get("$schema") if isinstance(document, dict) else None
    return _DIALECTS.get(str(stated).rstrip("#").rpartition("json-schema.org/")[2], "")


_DIALECTS = {
    "draft-04/schema": "JsonSchema/draft-04",
    "draft-06/schema": "JsonSchema/draft-06",
    "draft-07/schema": "JsonSchema/draft-07",
    "draft/2019-09/schema": "JsonSchema/draft/2019-09",
    "draft/2020-12/schema": "JsonSchema/draft/2020-12",
}
