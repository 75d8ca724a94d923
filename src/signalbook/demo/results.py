"""The result of a run: read as any reader of Iceberg or Parquet does, held against the ledger, shown to people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue
from rich.console import Console
from rich.table import Table as Grid

from signalbook.demo.traffic import Place, SeededFault, TrafficLedger
from signalbook.errors import SignalbookError
from signalbook.pipeline import Report
from signalbook.pipeline.tables.catalogs import NAME
from signalbook.pipeline.tables.table_names import CATALOG_DATABASE

_COLUMNS: Final = ("source", "position", "reason")
_LANDED: Final = ("_source", "_position")
_DEAD_LETTERS: Final = ("signalbook", "dead_letters")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFolder:
    """An output folder of the pipeline and the format of its tables."""

    folder: Path
    table_format: Literal["iceberg", "parquet"]

    def dead_letters(self, batch: str) -> pa.Table:
        """Return the source and reason of each dead letter of a batch."""
        if self.table_format == "iceberg":
            return self._load_rows(_DEAD_LETTERS, _COLUMNS, f"batch == '{batch}'")
        dataset = ds.dataset(self.folder / "dead_letters", format="parquet")
        return dataset.to_table(columns=list(_COLUMNS), filter=pc.field("batch") == batch)

    def head(self, group: str, message: str, count: int, having: str = "") -> pa.Table:
        """The first rows of a landed table, in Iceberg of those that have the column ``having``."""
        if self.table_format == "iceberg":
            return self._load_rows((group, message), ("*",), f"{having} IS NOT NULL" if having else "", count)
        return ds.dataset(self.folder / "tables" / group / message, format="parquet").head(count)

    def columns(self, group: str, message: str) -> list[str]:
        """The names of the columns of a landed table."""
        return list(self.head(group, message, 1).column_names)

    def ends(self, groups: Iterable[str]) -> Iterator[tuple[Place, str]]:
        """Yield the outcome of each message in an Iceberg output, its xid or a reason, by its source."""
        dead_letters = self._load_rows(_DEAD_LETTERS, _COLUMNS)
        yield from zip(_list_places(dead_letters, _COLUMNS), dead_letters["reason"].to_pylist(), strict=True)
        for group in groups:
            name = group.rpartition("/")[2]
            for table in self._open_catalog().list_tables((name,)):
                landed = self._load_rows((name, table[-1]), _LANDED)
                yield from ((place, f"{group}/messages/{table[-1]}") for place in _list_places(landed, _LANDED))

    def _load_rows(
        self, table: tuple[str, str], columns: tuple[str, ...], condition: str = "", most: int | None = None
    ) -> pa.Table:
        return self._open_catalog().load_table(table).scan(condition or AlwaysTrue(), columns, limit=most).to_arrow()

    def _open_catalog(self) -> SqlCatalog:
        # Opened anew each time: a stream may commit to it meanwhile.
        return SqlCatalog(NAME, uri=f"sqlite:///{self.folder.absolute() / CATALOG_DATABASE}")


def _list_places(rows: pa.Table, columns: tuple[str, ...]) -> Iterator[Place]:
    source, position = (rows[name].to_pylist() for name in columns[:2])
    return zip(source, position, strict=True)


_MAX_TEXTS: Final = 5


class DemoFailed(SignalbookError):
    """Something did not come out as the ledger says it must."""


def dead_letter_reasons(lake: OutputFolder, batch: str) -> dict[Place, str]:
    """The reason of each dead letter of a batch, by file name and byte offset."""
    rows = lake.dead_letters(batch).to_pylist()
    return {(Path(row["source"]).name, row["position"]): row["reason"] for row in rows}


def differences(ledger: TrafficLedger, report: Report, sidelined: Mapping[Place, str]) -> list[str]:
    """Return the differences from the ledger in words, empty without any."""
    texts = []
    if report.tally.read != ledger.written:
        texts.append(f"{ledger.written} lines were written, but {report.tally.read} read")
    texts += _compare_counts("landed in", ledger.landed, report.tally.landed)
    texts += _compare_counts("dead letters for", Counter(ledger.sidelined.values()), report.tally.reasons)
    for place in sorted(ledger.sidelined.keys() | sidelined.keys()):
        expected, got = ledger.sidelined.get(place, "landing"), sidelined.get(place, "landing")
        if expected != got:
            texts.append(f"{place[0]}, byte {place[1]}: {expected} was due, it came to {got}")
    return _limit_texts(texts)


def misplaced(due: Mapping[Place, str], outcomes: Iterable[tuple[Place, str]]) -> list[str]:
    """Return the messages that are not in their one place once, in words, empty without any.

    Both arguments give the outcome of a message: the xid of the definition it landed for, or a reason.
    """
    ends: dict[Place, list[str]] = {place: [] for place in due}
    for place, end in outcomes:
        ends.setdefault(place, []).append(end)
    return _limit_texts(
        [
            _describe_misplacement(place, due.get(place), got)
            for place, got in sorted(ends.items())
            if got != [due.get(place)]
        ]
    )


def _describe_misplacement(place: Place, due: str | None, got: list[str]) -> str:
    source, position = place
    return f"{source}, offset {position}: {due or 'nothing'} was due, there is {' and '.join(got) or 'nothing'}"


def _limit_texts(texts: list[str]) -> list[str]:
    return texts[:_MAX_TEXTS] + ([f"and {len(texts) - _MAX_TEXTS} more"] if len(texts) > _MAX_TEXTS else [])


def _compare_counts(label: str, expected: Mapping[str, int], got: Mapping[str, int]) -> list[str]:
    names = sorted(name for name in expected.keys() | got.keys() if expected.get(name, 0) != got.get(name, 0))
    return [f"{label} {name}: {expected.get(name, 0)} were due, there are {got.get(name, 0)}" for name in names]


_MESSAGES: Final = 15
_SHOWN_ROWS: Final = 4
_WIDTH: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTable:
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
        grid.add_row(_shorten(xid), f"{tally.landed[xid]:,}", f"{tally.rejected[xid]:,}")
    if len(busiest) > _MESSAGES:
        remaining = [xid for xid, _ in busiest[_MESSAGES:]]
        landed, rejected = (sum(counts[xid] for xid in remaining) for counts in (tally.landed, tally.rejected))
        grid.add_row(f"… {len(remaining)} more", f"{landed:,}", f"{rejected:,}", style="dim")
    console.print(grid)


def _shorten(xid: str) -> str:
    _, _, group, _, message = xid.split("/")
    return f"{group} / {message}"


def reasons(console: Console, counts: Mapping[str, int]) -> None:
    """Print the number of dead letters by reason."""
    grid = Grid(title="Dead letters", title_justify="left")
    grid.add_column("reason")
    grid.add_column("messages", justify="right")
    for reason, count in sorted(counts.items(), key=lambda item: -item[1]):
        grid.add_row(reason, f"{count:,}")
    console.print(grid)


def faults(console: Console, seeded: Counter[SeededFault], nonconforming: int) -> None:
    """Print the seeded faults and that all were found."""
    words = [f"{count:,} {fault.value}" for fault, count in seeded.items()]
    if nonconforming:
        words.append(f"{nonconforming:,} real payloads that do not meet their own published schema")
    console.print(
        "[green]✓[/] each of these became a dead letter for its reason, and nothing else: " + ", ".join(words)
    )


def rows(console: Console, lake: OutputFolder, table: ShownTable) -> None:
    """A few rows of a landed table: ``table.columns`` name members of nested columns with dots."""
    data = lake.head(table.group, table.message, _SHOWN_ROWS, table.having)
    grid = Grid(title=f"{table.group} / {table.message}: {data.num_columns} columns, among them", title_justify="left")
    picked = {path: _pick(data, path) for path in table.columns}
    for path, column in picked.items():
        grid.add_column(f"{path}\n[dim]{_describe_type(column.type)}[/]", overflow="ellipsis", no_wrap=True)
    for cells in zip(*(column.to_pylist() for column in picked.values()), strict=True):
        grid.add_row(*map(_format_cell, cells))
    console.print(grid, soft_wrap=False)


def _pick(data: pa.Table, path: str) -> pa.ChunkedArray:
    name, *members = path.split(".")
    return pc.struct_field(data[name], members) if members else data[name]


def _describe_type(type: pa.DataType) -> str:
    return "list of " + str(type.value_type) if pa.types.is_list(type) else str(type).partition("[")[0]


def _format_cell(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
