"""The metadata of Iceberg tables, worked out and parsed once and not copied.

A commit parses the table's metadata twice and copies it twice with all columns, which for hundreds of columns takes
longer than everything else. Metadata is identified by the content of its file, which is read each time: what others
committed, or a file that is gone, is found as ever. Tables of the same columns have the same schema, and what follows
from it is known of the first.
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
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.io.pyarrow import (
    StatisticsCollector,
    _check_pyarrow_schema_compatible,
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

# Of how many tables the newest metadata is kept: half a megabyte each if they have hundreds of columns.
_KEPT: Final = 256
_SETTINGS: Final = "write."

_Value = TypeVar("_Value")


class SharedSchema(Schema):
    """Columns that copies of metadata have in common: nothing changes a schema, a changed one is another.

    ``_taken`` says how files are described whose columns it was found to take.
    """

    _taken: dict[bytes, _Description] = PrivateAttr(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self

    @cached_property
    def names(self) -> str:
        """The mapping of names to columns for files without ids, in the form of a table's property."""
        return self.name_mapping.model_dump_json()

    @cached_property
    def _text(self) -> str:
        return super().model_dump_json()

    def model_dump_json(self, *given: Any, **options: Any) -> str:
        """Written once: each manifest begins with it."""
        return super().model_dump_json(*given, **options) if given or options else self._text


_Description = tuple[dict[int, StatisticsCollector], dict[str, int]]


class ParquetFooter:
    """The end of a Parquet file, read once: its columns and statistics."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.metadata = pq.read_metadata(place.open_for_arrow())
        self.columns: pa.Schema = self.metadata.schema.to_arrow_schema()


def build_data_file(metadata: TableMetadata, footer: ParquetFooter, made_of: pa.Schema | None = None) -> DataFile:
    """Return the metadata of a Parquet file as pyiceberg does, which compares the columns of each file again.

    Columns that the table was ``made_of`` are known to fit. Raises ``ValueError`` for a file that does not fit.
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
    # also by the properties that say what of which column is to be kept
    settings = sorted(setting for setting in metadata.properties.items() if setting[0].startswith(_SETTINGS))
    key = _hash_content(columns.serialize().to_pybytes() + repr((metadata.format_version, settings)).encode())
    if key not in plans:
        if made_of is None or not columns.equals(made_of):
            _check_pyarrow_schema_compatible(schema, columns, format_version=metadata.format_version)
        plans[key] = compute_statistics_plan(schema, metadata.properties), parquet_path_to_id_mapping(schema)
    return plans[key]


def share_schemas(metadata: TableMetadata) -> TableMetadata:
    """Return ``metadata`` with schemas that are not copied with it."""
    if all(isinstance(schema, SharedSchema) for schema in metadata.schemas):
        return metadata
    schemas = [schema if isinstance(schema, SharedSchema) else _share_schema(schema) for schema in metadata.schemas]
    return metadata.model_copy(update={"schemas": schemas})


def _share_schema(schema: Schema) -> SharedSchema:
    identifiers: Any = {"schema-id": schema.schema_id, "identifier-field-ids": schema.identifier_field_ids}
    return SharedSchema(*schema.fields, **identifiers)


class _Known(Generic[_Value]):
    """A cache of results by what they depend on, the most recently used ones."""

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


# The newest of each table, by the folder of its metadata, with what identifies it: states that it replaced are not
# asked for again, and would push out those of other tables.
_known: Final = _Known[tuple[bytes, TableMetadata]]()
_schemas: Final = _Known[SharedSchema]()


def find_schema(columns: pa.Schema) -> SharedSchema:
    """Return the schema of a new table with ``columns``."""
    key = columns.serialize().to_pybytes()
    schema = _schemas.get(key)
    if schema is None:
        schema = _share_schema(assign_fresh_schema_ids(Catalog._convert_schema_if_needed(columns)))
        _schemas.put(key, schema)
    return schema


def parse_metadata(content: bytes, location: str) -> TableMetadata:
    """Return the metadata in the file at ``location``, whose ending names its compression."""
    cached = _known.get(_find_folder(location))
    if cached is not None and cached[0] == _hash_content(content):
        return cached[1]
    stream: Any = BytesIO(content)
    metadata = FromByteStream.table_metadata(stream, compression=Compressor.get_compressor(location))
    return remember(content, metadata, location)


def remember(content: bytes, metadata: TableMetadata, location: str) -> TableMetadata:
    """``metadata`` that were written as ``content`` to ``location``: whoever reads that is given them."""
    metadata = share_schemas(metadata)
    _known.put(_find_folder(location), (_hash_content(content), metadata))
    return metadata


def _find_folder(location: str) -> bytes:
    return location.rpartition("/")[0].encode()


def _hash_content(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def build_commit_response(metadata: TableMetadata, location: str) -> CommitTableResponse:
    """Return the response of a catalog that has made a commit."""
    fields: Any = {"metadata": metadata, "metadata-location": location}
    return CommitTableResponse(**fields)


# What pyiceberg begins with, too, and works out for each table anew.
_NOTHING: Final = TableMetadataV1.model_construct(location="", last_column_id=-1, schema=Schema())


class RememberingCatalog(MetastoreCatalog):
    """A catalog that works out the metadata of a new table once, and believes that they are right."""

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> CreateTableTransaction:
        """Create a table like the base class, but the columns of ``find_schema`` keep their ids."""
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

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        if current_table is not None:
            return super()._update_and_stage_table(current_table, table_identifier, requirements, updates)
        for requirement in requirements:
            requirement.validate(None)
        return self._stage_table(table_identifier, share_schemas(update_table_metadata(_NOTHING, updates)))

    def _stage_table(self, identifier: Identifier, metadata: TableMetadata) -> StagedTable:
        provider = load_location_provider(metadata.location, metadata.properties)
        location = provider.new_table_metadata_file_location()
        return StagedTable(identifier, metadata, location, self._load_file_io(metadata.properties, location), self)
