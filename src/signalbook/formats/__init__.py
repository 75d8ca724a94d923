"""Schema documents and payload bytes in, values and findings out: JSON Schema, Avro, Protobuf, XML Schema."""

from signalbook.formats.base import Format, PayloadError, Resolve, Schema, SchemaError, find, list_supported
from signalbook.formats.shape import Anything, Field, ListOf, MapOf, Scalar, Shape, Struct, as_sent, is_lossy

__all__ = [
    "Anything",
    "Field",
    "Format",
    "ListOf",
    "MapOf",
    "PayloadError",
    "Resolve",
    "Scalar",
    "Schema",
    "SchemaError",
    "Shape",
    "Struct",
    "as_sent",
    "find",
    "is_lossy",
    "list_supported",
]
