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


def rest(shape: Shape, value: JSON) -> JSON:
    """Return what columns of ``shape`` do not hold of ``value``; ``UNSET`` for nothing."""
    match shape:
        case Struct() if isinstance(value, dict):
            known = {field.name: field.shape for field in shape.fields}
            found = ((name, rest(known[name], each) if name in known else each) for name, each in value.items())
            return {name: each for name, each in found if each is not UNSET} or UNSET
        case MapOf() if isinstance(value, dict):
            found = ((name, rest(shape.value, each)) for name, each in value.items())
            return {name: each for name, each in found if each is not UNSET} or UNSET
        case ListOf() if isinstance(value, list):
            items = [rest(shape.item, each) for each in value]
            while items and items[-1] is UNSET:
                items.pop()
            return [None if each is UNSET else each for each in items] or UNSET
        case Scalar(sent=str()) if value is not None and not exact.held(shape, value)[1]:
            return value
    return UNSET


def is_partial(shape: Shape, rest: JSON) -> bool:
    """Return True if columns of ``shape`` hold some of a value in ``rest``, and not all."""

    def holds_a_part(scalar: Scalar, value: JSON) -> bool:
        found, whole = exact.held(scalar, value)
        return found is not None and not whole

    return _any_scalar(shape, rest, holds_a_part)


def has_unfit_number(shape: Shape, rest: JSON) -> bool:
    """Return True if ``rest`` has a value for a column of numbers that the column cannot hold at all."""
    return _any_scalar(
        shape, rest, lambda scalar, value: scalar.kind == "float64" and exact.held(scalar, value)[0] is None
    )


def _any_scalar(shape: Shape, rest: JSON, test: Callable[[Scalar, JSON], bool]) -> bool:
    match shape:
        case Struct() if isinstance(rest, dict):
            return any(
                field.name in rest and _any_scalar(field.shape, rest[field.name], test) for field in shape.fields
            )
        case MapOf() if isinstance(rest, dict):
            return any(_any_scalar(shape.value, value, test) for value in rest.values())
        case ListOf() if isinstance(rest, list):
            return any(_any_scalar(shape.item, item, test) for item in rest)
        case Scalar(sent=str()) if rest is not None:
            return test(shape, rest)
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


def rests(shape: Shape, values: Sequence[JSON]) -> pa.Array:
    """The array of ``columns.RESCUE`` for decoded payloads."""
    found = (rest(shape, value) for value in values)
    return pa.array([None if each is UNSET else exact.dump(each) for each in found], pa.string())


def whole(value: JSON, rest: JSON) -> JSON:
    """``value`` with ``rest`` back in its places."""
    if isinstance(value, dict) and isinstance(rest, dict):
        return value | {name: whole(value[name], each) if name in value else each for name, each in rest.items()}
    if isinstance(value, list) and isinstance(rest, list):
        return [whole(each, more) for each, more in zip(value, rest, strict=False)] + value[len(rest) :]
    return value if rest is None or rest is UNSET else rest


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
