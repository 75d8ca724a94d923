"""Caches for the metadata of Iceberg tables, which is computed and parsed once and not copied.

Without these caches, a commit parses the table's metadata twice and copies it twice with all columns. For hundreds of
columns this takes longer than everything else. The key of cached metadata is the content of its file, which is read
each time, so that commits of other programs and missing files are noticed. Tables with the same columns share one
schema and the values computed from it.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import cached_property
from io import BytesIO
from threading import Lock
from typing import Any, Final, Generic, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import PrivateAttr
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import (
    StatisticsCollector,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.serializers import Compressor, FromByteStream
from pyiceberg.table import CommitTableResponse, CreateTableTransaction, StagedTable, Table, TableProperties
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, TableMetadataV2
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from signalbook.pipeline.places import Place
from signalbook.pipeline.tables.iceberg_internals import OpenCatalog, check_columns, convert_columns

# The number of tables whose newest metadata is cached: half a megabyte each for tables with hundreds of columns.
_KEPT: Final = 256
_SETTINGS: Final = "write."

_Value = TypeVar("_Value")


class SharedSchema(Schema):
    """A schema that copies of metadata share instead of copying it, because schemas are immutable.

    ``_taken`` caches the description of files by their columns, for columns that are compatible with the schema.
    """

    _taken: dict[bytes, _Description] = PrivateAttr(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self

    @cached_property
    def names(self) -> str:
        """The mapping of names to columns, for files without field ids, as the value of a table property."""
        return self.name_mapping.model_dump_json()

    @cached_property
    def _text(self) -> str:
        return super().model_dump_json()

    def model_dump_json(self, *given: Any, **options: Any) -> str:
        """Return the schema as JSON, cached for calls without arguments, because each manifest begins with it."""
        return super().model_dump_json(*given, **options) if given or options else self._text


_Description = tuple[dict[int, StatisticsCollector], dict[str, int]]


class ParquetFooter:
    """The footer of a Parquet file: its columns and statistics, read once."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.metadata = pq.read_metadata(place.open_for_arrow())
        self.columns: pa.Schema = self.metadata.schema.to_arrow_schema()


def build_data_file(metadata: TableMetadata, footer: ParquetFooter, made_of: pa.Schema | None = None) -> DataFile:
    """Return the Iceberg metadata of the Parquet file with this ``footer``, for the table with this ``metadata``.

    Unlike pyiceberg, check the same columns only once, and not if they equal ``made_of``, from which the table was
    created. Raises ``ValueError`` for a file whose columns do not fit.
    """
    schema = metadata.schema()
    statistics = data_file_statistics_from_parquet_metadata(
        footer.metadata, *_describe_file(metadata, footer.columns, made_of)
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=str(footer.place),
        file_format=FileFormat.PARQUET,
        partition=statistics.partition(metadata.spec(), schema),
        file_size_in_bytes=footer.place.find_size(),
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _describe_file(metadata: TableMetadata, columns: pa.Schema, made_of: pa.Schema | None) -> _Description:
    schema = metadata.schema()
    plans = schema._taken if isinstance(schema, SharedSchema) else {}
    # The key contains the properties of the table that select the statistics of columns.
    settings = sorted(setting for setting in metadata.properties.items() if setting[0].startswith(_SETTINGS))
    key = _hash_content(columns.serialize().to_pybytes() + repr((metadata.format_version, settings)).encode())
    if key not in plans:
        if made_of is None or not columns.equals(made_of):
            check_columns(schema, columns, metadata.format_version)
        plans[key] = compute_statistics_plan(schema, metadata.properties), parquet_path_to_id_mapping(schema)
    return plans[key]


def share_schemas(metadata: TableMetadata) -> TableMetadata:
    """Return ``metadata`` with all schemas as ``SharedSchema``, which copies of the metadata share."""
    if all(isinstance(schema, SharedSchema) for schema in metadata.schemas):
        return metadata
    schemas = [schema if isinstance(schema, SharedSchema) else _share_schema(schema) for schema in metadata.schemas]
    return metadata.model_copy(update={"schemas": schemas})


def _share_schema(schema: Schema) -> SharedSchema:
    identifiers: Any = {"schema-id": schema.schema_id, "identifier-field-ids": schema.identifier_field_ids}
    return SharedSchema(*schema.fields, **identifiers)


class _Known(Generic[_Value]):
    """A thread-safe cache of the ``_KEPT`` most recently used values by key."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: OrderedDict[bytes, _Value] = OrderedDict()

    def get(self, key: bytes) -> _Value | None:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
            return self._found.get(key)

    def put(self, key: bytes, value: _Value) -> None:
        with self._lock:
            self._found[key] = value
            self._found.move_to_end(key)
            if len(self._found) > _KEPT:
                self._found.popitem(last=False)


# The newest metadata of each table with the digest of its file, by the folder of that file. Older metadata of a table
# is not needed again, and would displace that of other tables.
_known: Final = _Known[tuple[bytes, TableMetadata]]()
_schemas: Final = _Known[SharedSchema]()


def find_schema(columns: pa.Schema) -> SharedSchema:
    """Return the schema of a new table with ``columns``. Tables with the same columns get the same object."""
    key = columns.serialize().to_pybytes()
    schema = _schemas.get(key)
    if schema is None:
        schema = _share_schema(assign_fresh_schema_ids(convert_columns(columns)))
        _schemas.put(key, schema)
    return schema


def parse_metadata(content: bytes, location: str) -> TableMetadata:
    """Return the metadata in ``content``, read from the file at ``location``, whose suffix names its compression."""
    cached = _known.get(_find_folder(location))
    if cached is not None and cached[0] == _hash_content(content):
        return cached[1]
    stream: Any = BytesIO(content)
    metadata = FromByteStream.table_metadata(stream, compression=Compressor.get_compressor(location))
    return remember(content, metadata, location)


def remember(content: bytes, metadata: TableMetadata, location: str) -> TableMetadata:
    """Cache ``metadata``, which is stored as ``content`` at ``location``, for ``parse_metadata``.

    Return the metadata with shared schemas.
    """
    metadata = share_schemas(metadata)
    _known.put(_find_folder(location), (_hash_content(content), metadata))
    return metadata


def _find_folder(location: str) -> bytes:
    return location.rpartition("/")[0].encode()


def _hash_content(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def build_commit_response(metadata: TableMetadata, location: str) -> CommitTableResponse:
    """Return the response of a catalog to a commit whose new ``metadata`` is at ``location``."""
    fields: Any = {"metadata": metadata, "metadata-location": location}
    return CommitTableResponse(**fields)


# The empty metadata from which a new table is built. pyiceberg computes the same for each table again.
_NOTHING: Final = TableMetadataV1.model_construct(location="", last_column_id=-1, schema=Schema())


class RememberingCatalog(OpenCatalog):
    """A catalog that computes the metadata of a new table only once, and does not validate it again."""

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> CreateTableTransaction:
        """Return a transaction that creates a table, like the base class.

        A schema of ``find_schema`` keeps its field ids.
        """
        if not isinstance(schema, SharedSchema) or location is None or sort_order != UNSORTED_SORT_ORDER:
            return super().create_table_transaction(
                identifier, schema, location, partition_spec, sort_order, properties
            )
        fields: Any = {
            "location": location,
            "schemas": [schema],
            "last-column-id": schema.highest_field_id,
            "current-schema-id": schema.schema_id,
            "partition-specs": [partition_spec],
            "default-spec-id": partition_spec.spec_id,
            "last-partition-id": partition_spec.last_assigned_field_id,
            "sort-orders": [sort_order],
            "default-sort-order-id": sort_order.order_id,
            "properties": {TableProperties.DEFAULT_NAME_MAPPING: schema.names, **properties},
        }
        name = self.identifier_to_database_and_table(identifier)
        return CreateTableTransaction(self._stage_table(name, TableMetadataV2(**fields)))

    def stage_update(
        self,
        current: Table | None,
        identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        """Return the table after ``updates``, like the base class."""
        if current is not None:
            return super().stage_update(current, identifier, requirements, updates)
        for requirement in requirements:
            requirement.validate(None)
        return self._stage_table(identifier, share_schemas(update_table_metadata(_NOTHING, updates)))

    def _stage_table(self, identifier: Identifier, metadata: TableMetadata) -> StagedTable:
        provider = load_location_provider(metadata.location, metadata.properties)
        location = provider.new_table_metadata_file_location()
        return StagedTable(identifier, metadata, location, self.load_io(location, metadata.properties), self)

    def load_io(self, location: str, properties: Properties = EMPTY_DICT) -> FileIO:
        """Return pyiceberg's access to files such as ``location``, with the settings of a table with ``properties``."""
        return load_file_io({**self.properties, **properties}, location)
