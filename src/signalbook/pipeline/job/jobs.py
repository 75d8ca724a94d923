"""One run of the pipeline: what to hold to which definitions, and where to land it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from signalbook.messages import Policy
from signalbook.pipeline.commit.journal import Partition, TableFormat
from signalbook.pipeline.sources.base import MAX_MESSAGE
from signalbook.pipeline.tables.catalogs import CatalogChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The options of ``signalbook pipeline run``.

    ``registry`` is the URL of a registry, a registry document or a folder of them; ``groups`` are xids of message
    groups or endpoints, none meaning all. ``inputs`` are files, folders and globs, or addresses of what a broker has;
    ``options`` go to Spark's connector for that, whose JAR files are ``jars``, or else fetched. An empty ``batch_id``
    stands for one made up for this run; with one given, a second run of the same input changes nothing. ``partition``
    is how new tables are divided: by the day that rows are landed on, or not at all. ``catalog`` is that of Iceberg
    tables: none stands for the one they are in, or for one of their own in ``output``. A message of more than
    ``max_message_bytes`` is a dead letter with its beginning.
    """

    registry: str
    inputs: tuple[str, ...]
    output: Path
    input_format: str = "cloudevents-jsonl"
    groups: tuple[str, ...] = ()
    table_format: TableFormat = "iceberg"
    catalog: CatalogChoice | None = None
    partition: Partition = "day"
    batch_id: str = ""
    master: str = "local[*]"
    policy: Policy = field(default_factory=Policy)
    options: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[Path, ...] = ()
    max_message_bytes: int = MAX_MESSAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJob:
    """The options of ``signalbook pipeline stream``: how to go on with ``job``, whose ``batch_id`` means nothing here.

    Under its ``name`` a stream is taken up again where it ended. A batch is begun every ``interval`` seconds, or once
    the one before is done, and has ``most`` messages at most, 0 for no limit. With ``once`` the stream ends when all
    that was there at its start is landed.
    """

    job: Job
    name: str = "stream"
    interval: float = 10.0
    most: int = 500_000
    once: bool = False

    def batch_id(self, number: int) -> str:
        """The id of a micro-batch, by Spark's number of it."""
        return f"{self.name}-{number:09d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Which dead letters to look at: those of any of these reasons, candidates and batches; none means all."""

    reasons: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    batches: tuple[str, ...] = ()
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayJob:
    """The options of ``signalbook pipeline replay``.

    ``registry``, ``groups`` and ``policy`` are as for a run; ``versions`` are xids of Versions of messages and schemas
    that stand for the default ones. With ``dry_run`` nothing is moved.
    """

    registry: str
    output: Path
    wanted: DeadLetterFilter = field(default_factory=DeadLetterFilter)
    groups: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)
    master: str = "local[*]"
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestJob:
    """The options of ``signalbook pipeline backtest``.

    ``candidate`` is a file or the xid of a Version, ``definitions`` are the xids it is compared for, none meaning all
    that it changes. ``by`` is the column that names producers, ``sample`` the share of messages that is looked at.
    """

    registry: str
    output: Path
    candidate: str
    definitions: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    by: str = "ce_source"
    sample: float = 1.0
    policy: Policy = field(default_factory=Policy)
    master: str = "local[*]"


Stage = Literal["definitions", "spark", "processing", "prepared", "committing", "committed", "compacting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run has come. Units are bytes of input while it is processing, tables while it is committing."""

    stage: Stage
    done: int = 0
    total: int = 0
    read: int = 0
    landed: int = 0
    dead_lettered: int = 0


ShowProgress = Callable[[Progress], None]
