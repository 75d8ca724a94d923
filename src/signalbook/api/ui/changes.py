"""The change feed for people: the newest changes first, of all or of one entity, and live where there are scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from signalbook.api.ui.home import ChangeLine, change_lines
from signalbook.api.ui.pages import PATH, Crumb, Page, UIRequest
from signalbook.engine.read.view import View
from signalbook.errors import RegistryError
from signalbook.xid import ROOT, Xid, XidError

CHANGES: Final = f"{PATH}/-/changes"
_PAGE: Final = 50
_DIGITS: Final = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesContent:
    """Changes of ``of`` and what is beneath it; ``position`` is where the live ones begin, empty on older pages."""

    of: str
    changes: tuple[ChangeLine, ...]
    position: str
    older: str


def page(view: View, request: UIRequest) -> Page:
    """One page of the feed, the newest first. Raises ``bad_request``."""
    of, before = _of(request), _before(request)
    records, more = view.changes(_PAGE, beneath=of, before=before)
    query = [("of", str(of))] * bool(of.parts)
    content = ChangesContent(
        of=str(of) if of.parts else "",
        changes=change_lines(view, records),
        position="" if before else str(view.position()),
        older=f"/-/changes?{urlencode([*query, ('before', more)])}" if more else "",
    )
    way = (Crumb(text="Registry", href=""), Crumb(text="changes"))
    return Page(template="changes.html", title="Changes", content=content, crumbs=way)


def _of(request: UIRequest) -> Xid:
    text = request.query.get("of", "").strip().rstrip("/")
    try:
        return Xid.parse(text) if text else ROOT
    except XidError as error:
        raise _wrong(request, f'"of" takes an xid, not "{text[:100]}": {error}') from None


def _before(request: UIRequest) -> int:
    text = request.query.get("before", "")
    if text and not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise _wrong(request, f'"before" takes the position of a change, not "{text[:40]}"')
    return int(text or 0)


def _wrong(request: UIRequest, detail: str) -> RegistryError:
    return RegistryError("bad_request", subject=request.subject, error_detail=detail)
