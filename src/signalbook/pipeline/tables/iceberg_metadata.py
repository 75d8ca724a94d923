"""The metadata of Iceberg tables, parsed once and not copied.

A commit parses the table's metadata twice and copies it twice with all columns, which for hundreds of columns takes
longer than everything else. Metadata is identified by the content of its file, which is read each time: what others
committed, or a file that is gone, is found as ever.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from io import BytesIO
from threading import Lock
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import PrivateAttr
from pyiceberg.catalog.sql import IcebergTables as TableRow
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    StatisticsCollector,
    _check_pyarrow_schema_compatible,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.serializers import Compressor, FromByteStream
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

# Of how many tables the newest metadata is kept: half a megabyte each if they have hundreds of columns.
_KEPT: Final = 256


class SharedSchema(Schema):
    """Columns that copies of metadata have in common: nothing changes a schema, a changed one is another.

    ``_taken`` says how files are described whose columns it was found to take.
    """

    _taken: dict[bytes, _Description] = PrivateAttr(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self


_Description = tuple[dict[int, StatisticsCollector], dict[str, int]]


def data_file(files: FileIO, metadata: TableMetadata, location: str, made_of: pa.Schema | None = None) -> DataFile:
    """What a table says of a Parquet file, as pyiceberg does, which compares the columns of each file anew.

    Those that the table was ``made_of`` it takes beyond doubt. Raises ``ValueError`` if it does not take the file's.
    """
    file = files.new_input(location)
    with file.open() as stream:
        footer = pq.read_metadata(stream)
    schema = metadata.schema()
    statistics = data_file_statistics_from_parquet_metadata(footer, *_description(metadata, footer, made_of))
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=statistics.partition(metadata.spec(), schema),
        file_size_in_bytes=len(file),
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _description(metadata: TableMetadata, footer: pq.FileMetaData, made_of: pa.Schema | None) -> _Description:
    schema, columns = metadata.schema(), footer.schema.to_arrow_schema()
    known = schema._taken if isinstance(schema, SharedSchema) else {}
    # also by the properties, which say what of which column is to be kept
    key = _key(columns.serialize().to_pybytes() + repr((metadata.format_version, metadata.properties)).encode())
    if key not in known:
        if made_of is None or not columns.equals(made_of):
            _check_pyarrow_schema_compatible(schema, columns, format_version=metadata.format_version)
        known[key] = compute_statistics_plan(schema, metadata.properties), parquet_path_to_id_mapping(schema)
    return known[key]


def shared(metadata: TableMetadata) -> TableMetadata:
    """``metadata``, whose schemas are not copied with it."""
    if all(isinstance(schema, SharedSchema) for schema in metadata.schemas):
        return metadata
    schemas = [schema if isinstance(schema, SharedSchema) else _shared(schema) for schema in metadata.schemas]
    return metadata.model_copy(update={"schemas": schemas})


def _shared(schema: Schema) -> SharedSchema:
    own: Any = {"schema-id": schema.schema_id, "identifier-field-ids": schema.identifier_field_ids}
    return SharedSchema(*schema.fields, **own)


class _Known:
    """Metadata by what their files contain, those used last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: OrderedDict[bytes, TableMetadata] = OrderedDict()

    def get(self, key: bytes) -> TableMetadata | None:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
            return self._found.get(key)

    def put(self, key: bytes, metadata: TableMetadata) -> None:
        with self._lock:
            self._found[key] = metadata
            self._found.move_to_end(key)
            if len(self._found) > _KEPT:
                self._found.popitem(last=False)


_known: Final = _Known()


def parsed(content: bytes, location: str) -> TableMetadata:
    """The metadata in the file at ``location``, whose ending says how it is compressed."""
    found = _known.get(_key(content))
    if found is None:
        stream: Any = BytesIO(content)
        found = FromByteStream.table_metadata(stream, compression=Compressor.get_compressor(location))
        found = remember(content, found)
    return found


def remember(content: bytes, metadata: TableMetadata) -> TableMetadata:
    """``metadata`` that were written as ``content``: whoever reads that is given them."""
    metadata = shared(metadata)
    _known.put(_key(content), metadata)
    return metadata


def _key(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


class RememberingSqlCatalog(SqlCatalog):
    """A catalog in a database whose tables' metadata are parsed once."""

    def _convert_orm_to_iceberg(self, orm_table: TableRow) -> Table:
        location = str(orm_table.metadata_location)
        with self._load_file_io(location=location).new_input(location).open() as stream:
            metadata = parsed(stream.read(), location)
        name = (*self.identifier_to_tuple(str(orm_table.table_namespace)), str(orm_table.table_name))
        return Table(name, metadata, location, self._load_file_io(metadata.properties, location), self)

    @staticmethod
    def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        text = metadata.model_dump_json(exclude_none=True)
        content = Compressor.get_compressor(metadata_path).bytes_compressor()(text.encode())
        with io.new_output(metadata_path).create() as stream:
            stream.write(content)
        remember(content, metadata)
