"""The result of a run: read as any reader of Iceberg or Parquet does, held against the ledger, shown to people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from signalbook.demo.traffic import Place, TrafficLedger
from signalbook.errors import SignalbookError
from signalbook.pipeline import Report
from signalbook.pipeline.table_names import CATALOG_DATABASE
from signalbook.pipeline.tables.catalogs import NAME
from signalbook.values import format_count

_DEAD_LETTERS: Final = "dead_letters"
_MAX_TEXTS: Final = 5
_MAX_MESSAGES: Final = 15
_SHOWN_ROWS: Final = 4
_MAX_CELL_CHARS: Final = 24


class DemoFailed(SignalbookError):
    """Something did not come out as the ledger says it must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFolder:
    """An output folder of the pipeline and the format of its tables."""

    folder: Path
    table_format: Literal["iceberg", "parquet"] = "iceberg"

    def read(self, group: str, message: str, columns: Sequence[str] = (), *, having: str = "") -> pa.Table:
        """The table of a message with these ``columns``, or all; in Iceberg of the rows that have ``having``."""
        if self.table_format == "parquet":
            folder = self.folder / message if message == _DEAD_LETTERS else self.folder / "tables" / group / message
            return ds.dataset(folder, format="parquet").to_table(columns=list(columns) or None)
        condition = f"{having} IS NOT NULL" if having else AlwaysTrue()
        table = self._open_catalog().load_table((group, message))
        return table.scan(condition, tuple(columns) or ("*",)).to_arrow()

    def ends(self, groups: Iterable[str]) -> Iterator[tuple[Place, str]]:
        """Yield where each message was read, with the xid of the definition whose table it is in, or the reason."""
        for group in ("signalbook", *(group.rpartition("/")[2] for group in groups)):
            for message in self._list_tables(group):
                if message == _DEAD_LETTERS:
                    for row in self.read(group, message, ("source", "position", "reason")).to_pylist():
                        yield (row["source"], row["position"]), row["reason"]
                else:
                    for row in self.read(group, message, ("_source", "_position")).to_pylist():
                        yield (row["_source"], row["_position"]), f"/messagegroups/{group}/messages/{message}"

    def _list_tables(self, group: str) -> list[str]:
        if self.table_format == "parquet":
            pattern = _DEAD_LETTERS if group == "signalbook" else f"tables/{group}/*"
            return [path.name for path in self.folder.glob(pattern)]
        catalog = self._open_catalog()
        # In a tuple the name of a namespace may have dots.
        return [table[-1] for table in catalog.list_tables((group,))] if catalog.namespace_exists((group,)) else []

    def _open_catalog(self) -> SqlCatalog:
        # Opened anew each time: a stream may commit to it meanwhile.
        return SqlCatalog(NAME, uri=f"sqlite:///{self.folder.absolute() / CATALOG_DATABASE}")


def check(due: Mapping[Place, str], ends: Iterable[tuple[Place, str]]) -> None:
    """Raise ``DemoFailed`` unless each message is in its one place, once.

    Both arguments give the outcome of a message: the xid of the definition it landed for, or a reason.
    """
    ends_by_place: dict[Place, list[str]] = {place: [] for place in due}
    for place, end in ends:
        ends_by_place.setdefault(place, []).append(end)
    texts = [
        f"{source}, offset {position}: {due.get((source, position), 'nothing')} was due, "
        f"there is {' and '.join(got) or 'nothing'}"
        for (source, position), got in sorted(ends_by_place.items())
        if got != [due.get((source, position))]
    ]
    if len(texts) > _MAX_TEXTS:
        texts[_MAX_TEXTS:] = [f"and {len(texts) - _MAX_TEXTS} more"]
    if texts:
        raise DemoFailed("the result is not what was sent:\n  " + "\n  ".join(texts))


def show_messages(console: Console, report: Report) -> None:
    """Print landed and rejected messages by definition, the busiest first."""
    tally = report.tally
    grid = Grid(title="Messages", title_justify="left")
    grid.add_column("message definition", no_wrap=True)
    grid.add_column("landed", justify="right")
    grid.add_column("rejected", justify="right")
    busiest = [xid for xid, _ in (tally.landed + tally.rejected).most_common()]
    for xid in busiest[:_MAX_MESSAGES]:
        _, _, group, _, message = xid.split("/")
        grid.add_row(f"{group} / {message}", f"{tally.landed[xid]:,}", f"{tally.rejected[xid]:,}")
    if others := busiest[_MAX_MESSAGES:]:
        landed, rejected = (sum(counts[xid] for xid in others) for counts in (tally.landed, tally.rejected))
        grid.add_row(f"… {len(others)} more", f"{landed:,}", f"{rejected:,}", style="dim")
    console.print(grid)


def show_reasons(console: Console, counts: Mapping[str, int]) -> None:
    """Print the number of dead letters by reason."""
    grid = Grid(title="Dead letters", title_justify="left")
    grid.add_column("reason")
    grid.add_column("messages", justify="right")
    for reason, count in sorted(counts.items(), key=lambda item: -item[1]):
        grid.add_row(reason, f"{count:,}")
    console.print(grid)


def show_faults(console: Console, ledger: TrafficLedger) -> None:
    """Print the seeded faults, all of which were found."""
    words = [f"{count:,} {fault}" for fault, count in ledger.seeded.items()]
    if ledger.nonconforming:
        nonconforming = format_count(ledger.nonconforming, "real payload that does", "real payloads that do")
        words.append(f"{nonconforming} not meet their own published schema")
    console.print(
        "[green]✓[/] each of these became a dead letter for its reason, and nothing else: " + ", ".join(words)
    )


def show_rows(
    console: Console, lake: OutputFolder, group: str, message: str, columns: Sequence[str], *, having: str = ""
) -> None:
    """Print a few rows of a landed table. ``columns`` name members of nested columns with dots."""
    data = lake.read(group, message, having=having).slice(0, _SHOWN_ROWS)
    grid = Grid(title=f"{group} / {message}: {data.num_columns} columns, among them", title_justify="left")
    picked = []
    for path in columns:
        name, *members = path.split(".")
        column = pc.struct_field(data[name], members) if members else data[name]
        kind = str(column.type).partition("[")[0]
        grid.add_column(f"{path}\n[dim]{kind}[/]", overflow="ellipsis", no_wrap=True, max_width=_MAX_CELL_CHARS)
        picked.append(["" if value is None else str(value) for value in column.to_pylist()])
    for cells in zip(*picked, strict=True):
        grid.add_row(*map(escape, cells))
    console.print(grid, soft_wrap=False)
