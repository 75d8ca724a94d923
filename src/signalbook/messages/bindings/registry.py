"""Which protocols can be read: everything in the entry-point group ``signalbook.bindings``, the built-in ones too."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Final

from signalbook import plugins
from signalbook.messages.bindings.base import Binding

GROUP: Final = "signalbook.bindings"


def find_binding(protocol: str) -> Binding | None:
    """The binding of a protocol by its canonical name, or ``None`` if there is none."""
    point = _offered().get(protocol)
    return None if point is None else _load(point)


def protocols() -> tuple[str, ...]:
    """Canonical names of the protocols that can be read; ``""`` stands for files."""
    return tuple(sorted(_offered()))


def bound(point: EntryPoint) -> str:
    """The canonical name of the protocol that an entry point binds."""
    return _load(point).protocol


def _offered() -> Mapping[str, EntryPoint]:
    return plugins.offered(GROUP, "protocol", bound)


def _load(point: EntryPoint) -> Binding:
    loaded: Binding = plugins.load(point)
    return loaded
