"""One run of the pipeline: what to hold to which definitions, and where to land it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from signalbook.messages import Policy
from signalbook.pipeline.journal import TableFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The options of ``signalbook pipeline run``.

    ``registry`` is the URL of a registry, a registry document or a folder of them; ``groups`` are xids of message
    groups or endpoints, none meaning all. ``inputs`` are files, folders and globs. An empty ``batch_id`` stands for one
    made up for this run; with one given, a second run of the same input changes nothing.
    """

    registry: str
    inputs: tuple[str, ...]
    output: Path
    input_format: str = "cloudevents-jsonl"
    groups: tuple[str, ...] = ()
    table_format: TableFormat = "iceberg"
    batch_id: str = ""
    master: str = "local[*]"
    policy: Policy = field(default_factory=Policy)


Stage = Literal["definitions", "spark", "processing", "prepared", "committing", "committed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run has come. Units are bytes of input while it is processing, tables while it is committing."""

    stage: Stage
    done: int = 0
    total: int = 0
    read: int = 0
    landed: int = 0
    dead_lettered: int = 0
