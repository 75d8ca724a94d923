"""``pipeline profile``: report for each column of landed tables its nulls, distinct values, minimum and maximum."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type

from signalbook.formats.base import Schema
from signalbook.messages import Policy
from signalbook.pipeline import columns
from signalbook.pipeline.columns import RESERVED
from signalbook.pipeline.commands.column_counts import RowCounts, count_rows, is_collection, iterate_leaves
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.documents import read_documents
from signalbook.pipeline.job.session import open_session
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.places import Where
from signalbook.pipeline.table_names import TableName
from signalbook.pipeline.tables.evolution import match_columns, rename_columns
from signalbook.pipeline.tables.landed_tables import LandedTables
from signalbook.values import JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """Statistics of a column, or of a member of a struct column (``order.total``), over all rows of a table.

    ``payload`` is True for columns of the payload, False for columns that the pipeline adds. ``distinct`` is the number
    of distinct values, to within 5 %, and None for lists and maps. ``least`` and ``most`` are the smallest and greatest
    values as text, for lists and maps their sizes. They are None if the column has no values.
    """

    name: str
    type: str
    payload: bool
    nulls: int
    distinct: int | None
    least: str | None
    most: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The profile of the table of one message definition.

    ``declared`` are the payload columns of the current definition in the registry, or None if no registry was given.
    """

    definition: str
    rows: int
    columns: tuple[ColumnProfile, ...]
    declared: tuple[str, ...] | None = None

    @property
    def unseen(self) -> tuple[str, ...]:
        """The declared columns that are empty in all rows, or missing in the table.

        Without a registry, the payload columns of the table count as declared.
        """
        empty = [column.name for column in self.columns if column.payload and column.nulls == self.rows]
        if self.declared is None:
            return tuple(empty)
        existing = {column.name for column in self.columns if column.payload}
        return tuple(name for name in self.declared if name in empty or name not in existing)

    @property
    def undeclared(self) -> tuple[str, ...]:
        """The payload columns with values that the current definition does not declare. Empty without a registry."""
        if self.declared is None:
            return ()
        seen = (column.name for column in self.columns if column.payload and column.nulls < self.rows)
        return tuple(name for name in seen if name not in self.declared)

    def to_json(self) -> JSONObject:
        """Return the object that ``pipeline profile --json`` prints for this table."""
        columns = [
            {name: value for name, value in asdict(column).items() if value is not None} for column in self.columns
        ]
        drift: JSONObject = {"unseen": list(self.unseen)}
        if self.declared is not None:
            drift["undeclared"] = list(self.undeclared)
        return {"definition": self.definition, "rows": self.rows, **drift, "columns": columns}


# Tables up to this size are counted without Spark, because starting a Spark session takes longer.
_SMALL_BYTES: Final = 8 * 1024 * 1024
_SMALL_FILES: Final = 200
_MAX_VALUE_CHARS: Final = 200


def profile(
    output: Where,
    definitions: Sequence[str] = (),
    master: str = "local[*]",
    progress: Callable[[str], None] = lambda _: None,
    registry: str | None = None,
) -> list[Profile]:
    """Return profiles of the tables of ``definitions`` (xids) in ``output``, or of all tables if none are given.

    With a ``registry``, compare the tables with its current definitions. Small tables are counted without Spark. Raises
    ``PipelineError`` if ``output`` is not an output folder of the pipeline, or has no table of a definition.
    """
    landed = LandedTables.of(output)
    chosen = landed.choose_tables(definitions)
    columns_of = {xid: landed.read_columns(table) for xid, table in chosen.items()}
    declared = dict.fromkeys(chosen) if registry is None else _read_declared(registry, columns_of, progress)
    counts: dict[str, RowCounts] = {}
    for xid, table in chosen.items():
        rows = landed.read_small(table, max_bytes=_SMALL_BYTES, max_files=_SMALL_FILES)
        if rows is not None:
            progress(f"looking at {table}")
            counts[xid] = count_rows(columns_of[xid], rows)
    if large := [xid for xid in chosen if xid not in counts]:
        progress("starting Spark")
        with open_session(master, brief=True) as session:
            for xid in large:
                progress(f"looking at {chosen[xid]}")
                frame = landed.read_frame(session, chosen[xid], columns_of[xid].names)
                counts[xid] = _count_by_spark(frame, columns_of[xid], chosen[xid])
    return [
        Profile(
            definition=xid,
            rows=counts[xid].rows,
            columns=tuple(_build_profiles(columns_of[xid], counts[xid])),
            declared=declared[xid],
        )
        for xid in chosen
    ]


def _count_by_spark(frame: DataFrame, columns: pa.Schema, table: TableName) -> RowCounts:
    total = RowCounts.of(columns)
    try:
        for row in frame.mapInArrow(partial(_count_task, columns), "counts BINARY").collect():
            total.merge(pickle.loads(row["counts"]))  # noqa: S301 - made by tasks of ours
    except PySparkException as error:
        raise PipelineError(f"the files of {table} cannot be read: {error}") from error
    return total


def _count_task(columns: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield one row with the pickled counts of a task's rows. For Spark's ``mapInArrow``."""
    yield pa.record_batch({"counts": pa.array([pickle.dumps(count_rows(columns, batches))], pa.binary())})


def _read_declared(
    registry: str, tables: Mapping[str, pa.Schema], show: Callable[[str], None]
) -> dict[str, tuple[str, ...] | None]:
    """Return for each xid the payload columns of the current definition, under the names that the table has for them.

    ``tables`` are the columns of the tables by xid. A definition that the registry lacks has no columns.
    """
    show("reading definitions")
    contract = Snapshot.of_registry(registry, read_documents(registry)).compile(Policy())
    definitions = {xid: contract.definitions.get(xid) for xid in tables}
    return {
        xid: () if definition is None else _list_columns(definition.schema_use.schema, tables[xid])
        for xid, definition in definitions.items()
    }


def _list_columns(schema: Schema | None, table: pa.Schema) -> tuple[str, ...]:
    declared = columns.build_payload(None if schema is None else schema.shape())
    return tuple(_iterate_names(rename_columns(table, declared, match_columns), ""))


def _iterate_names(fields: Iterable[pa.Field], before: str) -> Iterator[str]:
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _iterate_names(field.type, f"{before}{field.name}.")
        else:
            yield f"{before}{field.name}"


def _build_profiles(columns: pa.Schema, counts: RowCounts) -> Iterator[ColumnProfile]:
    for (path, kind), column in zip(iterate_leaves(columns), counts.columns, strict=True):
        yield ColumnProfile(
            name=".".join(path),
            type=from_arrow_type(kind, prefer_timestamp_ntz=True).simpleString(),
            payload=path[0] not in RESERVED,
            nulls=counts.rows - column.present,
            distinct=None if is_collection(kind) else column.distinct,
            least=_format_value(column.least, kind),
            most=_format_value(column.most, kind),
        )


def _format_value(value: Any, kind: pa.DataType) -> str | None:
    """Return ``value`` as SQL writes it, cut to ``_MAX_VALUE_CHARS``; None if ``value`` is None."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value[:_MAX_VALUE_CHARS].decode(errors="replace")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        text = str(value.replace(tzinfo=None))
        return text.rstrip("0") if "." in text else text
    return str(np.float32(value) if pa.types.is_float32(kind) else value)[:_MAX_VALUE_CHARS]
