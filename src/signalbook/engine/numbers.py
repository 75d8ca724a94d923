"""Versions by number, as the drafts know them: those whose ids are counted (domain.md A-18, A-19, A-45, J-10)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from signalbook.cncf.ids import version_number
from signalbook.engine.read.view import View
from signalbook.errors import RegistryError
from signalbook.storage.base import Row
from signalbook.values import digest
from signalbook.xid import Xid

_NEAR: Final = 64
"""How far below the last number given out the highest one is looked for by id: most schemas lose no Versions."""
_HOLDERS: Final = 1000


def listed(view: View, resource: Xid) -> list[int]:
    """The numbers of a Resource's Versions, rising. Raises ``not_found``."""
    return sorted(_numbers(view.reader.children([_shown(view, resource).key], "versions")))


def latest(view: View, resource: Xid) -> int | None:
    """The highest number of a Resource's Versions, None if none has a number. Raises ``not_found``."""
    shown = _shown(view, resource)
    last = shown.versioncounter  # no number is higher
    near = [str(number) for number in range(last, max(last - _NEAR, 0), -1)]
    found = _numbers(view.reader.children([shown.key], "versions", ids=near))
    if not found and last > _NEAR:
        found = _numbers(view.reader.children([shown.key], "versions"))
    return max(found, default=None)


def holder(view: View, resource: Xid, content: bytes, contenttype: str | None) -> Row | None:
    """The first counted Version of a Resource with exactly this document and content type, None if there is none."""
    row = view.reader.get(resource)
    rows = view.reader.holders(row.key, digest(content), _HOLDERS) if row is not None else ()
    same = (each for each in rows if each.attributes.get("contenttype") == contenttype)
    return next((each for each in same if version_number(each.xid.id) is not None), None)


def _numbers(rows: Iterable[Row]) -> list[int]:
    return [number for row in rows if (number := version_number(row.xid.id)) is not None]


def _shown(view: View, resource: Xid) -> Row:
    """The row whose Versions a Resource shows: its own, or that of the target of its cross reference (R265, R268)."""
    row = view.reader.get(resource)
    shown = row if row is None or row.xref is None else view.reader.get(row.xref)
    if shown is None or (shown.xref is not None):
        raise RegistryError("not_found", subject=str(resource))
    return shown
