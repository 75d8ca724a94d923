"""Check the messages of a DataFrame against a contract, and return valid messages and dead letters as DataFrames.

One pass over the rows produces both. Its result has a column for messages that conform and a column for dead letters;
in each row one of them is null. Nothing runs before Spark needs a result. The session only needs to support
``mapInArrow``, so these functions work on streams and with Spark Connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from signalbook.pipeline import columns
from signalbook.pipeline.columns import decode_constants
from signalbook.pipeline.frames.contract import Contract, check_contract
from signalbook.pipeline.frames.messages import SOURCE
from signalbook.pipeline.frames.rows import LANDED, TextRowBuilder
from signalbook.pipeline.job.memory import pause_collection
from signalbook.pipeline.limits import MAX_MESSAGE
from signalbook.pipeline.processing.processing import Processing
from signalbook.pipeline.processing.rows import Bookkeeping, RowBuilder
from signalbook.pipeline.sources.base import read_record_batches, separate_too_long
from signalbook.pipeline.sources.message_columns import MessageColumns, select_messages
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName, build_table_name
from signalbook.pipeline.tables.evolution import select_readable
from signalbook.pipeline.tables.layout import find_layout

_LANDED: Final = "landed"
_DEAD_LETTER: Final = "dead_letter"
_OUTCOME: Final = pa.schema(
    [pa.field(_LANDED, pa.struct(list(LANDED))), pa.field(_DEAD_LETTER, pa.struct(list(columns.DEAD_LETTER)))]
)


@dataclass(frozen=True, slots=True)
class Validated:
    """The outcome of ``validate``, which can be unpacked: ``landed, dead_letters = validate(...)``.

    ``outcomes`` has both in one DataFrame: each row has either ``landed`` or ``dead_letter``. Cache ``outcomes`` if you
    use both, because otherwise the messages are validated twice.
    """

    outcomes: DataFrame

    @property
    def landed(self) -> DataFrame:
        """The messages that conform, with their attributes, payload, transport data and definition."""
        return _select_half(self.outcomes, _LANDED)

    @property
    def dead_letters(self) -> DataFrame:
        """The messages that do not conform, with the reasons."""
        return _select_half(self.outcomes, _DEAD_LETTER)

    def __iter__(self) -> Iterator[DataFrame]:
        return iter((self.landed, self.dead_letters))


def validate(frame: DataFrame, contract: Contract, columns: MessageColumns | None = None) -> Validated:
    """Return the messages in rows of ``frame`` that conform to ``contract``, and those that do not.

    The result is lazy, and ``frame`` may be a stream. ``columns`` names the columns of messages. ``None`` means the
    columns of Spark's Kafka source, or only ``value`` with CloudEvents in JSON, as for text files. Raises
    ``PipelineError`` if a column is missing, and ``TypeError`` if ``contract`` is not a ``Contract``.
    """
    check_contract(contract)
    records = select_messages(frame, columns)
    return Validated(records.mapInArrow(partial(build_outcomes, contract), _convert_schema(_OUTCOME)))


def typed(frame: DataFrame, contract: Contract, xid: str, columns: MessageColumns | None = None) -> DataFrame:
    """Return the messages that conform to the definition ``xid``, with the columns of its table.

    Times of day are left out, because Spark has no type for them. ``columns`` are as for ``validate``. Raises
    ``PipelineError`` if a column is missing or the contract has no definition ``xid``.
    """
    check_contract(contract)
    definition = contract.load_compiled().definitions[contract.definition(xid)]
    records = select_messages(frame, columns)
    schema = select_readable(decode_constants(find_layout(definition).columns))
    return records.mapInArrow(partial(build_typed, contract, xid), _convert_schema(schema))


def _select_half(outcomes: DataFrame, name: str) -> DataFrame:
    return outcomes.where(f"{name} IS NOT NULL").select(f"{name}.*")


def _convert_schema(schema: pa.Schema) -> StructType:
    spark_schema: StructType = from_arrow_schema(schema)
    return spark_schema


TableRows = tuple[TableName, pa.RecordBatch]


class Validation:
    """A check of rows of ``RECORD_COLUMNS`` by a contract. It yields rows with the names of the tables they belong to.

    ``builder`` is the class that makes rows of accepted messages.
    """

    def __init__(self, contract: Contract, builder: type[RowBuilder]) -> None:
        self._rows: list[TableRows] = []
        bookkeeping = Bookkeeping(fingerprint=contract.fingerprint)
        self._processing = Processing(contract.load_compiled(), SOURCE, self, bookkeeping, builder=builder)

    def add(self, name: TableName, rows: pa.RecordBatch) -> None:
        """Keep rows for a table until they are yielded. ``Processing`` calls this method."""
        self._rows.append((name, rows))

    def take(self, records: pa.RecordBatch) -> Iterator[TableRows]:
        """Take records, and yield the rows that are ready. Some messages wait for others of their kind."""
        for messages in separate_too_long(read_record_batches(records), MAX_MESSAGE):
            self._processing.take(messages)
            yield from self._take_rows()

    def finish(self) -> Iterator[TableRows]:
        """Process all waiting messages, and yield their rows."""
        self._processing.clear()
        yield from self._take_rows()

    def _take_rows(self) -> list[TableRows]:
        rows, self._rows = self._rows, []
        return rows


def _process(contract: Contract, builder: type[RowBuilder], batches: Iterator[pa.RecordBatch]) -> Iterator[TableRows]:
    validation = Validation(contract, builder)
    with pause_collection():
        for records in batches:
            yield from validation.take(records)
        yield from validation.finish()


def build_outcomes(contract: Contract, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows of ``_OUTCOME`` for rows of ``RECORD_COLUMNS``. This is the function for ``mapInArrow``."""
    for table, rows in _process(contract, TextRowBuilder, batches):
        column = _OUTCOME.field(_DEAD_LETTER if table == DEAD_LETTERS else _LANDED)
        members = pa.StructArray.from_arrays(_select_arrays(rows, column.type), fields=list(column.type))
        arrays = [members if field.name == column.name else pa.nulls(len(rows), field.type) for field in _OUTCOME]
        yield pa.RecordBatch.from_arrays(arrays, schema=_OUTCOME)


def build_typed(contract: Contract, xid: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows of the table of ``xid`` for rows of ``RECORD_COLUMNS``. This is the function for ``mapInArrow``."""
    table_wanted = build_table_name(xid)
    for table, rows in _process(contract, RowBuilder, batches):
        if table == table_wanted:
            schema = select_readable(columns.decode_constants(rows.schema))
            yield pa.RecordBatch.from_arrays(_select_arrays(rows, schema), schema=schema)


def _select_arrays(rows: pa.RecordBatch, fields: Iterable[pa.Field]) -> list[pa.Array]:
    """Return the columns of ``rows`` that ``fields`` names, cast to the types of ``fields``."""
    pairs = ((rows.column(field.name), field.type) for field in fields)
    return [array if array.type == kind else array.cast(kind) for array, kind in pairs]
