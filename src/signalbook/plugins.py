"""What installed packages add to Signalbook: the entry points of a group, each under one name; and its own extras."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from signalbook.errors import SignalbookError


class PluginClash(SignalbookError):
    """Two installed packages offer the same thing; one of them must go."""


@cache
def offered(group: str, kind: str, key: Callable[[EntryPoint], str]) -> Mapping[str, EntryPoint]:
    """Return what is installed of ``group``, as ``collect`` has it."""
    return collect(entry_points(group=group), kind, key)


def collect(points: Iterable[EntryPoint], kind: str, key: Callable[[EntryPoint], str]) -> Mapping[str, EntryPoint]:
    """Return entry points by ``key``; errors name their ``kind``. Raises ``PluginClash`` if two differ under one."""
    points_by_name: dict[str, EntryPoint] = {}
    for point in points:
        name = key(point)
        other = points_by_name.setdefault(name, point)
        if other.value != point.value:
            raise PluginClash(f"{kind} {name!r} is offered by both {other.value} and {point.value}")
    return points_by_name


def install(*extras: str) -> str:
    """Return the command that installs these extras. Signalbook is on no package index yet."""
    native = "./native " if "pipeline" in extras else ""
    return f"pip install {native}'.[{','.join(extras)}]' in a clone of Signalbook"


@cache
def load(point: EntryPoint) -> Any:
    """Import the object of an entry point on first use. Raises the errors of the import."""
    return point.load()


def lower(point: EntryPoint) -> str:
    """An entry point's name in lower case."""
    return point.name.lower()


def upper(point: EntryPoint) -> str:
    """An entry point's name in upper case."""
    return point.name.upper()
