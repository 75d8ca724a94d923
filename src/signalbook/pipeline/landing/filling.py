"""Rows that landed before their definition declared what ``columns.RESCUE`` has of them: moved to the columns it gets.

Only payloads that conform to the definition as it is now are touched, and of these only columns that gain something. A
value that was there stays what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec import UNSET

from signalbook.formats import ListOf, MapOf, Schema, Shape, Struct
from signalbook.pipeline import columns, exact, rescue
from signalbook.pipeline.arrays import MISFITS, ValueForm, payload_builder
from signalbook.pipeline.landing.rows import payloads_of
from signalbook.values import JSON

RESCUE: Final = columns.RESCUE.names[0]


@dataclass(frozen=True, slots=True)
class _Gain:
    """The gain of a row: values of columns by name, and the rest for ``RESCUE``."""

    row: int
    values: Mapping[str, Any]
    left: JSON


class Filling:
    """Fills columns of a payload of ``shape``, as ``schema`` declares them, except those called one of ``refused``."""

    def __init__(self, schema: Schema, shape: Shape, refused: frozenset[str] = frozenset()) -> None:
        self._schema = schema
        names = columns.payload(shape).names
        if isinstance(shape, Struct) and shape.fields:
            pairs = [pair for pair in zip(shape.fields, names, strict=True) if pair[1] not in refused]
            self._members = {field.name: name for field, name in pairs}
            shape = replace(shape, fields=tuple(field for field, _ in pairs))
        self._shape = shape
        self._whole = not (isinstance(shape, Struct) and shape.fields)
        self._names = names

    def wanted(self, texts: pa.StringArray) -> pa.Schema:
        """The columns that may gain something of these, out of ``RESCUE``."""
        fields = columns.payload(self._shape)
        if self._whole:
            return fields if texts.null_count < len(texts) and columns.PAYLOAD in self._names else pa.schema([])
        found = (self._read(text) for text in texts.drop_null().to_pylist())
        seen = {name for each in found if each is not UNSET for name in each}
        held = {self._members[name] for name in seen if name in self._members}
        return pa.schema(
            [pa.field(name, field.type, metadata=field.metadata) for name, field in self._own(fields, held)]
        )

    def fill(self, rows: pa.Table, schema: pa.Schema) -> tuple[pa.Table, int, int]:
        """The rows with the columns of ``schema``; how many gained something, and how many do not conform.

        ``schema`` has all columns of the rows, and of ``wanted`` those that the table takes.
        """
        texts = rows.column(RESCUE).combine_chunks()
        numbers = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
        found = rows.take(pa.array(numbers))
        rests = [self._read(text) for text in found.column(RESCUE).to_pylist()]
        left = [rescue.rest(self._shape, each) for each in rests]
        declared = [left[number] != each for number, each in enumerate(rests)]
        unfit_numbers = [rescue.has_unfit_number(self._shape, each) for each in rests]
        chosen = [
            number
            for number, each in enumerate(rests)
            if declared[number] or unfit_numbers[number] or rescue.is_partial(self._shape, each)
        ]
        there = found.take(pa.array(chosen, pa.int64())).to_pylist()
        values = self._values([self._payload(row, rests[number]) for number, row in zip(chosen, there, strict=True)])
        gained = [
            _Gain(int(numbers[number]), value, left[number])
            for number, row, value in zip(chosen, there, values, strict=True)
            # What is held in part stays in ``RESCUE`` for good, and is gained once.
            if value is not None and (declared[number] or adds(row, value))
        ]
        unfit = sum(
            declared[number] or unfit_numbers[number]
            for number, value in zip(chosen, values, strict=True)
            if value is None
        )
        return self._filled(rows, schema, gained), len(gained), unfit

    def _read(self, text: object) -> JSON:
        return rescue.read(self._shape, text)

    def _payload(self, row: Mapping[str, Any], rest: JSON) -> JSON:
        """The payload of a row with all digits; None where it does not conform."""
        found = self._rebuild(row)
        return None if self._schema.validate(found) else rescue.whole(without_nulls(self._shape, found), rest)

    @cached_property
    def _rebuild(self) -> Callable[[Mapping[str, Any]], JSON]:
        return payloads_of(self._schema)

    def _values(self, payloads: Sequence[JSON]) -> list[dict[str, Any] | None]:
        """Return the columns' values of payloads by name; None for None, and for one that does not fit."""
        there = [payload for payload in payloads if payload is not None]
        try:
            arrays = self._build(there)
        except MISFITS:
            if len(there) == 1:
                return [None] * len(payloads)
            half = len(payloads) // 2
            return [*self._values(payloads[:half]), *self._values(payloads[half:])]
        table = pa.Table.from_arrays(arrays, names=[name for name, _ in self._own(columns.payload(self._shape))])
        found = iter(table.to_pylist())
        return [None if payload is None else next(found) for payload in payloads]

    @cached_property
    def _build(self) -> Callable[[Sequence[JSON]], list[pa.Array]]:
        return payload_builder(self._shape, ValueForm.of(self._schema))

    def _own(self, fields: pa.Schema, held: set[str] | None = None) -> list[tuple[str, pa.Field]]:
        """The columns of the payload by the names that the table has for them, all or those ``held``."""
        names = fields.names if self._whole else self._members.values()
        return [pair for pair in zip(names, fields, strict=True) if held is None or pair[0] in held]

    def _filled(self, rows: pa.Table, schema: pa.Schema, gains: Sequence[_Gain]) -> pa.Table:
        places = np.array([gain.row for gain in gains], np.int64)
        order = np.arange(len(rows))
        order[places] = len(rows) + np.arange(len(places))
        arrays = []
        own = {name for name, _ in self._own(columns.payload(self._shape))}
        for field in schema:
            there = rows.column(field.name) if field.name in rows.column_names else None
            old = pa.nulls(len(rows), field.type) if there is None else there.cast(field.type).combine_chunks()
            if field.name == RESCUE:
                new = pa.array([None if gain.left is UNSET else exact.dump(gain.left) for gain in gains], field.type)
            elif field.name in own:
                before = old.take(pa.array(places)).to_pylist()
                values = [overlaid(one, gain.values[field.name]) for one, gain in zip(before, gains, strict=True)]
                new = pa.array(values, field.type)
            else:
                arrays.append(old)
                continue
            arrays.append(pa.concat_arrays([old, new]).take(pa.array(order)))
        return pa.table(arrays, schema=schema)


def without_nulls(shape: Shape, value: JSON) -> JSON:
    """Return what columns of ``shape`` hold of a payload, without nulls, which would be a gain as JSON text."""
    match shape:
        case Struct() if isinstance(value, dict):
            known = {field.name: field.shape for field in shape.fields}
            there = ((name, each) for name, each in value.items() if each is not None and name in known)
            return {name: without_nulls(known[name], each) for name, each in there}
        case MapOf() if isinstance(value, dict):
            return {name: without_nulls(shape.value, each) for name, each in value.items()}
        case ListOf() if isinstance(value, list):
            return [without_nulls(shape.item, each) for each in value]
    return value


def adds(old: Any, new: Any) -> bool:
    """Return True if ``new`` has something that ``old`` lacks, at any depth."""
    if isinstance(old, dict) and isinstance(new, dict):
        return any(adds(old.get(name), value) for name, value in new.items())
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)) and len(old) == len(new):
        return any(adds(one, other) for one, other in zip(old, new, strict=True))
    return old is None and new is not None


def overlaid(old: Any, new: Any) -> Any:
    """A value of a column with what another has where it has nothing, at any depth."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {name: overlaid(old.get(name), value) for name, value in new.items()}
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)) and len(old) == len(new):
        return type(old)(overlaid(one, other) for one, other in zip(old, new, strict=True))
    return new if old is None else old
