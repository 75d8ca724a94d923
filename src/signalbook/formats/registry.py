"""Which schema formats there are: everything in the entry-point group ``signalbook.formats``, the built-in ones too.

The name of an entry point is the format's name in lower case, its value an object that keeps to ``base.Format``. It is
imported when that format is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Final

from signalbook import plugins
from signalbook.formats.base import Format

GROUP: Final = "signalbook.formats"
# Other names for formats, met in registry documents (domain.md G-13).
ALIASES: Final = {"xmlschema": "xsd", "proto": "protobuf", "json-schema": "jsonschema"}


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


def _offered() -> Mapping[str, EntryPoint]:
    return plugins.offered(GROUP, "schema format", plugins.lower)


def _load(point: EntryPoint) -> Format:
    loaded: Format = plugins.load(point)
    return loaded
