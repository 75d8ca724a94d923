"""Which sources there are: everything in the entry-point group ``signalbook.sources``, the built-in ones too."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Final

from signalbook import plugins
from signalbook.pipeline.failures import PipelineError
from signalbook.pipeline.sources.base import Source

GROUP: Final = "signalbook.sources"


def find(name: str) -> Source:
    """The source called ``name``. Raises ``PipelineError`` if there is none."""
    offered = _offered()
    if name not in offered:
        raise PipelineError(f"there is no input format {name!r}; there are: {', '.join(sorted(offered))}")
    found: Source = plugins.load(offered[name])
    return found


def names() -> tuple[str, ...]:
    """The names of all sources."""
    return tuple(sorted(_offered()))


def _offered() -> Mapping[str, EntryPoint]:
    return plugins.offered(GROUP, "input format", plugins.lower)
