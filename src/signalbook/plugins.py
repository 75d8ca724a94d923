"""Find the plugins that installed packages add to Signalbook as entry points, and name Signalbook's own extras."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from signalbook.errors import SignalbookError


class PluginClash(SignalbookError):
    """The error for two installed packages that offer a plugin of the same name. One must be uninstalled."""


@cache
def offered(group: str, kind: str, key: Callable[[EntryPoint], str]) -> Mapping[str, EntryPoint]:
    """Return the installed entry points of ``group`` by ``key``, like ``collect``."""
    return collect(entry_points(group=group), kind, key)


def collect(points: Iterable[EntryPoint], kind: str, key: Callable[[EntryPoint], str]) -> Mapping[str, EntryPoint]:
    """Return entry points by the name that ``key`` returns. ``kind`` names their kind in error messages.

    Raises ``PluginClash`` if different entry points have the same name.
    """
    points_by_name: dict[str, EntryPoint] = {}
    for point in points:
        name = key(point)
        other = points_by_name.setdefault(name, point)
        if other.value != point.value:
            raise PluginClash(f"{kind} {name!r} is offered by both {other.value} and {point.value}")
    return points_by_name


def install(*extras: str) -> str:
    """Return the command that installs these extras from a clone, because Signalbook is not on a package index yet."""
    native = "./native " if {"local", "pipeline"} & set(extras) else ""
    return f"pip install {native}'.[{','.join(extras)}]' in a clone of Signalbook"


@cache
def load(point: EntryPoint) -> Any:
    """Import the object of an entry point on first use. Raises the errors of the import."""
    return point.load()


def lower(point: EntryPoint) -> str:
    """Return the name of an entry point in lower case."""
    return point.name.lower()


def upper(point: EntryPoint) -> str:
    """Return the name of an entry point in upper case."""
    return point.name.upper()
