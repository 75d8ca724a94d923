"""``pipeline profile``: of each column in landed tables, how often it is empty, its least and greatest values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from signalbook.formats.base import Schema
from signalbook.messages import Policy
from signalbook.pipeline import columns
from signalbook.pipeline.columns import BOOKKEEPING, CONTEXT, ENVELOPE, RESCUE, TAGS, TRANSPORT
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.documents import read_documents
from signalbook.pipeline.job.session import open_session
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.places import Where
from signalbook.pipeline.tables.naming import TableName
from signalbook.pipeline.tables.reading import LandedTables
from signalbook.values import JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """One column, or member of one (``order.total``): its values over all rows.

    ``payload`` is whether the definition's schema declares it; else the pipeline adds it. ``distinct`` is within 5 %
    and not above the number of values, None for lists and maps; ``least`` and ``most`` are texts, of lists and maps
    their sizes, None without a value.
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
    """The table of one message definition.

    ``declared`` are the columns that the definition would have as it is now; None if nobody asked.
    """

    definition: str
    rows: int
    columns: tuple[ColumnProfile, ...]
    declared: tuple[str, ...] | None = None

    @property
    def unseen(self) -> tuple[str, ...]:
        """What the schema declares and no message ever had."""
        empty = [column.name for column in self.columns if column.payload and column.nulls == self.rows]
        if self.declared is None:
            return tuple(empty)
        there = {column.name for column in self.columns if column.payload}
        return tuple(name for name in self.declared if name in empty or name not in there)

    @property
    def undeclared(self) -> tuple[str, ...]:
        """What messages had, by the schema of their day, and the definition does not declare any more."""
        if self.declared is None:
            return ()
        seen = (column.name for column in self.columns if column.payload and column.nulls < self.rows)
        return tuple(name for name in seen if name not in self.declared)

    def to_json(self) -> JSONObject:
        """The object that ``pipeline profile --json`` prints."""
        columns = [
            {name: value for name, value in asdict(column).items() if value is not None} for column in self.columns
        ]
        drift: JSONObject = {"unseen": list(self.unseen)}
        if self.declared is not None:
            drift["undeclared"] = list(self.undeclared)
        return {"definition": self.definition, "rows": self.rows, **drift, "columns": columns}


_OWN: Final = frozenset(name for own in (ENVELOPE, CONTEXT, TRANSPORT, BOOKKEEPING, RESCUE, TAGS) for name in own.names)
# Distinct values within 5 %: exact counts would need all values in one place.
_ERROR: Final = 0.05
_LONGEST: Final = 200


def profile(
    output: Where,
    definitions: Sequence[str] = (),
    master: str = "local[*]",
    progress: Callable[[str], None] = lambda _: None,
    registry: str | None = None,
) -> list[Profile]:
    """Profiles of the tables of ``output``, those of ``definitions`` (xids) only if there are any.

    With a ``registry`` they are held to what it declares now. Raises ``PipelineError`` for a folder that is no output
    of the pipeline, and a definition without a table in it.
    """
    landed = LandedTables.of(output)
    chosen = landed.chosen(definitions)
    declared = dict.fromkeys(chosen) if registry is None else _declared(registry, chosen, progress)
    progress("starting Spark")
    with open_session(master) as session:
        frames = {xid: landed.frame(session, table).drop(columns.DAY) for xid, table in chosen.items()}
        found = [_table(xid, chosen[xid], frame, progress) for xid, frame in frames.items()]
    return [replace(each, declared=declared[each.definition]) for each in found]


def _declared(registry: str, chosen: Iterable[str], show: Callable[[str], None]) -> dict[str, tuple[str, ...] | None]:
    """The payload's columns by definition, as the registry has them now; none for one that it has not."""
    show("reading definitions")
    contract = Snapshot.of_registry(registry, read_documents(registry)).compile(Policy())
    found = {xid: contract.definitions.get(xid) for xid in chosen}
    return {xid: () if each is None else _columns(each.schema_use.schema) for xid, each in found.items()}


def _columns(schema: Schema | None) -> tuple[str, ...]:
    return tuple(_names(columns.payload(None if schema is None else schema.shape()), ""))


def _names(fields: Iterable[pa.Field], before: str) -> Iterator[str]:
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _names(field.type, f"{before}{field.name}.")
        else:
            yield f"{before}{field.name}"


def _table(xid: str, table: TableName, frame: DataFrame, show: Callable[[str], None]) -> Profile:
    show(f"looking at {table}")
    leaves = list(_leaves(frame.schema))
    measures = [f.count(f.lit(1)).alias("rows")]
    for number, leaf in enumerate(leaves):
        measures += leaf.measures(str(number))
    try:
        row: dict[str, Any] = frame.agg(*measures).collect()[0].asDict()
    except PySparkException as error:
        raise PipelineError(f"the files of {table} cannot be read: {error}") from error
    return Profile(
        definition=xid,
        rows=row["rows"],
        columns=tuple(leaf.profile(row, str(number)) for number, leaf in enumerate(leaves)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    """A column, or a member of one, that holds values and not members."""

    path: tuple[str, ...]
    type: DataType
    payload: bool

    @property
    def _column(self) -> Column:
        return f.col(".".join(f"`{name.replace('`', '``')}`" for name in self.path))

    def measures(self, prefix: str) -> list[Column]:
        """What is asked of Spark, with names beginning with ``prefix``."""
        column = self._column
        found = [f.count(column).alias(f"{prefix}.present")]
        if isinstance(self.type, (ArrayType, MapType)):
            column = f.size(column)
        else:
            found.append(f.approx_count_distinct(column, _ERROR).alias(f"{prefix}.distinct"))
        least, most = f.min(column), f.max(column)
        if isinstance(self.type, StringType):
            least, most = f.substring(least, 1, _LONGEST), f.substring(most, 1, _LONGEST)
        return [*found, least.cast("string").alias(f"{prefix}.least"), most.cast("string").alias(f"{prefix}.most")]

    def profile(self, row: dict[str, Any], prefix: str) -> ColumnProfile:
        """What Spark answered."""
        present, distinct = row[f"{prefix}.present"], row.get(f"{prefix}.distinct")
        return ColumnProfile(
            name=".".join(self.path),
            type=self.type.simpleString(),
            payload=self.payload,
            nulls=row["rows"] - present,
            distinct=None if distinct is None else min(distinct, present),  # Spark estimates
            least=row[f"{prefix}.least"],
            most=row[f"{prefix}.most"],
        )


def _leaves(schema: StructType) -> Iterator[_Leaf]:
    for field in schema.fields:
        yield from _within(field, (field.name,), payload=field.name not in _OWN)


def _within(field: StructField, path: tuple[str, ...], *, payload: bool) -> Iterator[_Leaf]:
    if isinstance(field.dataType, StructType):
        for member in field.dataType.fields:
            yield from _within(member, (*path, member.name), payload=payload)
    else:
        yield _Leaf(path=path, type=field.dataType, payload=payload)
