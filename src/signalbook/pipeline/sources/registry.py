"""Which sources there are: everything in the entry-point group ``signalbook.sources``, the built-in ones too."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Final

from signalbook import plugins
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources.base import FileSource, RecordSource

GROUP: Final = "signalbook.sources"


def find(name: str) -> FileSource | RecordSource:
    """The source called ``name``. Raises ``PipelineError`` if there is none, or not all that it takes."""
    offered = _offered()
    if name not in offered:
        raise PipelineError(f"there is no input format {name!r}; there are: {', '.join(sorted(offered))}")
    try:
        found: FileSource | RecordSource = plugins.load(offered[name])
        return found
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("signalbook"):
            raise
        raise PipelineError(_lacking(offered[name], str(error.name))) from None


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


def _lacking(point: EntryPoint, module: str) -> str:
    if module.startswith("pyspark."):
        return f"the input format {point.name} takes a newer Spark, 4.2 at least: pip install -U 'signalbook[pipeline]'"
    extra = ",".join(("pipeline", *point.extras))
    return f"the input format {point.name} takes the package {module!r}: pip install 'signalbook[{extra}]'"


def _offered() -> Mapping[str, EntryPoint]:
    return plugins.offered(GROUP, "input format", plugins.lower)
