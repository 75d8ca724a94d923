"""What the demonstration prints: tables for people, on standard output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table as Grid

from signalbook.demo.faults import Fault
from signalbook.demo.lake import Lake
from signalbook.pipeline import Report

_MESSAGES: Final = 15
_ROWS: Final = 4
_WIDTH: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A table to show some columns of, of rows that have the column ``having``."""

    group: str
    message: str
    columns: tuple[str, ...]
    having: str = ""


def messages(console: Console, report: Report) -> None:
    """Landed and rejected per message, the busiest first."""
    tally = report.tally
    grid = Grid(title="Messages", title_justify="left")
    grid.add_column("message definition", no_wrap=True)
    grid.add_column("landed", justify="right")
    grid.add_column("rejected", justify="right")
    busiest = (tally.landed + tally.rejected).most_common()
    for xid, _ in busiest[:_MESSAGES]:
        grid.add_row(_short(xid), f"{tally.landed[xid]:,}", f"{tally.rejected[xid]:,}")
    if len(busiest) > _MESSAGES:
        rest = [xid for xid, _ in busiest[_MESSAGES:]]
        landed, rejected = (sum(counts[xid] for xid in rest) for counts in (tally.landed, tally.rejected))
        grid.add_row(f"… {len(rest)} more", f"{landed:,}", f"{rejected:,}", style="dim")
    console.print(grid)


def _short(xid: str) -> str:
    _, _, group, _, message = xid.split("/")
    return f"{group} / {message}"


def reasons(console: Console, counts: Mapping[str, int]) -> None:
    """How many dead letters for which reason."""
    grid = Grid(title="Dead letters", title_justify="left")
    grid.add_column("reason")
    grid.add_column("messages", justify="right")
    for reason, count in sorted(counts.items(), key=lambda item: -item[1]):
        grid.add_row(reason, f"{count:,}")
    console.print(grid)


def faults(console: Console, seeded: Counter[Fault], nonconforming: int) -> None:
    """What was seeded, all of it found."""
    words = [f"{count:,} {fault.value}" for fault, count in seeded.items()]
    if nonconforming:
        words.append(f"{nonconforming:,} real payloads that do not meet their own published schema")
    console.print("[green]✓[/] each of these was sidelined for its reason, and nothing else: " + ", ".join(words))


def rows(console: Console, lake: Lake, shown: Shown) -> None:
    """A few rows of a landed table: ``shown.columns`` name members of nested columns with dots."""
    data = lake.head(shown.group, shown.message, _ROWS, shown.having)
    grid = Grid(title=f"{shown.group} / {shown.message}: {data.num_columns} columns, among them", title_justify="left")
    picked = {path: _pick(data, path) for path in shown.columns}
    for path, column in picked.items():
        grid.add_column(f"{path}\n[dim]{_type(column.type)}[/]", overflow="ellipsis", no_wrap=True)
    for cells in zip(*(column.to_pylist() for column in picked.values()), strict=True):
        grid.add_row(*map(_cell, cells))
    console.print(grid, soft_wrap=False)


def _pick(data: pa.Table, path: str) -> pa.ChunkedArray:
    name, *members = path.split(".")
    return pc.struct_field(data[name], members) if members else data[name]


def _type(type: pa.DataType) -> str:
    return "list of " + str(type.value_type) if pa.types.is_list(type) else str(type).partition("[")[0]


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
