"""What decoded payloads are made of, apart from any language: records, lists, maps, closed sets, unions.

A type is wider than its schema where a language has no form for what that says (lengths, patterns, bounds), never
narrower: the schema itself is what values are held to when a message is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from signalbook.codegen.base import Inexpressible

PlainKind = Literal[
    "any", "null", "boolean", "integer", "number", "text", "bytes", "decimal", "timestamp", "date", "time"
]
MOST_RECORDS: Final = 20_000
"""Of one schema document."""


@dataclass(frozen=True, slots=True)
class PlainType:
    """A value without parts, as ``Schema.decode`` gives it; ``any`` is any JSON value."""

    kind: PlainKind


@dataclass(frozen=True, slots=True)
class ClosedSet:
    """A type with a closed set of values."""

    values: tuple[str | int | bool, ...]


@dataclass(frozen=True, slots=True)
class ListType:
    """A list of items of one type."""

    item: DataType


@dataclass(frozen=True, slots=True)
class MapType:
    """Text to values of one type."""

    value: DataType


@dataclass(frozen=True, slots=True)
class UnionType:
    """A value of one of several types."""

    members: tuple[DataType, ...]


@dataclass(frozen=True, slots=True)
class RecordRef:
    """A record of the same document, by its key."""

    key: str


DataType = PlainType | ClosedSet | ListType | MapType | UnionType | RecordRef
ANY: Final = PlainType("any")
NULL: Final = PlainType("null")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMember:
    """A member of a record: its name in decoded values, and whether it may be absent."""

    name: str
    type: DataType
    required: bool
    description: str = ""


@dataclass(slots=True, kw_only=True)
class DataRecord:
    """Named members; ``extra`` is the type of others, where the schema has one for them.

    ``hint`` is what a name can be made of.
    """

    hint: str
    description: str = ""
    members: tuple[RecordMember, ...] = ()
    extra: DataType | None = None


@dataclass(slots=True)
class RecordTable:
    """The records of one document by key, in the order in which they were met."""

    records: dict[str, DataRecord] = field(default_factory=dict)

    def refer(self, key: str, hint: str, fill: Callable[[DataRecord], None], description: str = "") -> RecordRef:
        """The record with this key; ``fill`` is called once for it, and may refer to the same again.

        Raises ``Inexpressible`` beyond ``MOST_RECORDS``.
        """
        if key not in self.records:
            if len(self.records) >= MOST_RECORDS:
                raise Inexpressible(f"its schema has more than {MOST_RECORDS} types")
            record = self.records[key] = DataRecord(hint=hint, description=description)
            fill(record)
        return RecordRef(key)


def union(members: Iterable[DataType]) -> DataType:
    """Return the union of types: the type itself for one, any if one of them is any."""
    flat = [member for branch in members for member in (branch.members if isinstance(branch, UnionType) else (branch,))]
    # By how they are written: to Python a set of 1 is equal to one of True.
    distinct = list({repr(member): member for member in flat}.values())
    if ANY in distinct:
        return ANY
    # Null last, as people write it.
    distinct.sort(key=lambda member: member == NULL)
    return distinct[0] if len(distinct) == 1 else UnionType(tuple(distinct))


def nullable(data_type: DataType) -> bool:
    """Return True if null is a value of the type."""
    return data_type in (ANY, NULL) or (isinstance(data_type, UnionType) and NULL in data_type.members)
