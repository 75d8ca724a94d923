"""Schema documents and the documents that they refer to: loaded one reference at a time and checked now or later."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Generic, TypeVar

from signalbook import work
from signalbook.engine.search.links import find_mentions
from signalbook.engine.write.context import MAX_LOADED, Context, DocumentNotStored, Lookup
from signalbook.formats import SchemaError
from signalbook.formats.base import Format, extract_text
from signalbook.formats.compatibility import SchemaText
from signalbook.formats.references import has_open_references, is_importing
from signalbook.values import Finding
from signalbook.xid import Xid

_MAX_SEARCHED_BYTES: Final = 1 << 14
"""The maximum size of a document that is searched for references in advance.

The references of larger documents become known when these are parsed.
"""
Item = TypeVar("Item")


def load_documents(names: Iterable[str | None], context: Context) -> None:
    """Load the stored documents with the digests ``names``, as far as they are not loaded yet."""
    absent = context.documents.find_absent(names)
    if absent:
        context.loader.load(Lookup(documents=frozenset(absent)))


def find_mentioned(names: Iterable[str | None], context: Context) -> frozenset[Xid]:
    """Return the Resources and Versions that documents mention by xid or URL and that are not loaded yet.

    The caller can load them in advance. This is a guess, because only the format knows to which schemas a schema
    refers.
    """
    xids: dict[Xid, None] = {}
    loaded, written = context.stored.entities, context.stored.written
    for name in names:
        content = context.documents.read(name)
        if len(content) > _MAX_SEARCHED_BYTES:
            continue
        for text in find_mentions(content):
            xid = context.stored.find_named(text)
            if xid is not None and xid not in loaded and xid.resource not in written and len(xids) < MAX_LOADED:
                xids[xid] = None
    return frozenset(xids)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult(Generic[Item]):
    """The result of checking documents, and the digests of the referenced documents it depends on, by URI.

    ``error`` is the reason why there is no result, else None. The digest is None for a URI that refers to no document.
    """

    items: list[Item]
    error: SchemaError | LookupError | None
    referred: Mapping[str, str | None]


def check_with_references(
    key: Hashable,
    texts: Sequence[tuple[str | None, str]],
    xid: Xid,
    check: Callable[..., list[Item]],
    context: Context,
    find_substitute: Callable[[], CheckResult[Item] | None] = lambda: None,
) -> CheckResult[Item] | None:
    """Return the result of ``check`` for the documents ``texts`` (digest and format). None if the check is postponed.

    References are resolved for the schema ``xid``. A result is valid as long as they lead to the same documents, which
    may change between two turns. ``key`` identifies the check (see ``work.worked_out``). A postponed check first calls
    ``find_substitute`` for a result of other work that replaces its own.
    """
    references = WriteReferences(xid, context, [document for document, _ in texts])
    resolved: Mapping[str, str | None] = {}
    # Another schema of the request may have the same documents, but refer to other ones by the same names.
    for result_key in (key, (key, xid)):
        result: CheckResult[Item] | None = work.known_result(result_key)
        if result is None:
            break
        resolved = references.find_digests(result.referred)
        if result.referred == resolved:
            return result
    else:
        work.forget(result_key)
    formats = [name for _, name in texts]
    return work.worked_out(
        result_key,
        partial(_check_contents, check, formats, references),
        later=partial(_check_after_turn, find_substitute, check, formats, references.freeze(resolved)),
        contents=[references.read(document) for document, _ in texts],
    )


def _check_after_turn(
    find_substitute: Callable[[], CheckResult[Item] | None],
    check: Callable[..., list[Item]],
    formats: Sequence[str],
    references: WriteReferences,
    *contents: bytes,
) -> CheckResult[Item]:
    return find_substitute() or _check_contents(check, formats, references, *contents)


def _check_contents(
    check: Callable[..., list[Item]], formats: Sequence[str], references: WriteReferences, *contents: bytes
) -> CheckResult[Item]:
    texts = [
        SchemaText(document=read_text(content, name), format=name, resolve=references.resolve)
        for content, name in zip(contents, formats, strict=True)
    ]
    return check_texts(check, texts, references.referred)


def check_texts(
    check: Callable[..., list[Item]], texts: Iterable[SchemaText], referred: Mapping[str, str | None]
) -> CheckResult[Item]:
    """Return the result of ``check`` for ``texts``, which depends on the documents ``referred``."""
    try:
        return CheckResult(items=check(*texts), error=None, referred=referred)
    except (SchemaError, LookupError) as error:
        return CheckResult(items=[], error=error, referred=referred)


def check_alone(reader: Format, name: str | None, content: bytes, format: str) -> list[Finding] | None:
    """Return the findings about a document without its references. None if the check is postponed.

    ``name`` is its digest.
    """
    return work.worked_out((name, format), partial(_check_alone, reader, format), contents=[content])


def _check_alone(reader: Format, format: str, content: bytes) -> list[Finding]:
    return reader.check(read_text(content, format), format)


def check_whole(
    reader: Format, name: str | None, format: str, xid: Xid, context: Context
) -> CheckResult[Finding] | None:
    """Return the findings about a document together with all that it refers to. None if the check is postponed.

    ``name`` is its digest. While ``check_alone`` is postponed, it is not known whether the document refers to others.
    """

    def find_closed() -> CheckResult[Finding] | None:
        findings: list[Finding] | None = work.known_result((name, format))
        is_closed = findings is not None and not has_open_references(findings)
        return CheckResult(items=findings or [], error=None, referred={}) if is_closed else None

    check = reader.check_whole if is_importing(reader) else partial(_parse_whole, reader)
    return check_with_references((name, format, "whole"), [(name, format)], xid, check, context, find_closed)


def _parse_whole(reader: Format, text: SchemaText) -> list[Finding]:
    """Parse a document with its references. Returns no findings if it can be parsed, else raises ``SchemaError``."""
    reader.parse(text.document, text.format, resolve=text.resolve)
    return []


class WriteReferences:
    """The documents that the schema ``xid`` refers to, as the write in ``context`` leaves them.

    Documents are loaded when they are needed, because only the format knows to which schemas a schema refers. The
    references of the documents ``names``, which are being checked, are guessed and loaded together. ``referred`` are
    the digests of the documents that were resolved.
    """

    def __init__(self, xid: Xid, context: Context, names: Iterable[str | None]) -> None:
        self.referred: dict[str, str | None] = {}
        self._xid = xid
        self._context = context
        self._names = {name for name in names if name is not None}
        self._is_after_turn = False
        self._resolved: Mapping[str, str | None] = {}
        self._contents: dict[str, bytes] = {}

    def freeze(self, resolved: Mapping[str, str | None]) -> WriteReferences:
        """Return the references after the turn of the write, which are loaded from the committed data.

        ``resolved`` are references that the turn resolved. They are not resolved again: later steps of the turn, such
        as deleting old Versions, may have changed the context, and then no turn would accept the result.
        """
        references = WriteReferences(self._xid, self._context, self._names)
        references._contents = {name: self.read(name) for name in resolved.values() if name is not None}
        references._resolved, references._is_after_turn = resolved, True
        return references

    def find_digests(self, uris: Iterable[str]) -> dict[str, str | None]:
        """Return the digests of the documents that the schema refers to as ``uris``. None if there is no document."""
        while True:
            digests = {uri: self._context.find_referred(self._xid, uri) for uri in uris}
            missing = self._context.take_missing(contents=True)
            if missing is None:
                return digests
            loaded = self._names - self._context.documents.find_absent(self._names)
            self._load(replace(missing, entities=missing.entities | find_mentioned(loaded, self._context)))

    def resolve(self, uri: str) -> bytes | None:
        """Return the document that the schema refers to as ``uri``, or None, and count the work of reading it."""
        try:
            name = self._resolved[uri] if uri in self._resolved else self.find_digests([uri])[uri]
            content = b"" if name is None else self.read(name)
        except DocumentNotStored:
            if not self._is_after_turn:
                raise
            name = None  # it was removed after its row was read, or this write has not stored it yet
        self.referred[uri] = name
        if name is None:
            return None
        self._names.add(name)
        return read_text(content)

    def _load(self, lookup: Lookup) -> None:
        loader = self._context.loader
        load = loader.load_snapshot if self._is_after_turn else loader.load
        load(lookup)

    def read(self, name: str | None) -> bytes:
        """Return the document with the digest ``name``, and load it first if necessary. Empty if ``name`` is None.

        Raises ``DocumentNotStored``.
        """
        if name in self._contents:
            return self._contents[name]
        absent = self._context.documents.find_absent([name])
        if absent:
            self._load(Lookup(documents=frozenset(absent)))
        return self._context.documents.read(name)


def read_text(content: bytes, format: str = "") -> bytes:
    """Return the result of ``extract_text`` for a document, and count the work of reading it."""
    work.spend(len(content))
    return extract_text(content, format)
