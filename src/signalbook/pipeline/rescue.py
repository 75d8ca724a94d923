"""What columns do not hold of payloads: kept as JSON in ``columns.RESCUE``, in the places where it was.

Of ``{"id": 1, "stops": [{}, {"at": "here", "gate": 7}]}`` by a schema that declares ``id``, ``stops`` and ``at`` the
rescue is ``{"stops": [null, {"gate": 7}]}``. Items of lists keep their positions; those that lack nothing are null, and
left out behind the last that does. Columns of JSON text hold all of their value. Values that their column cannot hold
exactly (``exact.py``) are there as they were sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from msgspec import UNSET

from signalbook.formats import ListOf, MapOf, Scalar, Shape, Struct
from signalbook.pipeline import exact
from signalbook.pipeline.fastpath import native
from signalbook.pipeline.reports.report import MOST_PATHS
from signalbook.values import JSON, JSONError, parse_json

# As native/src/rescue.rs reads it.
Plan = tuple[Any, ...]
ALL: Final[Plan] = ("all",)
# Kinds of texts that native/src/times.rs reads.
_TEXTS: Final = frozenset({"timestamp", "date"})


def plan(shape: Shape) -> Plan:
    """Return what columns of ``shape`` hold of a value; ``ALL`` for everything."""
    match shape:
        case Struct():
            return "members", [(field.name, plan(field.shape)) for field in shape.fields]
        case ListOf():
            inner = plan(shape.item)
            return ALL if inner == ALL else ("items", inner)
        case MapOf():
            inner = plan(shape.value)
            return ALL if inner == ALL else ("values", inner)
        case Scalar(sent="string") if shape.kind in _TEXTS:
            return (shape.kind,)
        case Scalar(kind="float64", sent="float64"):
            return ("float",)
    return ALL


def find_rescued(shape: Shape, value: JSON) -> JSON:
    """Return what columns of ``shape`` do not hold of ``value``; ``UNSET`` for nothing."""
    match shape:
        case Struct() if isinstance(value, dict):
            shapes = {field.name: field.shape for field in shape.fields}
            pairs = (
                (name, find_rescued(shapes[name], member) if name in shapes else member)
                for name, member in value.items()
            )
            return {name: member for name, member in pairs if member is not UNSET} or UNSET
        case MapOf() if isinstance(value, dict):
            pairs = ((name, find_rescued(shape.value, member)) for name, member in value.items())
            return {name: member for name, member in pairs if member is not UNSET} or UNSET
        case ListOf() if isinstance(value, list):
            items = [find_rescued(shape.item, member) for member in value]
            while items and items[-1] is UNSET:
                items.pop()
            return [None if member is UNSET else member for member in items] or UNSET
        case Scalar(sent=str()) if value is not None and not exact.find_held_part(shape, value)[1]:
            return value
    return UNSET


def is_partial(shape: Shape, rescued: JSON) -> bool:
    """Return True if columns of ``shape`` hold some of a value in ``rescued``, and not all."""

    def holds_a_part(scalar: Scalar, value: JSON) -> bool:
        held_part, whole = exact.find_held_part(scalar, value)
        return held_part is not None and not whole

    return _has_scalar(shape, rescued, holds_a_part)


def has_unfit_number(shape: Shape, rescued: JSON) -> bool:
    """Return True if ``rescued`` has a value for a column of numbers that the column cannot hold at all."""
    return _has_scalar(
        shape,
        rescued,
        lambda scalar, value: scalar.kind == "float64" and exact.find_held_part(scalar, value)[0] is None,
    )


def _has_scalar(shape: Shape, rescued: JSON, test: Callable[[Scalar, JSON], bool]) -> bool:
    match shape:
        case Struct() if isinstance(rescued, dict):
            return any(
                field.name in rescued and _has_scalar(field.shape, rescued[field.name], test) for field in shape.fields
            )
        case MapOf() if isinstance(rescued, dict):
            return any(_has_scalar(shape.value, value, test) for value in rescued.values())
        case ListOf() if isinstance(rescued, list):
            return any(_has_scalar(shape.item, item, test) for item in rescued)
        case Scalar(sent=str()) if rescued is not None:
            return test(shape, rescued)
    return False


def read(shape: Shape, text: object) -> JSON:
    """Return what ``columns.RESCUE`` has of a payload of ``shape``; ``UNSET`` where that is nothing, or not ours.

    For before the pipeline had that column a table could have one of this name, for a member of payloads.
    """
    try:
        value = parse_json(text, exact=True) if isinstance(text, str) else UNSET
    except JSONError:
        return UNSET
    return value if isinstance(value, dict) or not isinstance(shape, Struct) else UNSET


def build_rescue_array(shape: Shape, values: Sequence[JSON]) -> pa.Array:
    """Return the array of ``columns.RESCUE`` for decoded payloads."""
    rescued_values = (find_rescued(shape, value) for value in values)
    return pa.array([None if rescued is UNSET else exact.dump(rescued) for rescued in rescued_values], pa.string())


def restore(value: JSON, rescued: JSON) -> JSON:
    """Return ``value`` with ``rescued`` back in its places."""
    if isinstance(value, dict) and isinstance(rescued, dict):
        return value | {
            name: restore(value[name], member) if name in value else member for name, member in rescued.items()
        }
    if isinstance(value, list) and isinstance(rescued, list):
        return [restore(member, more) for member, more in zip(value, rescued, strict=False)] + value[len(rescued) :]
    return value if rescued is None or rescued is UNSET else rescued


class RescuedPaths:
    """Counts what ``columns.RESCUE`` has, for a shape."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    @cached_property
    def _paths(self) -> Any:
        return native.load_module().RescuedPaths(plan(self._shape))

    def count(self, texts: pa.StringArray) -> Counter[str]:
        """Count the rows with something at each path, a JSON Pointer with ``*`` for items and keys of maps."""
        if texts.null_count == len(texts):
            return Counter()
        return Counter(self._paths.count(native.PayloadSpans.of(texts.drop_null()).places, MOST_PATHS))
