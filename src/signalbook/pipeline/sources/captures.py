"""Captures of messages in tables and Parquet files: a row for each, its bytes in one column.

Rows of Kafka records have the columns that Spark's Kafka source gives them, and connectors that copy topics to files:
``value``, and if they are there ``key``, ``headers``, ``topic``, ``partition``, ``offset`` and ``timestamp``. Rows of
CloudEvents have a column ``value``. Options give columns of other names: ``value=body``; and ``format`` what Spark's
reader is called, where it is not ``parquet``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, DateType, MapType, StringType, StructType, TimestampNTZType, TimestampType

from signalbook.messages import Message
from signalbook.messages.cloudevents import JSON_FORMAT
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources.base import MessageBatch
from signalbook.pipeline.sources.kafka import record_message
from signalbook.pipeline.tables.naming import quoted

_PARQUET: Final = "parquet"
_FORMAT: Final = "format"
_KAFKA: Final = ("value", "key", "headers", "topic", "partition", "offset", "timestamp")
_NO_HEADERS: Final = "CAST(NULL AS array<struct<name: string, value: binary>>)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Captures:
    """Rows of messages of one protocol, or without a protocol structured CloudEvents in JSON."""

    name: str
    protocol: str
    roles: tuple[str, ...]
    cloudevents_json: bool = True
    packages: tuple[str, ...] = ()

    def load(self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        """The rows of all files or tables. Raises ``PipelineError``."""
        columns = self._columns(options)
        reader = session.read.format(columns.format)
        return self._rows(columns, inputs, reader.load)

    def load_stream(
        self,
        session: SparkSession,
        inputs: Sequence[str],
        options: Mapping[str, str],
        most: int,  # noqa: ARG002
        home: Path,  # noqa: ARG002
    ) -> DataFrame:
        """The rows of files that are there and those to come, file by file. Raises ``PipelineError``."""
        columns = self._columns(options)

        def load(path: str) -> DataFrame:
            known = session.read.format(columns.format).load(path).schema
            return session.readStream.format(columns.format).schema(known).load(path)

        return self._rows(columns, inputs, load)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """The row as a Kafka record, or a structured CloudEvent of a file."""
        if self.protocol:
            return record_message(batch, index)
        return Message(content_type=JSON_FORMAT, body=batch.record(index)["value"])

    def _columns(self, options: Mapping[str, str]) -> _Columns:
        known = (_FORMAT, *self.roles)
        for name in options:
            if name not in known:
                raise PipelineError(f"{self.name} has no option {name!r}; there are: {', '.join(known)}")
        names = {role: options.get(role, role) for role in self.roles}
        return _Columns(
            protocol=self.protocol, format=options.get(_FORMAT, _PARQUET), names=names, given=options.keys()
        )

    def _rows(self, columns: _Columns, inputs: Sequence[str], load: Callable[[str], DataFrame]) -> DataFrame:
        try:
            parts = [columns.rows(path, load(path)) for path in inputs]
        except (PySparkException, Py4JError) as error:
            reason = _reason(str(error))
            raise PipelineError(f"Spark cannot read {', '.join(inputs)} as {columns.format}: {reason}") from error
        return reduce(DataFrame.unionAll, parts)


KAFKA: Final = Captures(name="kafka-captures", protocol="KAFKA", roles=_KAFKA)
CLOUDEVENTS: Final = Captures(name="cloudevents-captures", protocol="", roles=_KAFKA[:1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """Which column has which part of a message; ``given`` are the parts that were asked for by name."""

    protocol: str
    format: str
    names: Mapping[str, str]
    given: Iterable[str]

    def rows(self, path: str, frame: DataFrame) -> DataFrame:
        """``RECORD_COLUMNS`` of a table's rows. Raises ``PipelineError`` where a column is missing."""
        there = {field.name.lower(): field for field in frame.schema}
        for role in ("value", *self.given):
            if role in self.names and self.names[role].lower() not in there:
                raise PipelineError(
                    f"{path} has no column {self.names[role]!r} for the {role} of messages; its columns are: "
                    f"{', '.join(frame.columns)}: name the right one by the option {role}"
                )
        types = {role: there[name.lower()].dataType for role, name in self.names.items() if name.lower() in there}
        expressions = self._expressions(path, types)
        return frame.selectExpr(*(f"{expression} AS {name}" for name, expression in expressions.items()))

    def _expressions(self, path: str, types: Mapping[str, DataType]) -> dict[str, str]:
        source, position = self._place(path)
        if {"topic", "partition", "offset"} <= types.keys():
            topic, partition, offset = (self._cast(types, *pair) for pair in _POSITION)
            known = f"{topic} IS NOT NULL AND {partition} IS NOT NULL AND {offset} IS NOT NULL"
            source = f"IF({known}, concat('kafka:', {topic}, '/', {partition}), {source})"
            position = f"IF({known}, {offset}, {position})"
            partitions = f"IF({known}, {partition}, NULL)"
        else:
            partitions = "CAST(NULL AS int)"
        return {
            "protocol": f"'{self.protocol}'",
            "source": source,
            "position": position,
            "address": self._cast(types, "topic", "string"),
            "partition": partitions,
            "key": self._cast(types, "key", "binary"),
            "value": self._cast(types, "value", "binary"),
            "headers": _headers(quoted(self.names["headers"]), types["headers"]) if "headers" in types else _NO_HEADERS,
            "received_at": self._time(types),
        }

    def _cast(self, types: Mapping[str, DataType], role: str, kind: str) -> str:
        return _cast(quoted(self.names[role]) if role in types else "NULL", kind)

    def _time(self, types: Mapping[str, DataType]) -> str:
        """A time, or as connectors write it milliseconds since 1970; text may be either."""
        kind, moment = types.get("timestamp"), self._cast(types, "timestamp", "timestamp")
        if kind is None or isinstance(kind, (TimestampType, TimestampNTZType, DateType)):
            return moment
        counted = f"timestamp_micros(try_multiply({self._cast(types, 'timestamp', 'long')}, 1000))"
        return f"coalesce({counted}, {moment})" if isinstance(kind, StringType) else counted

    def _place(self, path: str) -> tuple[str, str]:
        """Which file a row is in, and its number there; of formats that do not say, the path and any number."""
        if self.format == _PARQUET:
            return "_metadata.file_path", "_metadata.row_index"
        escaped = path.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'", "monotonically_increasing_id()"


def _cast(column: str, kind: str) -> str:
    """A column as ``kind``; what does not fit is null, what is no text is replaced: no row is to end the run."""
    cast = f"try_cast({column} AS {kind})"
    return f"make_valid_utf8({cast})" if kind == "string" else cast


_POSITION: Final = (("topic", "string"), ("partition", "int"), ("offset", "long"))


def _reason(text: str) -> str:
    """What the JVM says in the end, or first where that is all."""
    lines = [line.strip() for line in text.strip().splitlines()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or ["it did not say why"])[-1 if causes else 0]


def _headers(column: str, kind: DataType) -> str:
    """Headers as ``RECORD_COLUMNS`` has them, from a list of pairs under any names, or from a map."""
    if isinstance(kind, MapType):
        return _pairs(f"map_entries({column})", "key", "value")
    element: Any = getattr(kind, "elementType", None)
    if not isinstance(element, StructType) or len(element) != 2:
        raise PipelineError(f"the column {column} holds no headers: they are an array of key and value, or a map")
    return _pairs(column, *element.names)


def _pairs(array: str, key: str, value: str) -> str:
    name, content = _cast(f"h.{quoted(key)}", "string"), _cast(f"h.{quoted(value)}", "binary")
    return f"transform({array}, h -> struct({name} AS name, {content} AS value))"
