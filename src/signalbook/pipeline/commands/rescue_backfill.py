"""Move values of landed rows from ``columns.RESCUE`` to columns that their definition has declared since.

Only payloads that conform to the present definition are changed, and of these only columns that gain a value. Existing
values do not change.
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
from signalbook.pipeline.arrays import MISFITS, ValueForm, make_payload_builder
from signalbook.pipeline.tables.landed_payloads import build_payload_reader
from signalbook.values import JSON

RESCUE: Final = columns.RESCUE.names[0]


@dataclass(frozen=True, slots=True)
class _Gain:
    """The changes to one row: values of columns by name, and what remains for ``RESCUE`` (``UNSET``: nothing)."""

    row: int
    values: Mapping[str, Any]
    remaining: JSON


class RescueBackfill:
    """A backfill of the payload columns that ``schema`` declares with ``shape``, except the columns in ``refused``."""

    def __init__(self, schema: Schema, shape: Shape, refused: frozenset[str] = frozenset()) -> None:
        self._schema = schema
        names = columns.build_payload(shape).names
        if isinstance(shape, Struct) and shape.fields:
            pairs = [pair for pair in zip(shape.fields, names, strict=True) if pair[1] not in refused]
            self._members = {field.name: name for field, name in pairs}
            shape = replace(shape, fields=tuple(field for field, _ in pairs))
        self._shape = shape
        self._whole = not (isinstance(shape, Struct) and shape.fields)
        self._names = names

    def find_gaining_columns(self, texts: pa.StringArray) -> pa.Schema:
        """Return the columns that may gain a value from these texts of ``RESCUE``."""
        fields = columns.build_payload(self._shape)
        if self._whole:
            return fields if texts.null_count < len(texts) and columns.PAYLOAD in self._names else pa.schema([])
        parsed = (self._read(text) for text in texts.drop_null().to_pylist())
        seen = {name for element in parsed if element is not UNSET for name in element}
        held = {self._members[name] for name in seen if name in self._members}
        return pa.schema(
            [pa.field(name, field.type, metadata=field.metadata) for name, field in self._select_own(fields, held)]
        )

    def fill(self, rows: pa.Table, schema: pa.Schema) -> tuple[pa.Table, int, int]:
        """Return the rows with the columns of ``schema``, how many of them gained a value, and how many do not conform.

        ``schema`` has all columns of the rows, and those columns of ``find_gaining_columns`` that the table accepts.
        """
        texts = rows.column(RESCUE).combine_chunks()
        numbers = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
        rescued_rows = rows.take(pa.array(numbers))
        rescued = [self._read(text) for text in rescued_rows.column(RESCUE).to_pylist()]
        remaining = [rescue.find_rescued(self._shape, rescued_value) for rescued_value in rescued]
        declared = [remaining[number] != rescued_value for number, rescued_value in enumerate(rescued)]
        unfit_numbers = [rescue.has_unfit_number(self._shape, rescued_value) for rescued_value in rescued]
        chosen = [
            number
            for number, rescued_value in enumerate(rescued)
            if declared[number] or unfit_numbers[number] or rescue.is_partial(self._shape, rescued_value)
        ]
        chosen_rows = rescued_rows.take(pa.array(chosen, pa.int64())).to_pylist()
        values = self._build_values(
            [self._rebuild_payload(row, rescued[number]) for number, row in zip(chosen, chosen_rows, strict=True)]
        )
        gained = [
            _Gain(int(numbers[number]), value, remaining[number])
            for number, row, value in zip(chosen, chosen_rows, values, strict=True)
            # A value that its column holds only in part stays in ``RESCUE``, and must be gained only once.
            if value is not None and (declared[number] or is_gain(row, value))
        ]
        unfit = sum(
            declared[number] or unfit_numbers[number]
            for number, value in zip(chosen, values, strict=True)
            if value is None
        )
        return self._apply_gains(rows, schema, gained), len(gained), unfit

    def _read(self, text: object) -> JSON:
        return rescue.read(self._shape, text)

    def _rebuild_payload(self, row: Mapping[str, Any], rescued: JSON) -> JSON:
        """Return the payload of a row, its numbers with all digits, or None if it does not conform."""
        payload = self._rebuild(row)
        return None if self._schema.validate(payload) else rescue.restore(drop_nulls(self._shape, payload), rescued)

    @cached_property
    def _rebuild(self) -> Callable[[Mapping[str, Any]], JSON]:
        return build_payload_reader(self._schema)

    def _build_values(self, payloads: Sequence[JSON]) -> list[dict[str, Any] | None]:
        """Return the values of the columns of each payload, by name of the column.

        The result is None for a payload that is None, or that does not fit its columns.
        """
        present = [payload for payload in payloads if payload is not None]
        try:
            arrays = self._build(present)
        except MISFITS:
            if len(present) == 1:
                return [None] * len(payloads)
            half = len(payloads) // 2
            return [*self._build_values(payloads[:half]), *self._build_values(payloads[half:])]
        table = pa.Table.from_arrays(
            arrays, names=[name for name, _ in self._select_own(columns.build_payload(self._shape))]
        )
        rows = iter(table.to_pylist())
        return [None if payload is None else next(rows) for payload in payloads]

    @cached_property
    def _build(self) -> Callable[[Sequence[JSON]], list[pa.Array]]:
        return make_payload_builder(self._shape, ValueForm.of(self._schema))

    def _select_own(self, fields: pa.Schema, held: set[str] | None = None) -> list[tuple[str, pa.Field]]:
        """Return the payload's columns with the names that the table has for them. ``held`` limits the names."""
        names = fields.names if self._whole else self._members.values()
        return [pair for pair in zip(names, fields, strict=True) if held is None or pair[0] in held]

    def _apply_gains(self, rows: pa.Table, schema: pa.Schema, gains: Sequence[_Gain]) -> pa.Table:
        places = np.array([gain.row for gain in gains], np.int64)
        order = np.arange(len(rows))
        order[places] = len(rows) + np.arange(len(places))
        arrays = []
        own_names = {name for name, _ in self._select_own(columns.build_payload(self._shape))}
        for field in schema:
            column = rows.column(field.name) if field.name in rows.column_names else None
            old = pa.nulls(len(rows), field.type) if column is None else column.cast(field.type).combine_chunks()
            if field.name == RESCUE:
                new = pa.array(
                    [None if gain.remaining is UNSET else exact.dump(gain.remaining) for gain in gains], field.type
                )
            elif field.name in own_names:
                before = old.take(pa.array(places)).to_pylist()
                values = [
                    overlay(earlier, gain.values[field.name]) for earlier, gain in zip(before, gains, strict=True)
                ]
                new = pa.array(values, field.type)
            else:
                arrays.append(old)
                continue
            arrays.append(pa.concat_arrays([old, new]).take(pa.array(order)))
        return pa.table(arrays, schema=schema)


def drop_nulls(shape: Shape, value: JSON) -> JSON:
    """Return the part of a payload that columns of ``shape`` hold, without members of structs that are null.

    As JSON text, a null would look like a gain.
    """
    match shape:
        case Struct() if isinstance(value, dict):
            shapes = {field.name: field.shape for field in shape.fields}
            present = ((name, element) for name, element in value.items() if element is not None and name in shapes)
            return {name: drop_nulls(shapes[name], element) for name, element in present}
        case MapOf() if isinstance(value, dict):
            return {name: drop_nulls(shape.value, element) for name, element in value.items()}
        case ListOf() if isinstance(value, list):
            return [drop_nulls(shape.item, element) for element in value]
    return value


def is_gain(old: Any, new: Any) -> bool:
    """Return True if ``new`` has something that ``old`` lacks, at any depth."""
    if isinstance(old, dict) and isinstance(new, dict):
        return any(is_gain(old.get(name), value) for name, value in new.items())
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)) and len(old) == len(new):
        return any(is_gain(old_item, new_item) for old_item, new_item in zip(old, new, strict=True))
    return old is None and new is not None


def overlay(old: Any, new: Any) -> Any:
    """Return ``old`` with the parts that it lacks, at any depth, taken from ``new``."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {name: overlay(old.get(name), value) for name, value in new.items()}
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)) and len(old) == len(new):
        return type(old)(overlay(old_item, new_item) for old_item, new_item in zip(old, new, strict=True))
    return new if old is None else old
