"""Which protocols can be read: everything in the entry-point group ``signalbook.bindings``, the built-in ones too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from signalbook.errors import SignalbookError
from signalbook.messages.bindings.base import Binding

GROUP: Final = "signalbook.bindings"


class BindingClash(SignalbookError):
    """Two installed packages offer a binding for one protocol; one of them must go."""


def find_binding(protocol: str) -> Binding | None:
    """The binding of a protocol by its canonical name, or ``None`` if there is none."""
    return _bindings().get(protocol)


def protocols() -> tuple[str, ...]:
    """Canonical names of the protocols that can be read; ``""`` stands for files."""
    return tuple(sorted(_bindings()))


def collect(points: Iterable[EntryPoint]) -> Mapping[str, Binding]:
    """Bindings by canonical protocol name. Raises ``BindingClash`` if two claim one name."""
    found: dict[str, tuple[str, Binding]] = {}
    for point in points:
        binding: Binding = point.load()
        value, _ = found.setdefault(binding.protocol, (point.value, binding))
        if value != point.value:
            raise BindingClash(f"protocol {binding.protocol!r} is bound by both {value} and {point.value}")
    return {protocol: binding for protocol, (_, binding) in found.items()}


@cache
def _bindings() -> Mapping[str, Binding]:
    return collect(entry_points(group=GROUP))
