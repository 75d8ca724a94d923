"""The shape of decoded payloads: a neutral description of columns that table formats translate into their types.

A shape never loses data: where a schema allows values that no column type holds (mixed types, unions, undeclared
content), the shape is ``Anything``, which keeps the JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

# The kinds of columns, each with the Python type of its values in the result of ``Schema.decode``:
#   bool: bool; int32, int64, uint64: int; float32, float64: float (or int); string: str; bytes: bytes;
#   timestamp: aware datetime; date: date; time: time; decimal: Decimal; uuid: str; duration: Decimal (seconds)
Kind = Literal[
    "bool", "int32", "int64", "uint64", "float32", "float64", "string", "bytes", "timestamp", "date", "time", "decimal",
    "uuid", "duration",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A column of a simple kind. ``precision`` and ``scale`` are the digits of a decimal, 0 for all other kinds.

    ``int64`` also stands for integers without declared bounds: a value beyond 64 bits conforms but does not fit.
    ``sent`` is the kind of the decoded values if it differs from ``kind`` (for example times as text). Some conforming
    values may then not fit ``kind`` or lose digits. Numbers in JSON can have any number of digits, so they are sent as
    ``float64`` even if ``kind`` is ``float64``. ``zoned`` dates may end with a time zone, which no column stores.
    """

    kind: Kind
    sent: Kind | None = None
    nullable: bool = False
    precision: int = 0
    scale: int = 0
    zoned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """A list of items of one shape."""

    item: Shape
    nullable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf:
    """A map from strings to values of one shape."""

    value: Shape
    nullable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Anything:
    """A column that keeps any JSON value as its text. A JSON null is the text ``null``."""

    nullable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A member of a ``Struct``.

    ``name`` is the name of the member in decoded values, ``attribute`` its name in objects that a guard makes. A field
    that is not ``required`` may be absent; a field whose shape is ``nullable`` may be null. The objects of a
    ``narrowed`` field are stored as JSON text, because all members together would be too many columns.
    """

    name: str
    attribute: str
    shape: Shape
    required: bool = False
    description: str = ""
    narrowed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """An object with named members in the order of the schema; undeclared members are not part of it.

    If ``open`` is True, conforming values may still contain undeclared members.
    """

    fields: tuple[Field, ...]
    nullable: bool = False
    open: bool = False


Shape = Scalar | ListOf | MapOf | Anything | Struct


def is_lossy(shape: Shape) -> bool:
    """Return True if the column types of ``shape``, at any depth, lose a part of some conforming values."""
    match shape:
        case Scalar():
            return shape.sent is not None
        case Struct():
            return shape.open or any(is_lossy(field.shape) for field in shape.fields)
        case ListOf():
            return is_lossy(shape.item)
        case MapOf():
            return is_lossy(shape.value)
    return False


def as_sent(shape: Shape) -> Shape:
    """Return ``shape`` with the kinds of the decoded values. After that, only JSON numbers may lose digits."""
    match shape:
        case Scalar() if shape.sent is not None:
            sent = shape.sent if shape.sent == "float64" else None
            return Scalar(kind=shape.sent, sent=sent, nullable=shape.nullable)
        case Struct():
            return replace(shape, fields=tuple(replace(field, shape=as_sent(field.shape)) for field in shape.fields))
        case ListOf():
            return replace(shape, item=as_sent(shape.item))
        case MapOf():
            return replace(shape, value=as_sent(shape.value))
    return shape


MAX_LEAVES: Final = 10_000


_NARROWED: Final = f"JSON text, since all members together are more than {MAX_LEAVES} columns"


def limit_columns(shape: Struct) -> Struct:
    """Return ``shape``, with its widest members as JSON text if it would make more than ``MAX_LEAVES`` columns.

    Definitions that use each other several times multiply: thirty lines of schema can make a billion columns. Members
    that are one column each always remain, because the schema has to list each of them. Of equally wide members the
    last become text first, so that a new member does not change the columns of earlier members.
    """
    widths = [count_leaves(field.shape) for field in shape.fields]
    total = sum(widths)
    if total <= MAX_LEAVES:
        return shape
    fields = list(shape.fields)
    for width, place in sorted(((width, place) for place, width in enumerate(widths)), reverse=True):
        text = _narrow_objects(fields[place].shape)
        if total <= MAX_LEAVES or width == count_leaves(text):
            break
        total -= width - count_leaves(text)
        description = f"{fields[place].description} ({_NARROWED})".strip()
        fields[place] = replace(fields[place], shape=text, description=description, narrowed=True)
    return replace(shape, fields=tuple(fields))


def list_narrowed_members(shape: Shape, above: str = "") -> Iterator[str]:
    """Yield the path of each member that ``limit_columns`` made JSON text; ``above`` is the path of ``shape``."""
    match shape:
        case Struct():
            for field in shape.fields:
                path = f"{above}.{field.name}" if above else field.name
                if field.narrowed:
                    yield path
                else:
                    yield from list_narrowed_members(field.shape, path)
        case ListOf():
            yield from list_narrowed_members(shape.item, above)
        case MapOf():
            yield from list_narrowed_members(shape.value, above)


def _narrow_objects(shape: Shape) -> Shape:
    """Return ``shape`` with its objects, including objects in lists and maps, replaced by JSON text."""
    match shape:
        case Struct():
            return Anything(nullable=shape.nullable)
        case ListOf():
            return replace(shape, item=_narrow_objects(shape.item))
        case MapOf():
            return replace(shape, value=_narrow_objects(shape.value))
    return shape


def count_leaves(shape: Shape) -> int:
    """Return the number of columns of ``shape`` in a columnar file."""
    if isinstance(shape, Struct):
        return sum(count_leaves(field.shape) for field in shape.fields)
    if isinstance(shape, ListOf):
        return count_leaves(shape.item)
    return 1 + count_leaves(shape.value) if isinstance(shape, MapOf) else 1
