"""The page of the change feed: the newest changes first, of the registry or of one entity, in a range of days.

If scripts are enabled, new changes appear as they happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Final
from urllib.parse import urlencode

from signalbook.api.ui.home import ChangeLine, build_change_lines
from signalbook.api.ui.pages import PATH, Crumb, Page, UIRequest
from signalbook.engine.read.view import View
from signalbook.errors import RegistryError
from signalbook.storage.outbox import Record
from signalbook.xid import ROOT, Xid, XidError

CHANGES: Final = f"{PATH}/-/changes"
_PAGE_CHANGES: Final = 50
_MAX_POSITION_DIGITS: Final = 18
_DAY: Final = timedelta(days=1)
_FIRST_DAY: Final = date(1970, 1, 1)
_LAST_DAY: Final = date(9998, 12, 31)
_EARLIER: Final = (("a week earlier", timedelta(days=7)), ("a month earlier", timedelta(days=30)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeDay:
    """The changes of one day (UTC). ``id`` is the day as 2026-11-24; the title shows it in words."""

    id: str
    title: str
    changes: tuple[ChangeLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesContent:
    """Changes of the entity ``of`` and everything below it, from the day ``since`` to the day ``until``, if these are
    set.

    ``position`` is the position at which live changes begin; it is empty on older pages. ``ways`` are links to other
    pages, each as text and path.
    """

    of: str
    since: str
    until: str
    days: tuple[ChangeDay, ...]
    position: str
    ways: tuple[tuple[str, str], ...]
    more: bool


def page(view: View, request: UIRequest) -> Page:
    """Return a page of the feed, the newest first. Raises ``bad_request``."""
    of, before = _of(request), _read_before(request)
    since, until = _read_day(request, "from"), _read_day(request, "to")
    first = 1 if since is None else view.find_position(_midnight(since))
    if not before and until is not None:
        before = view.find_position(_midnight(until) + _DAY)
    records, more = view.list_changes(_PAGE_CHANGES, beneath=of, first=first, before=before)
    filters = {"of": str(of) if of.parts else "", "from": "" if since is None else since.isoformat()}
    content = ChangesContent(
        of=filters["of"],
        since=filters["from"],
        until="" if until is None else until.isoformat(),
        days=tuple(_group_by_day(build_change_lines(view, records))),
        position="" if before else str(view.position()),
        ways=tuple(
            (text, _link(filters | query))
            for text, query in _list_ways(records, more, before)
            if not (since and "to" in query)
        ),
        more=bool(more),
    )
    way = (Crumb(text="Registry", href=""), Crumb(text="changes"))
    return Page(template="changes.html", title="Changes", content=content, crumbs=way)


def _group_by_day(lines: Sequence[ChangeLine]) -> list[ChangeDay]:
    """Group lines by day, so that the lines need not repeat the day."""
    days = []
    for day, some in groupby(lines, lambda line: line.when.href[:10]):
        title = f"{date.fromisoformat(day):%A, %d %B %Y}"
        changes = tuple(replace(line, when=replace(line.when, text=line.when.text[len(day) + 1 :])) for line in some)
        days.append(ChangeDay(id=day, title=title, changes=changes))
    return days


def _list_ways(records: Sequence[Record], more: int, before: int) -> list[tuple[str, dict[str, str]]]:
    """Return the other pages by their queries."""
    # By the changes themselves, not by the clock: a page is shown from memory until something is committed.
    newest = records[0].time.astimezone(UTC).date() if records and more else None
    earlier = [] if newest is None else [(text, {"to": (newest - much).isoformat()}) for text, much in _EARLIER]
    return [
        *([("newest", {})] if before else []),
        *([("older", {"before": str(more)})] if more else []),
        *earlier,
    ]


def _link(query: dict[str, str]) -> str:
    parameters = urlencode([(name, value) for name, value in query.items() if value])
    return f"/-/changes?{parameters}" if parameters else "/-/changes"


def _midnight(day: date) -> datetime:
    """Return the beginning of a day."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _read_day(request: UIRequest, name: str) -> date | None:
    text = request.query.get(name, "").strip()
    try:
        day = date.fromisoformat(text) if text else None
    except ValueError:
        day = date.max
    if day is not None and not _FIRST_DAY <= day <= _LAST_DAY:
        raise _build_error(request, f'"{name}" takes a day such as 2026-11-24, not "{text[:40]}"')
    return day


def _of(request: UIRequest) -> Xid:
    text = request.query.get("of", "").strip().rstrip("/")
    try:
        return Xid.parse(text) if text else ROOT
    except XidError as error:
        raise _build_error(request, f'"of" takes an xid, not "{text[:100]}": {error}') from None


def _read_before(request: UIRequest) -> int:
    text = request.query.get("before", "")
    if text and not (text.isascii() and text.isdigit() and len(text) <= _MAX_POSITION_DIGITS):
        raise _build_error(request, f'"before" takes the position of a change, not "{text[:40]}"')
    return int(text or 0)


def _build_error(request: UIRequest, detail: str) -> RegistryError:
    return RegistryError("bad_request", subject=request.subject, error_detail=detail)
