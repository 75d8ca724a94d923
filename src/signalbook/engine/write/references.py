"""Schema documents and the documents that they refer to: loaded one reference at a time and checked now or later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from signalbook.engine.checks import CheckedDocument, ReferredDocument
from signalbook.engine.search.links import find_mentions
from signalbook.engine.write.context import MAX_LOADED, Context, DocumentNotStored, Lookup
from signalbook.formats.base import extract_text
from signalbook.xid import Xid

_MAX_SEARCHED_BYTES: Final = 1 << 14
"""The maximum size of a document that is searched for references in advance.

The references of larger documents become known when these are parsed.
"""


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


def make_document(name: str | None, format: str, xid: Xid, context: Context) -> CheckedDocument:
    """Return the document with the digest ``name``, whose references are those of the schema ``xid``."""
    references = WriteReferences(xid, context, [name])
    return CheckedDocument(name=name, content=references.read(name), format=format, references=references)


class WriteReferences:
    """The documents that the schema ``xid`` refers to, as the write in ``context`` leaves them.

    Documents are loaded when they are needed, because only the format knows to which schemas a schema refers. The
    references of the documents ``names``, which are being checked, are guessed and loaded together.
    """

    def __init__(self, xid: Xid, context: Context, names: Iterable[str | None]) -> None:
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

    def resolve(self, uri: str) -> ReferredDocument | None:
        """Return the document that the schema refers to as ``uri``, or None."""
        if self._is_after_turn:
            self._context.documents.forget()
        try:
            name = self._resolved[uri] if uri in self._resolved else self.find_digests([uri])[uri]
            if name is None:
                return None
            self._names.add(name)
            return ReferredDocument(name, extract_text(self.read(name)))
        except DocumentNotStored:
            if not self._is_after_turn:
                raise
            return None  # it was removed after its row was read, or this write has not stored it yet

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
