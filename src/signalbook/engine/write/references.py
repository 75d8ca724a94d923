"""Schema documents and the documents that they refer to: loaded one reference at a time and checked now or later."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Generic, TypeVar

from signalbook import work
from signalbook.engine.search.links import find_mentions
from signalbook.engine.write.context import MAX_LOADED, Context, DocumentNotStored, Lookup
from signalbook.formats import SchemaError
from signalbook.formats.base import Resolve, extract_text
from signalbook.formats.compatibility import SchemaText
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
    """The result of checking documents, and the referenced documents it depends on, by URI.

    ``error`` is the reason why there is no result, else None.
    """

    items: list[Item]
    error: SchemaError | LookupError | None
    referred: Mapping[str, bytes | None]


def check_with_references(
    key: Hashable,
    texts: list[tuple[str | None, str]],
    xid: Xid,
    check: Callable[..., list[Item]],
    context: Context,
) -> CheckResult[Item] | None:
    """Return the result of ``check`` for the documents ``texts`` (digest and format). None if the check is postponed.

    References are resolved for the schema ``xid``. They become known one at a time while a schema is parsed, so the
    check is repeated with more loaded documents until nothing is missing. A postponed check loads them itself from the
    committed data, so that even a long chain of references takes only one more turn. ``key`` identifies the check (see
    ``work.worked_out``).
    """
    before = set(context.documents.loaded)
    resolve = partial(context.resolve, xid)
    own_key: Hashable = (key, xid)
    outcome: CheckResult[Item] | None = None
    is_new = False
    while True:
        # Even a result computed in the background is checked here, because referenced documents may have changed since
        # then.
        referred = {uri: resolve(uri) for uri in outcome.referred} if outcome is not None else {}
        contents = [(context.documents.read(document), name) for document, name in texts]
        missing = context.take_missing(contents=True)
        if missing is not None:
            read_digests = {document for document, _ in texts} | (context.documents.loaded.keys() - before)
            context.loader.load(replace(missing, entities=missing.entities | find_mentioned(read_digests, context)))
            continue
        if outcome is not None and outcome.referred == referred:
            return outcome
        if outcome is not None and (is_new or key is own_key):
            # References were not loaded yet. Schemas with the same references share the complete result.
            work.forget(key)
        elif outcome is not None:
            # Another schema of the request may have the same documents, but refer to other ones by the same names.
            key = own_key
        is_new = work.known_result(key) is None
        outcome = work.worked_out(
            key,
            partial(_check_contents, check, contents, resolve),
            later=partial(_check_after_turn, check, contents, referred, xid, context),
            size=sum(len(content) for content, _ in contents),
        )
        if outcome is None:
            return None


def _check_after_turn(
    check: Callable[..., list[Item]],
    contents: list[tuple[bytes, str]],
    referred: Mapping[str, bytes | None],
    xid: Xid,
    context: Context,
) -> CheckResult[Item]:
    """Return the result of ``check`` after the turn of the write.

    ``referred`` are the references that the turn resolved. They are not resolved again: later steps of the turn, such
    as deleting old Versions, may have changed ``context``, and then no turn would accept the result. All others are
    resolved with ``context`` and the committed data. The next turn checks that it resolves them to the same documents.
    """

    def resolve(uri: str) -> bytes | None:
        return referred[uri] if uri in referred else _resolve_after_turn(xid, context, uri)

    return _check_contents(check, contents, resolve)


def _resolve_after_turn(xid: Xid, context: Context, uri: str) -> bytes | None:
    """Return the result of ``Context.resolve``, for which missing data is loaded from the committed data."""
    while True:
        content = context.resolve(xid, uri)
        missing = context.take_missing(contents=True)
        if missing is None:
            return content
        try:
            context.loader.load_snapshot(missing)
        except DocumentNotStored:  # it was removed after its row was read, or this write has not stored it yet
            return None


def _check_contents(
    check: Callable[..., list[Item]], contents: list[tuple[bytes, str]], resolve: Resolve
) -> CheckResult[Item]:
    texts = [SchemaText(document=read_text(content, name), format=name, resolve=resolve) for content, name in contents]
    return check_texts(check, texts)


def check_texts(check: Callable[..., list[Item]], texts: Iterable[SchemaText]) -> CheckResult[Item]:
    """Return the result of ``check`` for ``texts``, and count the work of reading the documents they refer to."""
    referred: dict[str, bytes | None] = {}

    def resolve_and_record(resolve: Resolve, uri: str) -> bytes | None:
        content = referred[uri] = resolve(uri)
        work.spend(len(content or b""))
        return content

    recorded = [
        text if text.resolve is None else replace(text, resolve=partial(resolve_and_record, text.resolve))
        for text in texts
    ]
    try:
        return CheckResult(items=check(*recorded), error=None, referred=referred)
    except (SchemaError, LookupError) as error:
        return CheckResult(items=[], error=error, referred=referred)


def read_text(content: bytes, format: str) -> bytes:
    """Return the result of ``extract_text`` for a document, and count the work of reading it."""
    work.spend(len(content))
    return extract_text(content, format)
