"""Rescue the parts of payloads that no column holds: keep them as JSON in ``columns.RESCUE``, at their original paths.

Example: a schema declares ``id``, ``stops`` and ``at``. Of ``{"id": 1, "stops": [{}, {"at": "here", "gate": 7}]}`` the
rescued part is ``{"stops": [null, {"gate": 7}]}``. Items of lists keep their positions: an item with nothing to rescue
is null, and such items at the end of a list are left out. A column of JSON text holds all of its value, so that nothing
of it is rescued. A value that its column cannot hold exactly (``exact.py``) is rescued as it was sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from msgspec import UNSET

from signalbook.formats import ListOf, MapOf, Scalar, Shape, Struct
from signalbook.pipeline import exact, native
from signalbook.pipeline.report import MOST_PATHS
from signalbook.values import JSON, JSONError, parse_json

# Which parts of a value the columns hold: nested tuples that native/src/rescue.rs reads.
Plan = tuple[Any, ...]
ALL: Final[Plan] = ("all",)
# The kinds of text columns that native/src/times.rs parses.
_TEXTS: Final = frozenset({"timestamp", "date"})


def plan(shape: Shape) -> Plan:
    """Return the plan that states for the native module which parts of a value columns of ``shape`` hold.

    ``ALL`` means that the columns hold every value completely.
    """
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
    """Return the part of ``value`` that columns of ``shape`` do not hold; ``UNSET`` if they hold all of it."""
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
    """Return True if ``rescued`` has a value of which the columns of ``shape`` hold a part only."""

    def holds_a_part(scalar: Scalar, value: JSON) -> bool:
        held_part, whole = exact.find_held_part(scalar, value)
        return held_part is not None and not whole

    return _has_scalar(shape, rescued, holds_a_part)


def has_unfit_number(shape: Shape, rescued: JSON) -> bool:
    """Return True if ``rescued`` has a value for a ``float64`` column that it cannot even approximate."""
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
    """Parse ``text``, a value of ``columns.RESCUE``, and return the rescued part of a payload of ``shape``.

    Return ``UNSET`` for null, and for a value that the pipeline did not write: older tables may have a column of this
    name for a member of payloads.
    """
    try:
        value = parse_json(text, exact=True) if isinstance(text, str) else UNSET
    except JSONError:
        return UNSET
    return value if isinstance(value, dict) or not isinstance(shape, Struct) else UNSET


def build_rescue_array(shape: Shape, values: Sequence[JSON]) -> pa.Array:
    """Return the array of ``columns.RESCUE`` for ``values``, the decoded payloads: null if nothing is rescued."""
    rescued_values = (find_rescued(shape, value) for value in values)
    return pa.array([None if rescued is UNSET else exact.dump(rescued) for rescued in rescued_values], pa.string())


def restore(value: JSON, rescued: JSON) -> JSON:
    """Return the original of a payload: ``value``, which was rebuilt from columns, merged with its ``rescued`` part."""
    if isinstance(value, dict) and isinstance(rescued, dict):
        return value | {
            name: restore(value[name], member) if name in value else member for name, member in rescued.items()
        }
    if isinstance(value, list) and isinstance(rescued, list):
        return [restore(member, more) for member, more in zip(value, rescued, strict=False)] + value[len(rescued) :]
    return value if rescued is None or rescued is UNSET else rescued


class RescuedPaths:
    """A counter of the paths at which payloads of one shape have rescued values."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    @cached_property
    def _paths(self) -> Any:
        return native.load_module().RescuedPaths(plan(self._shape))

    def count(self, texts: pa.StringArray) -> Counter[str]:
        """Return for each path the number of ``texts`` (values of ``columns.RESCUE``) with a rescued value there.

        A path is a JSON Pointer with ``*`` for the items of lists and the keys of maps.
        """
        if texts.null_count == len(texts):
            return Counter()
        return Counter(self._paths.count(native.PayloadSpans.of(texts.drop_null()).places, MOST_PATHS))
