"""Every type read as every other: what is called the same is the same, and what is not has a value that shows it."""

from functools import cache
from itertools import product
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor import FieldDescriptor as Fd
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from signalbook.formats.protobuf.comparison import compare_types, format_type

WHOLE = [0, 1, -1, 5, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63), 2**64 - 1]
BOUNDS: dict[int, tuple[int, int]] = {
    Fd.TYPE_INT32: (-(2**31), 2**31), Fd.TYPE_SINT32: (-(2**31), 2**31), Fd.TYPE_SFIXED32: (-(2**31), 2**31),
    Fd.TYPE_INT64: (-(2**63), 2**63), Fd.TYPE_SINT64: (-(2**63), 2**63), Fd.TYPE_SFIXED64: (-(2**63), 2**63),
    Fd.TYPE_UINT32: (0, 2**32), Fd.TYPE_FIXED32: (0, 2**32), Fd.TYPE_UINT64: (0, 2**64), Fd.TYPE_FIXED64: (0, 2**64),
    Fd.TYPE_ENUM: (-(2**31), 2**31),
}  # fmt: skip
OTHERS: dict[int, list[Any]] = {
    Fd.TYPE_BOOL: [True],
    Fd.TYPE_FLOAT: [1.5],
    Fd.TYPE_DOUBLE: [1.5],
    Fd.TYPE_STRING: ["x", "é"],
    Fd.TYPE_BYTES: [b"x", b"\xff"],
}
TYPES = [*BOUNDS, *OTHERS]


@cache
def field(kind: int) -> Any:
    """The field ``f`` of a type, in a message of its own; enums are open."""
    file = descriptor_pb2.FileDescriptorProto(name="d.proto", syntax="proto3")
    file.enum_type.add(name="E").value.add(name="ZERO", number=0)
    message = file.message_type.add(name="M")
    name = ".E" if kind == Fd.TYPE_ENUM else None
    message.field.add(name="f", number=1, type=kind, label=1, type_name=name)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName("M").fields_by_name["f"]


def values(kind: int) -> list[Any]:
    if kind in OTHERS:
        return OTHERS[kind]
    low, high = BOUNDS[kind]
    return [number for number in WHOLE if low <= number < high and number]


def survives(writer: int, reader: int, value: Any) -> bool:
    """Return True if a value is unchanged after being written as one type and read as another."""
    sent = message_factory.GetMessageClass(field(writer).containing_type)(f=value)
    got: Any = message_factory.GetMessageClass(field(reader).containing_type)()
    try:
        got.ParseFromString(sent.SerializeToString())
    except DecodeError:
        return False
    read = got.f
    if isinstance(value, str) and isinstance(read, bytes):
        read = read.decode("utf-8", "replace")
    return bool(read == value)


PAIRS = [(writer, reader) for writer, reader in product(TYPES, TYPES) if writer != reader]


@pytest.mark.parametrize(
    ("writer", "reader"), PAIRS, ids=[f"{format_type(field(a))}-{format_type(field(b))}" for a, b in PAIRS]
)
def test_compatible_types_keep_every_value(writer: int, reader: int) -> None:
    difference = compare_types(field(writer), field(reader))
    is_kept = difference is None or difference[0] == "json_type_changed"
    assert is_kept == all(survives(writer, reader, value) for value in values(writer))
