"""What sources that connect to brokers by themselves have in common: how Spark is given one, and rows for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from signalbook.pipeline.failures import PipelineError
from signalbook.pipeline.sources import records

# Spark hides the values of options with such a name wherever it shows options.
_TOLD: Final = "secrets"


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What Spark's workers are told: ``most`` messages in a batch (0: no limit), dealt out to about ``tasks``."""

    inputs: tuple[str, ...]
    options: dict[str, str]
    most: int
    tasks: int


class Connected(DataSource):
    """A Spark data source of ``records.COLUMNS``."""

    def schema(self) -> str:
        """The columns of messages."""
        return records.COLUMNS

    @property
    def told(self) -> Told:
        """What the driver said."""
        return msgspec.json.decode(self.options[_TOLD], type=Told)


def brought(
    session: SparkSession,
    reader: Any,
    source: type[Connected],
    inputs: Sequence[str],
    options: Mapping[str, str],
    most: int = 0,
) -> DataFrame:
    """The rows of a source by one of Spark's readers. Raises ``PipelineError``."""
    told = Told(inputs=tuple(inputs), options=dict(options), most=most, tasks=session.sparkContext.defaultParallelism)
    try:
        session.dataSource.register(source)
        frame: DataFrame = reader.format(source.name()).option(_TOLD, msgspec.json.encode(told).decode()).load()
        return frame
    except PySparkException as error:
        raise PipelineError(f"Spark cannot read {', '.join(inputs)}: {str(error).strip().splitlines()[0]}") from error


def batch(schema: StructType, **columns: Sequence[Any]) -> pa.RecordBatch:
    """Rows of a source's schema, by columns; the others are null. Times are microseconds since 1970."""
    fields = to_arrow_schema(schema, timezone="UTC")
    count = len(next(iter(columns.values())))
    arrays = [pa.array(columns.get(field.name, [None] * count), field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=fields)


def pairs(headers: Sequence[tuple[str, bytes]]) -> list[dict[str, Any]] | None:
    """Headers as their column has them."""
    return [{"name": name, "value": value} for name, value in headers] or None
