"""Which sources there are: everything in the entry-point group ``signalbook.sources``, the built-in ones too."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from signalbook.pipeline.failures import PipelineError
from signalbook.pipeline.sources.base import FileSource, RecordSource

GROUP: Final = "signalbook.sources"


def find(name: str) -> FileSource | RecordSource:
    """The source called ``name``. Raises ``PipelineError`` if there is none, or if two packages claim the name."""
    offered = _offered()
    if name not in offered:
        raise PipelineError(f"there is no input format {name!r}; there are: {', '.join(sorted(offered))}")
    found: FileSource | RecordSource = offered[name].load()
    return found


def files(name: str) -> FileSource:
    """The source called ``name``, which reads files. Raises ``PipelineError``."""
    source = find(name)
    if isinstance(source, RecordSource):
        raise PipelineError(f"{name} reads no files: this takes an input format of files")
    return source


def records(name: str) -> RecordSource:
    """The source called ``name``, which Spark reads, and so can follow. Raises ``PipelineError``."""
    source = find(name)
    if isinstance(source, RecordSource):
        return source
    raise PipelineError(f"{name} is an input format of files, which are no stream: read them by pipeline run")


def names() -> tuple[str, ...]:
    """The names of all sources."""
    return tuple(sorted(_offered()))


@cache
def _offered() -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise PipelineError(f"input format {point.name!r} is offered by both {other.value} and {point.value}")
    return found
