"""Load captures by Spark: DataFrames of ``RECORD_COLUMNS`` from files and tables in any format that Spark reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from signalbook.pipeline.errors import PipelineError, is_damage
from signalbook.pipeline.places import Storage
from signalbook.pipeline.sources import capture_files, capture_formats
from signalbook.pipeline.sources.avro_captures import AVRO
from signalbook.pipeline.sources.message_columns import ASSUME, MessageParts, assume_cloudevents, check_assumption
from signalbook.pipeline.sources.salvage import DamagedInput, read_salvaged
from signalbook.pipeline.spark import unite_frames
from signalbook.pipeline.tables.spark_sql import quote_identifier, quote_string

_PARQUET: Final = "parquet"
_FORMAT: Final = "format"
# The text of Spark's error for a store without a connector.
_NO_CONNECTOR: Final = "No FileSystem for scheme"
# Without checksums, corrupted bytes may be read as other messages.
_CHECKED: Final = {"parquet.page.verify-checksum.enabled": "true"}
# The parts of messages, by the names of options. The names are ``capture_records.ROLES``.
_PARTS: Final = {
    "value": "body", "key": "key", "headers": "headers", "topic": "address", "partition": "partition",
    "offset": "position", "timestamp": "received_at",
}  # fmt: skip


def parse_options(name: str, protocol: str, roles: Sequence[str], options: Mapping[str, str]) -> CaptureFrames:
    """Return the frames that ``options`` of the source ``name`` state.

    Raises ``PipelineError`` for unknown options.
    """
    known_options = (_FORMAT, *roles, *([ASSUME] if protocol else ()))
    for option in options:
        if option not in known_options:
            raise PipelineError(f"{name} has no option {option!r}; there are: {', '.join(known_options)}")
    return CaptureFrames(
        protocol=protocol,
        format=options.get(_FORMAT, _PARQUET),
        names={role: options.get(role, role) for role in roles},
        stated_roles=options.keys(),
        assumed=check_assumption(options.get(ASSUME, "")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureFrames:
    """The captures that options state, as DataFrames of ``RECORD_COLUMNS``.

    ``names`` are the columns for the parts of a message. ``stated_roles`` are the parts whose columns the options
    state. With ``assumed``, records without a content type are read as structured CloudEvents.
    """

    protocol: str
    format: str
    names: Mapping[str, str]
    stated_roles: Iterable[str]
    assumed: bool

    @property
    def is_parquet(self) -> bool:
        """True for Parquet, whose row groups can be read one by one."""
        return self.format.lower() == _PARQUET

    @property
    def is_avro(self) -> bool:
        """True for Avro, which Spark reads only with a package that few sessions have."""
        return self.format.lower() == AVRO

    def load(self, session: SparkSession, inputs: Sequence[str]) -> DataFrame:
        """Return the rows of all files or tables. Raises ``PipelineError``."""
        reader = session.read.format(self.format).options(**_CHECKED)
        return self._load_rows(inputs, reader.load)

    def load_stream(self, session: SparkSession, inputs: Sequence[str]) -> DataFrame:
        """Return the rows of current and future files as a streaming DataFrame. Raises ``PipelineError``."""

        def load(path: str) -> DataFrame:
            schema = session.read.format(self.format).load(path).schema
            return session.readStream.format(self.format).options(**_CHECKED).schema(schema).load(path)

        return self._load_rows(inputs, load)

    def salvage(self, session: SparkSession, inputs: Sequence[str], storage: Storage) -> DataFrame:
        """Return the undamaged rows of files, read without Spark's reader, and a row for each damage.

        Raises ``PipelineError``.
        """
        kind, column_names = self.format.lower(), self.names.values()
        if kind not in (_PARQUET, *capture_formats.READABLE):
            raise PipelineError(
                f"cannot read {', '.join(inputs)}: for {self.format} Spark needs a connector for the store, by "
                f"--jars; without one these are read: {', '.join(sorted((_PARQUET, *capture_formats.READABLE)))}"
            )
        parts = [
            self._select_salvaged(
                path,
                read_salvaged(session, path, column_names, storage)
                if self.is_parquet
                else capture_formats.read_rows(session, path, kind, column_names, storage),
            )
            for path in inputs
        ]
        return unite_frames(parts)

    def _load_rows(self, inputs: Sequence[str], load: Callable[[str], DataFrame]) -> DataFrame:
        try:
            parts = [self._select_rows(path, load(path)) for path in inputs]
        except (PySparkException, Py4JError) as error:
            reason = _extract_reason(str(error))
            if _NO_CONNECTOR in reason:
                reason += ": give it the jars of a connector by --jars"
            message = f"Spark cannot read {', '.join(inputs)} as {self.format}: {reason}"
            raise (DamagedInput if is_damage(error) else PipelineError)(message) from error
        return unite_frames(parts)

    def _select_rows(self, path: str, frame: DataFrame) -> DataFrame:
        """Return the rows of ``frame`` as ``RECORD_COLUMNS``. Raises ``PipelineError`` if a column is missing."""
        parts = self._find_parts(path, frame)
        return self._assume(frame.selectExpr(*parts.build_expressions(f"'{self.protocol}'", *self._find_place(path))))

    def _select_salvaged(self, path: str, frame: DataFrame) -> DataFrame:
        """Return salvaged rows as ``RECORD_COLUMNS``.

        A row for damage has the rule as protocol, the reason as address.
        """
        parts = self._find_parts(path, frame)
        protocol = f"coalesce({capture_files.RULE}, '{self.protocol}')"
        expressions = parts.build_expressions(protocol, capture_files.FILE, capture_files.ROW)
        address = f"coalesce({capture_files.WHY}, {parts.cast('address', 'string')}) AS address"
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
        if self.is_parquet:
            return "_metadata.file_path", "_metadata.row_index"
        return quote_string(path), "monotonically_increasing_id()"


def _extract_reason(text: str) -> str:
    """Return the last cause in the JVM's error text, or its first line if there is no cause."""
    lines = [line.strip() for line in text.strip().splitlines()]
    causes = [line.partition(": ")[2] for line in lines if line.startswith(("Caused by: ", ": "))]
    return (causes or lines or ["it did not say why"])[-1 if causes else 0]
