"""The ``sort`` flag: the order in which a collection is shown (core/spec.md "Sort Flag", core R212 to R215)."""

from __future__ import annotations

from dataclasses import dataclass

from signalbook.engine import dotpath
from signalbook.engine.definitions import collections_of, defined
from signalbook.engine.dotpath import Steps, Wild
from signalbook.errors import RegistryError
from signalbook.model import Model
from signalbook.xid import Xid

_ORDERS = {"": False, "=asc": False, "=desc": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """By the attribute at ``steps``, which is a ``timestamp`` or not, then by id; both ``descending`` or neither."""

    steps: Steps
    descending: bool = False
    timestamp: bool = False


def parse_sort(value: str | None, target: Xid, model: Model, *, subject: str) -> Sort | None:
    """The flag's value for the collection ``target``; None without one.

    Raises ``sort_noncollection`` if ``target`` is none (R212) and ``bad_sort`` about ``subject``.
    """
    if value is None:
        return None
    if not target.is_collection:
        raise RegistryError("sort_noncollection", subject=subject)
    try:
        return _read_sort(value, target.parts[0::2], model)
    except ValueError as error:
        shown = value if len(value) <= 100 else f"{value[:100]}..."
        raise RegistryError("bad_sort", subject=subject, value=shown, error_detail=str(error)) from None


def _read_sort(value: str, types: tuple[str, ...], model: Model) -> Sort:
    steps, ending = dotpath.read_path(value)
    if ending not in _ORDERS:
        raise ValueError("behind the attribute there may be =asc or =desc")
    if any(isinstance(step, Wild) for step in steps):
        raise ValueError("an entity is sorted by one value: there are no wildcards")
    if steps[0] in collections_of(model, types):
        raise ValueError(f'"{steps[0]}" is a collection; sort by an attribute of the entities themselves')
    found = defined(model, types, steps)
    if found and not any(each.scalar or each.type == "any" for each in found):
        raise ValueError("only a scalar has an order")
    timestamp = any(each.type == "timestamp" for each in found)
    return Sort(steps=steps, descending=_ORDERS[ending], timestamp=timestamp)
