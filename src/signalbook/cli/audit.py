"""``signalbook audit``: who did what, and what was refused to whom."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer import Option

from signalbook.cli.console import echo, plain
from signalbook.cli.registry import DbOption, ServerOption, open_part
from signalbook.values import JSONObject, dump_json, format_timestamp, parse_timestamp

if TYPE_CHECKING:
    from signalbook.engine.engine import Engine

_POLL_SECONDS: Final = 1.0
_MAX_XIDS_SHOWN: Final = 3
"""Xids on a line for people."""

_Read = Callable[[Any], Iterator[JSONObject]]


def run(
    who: Annotated[str | None, Option("--who", metavar="NAME", help="Only what NAME did.")] = None,
    action: Annotated[
        str | None, Option("--action", metavar="WORD", help="Only this: create, update, delete, configure, ...")
    ] = None,
    outcome: Annotated[str | None, Option("--outcome", metavar="done|refused", help="Only this outcome.")] = None,
    xid: Annotated[str | None, Option("--xid", metavar="PREFIX", help="Only what is about xids that begin so.")] = None,
    since: Annotated[str | None, Option("--from", metavar="TIME", help="From this RFC3339 time on.")] = None,
    until: Annotated[str | None, Option("--to", metavar="TIME", help="Before this RFC3339 time.")] = None,
    limit: Annotated[int, Option("--limit", min=1, max=100_000, help="The newest so many.")] = 50,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on as entries come; the newest come last.")] = False,
    json: Annotated[bool, Option("--json", help="Print an object a line.")] = False,
    server: ServerOption = None,
    db: DbOption = None,
) -> None:
    """Show who did what to a registry, and what was refused to whom, the newest first.

    A server shows that to auditors and administrators; whoever has the database may read it there.
    """
    if outcome not in (None, "done", "refused"):
        raise typer.BadParameter("it is done or refused", param_hint="--outcome")
    for option, text in (("--from", since), ("--to", until)):
        _check_time(text, option)
    filters = {"who": who, "action": action, "outcome": outcome, "xid": xid, "since": since, "until": until}
    query: Any = {name: value for name, value in filters.items() if value}
    with _open(server, db) as read:
        entries = list(islice(read({**query, "limit": min(limit, 1000)}), limit))
        if not follow:
            _print(entries, json=json)
            return
        number = entries[0]["number"] if entries else 0
        _print(entries[::-1], json=json)
        while True:
            time.sleep(_POLL_SECONDS)
            newer = list(read({**query, "after": number, "limit": 1000}))
            number = newer[0]["number"] if newer else number
            _print(newer[::-1], json=json)


def _check_time(text: str | None, option: str) -> None:
    try:
        parse_timestamp(text or "2000-01-01T00:00:00Z")
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no RFC3339 time such as 2030-01-31T12:00:00Z", param_hint=option
        ) from None


def _open(server: str | None, db: str | None) -> AbstractContextManager[_Read]:
    """Open the audit of the registry that the options name."""
    return open_part(
        server,
        db,
        remote=lambda client: lambda wanted: client.access.audit(**wanted),
        local=lambda engine, _: partial(_read_stored, engine),
        create=False,
    )


def _read_stored(engine: Engine, parameters: dict[str, Any]) -> Iterator[JSONObject]:
    from signalbook.access.audit import format_entry, read_entries
    from signalbook.storage.audit import AuditQuery

    members = dict(parameters)
    size = members.pop("limit")
    members |= {name: parse_timestamp(members[name]) for name in ("since", "until") if name in members}
    query = AuditQuery(**members)
    while page := read_entries(engine.store, query, size):
        yield from map(format_entry, page)
        query = AuditQuery(**{**members, "before": page[-1].number})


def _print(entries: Sequence[JSONObject], *, json: bool) -> None:
    """A line for each entry; for people in columns, of which the last one is as wide as it likes."""
    rows = [[dump_json(entry).decode()] if json else _format_cells(entry) for entry in entries]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for row in rows:
        padded = [text.ljust(width) for text, width in zip(row, widths, strict=False)]
        line = "  ".join([*padded, row[-1]]).rstrip()
        echo(line.encode() if json else line)


def _format_cells(entry: JSONObject) -> list[str]:
    time = format_timestamp(parse_timestamp(entry["time"]).replace(microsecond=0))
    xids, count = entry["xids"], entry.get("count", 1)
    more = len(xids) - _MAX_XIDS_SHOWN + int(entry.get("more", 0))
    on = " ".join(xids[:_MAX_XIDS_SHOWN]) + (f" and {more} more" if more > 0 else "")
    outcome = f"{entry.get('error') or entry['outcome']}" + (f" ({count} times)" if count > 1 else "")
    on += f" ({entry['about']})" if "about" in entry else ""
    where = entry.get("forwarded") or entry.get("peer") or "-"
    return [plain(text) for text in (time, entry["who"], where, entry["action"], outcome, on)]
