"""Store which schemas refer to which, so that finding the referrers of a schema does not read all schemas.

A reference is a setting without content. Its scope consists of the referred version and the referring version. It is
stored until the referring version is deleted permanently. A reference of a version that another API has deleted is
skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from signalbook.api.confluent.subjects import Subjects
from signalbook.api.confluent.versions import SchemaVersion
from signalbook.confluent.errors import reference_exists
from signalbook.engine.engine import Session
from signalbook.engine.read.view import View
from signalbook.formats.references import list_linked_references
from signalbook.xid import Xid

_SETTINGS_PAGE: Final = 1000


def find_referrer_ids(
    subjects: Subjects, view: View, version: SchemaVersion, *, deleted: bool = False
) -> Iterator[int]:
    """Yield the ids of the schemas that refer to a version, each once. Only schemas of readable subjects are
    considered.

    With ``deleted``, soft-deleted versions are included.
    """
    seen: set[int] = set()
    for referrer in _find_referrers(subjects, view, version, deleted=deleted):
        if referrer.id not in seen:
            seen.add(referrer.id)
            yield referrer.id


def check_unreferred(subjects: Subjects, view: View, versions: Sequence[SchemaVersion], *, deleted: bool) -> None:
    """Raise 42206 if a schema of a readable subject refers to one of ``versions``, unless it is one of them itself."""
    going = {version.place for version in versions}
    for version in versions:
        if any(referrer.place not in going for referrer in _find_referrers(subjects, view, version, deleted=deleted)):
            raise reference_exists(f"{version.subject} version {version.version}")


def _find_referrers(subjects: Subjects, view: View, target: SchemaVersion, *, deleted: bool) -> Iterator[SchemaVersion]:
    for xid in _list_referring(view, target.place):
        row = view.reader.get(xid)
        versions = subjects.versions([] if row is None else [row])
        if deleted and row is None:
            versions = subjects.deleted_at(xid)
        # Another version may have reused the number of the referring version.
        yield from (version for version in versions if target.place in _list_targets(version))


def _list_referring(view: View, target: Xid) -> Iterator[Xid]:
    beginning = f"{_fold_xid(target)}>"
    after = beginning
    while settings := view.confluent.settings("reference", after, _SETTINGS_PAGE):
        for scope in settings:
            if not scope.startswith(beginning):
                return
            yield Xid.parse(scope.removeprefix(beginning))
        after = next(reversed(settings))


def note(session: Session, version: SchemaVersion) -> None:
    """Store the references of a version."""
    session.transaction.confluent.put_settings("reference", {scope: {} for scope in _list_scopes(version)})


def forget(session: Session, version: SchemaVersion) -> None:
    """Remove the references that ``note`` stored for a version that is deleted permanently."""
    session.transaction.confluent.put_settings("reference", dict.fromkeys(_list_scopes(version)))


def _list_scopes(version: SchemaVersion) -> list[str]:
    return [f"{_fold_xid(target)}>{version.place}" for target in _list_targets(version)]


def _list_targets(version: SchemaVersion) -> dict[Xid, None]:
    return dict.fromkeys(target for _, target in list_linked_references(version.attributes))


def _fold_xid(xid: Xid) -> str:
    return str(xid).lower()
