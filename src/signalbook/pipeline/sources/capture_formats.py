"""Read captures in formats other than Parquet from a store for which Spark has no connector.

Lines of JSON, CSV and text are parsed by Spark's own parsers, so that the rows are the same as for files in a folder.
ORC is read by Arrow, stripe by stripe. For a Delta table, the Parquet files in its log are read. Avro is read in this
way also from folders (``avro_captures.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import orc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from signalbook.pipeline.errors import PipelineError, find_worker_error
from signalbook.pipeline.limits import MAX_MESSAGE
from signalbook.pipeline.places import Place, Storage, place_of
from signalbook.pipeline.sources import avro_captures, capture_files, salvage
from signalbook.pipeline.sources.avro_captures import AVRO
from signalbook.pipeline.sources.base import DamagedFile
from signalbook.pipeline.sources.capture_files import CaptureFile
from signalbook.pipeline.sources.compression import COMPRESSED_SUFFIXES
from signalbook.pipeline.sources.input_file import open_input
from signalbook.pipeline.spark import unite_frames
from signalbook.pipeline.table_names import quote_name
from signalbook.plugins import install

_DELTA: Final = "delta"
_ORC: Final = "orc"
_LINES: Final = ("csv", "json", "text")
READABLE: Final = (*_LINES, _DELTA, _ORC, AVRO)
"""The formats that this module reads, by their names in Spark. ``salvage`` reads Parquet."""
# The suffixes of compressed files that Spark can decompress, but this package cannot.
_UNKNOWN: Final = (".deflate", ".lz4", ".snappy")
_BLOCK: Final = 4 * 1024 * 1024
_ROWS: Final = 1024


def read_rows(
    session: SparkSession, path: str, kind: str, column_names: Collection[str], storage: Storage
) -> DataFrame:
    """Return the columns ``column_names`` of all files at ``path``, and the columns that ``salvage`` adds.

    ``kind`` is the format. Damage is an error, as in Spark, except in Avro and in the Parquet files of Delta tables,
    where each damage is a row. Raises ``PipelineError``.
    """
    if kind == AVRO:
        return read_containers(session, path, column_names, storage)
    if kind in _LINES:
        return _parse_lines(session, path, kind, storage)
    if kind == _DELTA:
        columns, files = _read_delta_table(path, storage)
        return salvage.read_files(session, files, columns, column_names, capture_files.read_parquet)
    files = capture_files.find_capture_files(path, storage)
    columns = salvage.convert_to_spark(_read_orc_schema(files[0].place))
    return salvage.read_files(session, files, columns, column_names, _read_orc)


def read_containers(session: SparkSession, path: str, column_names: Collection[str], storage: Storage) -> DataFrame:
    """Return the columns ``column_names`` of all Avro files at ``path``, and the added columns.

    The first file with a readable header determines the columns. Raises ``PipelineError``.
    """
    beyond = salvage.is_beyond(session, path, storage)
    files = capture_files.find_capture_files(path, storage) if beyond else salvage.list_files(session, path, storage)
    columns = salvage.convert_to_spark(avro_captures.read_columns(path, files))
    return salvage.read_files(session, files, columns, column_names, avro_captures.read_container)


def _parse_lines(session: SparkSession, path: str, kind: str, storage: Storage) -> DataFrame:
    """Return the lines of all files at ``path``, parsed by Spark, with columns from folder names."""
    groups = defaultdict[tuple[tuple[str, str | None], ...], list[CaptureFile]](list)
    for file in capture_files.find_capture_files(path, storage):
        if str(file.place).endswith(_UNKNOWN):
            raise PipelineError(
                f"cannot read {file.place}: of compressed lines in a store those of "
                f"{', '.join(COMPRESSED_SUFFIXES)} are read; for others give Spark a connector for the store by --jars"
            )
        groups[tuple(sorted(file.folders.items()))].append(file)
    lines = {folders: _load_lines(session, files) for folders, files in groups.items()}
    try:
        # Infer one schema for all files, although they are in groups.
        schema = _parse(session, kind, session.sparkContext.union(list(lines.values()))).schema
    except (PySparkException, Py4JError) as error:
        message = (
            find_worker_error(str(error)) or f"cannot read {path} as {kind}: {str(error).strip().partition(chr(10))[0]}"
        )
        raise PipelineError(message) from error
    names = {name.lower(): name for folders in lines for name, _ in folders}
    frames = []
    for folders, texts in lines.items():
        frame = _parse(session, kind, texts, schema)
        # A column that the folder names of a file do not state may be in its lines.
        values = {name.lower(): f.col(quote_name(name)) for name in frame.columns if name.lower() in names}
        values |= {name.lower(): f.lit(value) for name, value in folders}
        folder_values = {name: values.get(key, f.lit(None)).cast("string") for key, name in sorted(names.items())}
        frames.append(frame.withColumns(folder_values))
    rows = unite_frames(frames)
    nothing = f.lit(None).cast("string")
    beside = {capture_files.FILE: f.lit(path), capture_files.ROW: f.monotonically_increasing_id()}
    return rows.withColumns({**beside, capture_files.RULE: nothing, capture_files.WHY: nothing})


def _parse(session: SparkSession, kind: str, lines: Any, schema: StructType | None = None) -> DataFrame:
    if kind == "text":
        return session.createDataFrame(lines.map(lambda line: (line,)), "value string")
    reader = session.read if schema is None else session.read.schema(schema)
    return reader.json(lines) if kind == "json" else reader.csv(lines)


def _load_lines(session: SparkSession, files: Sequence[CaptureFile]) -> Any:
    numbers = session.sparkContext.parallelize(range(len(files)), min(len(files), salvage.TASKS))
    return numbers.flatMap(partial(_read_lines, files))


def _read_lines(files: Sequence[CaptureFile], number: int) -> Iterator[str]:
    """Yield the lines of the file at index ``number``, with the line ends of Hadoop. Raises ``PipelineError``."""
    place = files[number].place
    remainder = b""
    try:
        with open_input(files[number].split) as file:
            while block := file.read(_BLOCK):
                # The last line may continue in the next block, and so may a line end of two bytes.
                *lines, remainder = (remainder + block).splitlines(keepends=True)
                if len(remainder) > MAX_MESSAGE:
                    raise PipelineError(f"cannot read {place}: a line has more than {MAX_MESSAGE} bytes")
                yield from map(_decode_line, lines)
    except DamagedFile as damage:
        raise PipelineError(str(damage)) from damage
    if remainder:
        yield _decode_line(remainder)


def _decode_line(line: bytes) -> str:
    return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")


@contextmanager
def _convert_orc_errors(place: Place) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"cannot read {place}: {str(error).partition(chr(10))[0]}") from error


def _read_orc_schema(place: Place) -> pa.Schema:
    with _convert_orc_errors(place), place.open() as source:
        return orc.ORCFile(source).schema


def _read_orc(capture: CaptureFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with _convert_orc_errors(capture.place), capture.place.open() as source:
        file = orc.ORCFile(source)
        names = capture_files.match_names(file.schema.names, schema)
        first = 0
        for stripe in range(file.nstripes):
            # Without any columns, Arrow would return no rows.
            rows = file.read_stripe(stripe, columns=names or file.schema.names[:1])
            for at in range(0, len(rows), _ROWS):
                yield capture_files.complete_rows(rows.slice(at, _ROWS), schema, capture, first + at)
            first += len(rows)


def _read_delta_table(path: str, storage: Storage) -> tuple[StructType, list[CaptureFile]]:
    """Return the columns and files of the newest version of the Delta table at ``path``. Raises ``PipelineError``."""
    try:
        from signalbook.pipeline.tables import delta
    except ModuleNotFoundError as error:
        raise PipelineError(f"tables of Delta need {error.name}: {install('pipeline', 'delta')}") from error
    columns, files = delta.read_contents(place_of(path, storage))
    if not files:
        raise PipelineError(f"the Delta table {path} holds no files")
    return salvage.convert_to_spark(columns), [CaptureFile(place, str(place), values) for place, values in files]
