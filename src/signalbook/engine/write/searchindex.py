"""The upkeep of the search index. Writes index their changes, and stored entities are indexed once, page by page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from signalbook import work
from signalbook.batches import batched
from signalbook.engine.checks import find_findings
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
from signalbook.formats.base import extract_text
from signalbook.formats.members import MAX_BYTES, Member, list_members
from signalbook.formats.references import find_identity, list_identities
from signalbook.storage.base import Row
from signalbook.storage.store import Store, WriteTransaction
from signalbook.storage.words import CURRENT, DEPRECATED, IndexEntry, Link, Text
from signalbook.values import JSONObject, digest, dump_json
from signalbook.xid import Kind, Xid

INDEX_VERSION: Final = 7
"""The version of the index format. If it differs from the stored one, the index is rebuilt when a store is opened."""
_ROWS_PER_PAGE: Final = 500
_DOCUMENTS_AT_ONCE: Final = 64
_BYTES_PER_STEP: Final = 16
"""The number of bytes that can be searched for names in the time of one work unit."""


@dataclass(frozen=True, slots=True)
class DocumentDescription:
    """The indexed content of a schema document: its ``members`` and its ``links`` to other documents."""

    members: Sequence[Member] = ()
    links: DocumentLinks = NO_DOCUMENT


_NO_DESCRIPTION: Final = DocumentDescription()


def describe(tree: WorkingTree, documents: Documents) -> dict[Xid, DocumentDescription]:
    """Describe the new documents of a write, by the xid of their Version.

    A document whose description takes too long now is left out: see ``work.compute_or_postpone``.
    """
    return {
        version.xid: description
        for version in _list_versions(tree)
        if _has_new_document(version)
        and (description := _describe_document(version.attributes, version.document, documents.new)) is not None
    }


def index_tree(
    tree: WorkingTree,
    rows: Iterable[Row],
    described: Mapping[Xid, DocumentDescription],
    transaction: WriteTransaction,
    root: str,
) -> None:
    """Index the changed ones of the ``rows`` that were written for ``tree``. ``root`` is the registry's URL.

    ``described`` are the descriptions of documents that are known already.
    """
    flags: dict[Xid, int] = {}
    for batch in batched(rows, _ROWS_PER_PAGE):
        versions = [row for row in batch if row.xid.kind is Kind.VERSION and _has_changed(row, _find_before(row, tree))]
        descriptions = {**_load_unchanged(versions, tree, transaction), **described}
        descriptions |= describe_stored([row for row in versions if row.xid not in descriptions], transaction)
        for row in batch:
            if row.xid.kind is Kind.GROUP and _has_changed(row, tree.groups[row.xid].before):
                transaction.index.put(_make_entry(row, root))
            elif row.xid.kind is Kind.RESOURCE:
                flags |= _index_resource(row, tree.resources[row.xid].before, transaction, root)
        for row in versions:
            owner = tree.resources[row.xid.resource]
            current = owner.defaultversionid == row.xid.id
            deprecated = current and "deprecated" in owner.attributes
            entry = _make_version_entry(row, descriptions[row.xid], current=current, deprecated=deprecated, root=root)
            transaction.index.put(entry)
    _mark_versions(flags, tree, transaction)


def _mark_versions(flags: Mapping[Xid, int], tree: WorkingTree, transaction: WriteTransaction) -> None:
    """Set the flags of stored Versions in the index. New Versions got their flags when they were indexed."""
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


def _find_before(version: Row, tree: WorkingTree) -> Row | None:
    return tree.resources[version.xid.resource].versions[version.xid.id].before


def _make_entry(row: Row, root: str) -> IndexEntry:
    """Return the index entry of a Group or a cross reference."""
    links = make_links(row, NO_DOCUMENT, root)
    return make_entry(row, (), current=True, deprecated=_is_deprecated(row), links=links)


def _has_changed(row: Row, before: Row | None) -> bool:
    """Return True if anything that the index entry contains has changed."""
    return before is None or row.attributes != before.attributes or row.document != before.document


def _index_resource(row: Row, before: Row | None, transaction: WriteTransaction, root: str) -> dict[Xid, int]:
    """Index a cross reference. Other Resources have no index entry; their Versions have.

    Returns the new flags of Versions that become or stop being the default Version.
    """
    if row.xref is not None:
        transaction.index.put(_make_entry(row, root))
        return {}
    if before is None:
        return {}
    if before.xref is not None:
        transaction.index.drop(row.key)
    if before.defaultversionid == row.defaultversionid and _is_deprecated(before) == _is_deprecated(row):
        return {}
    flags = {before.defaultversionid: 0, row.defaultversionid: _make_flags(row, current=True)}
    return {row.xid / "versions" / name: flag for name, flag in flags.items() if name}


def _make_version_entry(
    row: Row, description: DocumentDescription, *, current: bool, deprecated: bool, root: str
) -> IndexEntry:
    links = make_links(row, description.links, root)
    return make_entry(row, description.members, current=current, deprecated=deprecated, links=links)


def _load_unchanged(
    versions: Iterable[Row], tree: WorkingTree, transaction: WriteTransaction
) -> dict[Xid, DocumentDescription]:
    """Return the descriptions of unchanged documents from the index, so that these are not read again."""
    xids = {
        row.key: row.xid for row in versions if (before := _find_before(row, tree)) and _is_same_document(row, before)
    }
    if not xids:
        return {}
    texts = {
        key: entity_texts for key, entity_texts in transaction.index.texts(xids).items() if _is_complete(entity_texts)
    }
    stored: dict[int, list[Link]] = defaultdict(list)
    counts: Counter[int] = Counter()
    for key, link in transaction.index.links(texts):
        counts[key] += 1
        stored[key].append(link)
    return {
        xids[key]: DocumentDescription(
            [Member(text.path, text.text) for text in key_texts if text.member], _read_document_links(stored[key])
        )
        for key, key_texts in texts.items()
        if counts[key] < MAX_LINKS
    }


def _read_document_links(links: Iterable[Link]) -> DocumentLinks:
    """Return the links of a document, taken from the indexed links of its entity."""
    by_kind: dict[str, list[str]] = defaultdict(list)
    for link in links:
        by_kind[link.kind].append(link.target)
    names = filter(None, map(find_identity, by_kind[NAME]))
    return DocumentLinks(mentions=by_kind["schema"], imports=by_kind[IMPORT], identities=list(names))


def _is_complete(texts: Sequence[Text]) -> bool:
    """Return True if no text was left out because of the size limit."""
    return sum(len(text.path) + len(text.text) for text in texts) <= MAX_TEXT_CHARS - MAX_PATH_AND_TEXT_CHARS


def _is_same_document(row: Row, before: Row) -> bool:
    return before.document == row.document and _read_inline(row.attributes) == _read_inline(before.attributes)


def _is_deprecated(row: Row) -> bool:
    return "deprecated" in row.attributes


def _make_flags(resource: Row, *, current: bool) -> int:
    return CURRENT * current | DEPRECATED * (current and _is_deprecated(resource))


def _list_versions(tree: WorkingTree) -> Iterator[VersionCopy]:
    for resource in tree.resources.values():
        yield from resource.versions.values()


def _has_new_document(version: VersionCopy) -> bool:
    before = version.before
    if before is None:
        return True
    return before.document != version.document or _read_inline(before.attributes) != _read_inline(version.attributes)


def describe_stored(versions: Sequence[Row], transaction: WriteTransaction) -> dict[Xid, DocumentDescription]:
    """Describe the stored documents of Versions, by xid."""
    descriptions: dict[Xid, DocumentDescription] = {}
    # A few at a time, because documents may be large.
    for batch in batched(versions, _DOCUMENTS_AT_ONCE):
        contents = transaction.entities.documents({row.document for row in batch if row.document})
        descriptions |= {
            row.xid: _describe_document(row.attributes, row.document, contents) or _NO_DESCRIPTION for row in batch
        }
    return descriptions


def _describe_document(
    attributes: JSONObject, document: str | None, contents: Mapping[str, bytes]
) -> DocumentDescription | None:
    form = attributes.get("format") or attributes.get("dataschemaformat")
    content = contents.get(document, b"") if document else _read_inline_document(attributes)
    if not isinstance(form, str) or not content:
        # A document that is not loaded must be read first, so there is no description yet.
        return None if document and document not in contents else _NO_DESCRIPTION

    name = document or digest(content)

    def describe_content(content: bytes) -> DocumentDescription:
        work.spend(len(content) // _BYTES_PER_STEP)
        text = extract_text(content, form)
        is_small = len(text) <= MAX_BYTES
        links = DocumentLinks(
            mentions=list_mentions(text, form) if is_small else (),
            imports=list_imported_names(text, form, find_findings(name, form)) if is_small else (),
            identities=list_identities(text, form),
        )
        return DocumentDescription(list_members(text, form), links)

    # The check of this document finds the names of other documents. As long as it is not done, it is part of this work.
    size = len(content) if find_findings(name, form) is None else len(content) // _BYTES_PER_STEP
    return work.compute_or_postpone(("described", name, form), describe_content, contents=[content], size=size)


def _read_inline(attributes: JSONObject) -> tuple[object, ...]:
    return tuple(attributes.get(name) for name in (*INLINE, "format", "dataschemaformat"))


def _read_inline_document(attributes: JSONObject) -> bytes:
    """Return the schema that a message has in its attributes, as bytes. Empty if there is none."""
    schema = attributes.get("dataschema")
    if isinstance(schema, str):
        return schema.encode("utf-8", "surrogatepass")
    return dump_json(schema) if isinstance(schema, dict | list) else b""


def is_complete(state: Mapping[str, int]) -> bool:
    """Return True if the index state says that all stored entities are indexed in the current format."""
    return state.get("made") == INDEX_VERSION and state.get("position", 0) < 0


def mark_complete(transaction: WriteTransaction) -> None:
    """Record that all stored entities are indexed in the current format."""
    transaction.index.put_state(made=INDEX_VERSION, position=-1)


def complete_index(
    store: Store, progress: Callable[[int], None] = lambda _: None, *, root: str = "", anew: bool = False
) -> None:
    """Index stored entities that are not indexed yet, or all entities if ``anew``.

    Each page of entities is one transaction, so writes continue meanwhile and index their own changes. Several
    processes may run this at the same time and share the pages. ``progress`` is called with the number of entities that
    this process has indexed. ``root`` is as in ``index_tree``. Raises ``StorageError``.
    """
    with store.read() as reading:
        if is_complete(reading.index.state()) and not anew:
            return
    count = 0
    while True:
        with store.write() as transaction, work.unlimited():
            state = transaction.index.state()
            if state.get("made") != INDEX_VERSION or anew:
                transaction.index.clear()
                state = {"made": INDEX_VERSION, "position": 0}
                anew = False
            if is_complete(state):
                return
            rows = transaction.index.entities(state["position"], _ROWS_PER_PAGE)
            _index_page(rows, transaction, root)
            if not rows:
                transaction.index.merge()
            transaction.index.put_state(made=INDEX_VERSION, position=rows[-1].key if rows else -1)
        count += len(rows)
        progress(count)


def _index_page(rows: Sequence[Row], transaction: WriteTransaction, root: str) -> None:
    versions = [row for row in rows if row.xid.kind is Kind.VERSION]
    owners: dict[int, Row] = {row.key: row for row in transaction.entities.by_key({row.parent for row in versions})}
    for row in rows:
        if row.xid.kind is Kind.GROUP or (row.xid.kind is Kind.RESOURCE and row.xref is not None):
            transaction.index.put(_make_entry(row, root))
    descriptions = describe_stored(versions, transaction)
    for row in versions:
        owner = owners[row.parent]
        current = owner.defaultversionid == row.xid.id
        deprecated = current and _is_deprecated(owner)
        transaction.index.put(
            _make_version_entry(row, descriptions[row.xid], current=current, deprecated=deprecated, root=root)
        )
