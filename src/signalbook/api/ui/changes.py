"""The page of the change feed: the newest changes first, of the registry or of one entity, in a range of days.

If scripts are enabled, new changes appear as they happen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Final
from urllib.parse import urlencode

from signalbook.api.ui.attributes import Shown, moment
from signalbook.api.ui.names import find_names
from signalbook.api.ui.pages import PATH, Crumb, Page, UIRequest
from signalbook.api.ui.pipelinestatus import format_age
from signalbook.engine.read.view import View
from signalbook.errors import RegistryError
from signalbook.model import Model
from signalbook.storage.outbox import Record
from signalbook.values import format_count
from signalbook.xid import ROOT, Kind, Xid, XidError

CHANGES: Final = f"{PATH}/-/changes"
_PAGE_CHANGES: Final = 50
_WEEK: Final = timedelta(days=7)
_WEEK_CHANGES: Final = 2_000
"""The number of changes that are read to group those of a week by request, at least 500."""
_WEEK_REQUESTS: Final = 10
_MAX_NAME_CHARS: Final = 200
_MAX_POSITION_DIGITS: Final = 18
_DAY: Final = timedelta(days=1)
_FIRST_DAY: Final = date(1970, 1, 1)
_LAST_DAY: Final = date(9998, 12, 31)
_EARLIER: Final = (("a week earlier", timedelta(days=7)), ("a month earlier", timedelta(days=30)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLine:
    """A change: its time, action, entity, and author; the author is empty for callers that cannot read the audit log.

    ``position`` is its position in the change feed. ``name`` is the entity's name, if any. ``href`` is empty if the
    entity does not exist any more.
    """

    position: int
    when: Shown
    verb: str
    entity: str
    xid: str
    name: str
    href: str
    who: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLine:
    """All changes of one request.

    ``counts`` are pairs of an action and numbers of entities, such as "590 schemas", empty if the request changed one
    entity. ``change`` is its newest change. ``href`` leads to the changes. If ``more``, only the newest changes of the
    request were read.
    """

    when: Shown
    counts: tuple[tuple[str, str], ...]
    change: ChangeLine
    href: str
    more: bool


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


def build_change_lines(view: View, records: Sequence[Record]) -> tuple[ChangeLine, ...]:
    """Return the lines of the change feed. Only existing entities are links."""
    xids = [Xid.parse(record.change["xid"]) for record in records]
    names = find_names(view, {_find_stored_xid(xid) for xid in xids})
    who = view.find_authors(records)
    return tuple(
        ChangeLine(
            position=record.position,
            when=moment(_format_time(record)),
            verb=str(record.change["action"]),
            entity=str(record.change["entity"]),
            xid=str(xid),
            name=names.get(_find_stored_xid(xid), ""),
            href=str(xid) if _find_stored_xid(xid) in names and xid.parts else "",
            who=who.get(record.correlationid, "")[:_MAX_NAME_CHARS],
        )
        for record, xid in zip(records, xids, strict=True)
    )


def list_week(view: View, at: datetime) -> tuple[tuple[RequestLine, ...], bool]:
    """Return the newest requests of the week before ``at``, the current time, and True if there are older changes."""
    first = view.find_position(at - _WEEK)
    records, more = view.list_changes(_WEEK_CHANGES, first=first, among=_WEEK_CHANGES)
    requests: dict[str, list[Record]] = {}
    for record in records:
        requests.setdefault(record.correlationid, []).append(record)
    shown = list(requests.values())[:_WEEK_REQUESTS]
    lines = {line.position: line for line in build_change_lines(view, [changes[0] for changes in shown])}
    return tuple(
        RequestLine(
            when=format_age(_format_time(changes[0]), at),
            counts=tuple(_count_entities(view.model, actions)) if len(actions := _sum_up(changes)) > 1 else (),
            change=lines[changes[0].position],
            href=_link({"before": str(changes[0].position + 1)}),
            more=bool(more) and changes[-1] is records[-1],
        )
        for changes in shown
    ), bool(more or first > 1 or len(requests) > len(shown))


def _sum_up(records: Sequence[Record]) -> dict[Xid, str]:
    """Return what happened to each Group and Resource: its own change, or ``updated`` if only a Version changed."""
    actions: dict[Xid, str] = {}
    for record in records:
        xid = Xid.parse(record.change["xid"])
        entity = xid.resource if xid.resource_id else xid
        if entity.parts and (entity == xid or entity not in actions):
            actions[entity] = str(record.change["action"]) if entity == xid else "updated"
    return actions


def _count_entities(model: Model, actions: Mapping[Xid, str]) -> Iterator[tuple[str, str]]:
    """Yield each action with the numbers of entities by type, the most frequent first."""
    counts = Counter((action, xid.parts[0::2]) for xid, action in actions.items()).most_common()
    for action in dict.fromkeys(action for (action, _), _ in counts):
        numbers = [_format_number(model, types, number) for (other, types), number in counts if other == action]
        yield action, ", ".join(numbers)


def _format_number(model: Model, types: tuple[str, ...], number: int) -> str:
    group_type = model.groups.get(types[0])
    kind = group_type.resources.get(types[1]) if group_type is not None and len(types) > 1 else group_type
    return format_count(number, types[-1] if kind is None else kind.singular, types[-1])


def _find_stored_xid(xid: Xid) -> Xid:
    """Return the xid of the stored entity: for a meta, the xid of its Resource."""
    return xid.resource if xid.kind is Kind.META else xid


def _format_time(record: Record) -> str:
    return record.time.strftime("%Y-%m-%dT%H:%M:%SZ")


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
