"""Keeping the index: what a write changed is indexed with it, and what is stored already, page by page, once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from signalbook import work
from signalbook.batches import batched
from signalbook.engine.schemanames import NAME
from signalbook.engine.search.links import (
    IMPORT,
    MAX_LINKS,
    NO_DOCUMENT,
    DocumentLinks,
    list_imported_names,
    list_mentions,
    make_links,
)
from signalbook.engine.search.text import INLINE, MAX_PATH_AND_TEXT_CHARS, MAX_TEXT_CHARS, make_entry
from signalbook.engine.write.context import Documents
from signalbook.engine.write.workingcopies import VersionCopy, WorkingTree
from signalbook.formats.base import schema_text
from signalbook.formats.members import MAX_BYTES, Member, members
from signalbook.formats.references import identities, identity_of_key
from signalbook.storage.base import Row
from signalbook.storage.store import Store, WriteTransaction
from signalbook.storage.words import CURRENT, DEPRECATED, IndexEntry, Link, Text
from signalbook.values import JSONObject, digest, dump_json
from signalbook.xid import Kind, Xid

INDEX: Final = 7
"""Of what the index is made: another number has it made anew when a store is opened."""
_PAGE: Final = 500
_DOCUMENTS: Final = 64
_STEP: Final = 16
"""Bytes that are read for names in the time of one step of work."""


@dataclass(frozen=True, slots=True)
class Described:
    """The content of a schema document: its ``members``, and its ``links`` to other documents."""

    members: Sequence[Member] = ()
    links: DocumentLinks = NO_DOCUMENT


_NOTHING: Final = Described()


def describe(tree: WorkingTree, documents: Documents) -> dict[Xid, Described]:
    """Look through the documents that a write brings, or leave that for later: see ``work.worked_out``."""
    return {
        version.xid: found
        for version in _versions(tree)
        if _is_described(version)
        and (found := _described(version.attributes, version.document, documents.new)) is not None
    }


def index_tree(
    tree: WorkingTree, rows: Iterable[Row], described: Mapping[Xid, Described], transaction: WriteTransaction, root: str
) -> None:
    """Index what ``tree`` changed of the ``rows`` that were written for it; ``root`` is the registry's URL."""
    shown: dict[Xid, int] = {}
    for some in batched(rows, _PAGE):
        versions = [row for row in some if row.xid.kind is Kind.VERSION and _has_other(row, _before(row, tree))]
        found = {**_known(versions, tree, transaction), **described}
        found |= stored_descriptions([row for row in versions if row.xid not in found], transaction)
        for row in some:
            if row.xid.kind is Kind.GROUP and _has_other(row, tree.groups[row.xid].before):
                transaction.index.put(_entry_of(row, root))
            elif row.xid.kind is Kind.RESOURCE:
                shown |= _index_resource(row, tree.resources[row.xid].before, transaction, root)
        for row in versions:
            owner = tree.resources[row.xid.resource]
            current = owner.defaultversionid == row.xid.id
            deprecated = current and "deprecated" in owner.attributes
            entry = _version_entry(row, found[row.xid], current=current, deprecated=deprecated, root=root)
            transaction.index.put(entry)
    _mark(shown, tree, transaction)


def _mark(flags: Mapping[Xid, int], tree: WorkingTree, transaction: WriteTransaction) -> None:
    """Give stored Versions other flags; those that are new have theirs."""
    missing = []
    for xid, flag in flags.items():
        copy = tree.resources[xid.resource].versions.get(xid.id)
        if copy is None:
            missing.append(xid)
        elif copy.before is not None:
            transaction.index.mark(copy.before.key, flag)
    missing = [xid for xid in missing if xid.id not in tree.resources[xid.resource].removed]
    for xid, row in (transaction.entities.get_many(missing) if missing else {}).items():
        transaction.index.mark(row.key, flags[xid])


def _before(version: Row, tree: WorkingTree) -> Row | None:
    return tree.resources[version.xid.resource].versions[version.xid.id].before


def _entry_of(row: Row, root: str) -> IndexEntry:
    """Return the entry of a Group or a cross reference."""
    links = make_links(row, NO_DOCUMENT, root)
    return make_entry(row, (), current=True, deprecated=_is_deprecated(row), links=links)


def _has_other(row: Row, before: Row | None) -> bool:
    """Return True if anything in the index entry of an entity changed."""
    return before is None or row.attributes != before.attributes or row.document != before.document


def _index_resource(row: Row, before: Row | None, transaction: WriteTransaction, root: str) -> dict[Xid, int]:
    """A cross reference has an entry; of what has Versions these have one.

    Returns the flags of those Versions that are shown by default no longer, or from now on.
    """
    if row.xref is not None:
        transaction.index.put(_entry_of(row, root))
        return {}
    if before is None:
        return {}
    if before.xref is not None:
        transaction.index.drop(row.key)
    if before.defaultversionid == row.defaultversionid and _is_deprecated(before) == _is_deprecated(row):
        return {}
    flags = {before.defaultversionid: 0, row.defaultversionid: _flags(row, current=True)}
    return {row.xid / "versions" / name: flag for name, flag in flags.items() if name}


def _version_entry(row: Row, found: Described, *, current: bool, deprecated: bool, root: str) -> IndexEntry:
    links = make_links(row, found.links, root)
    return make_entry(row, found.members, current=current, deprecated=deprecated, links=links)


def _known(versions: Iterable[Row], tree: WorkingTree, transaction: WriteTransaction) -> dict[Xid, Described]:
    """Return the indexed documents that stay: they are not read again."""
    same = {row.key: row.xid for row in versions if (before := _before(row, tree)) and _same_document(row, before)}
    if not same:
        return {}
    texts = {key: some for key, some in transaction.index.texts(same).items() if _has_all(some)}
    stored: dict[int, list[Link]] = defaultdict(list)
    counts: Counter[int] = Counter()
    for key, link in transaction.index.links(texts):
        counts[key] += 1
        stored[key].append(link)
    return {
        same[key]: Described(
            [Member(each.path, each.text) for each in some if each.member], _document_links(stored[key])
        )
        for key, some in texts.items()
        if counts[key] < MAX_LINKS
    }


def _document_links(links: Iterable[Link]) -> DocumentLinks:
    """Return what a document has to do with others, by the links of the entity that has it."""
    by_kind: dict[str, list[str]] = defaultdict(list)
    for link in links:
        by_kind[link.kind].append(link.target)
    found = filter(None, map(identity_of_key, by_kind[NAME]))
    return DocumentLinks(mentions=by_kind["schema"], imports=by_kind[IMPORT], identities=list(found))


def _has_all(texts: Sequence[Text]) -> bool:
    """Return True if no text was left out for lack of room."""
    return sum(len(each.path) + len(each.text) for each in texts) <= MAX_TEXT_CHARS - MAX_PATH_AND_TEXT_CHARS


def _same_document(row: Row, before: Row) -> bool:
    return before.document == row.document and _inline(row.attributes) == _inline(before.attributes)


def _is_deprecated(row: Row) -> bool:
    return "deprecated" in row.attributes


def _flags(resource: Row, *, current: bool) -> int:
    return CURRENT * current | DEPRECATED * (current and _is_deprecated(resource))


def _versions(tree: WorkingTree) -> Iterator[VersionCopy]:
    for resource in tree.resources.values():
        yield from resource.versions.values()


def _is_described(version: VersionCopy) -> bool:
    before = version.before
    if before is None:
        return True
    return before.document != version.document or _inline(before.attributes) != _inline(version.attributes)


def stored_descriptions(versions: Sequence[Row], transaction: WriteTransaction) -> dict[Xid, Described]:
    """Describe the stored documents of Versions."""
    found: dict[Xid, Described] = {}
    # A few at a time: documents may be large.
    for some in batched(versions, _DOCUMENTS):
        contents = transaction.entities.documents({row.document for row in some if row.document})
        found |= {row.xid: _described(row.attributes, row.document, contents) or _NOTHING for row in some}
    return found


def _described(attributes: JSONObject, document: str | None, contents: Mapping[str, bytes]) -> Described | None:
    form = attributes.get("format") or attributes.get("dataschemaformat")
    content = contents.get(document, b"") if document else _inline_document(attributes)
    if not isinstance(form, str) or not content:
        # A document that is not at hand has to be read first.
        return None if document and document not in contents else _NOTHING

    check = (document, form) if document else ("dataschema", content, form)

    def found() -> Described:
        work.spend(len(content) // _STEP)
        text = schema_text(content, form)
        is_small = len(text) <= MAX_BYTES
        links = DocumentLinks(
            mentions=list_mentions(text, form) if is_small else (),
            imports=list_imported_names(text, form, work.known_result(check)) if is_small else (),
            identities=identities(text, form),
        )
        return Described(members(text, form), links)

    name = document or digest(content)
    # Names of other documents follow from the check of this one: until it is done, that is a part of this work.
    size = len(content) if work.known_result(check) is None else len(content) // _STEP
    return work.worked_out(("described", name, form), found, size=size)


def _inline(attributes: JSONObject) -> tuple[object, ...]:
    return tuple(attributes.get(name) for name in (*INLINE, "format", "dataschemaformat"))


def _inline_document(attributes: JSONObject) -> bytes:
    """The schema of a message that is in its definition."""
    schema = attributes.get("dataschema")
    if isinstance(schema, str):
        return schema.encode("utf-8", "surrogatepass")
    return dump_json(schema) if isinstance(schema, dict | list) else b""


def is_complete(state: Mapping[str, int]) -> bool:
    """Return True if the index is complete."""
    return state.get("made") == INDEX and state.get("position", 0) < 0


def complete_index(
    store: Store, progress: Callable[[int], None] = lambda _: None, *, root: str = "", anew: bool = False
) -> None:
    """Index what is stored and not indexed yet; ``anew`` whatever is. Writes go on meanwhile, and index themselves.

    A page of entities is one transaction. Several processes may do it at once: each goes on where the others are.
    ``progress`` gets the number of entities that this one did; ``root`` as in ``index_tree``. Raises ``StorageError``.
    """
    with store.read() as reading:
        if is_complete(reading.index.state()) and not anew:
            return
    done = 0
    while True:
        with store.write() as transaction, work.unlimited():
            state = transaction.index.state()
            if state.get("made") != INDEX or anew:
                transaction.index.clear()
                state = {"made": INDEX, "position": 0}
                anew = False
            if is_complete(state):
                return
            rows = transaction.index.entities(state["position"], _PAGE)
            _index_page(rows, transaction, root)
            if not rows:
                transaction.index.merge()
            transaction.index.put_state(made=INDEX, position=rows[-1].key if rows else -1)
        done += len(rows)
        progress(done)


def _index_page(rows: Sequence[Row], transaction: WriteTransaction, root: str) -> None:
    versions = [row for row in rows if row.xid.kind is Kind.VERSION]
    owners: dict[int, Row] = {row.key: row for row in transaction.entities.by_key({row.parent for row in versions})}
    for row in rows:
        if row.xid.kind is Kind.GROUP or (row.xid.kind is Kind.RESOURCE and row.xref is not None):
            transaction.index.put(_entry_of(row, root))
    found = stored_descriptions(versions, transaction)
    for row in versions:
        owner = owners[row.parent]
        current = owner.defaultversionid == row.xid.id
        deprecated = current and _is_deprecated(owner)
        transaction.index.put(_version_entry(row, found[row.xid], current=current, deprecated=deprecated, root=root))
