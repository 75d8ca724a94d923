"""The names of entities, which pages show instead of xids."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from signalbook.engine.read.impact import load_rows_with_defaults
from signalbook.engine.read.view import View
from signalbook.xid import Kind, Xid, XidError

_MAX_NAME_CHARS: Final = 200


def find_names(view: View, xids: Collection[Xid]) -> dict[Xid, str]:
    """Return the names of the entities that exist and are readable, empty for an entity without a name.

    A Resource has the name of its default Version.
    """
    rows = load_rows_with_defaults(view.reader, xids, [xid for xid in xids if xid.kind is Kind.RESOURCE])
    names: dict[Xid, str] = {}
    for xid in xids:
        if row := rows.get(xid):
            named = rows.get(row.default_version, row) if row.defaultversionid else row
            names[xid] = str(named.attributes.get("name") or "")[:_MAX_NAME_CHARS]
    return names


def parse_xids(texts: Iterable[str]) -> dict[str, Xid]:
    """Return the Resources and Versions among ``texts``, which may be any texts."""
    xids: dict[str, Xid] = {}
    for text in texts:
        try:
            xid = Xid.parse(text)
        except XidError:
            continue
        if xid.kind in (Kind.RESOURCE, Kind.VERSION):
            xids[text] = xid
    return xids
