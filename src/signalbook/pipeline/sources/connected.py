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

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.session import SLOW
from signalbook.pipeline.sources import records

# Spark hides the values of options with such a name wherever it shows options.
_TOLD: Final = "secrets"
_ATTEMPTS: Final = 5


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What Spark's workers are told: ``most`` messages in a batch (0: no limit), dealt out to about ``tasks``.

    ``source`` is the name of the source, ``home`` a folder of it, where several share a way to be read.
    """

    inputs: tuple[str, ...]
    options: dict[str, str]
    tasks: int
    most: int = 0
    source: str = ""
    home: str = ""


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
    kind: type[Connected],
    inputs: Sequence[str],
    options: Mapping[str, str],
    *,
    most: int = 0,
    source: str = "",
    home: str = "",
) -> DataFrame:
    """The rows of a kind of source, by one of Spark's readers; the rest as in ``Told``. Raises ``PipelineError``."""
    tasks = session.sparkContext.defaultParallelism
    told = Told(inputs=tuple(inputs), options=dict(options), tasks=tasks, most=most, source=source, home=home)
    session.dataSource.register(kind)
    asked = reader.format(kind.name()).option(_TOLD, msgspec.json.encode(told).decode())
    left = _ATTEMPTS
    while True:
        try:
            frame: DataFrame = asked.load()
            return frame
        except PySparkException as error:
            left -= 1
            if SLOW not in str(error) or not left:
                reason = str(error).strip().splitlines()[0]
                raise PipelineError(f"Spark cannot read {', '.join(inputs)}: {reason}") from error


def batch(schema: StructType, **columns: Sequence[Any]) -> pa.RecordBatch:
    """Rows of a source's schema, by columns; the others are null. Times are microseconds since 1970."""
    fields = to_arrow_schema(schema, timezone="UTC")
    count = len(next(iter(columns.values())))
    arrays = [pa.array(columns.get(field.name, [None] * count), field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=fields)


def pairs(headers: Sequence[tuple[str, bytes]]) -> list[dict[str, Any]] | None:
    """Headers as their column has them."""
    return [{"name": name, "value": value} for name, value in headers] or None
