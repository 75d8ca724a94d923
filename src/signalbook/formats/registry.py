"""Which schema formats there are: everything in the entry-point group ``signalbook.formats``, the built-in ones too.

The name of an entry point is the format's name in lower case, its value an object that keeps to ``base.Format``. It is
imported when that format is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from signalbook.errors import SignalbookError
from signalbook.formats.base import Format

GROUP: Final = "signalbook.formats"
# Other names for formats, met in registry documents (domain.md G-13).
ALIASES: Final = {"xmlschema": "xsd", "proto": "protobuf", "json-schema": "jsonschema"}


class FormatClash(SignalbookError):
    """Two installed packages offer a schema format of the same name; one of them must go."""


def find(format: str) -> Format | None:
    """The format that reads ``format`` (``Name/version``, case-insensitive), or ``None`` if there is none (G-12)."""
    offered = _offered().get(family(format))
    if offered is None:
        return None
    found = _load(offered)
    return found if found.canonical(format) is not None else None


def family(format: str) -> str:
    """The name of a format without its version, in lower case, other spellings undone (G-13)."""
    name = format.partition("/")[0].strip().lower()
    return ALIASES.get(name, name)


def supported() -> tuple[str, ...]:
    """The canonical names of all formats and versions that can be read, for capability documents (G-25)."""
    return tuple(version for name in sorted(_offered()) for version in _load(_offered()[name]).versions)


def collect(points: Iterable[EntryPoint]) -> Mapping[str, EntryPoint]:
    """Entry points by lower-case name. Raises ``FormatClash`` if two differ under one name."""
    found: dict[str, EntryPoint] = {}
    for point in points:
        other = found.setdefault(point.name.lower(), point)
        if other.value != point.value:
            raise FormatClash(f"schema format {point.name!r} is offered by both {other.value} and {point.value}")
    return found


@cache
def _offered() -> Mapping[str, EntryPoint]:
    return collect(entry_points(group=GROUP))


@cache
def _load(point: EntryPoint) -> Format:
    loaded: Format = point.load()
    return loaded
