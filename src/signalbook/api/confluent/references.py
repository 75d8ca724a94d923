"""Which schemas refer to which: kept beside the registry, so that nobody has to look through all schemas.

A reference is a row whose name begins with what is referred to. One whose schema is gone by another API is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from signalbook.api.confluent.subjects import SchemaVersion, Subjects
from signalbook.confluent.schemas import linked_references
from signalbook.engine.engine import Session
from signalbook.engine.read.view import View
from signalbook.xid import Xid

_PAGE: Final = 1000


def referrers(subjects: Subjects, view: View, version: SchemaVersion) -> Iterator[int]:
    """Yield the ids of the schemas of readable subjects that refer to a version, each once."""
    if version.xid is None:
        return
    seen: set[int] = set()
    for xid in _referring(view, version.xid):
        row = view.reader.get(xid)
        if row is not None and row.schemaid is not None and row.schemaid not in seen and subjects.shows(row):
            seen.add(row.schemaid)
            yield row.schemaid


def is_referred(subjects: Subjects, view: View, version: SchemaVersion) -> bool:
    """Return True if any schema of a readable subject refers to a version."""
    return next(referrers(subjects, view, version), None) is not None


def _referring(view: View, target: Xid) -> Iterator[Xid]:
    beginning = f"{_name(target)}>"
    after = beginning
    while found := view.schemaids.settings("reference", after, _PAGE):
        for scope in found:
            if not scope.startswith(beginning):
                return
            yield Xid.parse(scope.removeprefix(beginning))
        after = next(reversed(found))


def note(session: Session, version: SchemaVersion) -> None:
    """Keep what a version refers to."""
    session.transaction.schemaids.put_settings("reference", {scope: {} for scope in _scopes(version)})


def forget(session: Session, version: SchemaVersion) -> None:
    """Keep it no longer: the version goes."""
    session.transaction.schemaids.put_settings("reference", dict.fromkeys(_scopes(version)))


def _scopes(version: SchemaVersion) -> list[str]:
    return [f"{_name(target)}>{version.xid}" for _, target in linked_references(version.attributes)]


def _name(xid: Xid) -> str:
    return str(xid).lower()
