"""Which schemas refer to which: kept beside the registry, so that nobody has to look through all schemas.

A reference is a row whose name begins with what is referred to. It stays until its version is deleted permanently. One
whose schema is gone by another API is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from signalbook.api.confluent.subjects import Subjects
from signalbook.api.confluent.versions import SchemaVersion
from signalbook.confluent.errors import reference_exists
from signalbook.confluent.schemas import list_linked_references
from signalbook.engine.engine import Session
from signalbook.engine.read.view import View
from signalbook.xid import Xid

_PAGE: Final = 1000


def referrers(subjects: Subjects, view: View, version: SchemaVersion, *, deleted: bool = False) -> Iterator[int]:
    """Yield the ids of the schemas of readable subjects that refer to a version, each once.

    Softly deleted versions count as well if ``deleted`` is set.
    """
    seen: set[int] = set()
    for referrer in _versions(subjects, view, version, deleted=deleted):
        if referrer.id not in seen:
            seen.add(referrer.id)
            yield referrer.id


def check_unreferred(subjects: Subjects, view: View, versions: Sequence[SchemaVersion], *, deleted: bool) -> None:
    """Raise 42206 if a schema of a readable subject refers to one of ``versions``, unless it is one of them itself."""
    going = {version.place for version in versions}
    for version in versions:
        if any(each.place not in going for each in _versions(subjects, view, version, deleted=deleted)):
            raise reference_exists(f"{version.subject} version {version.version}")


def _versions(subjects: Subjects, view: View, target: SchemaVersion, *, deleted: bool) -> Iterator[SchemaVersion]:
    for xid in _referring(view, target.place):
        row = view.reader.get(xid)
        found = subjects.versions([] if row is None else [row])
        if deleted and row is None:
            found = subjects.deleted_at(xid)
        # Another version may have the number of the one that referred to it.
        yield from (each for each in found if target.place in _targets(each))


def _referring(view: View, target: Xid) -> Iterator[Xid]:
    beginning = f"{_name(target)}>"
    after = beginning
    while found := view.confluent.settings("reference", after, _PAGE):
        for scope in found:
            if not scope.startswith(beginning):
                return
            yield Xid.parse(scope.removeprefix(beginning))
        after = next(reversed(found))


def note(session: Session, version: SchemaVersion) -> None:
    """Keep what a version refers to."""
    session.transaction.confluent.put_settings("reference", {scope: {} for scope in _scopes(version)})


def forget(session: Session, version: SchemaVersion) -> None:
    """Remove what ``note`` keeps of a version that is deleted permanently."""
    session.transaction.confluent.put_settings("reference", dict.fromkeys(_scopes(version)))


def _scopes(version: SchemaVersion) -> list[str]:
    return [f"{_name(target)}>{version.place}" for target in _targets(version)]


def _targets(version: SchemaVersion) -> dict[Xid, None]:
    return dict.fromkeys(target for _, target in list_linked_references(version.attributes))


def _name(xid: Xid) -> str:
    return str(xid).lower()
