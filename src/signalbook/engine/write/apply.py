"""What a command does to the store, as values, and their application, which dispatches on the type of an update."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch

from signalbook.engine.write.context import Documents
from signalbook.engine.write.workingcopies import VersionCopy, WorkingCopy, WorkingTree
from signalbook.storage.base import Row, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Remove these rows and all beneath them."""

    keys: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Keep these documents, by digest."""

    documents: dict[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """Add these rows, parents first."""

    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Replace the rows with these keys."""

    rows: tuple[Row, ...]


Update = Delete | Keep | Insert | Replace


@singledispatch
def apply_update(update: Update, writer: Writer) -> None:
    """Do ``update`` to the store."""
    raise TypeError(f"{writer} has no way to apply a {type(update).__name__}")


@apply_update.register
def _(update: Delete, writer: Writer) -> None:
    writer.delete(update.keys)


@apply_update.register
def _(update: Keep, writer: Writer) -> None:
    writer.put_documents(update.documents)


@apply_update.register
def _(update: Insert, writer: Writer) -> None:
    writer.insert(update.rows)


@apply_update.register
def _(update: Replace, writer: Writer) -> None:
    writer.update(update.rows)


def apply_tree(tree: WorkingTree, documents: Documents, writer: Writer) -> None:
    """Write what changed in ``tree``. Raises ``DuplicateId``.

    Deletes come first, so that an id may be taken again and a document lost by a delete is kept again.
    """
    for update in _updates(tree, documents, writer):
        apply_update(update, writer)


def _updates(tree: WorkingTree, documents: Documents, writer: Writer) -> Iterator[Update]:
    gone = [copy.before.key for copy in (*tree.deleted, *_removed_versions(tree)) if copy.before is not None]
    if gone:
        yield Delete(keys=tuple(gone))
    # The document of a Version that the same command replaced again, or pruned, is not kept.
    used = {version.document for version in _versions(tree)}
    kept = {name: content for name, content in documents.new.items() if name in used}
    if kept:
        yield Keep(documents=kept)
    inserted, replaced = _rows(tree, writer)
    if inserted:
        yield Insert(rows=inserted)
    if replaced:
        yield Replace(rows=replaced)


def _versions(tree: WorkingTree) -> Iterator[VersionCopy]:
    for resource in tree.resources.values():
        yield from resource.versions.values()


def _removed_versions(tree: WorkingTree) -> Iterator[WorkingCopy]:
    for resource in tree.resources.values():
        yield from resource.removed.values()


def _rows(tree: WorkingTree, writer: Writer) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Rows to insert, level by level, and rows to replace."""
    copies: list[WorkingCopy] = [tree.registry, *tree.groups.values(), *tree.resources.values(), *_versions(tree)]
    fresh = [copy for copy in copies if copy.before is None]
    new_keys = iter(writer.reserve(len(fresh)) if fresh else ())
    keys = {copy.xid: copy.before.key if copy.before else next(new_keys) for copy in copies}
    inserted, replaced = [], []
    for copy in copies:
        if copy.before is None:
            inserted.append(copy.row(keys[copy.xid], keys[copy.xid.owner]))
        else:
            row = copy.row(copy.before.key, copy.before.parent)
            if row != copy.before:
                replaced.append(row)
    return tuple(inserted), tuple(replaced)
