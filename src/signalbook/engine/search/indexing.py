"""Keeping the index: what a write changed is indexed with it, and what is stored already, page by page, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from signalbook import work
from signalbook.engine.search.links import IMPORT, links_of, mentions
from signalbook.engine.search.text import INLINE, entry_of
from signalbook.engine.write.context import Documents, schema_text
from signalbook.engine.write.workingcopies import ResourceCopy, VersionCopy, WorkingTree
from signalbook.formats.members import MAX_BYTES, Member, members
from signalbook.storage.base import Row
from signalbook.storage.store import Store, WriteTransaction
from signalbook.storage.words import CURRENT, DEPRECATED, IndexEntry
from signalbook.values import JSONObject, digest, dump_json
from signalbook.xid import Kind, Xid

INDEX: Final = 2
"""Of what the index is made: another number has it made anew when a store is opened."""
_PAGE: Final = 500
_STEP: Final = 16
"""Bytes that are read for names in the time of one step of work."""


@dataclass(frozen=True, slots=True)
class Described:
    """What is found in a schema document: its ``members``, and what it ``mentions`` that it may refer to."""

    members: Sequence[Member] = ()
    mentions: Sequence[str] = ()


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
    index = transaction.index
    for row in rows:
        match row.xid.kind:
            case Kind.GROUP:
                if _has_other(row, tree.groups[row.xid].before):
                    index.put(_entry_of(row, root))
            case Kind.RESOURCE:
                _index_resource(row, tree.resources[row.xid], transaction, root)
            case Kind.VERSION:
                _index_version(row, tree.resources[row.xid.resource], described.get(row.xid), transaction, root)


def _entry_of(row: Row, root: str) -> IndexEntry:
    """That of a Group or a cross reference."""
    links = links_of(row, (), root)
    return entry_of(row, (), current=True, deprecated=_is_deprecated(row), links=links)


def _has_other(row: Row, before: Row | None) -> bool:
    """Whether anything is other than it was by which an entity is found."""
    return before is None or row.attributes != before.attributes or row.document != before.document


def _index_resource(row: Row, copy: ResourceCopy, transaction: WriteTransaction, root: str) -> None:
    """A cross reference has an entry; of what has Versions these have one, and which one is shown may have changed."""
    before, index = copy.before, transaction.index
    if row.xref is not None:
        index.put(_entry_of(row, root))
        return
    if before is None:
        return
    if before.xref is not None:
        index.drop(row.key)
    if before.defaultversionid != row.defaultversionid or _is_deprecated(before) != _is_deprecated(row):
        flags = {before.defaultversionid: 0, row.defaultversionid: _flags(row, current=True)}
        xids = {row.xid / "versions" / name: flag for name, flag in flags.items() if name}
        for xid, found in transaction.entities.get_many(xids).items():
            index.mark(found.key, xids[xid])


def _index_version(
    row: Row, resource: ResourceCopy, found: Described | None, transaction: WriteTransaction, root: str
) -> None:
    before = resource.versions[row.xid.id].before
    if not _has_other(row, before):
        return
    found = found or _known(row, before, transaction) or stored_description(row, transaction)
    current = resource.defaultversionid == row.xid.id
    deprecated = current and "deprecated" in resource.attributes
    transaction.index.put(_version_entry(row, found, current=current, deprecated=deprecated, root=root))


def _version_entry(row: Row, found: Described, *, current: bool, deprecated: bool, root: str) -> IndexEntry:
    links = links_of(row, found.mentions, root)
    return entry_of(row, found.members, current=current, deprecated=deprecated, links=links)


def _known(row: Row, before: Row | None, transaction: WriteTransaction) -> Described | None:
    """What the index has of a document that stays: it is not read again."""
    if before is None or before.document != row.document or _inline(row.attributes) != _inline(before.attributes):
        return None
    texts = transaction.index.texts([row.key]).get(row.key, [])
    targets = [link.target for _, link in transaction.index.links([row.key]) if link.kind in ("schema", IMPORT)]
    return Described([Member(each.path, each.text) for each in texts if each.member], targets)


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


def stored_description(row: Row, transaction: WriteTransaction) -> Described:
    """What is found in the document of a Version, as it is stored."""
    contents = transaction.entities.documents([row.document]) if row.document else {}
    return _described(row.attributes, row.document, contents) or _NOTHING


def _described(attributes: JSONObject, document: str | None, contents: Mapping[str, bytes]) -> Described | None:
    form = attributes.get("format") or attributes.get("dataschemaformat")
    content = contents.get(document, b"") if document else _inline_document(attributes)
    if not isinstance(form, str) or not content:
        # A document that is not at hand has to be read first.
        return None if document and document not in contents else _NOTHING

    def found() -> Described:
        work.spend(len(content) // _STEP)
        text = schema_text(content, form)
        return Described(members(text, form), mentions(text, form) if len(text) <= MAX_BYTES else ())

    name = document or digest(content)
    return work.worked_out(("described", name, form), found, size=len(content) // _STEP)


def _inline(attributes: JSONObject) -> tuple[object, ...]:
    return tuple(attributes.get(name) for name in (*INLINE, "format", "dataschemaformat"))


def _inline_document(attributes: JSONObject) -> bytes:
    """The schema of a message that is in its definition."""
    schema = attributes.get("dataschema")
    if isinstance(schema, str):
        return schema.encode("utf-8", "surrogatepass")
    return dump_json(schema) if isinstance(schema, dict | list) else b""


def is_complete(state: Mapping[str, int]) -> bool:
    """Whether the index has all that is stored."""
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
            transaction.index.put_state(made=INDEX, position=rows[-1].key if rows else -1)
        done += len(rows)
        progress(done)


def _index_page(rows: Sequence[Row], transaction: WriteTransaction, root: str) -> None:
    versions = [row for row in rows if row.xid.kind is Kind.VERSION]
    owners: dict[int, Row] = {row.key: row for row in transaction.entities.by_key({row.parent for row in versions})}
    for row in rows:
        if row.xid.kind is Kind.GROUP or (row.xid.kind is Kind.RESOURCE and row.xref is not None):
            transaction.index.put(_entry_of(row, root))
    for row in versions:
        owner = owners[row.parent]
        current = owner.defaultversionid == row.xid.id
        deprecated = current and _is_deprecated(owner)
        found = stored_description(row, transaction)
        transaction.index.put(_version_entry(row, found, current=current, deprecated=deprecated, root=root))
