"""Sources for captures: tables and files with one message in each row, whose bytes are in one column.

Rows of Kafka records have the columns of Spark's Kafka source, as connectors that copy topics to files write them:
``value`` and, optionally, ``key``, ``headers``, ``topic``, ``partition``, ``offset`` and ``timestamp``. Rows of
CloudEvents have a column ``value``. Options state other column names, such as ``value=body``. The option ``format`` is
the name of Spark's reader, by default ``parquet``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from signalbook.messages import Message
from signalbook.messages.cloudevents import JSON_FORMAT
from signalbook.pipeline.errors import PipelineError, is_damage
from signalbook.pipeline.places import Place, Storage
from signalbook.pipeline.sources import capture_formats, salvage
from signalbook.pipeline.sources.avro_captures import AVRO
from signalbook.pipeline.sources.base import MessageBatch
from signalbook.pipeline.sources.kafka import build_records, record_message
from signalbook.pipeline.sources.message_columns import ASSUME, MessageParts, assume_cloudevents, check_assumption
from signalbook.pipeline.sources.message_records import MessageRecords
from signalbook.pipeline.sources.salvage import DamagedInput, read_salvaged
from signalbook.pipeline.spark import unite_frames
from signalbook.pipeline.tables.spark_sql import quote_identifier, quote_string

_PARQUET: Final = "parquet"
_FORMAT: Final = "format"
# The text of Spark's error for a store without a connector.
_NO_CONNECTOR: Final = "No FileSystem for scheme"
# Without checksums, corrupted bytes may be read as other messages.
_CHECKED: Final = {"parquet.page.verify-checksum.enabled": "true"}
# The parts of messages, by the names of options.
_PARTS: Final = {
    "value": "body", "key": "key", "headers": "headers", "topic": "address", "partition": "partition",
    "offset": "position", "timestamp": "received_at",
}  # fmt: skip
_KAFKA: Final = tuple(_PARTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Captures:
    """A source of captures of one protocol. Without a protocol, rows are structured CloudEvents in JSON.

    ``roles`` are the names of the columns, which options can change.
    """

    name: str
    protocol: str
    roles: tuple[str, ...]
    cloudevents_json: bool = True
    packages: tuple[str, ...] = ()

    def load(self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        """Return the rows of all files or tables as ``RECORD_COLUMNS``. Raises ``PipelineError``."""
        columns = self._parse_columns(options)
        reader = session.read.format(columns.format).options(**_CHECKED)
        return self._load_rows(columns, inputs, reader.load)

    def load_stream(
        self,
        session: SparkSession,
        inputs: Sequence[str],
        options: Mapping[str, str],
        most: int,  # noqa: ARG002
        home: Place,  # noqa: ARG002
    ) -> DataFrame:
        """Return the rows of current and future files as a streaming DataFrame. Raises ``PipelineError``."""
        columns = self._parse_columns(options)

        def load(path: str) -> DataFrame:
            schema = session.read.format(columns.format).load(path).schema
            return session.readStream.format(columns.format).options(**_CHECKED).schema(schema).load(path)

        return self._load_rows(columns, inputs, load)

    def salvage(
        self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str], storage: Storage
    ) -> DataFrame:
        """Return the undamaged rows of files, read without Spark's reader, and a row for each damage.

        Rows for damage exist only for Parquet, Delta and Avro. Raises ``PipelineError`` for damage in other formats,
        and for formats that only Spark can read.
        """
        columns = self._parse_columns(options)
        kind, column_names = columns.format.lower(), columns.names.values()
        if kind not in (_PARQUET, *capture_formats.READABLE):
            raise PipelineError(
                f"cannot read {', '.join(inputs)}: for {columns.format} Spark needs a connector for the store, by "
                f"--jars; without one these are read: {', '.join(sorted((_PARQUET, *capture_formats.READABLE)))}"
            )
        parts = [
            columns.select_salvaged(
                path,
                read_salvaged(session, path, column_names, storage)
                if kind == _PARQUET
                else capture_formats.read_rows(session, path, kind, column_names, storage),
            )
            for path in inputs
        ]
        return unite_frames(parts)

    def salvages(self, options: Mapping[str, str]) -> bool:
        """Return True for Parquet, whose row groups can be read one by one."""
        return self._parse_columns(options).format.lower() == _PARQUET

    def is_beyond_spark(self, options: Mapping[str, str]) -> bool:
        """Return True for Avro, which Spark reads only with a package that few sessions have."""
        return self._parse_columns(options).format.lower() == AVRO

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the row at ``index`` as a Kafka record, or as a structured CloudEvent."""
        if self.protocol:
            return record_message(batch, index)
        return Message(content_type=JSON_FORMAT, body=batch.record(index)["value"])

    def to_records(self, batch: MessageBatch, indices: Sequence[int]) -> MessageRecords | None:
        """Return the dead-letter records of the Kafka messages at ``indices``; None for other messages."""
        return build_records(batch, indices) if self.protocol else None

    def _parse_columns(self, options: Mapping[str, str]) -> _Columns:
        known_options = (_FORMAT, *self.roles, *([ASSUME] if self.protocol else ()))
        for name in options:
            if name not in known_options:
                raise PipelineError(f"{self.name} has no option {name!r}; there are: {', '.join(known_options)}")
        names = {role: options.get(role, role) for role in self.roles}
        return _Columns(
            protocol=self.protocol,
            format=options.get(_FORMAT, _PARQUET),
            names=names,
            stated_roles=options.keys(),
            assumed=check_assumption(options.get(ASSUME, "")),
        )

    def _load_rows(self, columns: _Columns, inputs: Sequence[str], load: Callable[[str], DataFrame]) -> DataFrame:
        try:
            parts = [columns.select_rows(path, load(path)) for path in inputs]
        except (PySparkException, Py4JError) as error:
            reason = _extract_reason(str(error))
            if _NO_CONNECTOR in reason:
                reason += ": give it the jars of a connector by --jars"
            message = f"Spark cannot read {', '.join(inputs)} as {columns.format}: {reason}"
            raise (DamagedInput if is_damage(error) else PipelineError)(message) from error
        return unite_frames(parts)


KAFKA: Final = Captures(name="kafka-captures", protocol="KAFKA", roles=_KAFKA)
CLOUDEVENTS: Final = Captures(name="cloudevents-captures", protocol="", roles=_KAFKA[:1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The columns for the parts of a message. ``stated_roles`` are the parts whose columns the options state.

    With ``assumed``, records without a content type are read as structured CloudEvents.
    """

    protocol: str
    format: str
    names: Mapping[str, str]
    stated_roles: Iterable[str]
    assumed: bool

    def select_rows(self, path: str, frame: DataFrame) -> DataFrame:
        """Return the rows of ``frame`` as ``RECORD_COLUMNS``. Raises ``PipelineError`` if a column is missing."""
        parts = self._find_parts(path, frame)
        return self._assume(frame.selectExpr(*parts.build_expressions(f"'{self.protocol}'", *self._find_place(path))))

    def select_salvaged(self, path: str, frame: DataFrame) -> DataFrame:
        """Return salvaged rows as ``RECORD_COLUMNS``.

        A row for damage has the rule as protocol, the reason as address.
        """
        parts = self._find_parts(path, frame)
        expressions = parts.build_expressions(f"coalesce({salvage.RULE}, '{self.protocol}')", salvage.FILE, salvage.ROW)
        address = f"coalesce({salvage.WHY}, {parts.cast('address', 'string')}) AS address"
        expressions = [address if text.endswith(" AS address") else text for text in expressions]
        return self._assume(frame.selectExpr(*expressions))

    def _assume(self, records: DataFrame) -> DataFrame:
        return assume_cloudevents(records) if self.assumed else records

    def _find_parts(self, path: str, frame: DataFrame) -> MessageParts:
        existing = {field.name.lower(): field for field in frame.schema}
        for role in ("value", *self.stated_roles):
            if role in self.names and self.names[role].lower() not in existing:
                raise PipelineError(
                    f"{path} has no column {self.names[role]!r} for the {role} of messages; its columns are: "
                    f"{', '.join(frame.columns)}: name the right one by the option {role}"
                )
        return MessageParts(
            {
                _PARTS[role]: (quote_identifier(name), existing[name.lower()].dataType)
                for role, name in self.names.items()
                if name.lower() in existing
            }
        )

    def _find_place(self, path: str) -> tuple[str, str]:
        """Return SQL for file and number of a row. For other formats than Parquet: the path and any unique number."""
        if self.format == _PARQUET:
            return "_metadata.file_path", "_metadata.row_index"
        return quote_string(path), "monotonically_increasing_id()"


def _extract_reason(text: str) -> str:
    """Return the last cause in the JVM's error text, or its first line if there is no cause."""
    lines = [line.strip() for line in text.strip().splitlines()]
    causes = [line.partition(": ")[2] for line in lines if line.startswith(("Caused by: ", ": "))]
    return (causes or lines or ["it did not say why"])[-1 if causes else 0]
