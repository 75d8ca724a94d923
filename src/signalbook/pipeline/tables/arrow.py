"""Arrow types as the pipeline writes them, out of those that libraries give for the same columns."""

from __future__ import annotations

import pyarrow as pa


def plain(schema: pa.Schema) -> pa.Schema:
    """``schema`` without types that differ only in the width of their offsets."""
    return pa.schema([_field(field) for field in schema])


def _field(field: pa.Field) -> pa.Field:
    metadata = {key: value for key, value in (field.metadata or {}).items() if key == b"doc"}
    return field.with_type(_type(field.type)).with_metadata(metadata or None)


def _type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_type(kind.key_type), _field(kind.item_field))
    return pa.struct([_field(field) for field in kind]) if pa.types.is_struct(kind) else kind
