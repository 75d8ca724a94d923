"""Sources for captures: tables and files with one message in each row, whose bytes are in one column.

Rows of Kafka records have the columns of Spark's Kafka source, as connectors that copy topics to files write them:
``value`` and, optionally, ``key``, ``headers``, ``topic``, ``partition``, ``offset`` and ``timestamp``. Rows of
CloudEvents have a column ``value``. With Spark, options state other column names, such as ``value=body``, and
``format`` is the name of Spark's reader, by default ``parquet``. Without Spark, Parquet and Avro files are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from signalbook.messages import Message
from signalbook.messages.cloudevents import JSON_FORMAT
from signalbook.pipeline.places import Place, Storage
from signalbook.pipeline.sources.base import MessageBatch, Split, UnreadableMessage, read_record_batches
from signalbook.pipeline.sources.capture_records import ROLES, read_records
from signalbook.pipeline.sources.kafka import build_records, record_message
from signalbook.pipeline.sources.message_records import MessageRecords

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from signalbook.pipeline.sources.capture_frames import CaptureFrames


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
    divisible: bool = False
    endings: tuple[str, ...] = (".parquet", ".avro")

    def load(self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        """Return the rows of all files or tables as ``RECORD_COLUMNS``. Raises ``PipelineError``."""
        return self._parse_options(options).load(session, inputs)

    def load_stream(
        self,
        session: SparkSession,
        inputs: Sequence[str],
        options: Mapping[str, str],
        most: int,  # noqa: ARG002
        home: Place,  # noqa: ARG002
    ) -> DataFrame:
        """Return the rows of current and future files as a streaming DataFrame. Raises ``PipelineError``."""
        return self._parse_options(options).load_stream(session, inputs)

    def salvage(
        self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str], storage: Storage
    ) -> DataFrame:
        """Return the undamaged rows of files, read without Spark's reader, and a row for each damage.

        Rows for damage exist only for Parquet, Delta and Avro. Raises ``PipelineError`` for damage in other formats,
        and for formats that only Spark can read.
        """
        return self._parse_options(options).salvage(session, inputs, storage)

    def salvages(self, options: Mapping[str, str]) -> bool:
        """Return True for Parquet, whose row groups can be read one by one."""
        return self._parse_options(options).is_parquet

    def is_beyond_spark(self, options: Mapping[str, str]) -> bool:
        """Return True for Avro, which Spark reads only with a package that few sessions have."""
        return self._parse_options(options).is_avro

    def read(self, split: Split) -> Iterator[MessageBatch]:
        """Yield the rows of a Parquet or Avro file. Raises ``PipelineError`` if it has no column ``value``."""
        for records in read_records(split, self.protocol, self.roles):
            yield from read_record_batches(records)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the row at ``index`` as a Kafka record, or as a structured CloudEvent."""
        if batch.error:
            raise UnreadableMessage(batch.error)
        if self.protocol:
            return record_message(batch, index)
        return Message(content_type=JSON_FORMAT, body=batch.record(index)["value"])

    def to_records(self, batch: MessageBatch, indices: Sequence[int]) -> MessageRecords | None:
        """Return the dead-letter records of the Kafka messages at ``indices``; None for other messages."""
        return build_records(batch, indices) if self.protocol else None

    def _parse_options(self, options: Mapping[str, str]) -> CaptureFrames:
        # Imported here, because files of captures are also read where Spark is not installed.
        from signalbook.pipeline.sources.capture_frames import parse_options

        return parse_options(self.name, self.protocol, self.roles, options)


KAFKA: Final = Captures(name="kafka-captures", protocol="KAFKA", roles=ROLES)
CLOUDEVENTS: Final = Captures(name="cloudevents-captures", protocol="", roles=ROLES[:1])
