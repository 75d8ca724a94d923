"""Jobs: the input, definitions and output of a run, from command options or from a job file in TOML or YAML."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_type_hints

import msgspec

from signalbook.documents import read_document
from signalbook.messages import Policy, Reason
from signalbook.messages.policy import parse_policy
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.subjects import Strategy
from signalbook.pipeline.journal import Partition, TableFormat
from signalbook.pipeline.limits import MAX_MESSAGE
from signalbook.pipeline.places import Place, Storage, Where, place_of
from signalbook.pipeline.tables.catalogs import (
    CatalogChoice,
    build_catalog_section,
    parse_catalog,
    substitute_variables,
)

OnDamage = Literal["land", "stop"]


def check_policy(policy: Policy) -> None:
    """Raise ``PipelineError`` if ``policy`` passes messages without a definition on: no table can hold them."""
    if policy.on_no_match == "pass":
        raise PipelineError("the pipeline has no table for messages without a definition: dead-letter or drop them")


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise ``PipelineError`` if the value of the setting ``name`` is not among ``choices``, a ``Literal``."""
    allowed = get_args(choices)
    if value not in allowed:
        listed = ", ".join(filter(None, allowed))
        raise PipelineError(f"{name} is {value!r}, and must be one of {listed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """The options of all jobs: ``output`` is the path or URL of the tables, ``storage`` the settings of stores."""

    output: Where
    storage: Storage = field(default_factory=Storage)

    @property
    def place(self) -> Place:
        """The place of the tables. Raises ``PipelineError`` for a URL that is not supported."""
        return place_of(self.output, self.storage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(OutputOptions):
    """The options of ``signalbook pipeline run``.

    ``registry`` is the URL of a registry, a registry document, or a folder of documents. ``groups`` are xids of message
    groups or endpoints; without any, all definitions are used. A nonempty ``subjects`` is the naming strategy by which
    subjects of the registry become definitions, for records that contain the ids of their schemas. ``inputs`` are
    files, folders and globs, or addresses of topics or streams at a broker. ``options`` are passed to Spark's connector
    for the broker; ``jars`` are its JAR files, which are downloaded if there are none. An empty ``batch_id`` means a
    generated one; with a given id, a second run with the same input changes nothing. ``partition`` says how new tables
    are partitioned: by the day of landing, or not at all. ``catalog`` is the catalog of Iceberg tables. None means the
    catalog that existing tables are in, or else a catalog in ``output``. A message of more than ``max_message_bytes``
    becomes a dead letter with only its beginning. ``on_damaged_file`` says whether the undamaged beginning of a file
    lands and its damage becomes a dead letter (``land``), or the run stops. ``max_dead_letters`` is the largest share
    of dead letters, from 0 to 1, with which the command succeeds; None means any share.
    """

    registry: str
    inputs: tuple[str, ...]
    input_format: str = "cloudevents-jsonl"
    groups: tuple[str, ...] = ()
    subjects: Strategy = ""
    table_format: TableFormat = "iceberg"
    catalog: CatalogChoice | None = None
    partition: Partition = "day"
    batch_id: str = ""
    master: str = "local[*]"
    policy: Policy = field(default_factory=Policy)
    options: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[Path, ...] = ()
    max_message_bytes: int = MAX_MESSAGE
    on_damaged_file: OnDamage = "land"
    max_dead_letters: float | None = None

    def __post_init__(self) -> None:
        """Raise ``PipelineError`` for a setting with an invalid value."""
        if self.max_dead_letters is not None and not 0 <= self.max_dead_letters <= 1:
            raise PipelineError(f"max_dead_letters is a share of 0 to 1, not {self.max_dead_letters}")
        check_choice("table_format", self.table_format, TableFormat)
        check_choice("partition", self.partition, Partition)
        check_choice("on_damaged_file", self.on_damaged_file, OnDamage)
        check_choice("subjects", self.subjects, Strategy)
        if self.catalog and self.table_format != "iceberg":
            raise PipelineError(f"a catalog is for tables of Iceberg, not of {self.table_format}: leave it out")


def stream_batch(stream: str, number: int) -> str:
    """Return the id of the micro-batch with Spark's ``number`` in the stream called ``stream``."""
    return f"{stream}-{number:09d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJob:
    """The options of ``signalbook pipeline stream``, which runs ``job`` as a stream. ``job.batch_id`` is not used.

    A later stream with the same ``name`` continues where this stream ends. A batch begins every ``interval`` seconds,
    or when the previous batch is done if that takes longer. It has at most ``most`` messages; 0 means no limit. With
    ``once`` the stream ends when all messages that existed at its start have landed.
    """

    job: Job
    name: str = "stream"
    interval: float = 10.0
    most: int = 500_000
    once: bool = False

    def batch_id(self, number: int) -> str:
        """Return the id of the micro-batch with Spark's ``number``."""
        return stream_batch(self.name, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """A filter for dead letters by reason, candidate definition, batch and time. An empty condition matches all."""

    reasons: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    batches: tuple[str, ...] = ()
    since: datetime | None = None

    def __post_init__(self) -> None:
        """Raise ``PipelineError`` for an unknown reason, which no dead letter can have."""
        for reason in self.reasons:
            if reason not in set(Reason):
                raise PipelineError(f"there is no reason {reason!r}; there are: {', '.join(Reason)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayJob(OutputOptions):
    """The options of ``signalbook pipeline replay``.

    ``registry``, ``groups``, ``subjects`` and ``policy`` are as in ``Job``. ``wanted`` selects the dead letters.
    ``versions`` are xids of Versions of messages and schemas to use instead of the default Versions. With ``dry_run``
    no dead letter is moved.
    """

    registry: str
    wanted: DeadLetterFilter = field(default_factory=DeadLetterFilter)
    groups: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    subjects: Strategy = ""
    policy: Policy = field(default_factory=Policy)
    master: str = "local[*]"
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Raise ``PipelineError`` if ``subjects`` is not a known naming strategy."""
        check_choice("subjects", self.subjects, Strategy)


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestJob(OutputOptions):
    """The options of ``signalbook pipeline backtest``.

    ``candidate`` is a file, or the xid of a Version. ``definitions`` are the xids of the definitions to compare;
    without any, all definitions that the candidate changes are compared. ``by`` is the column that identifies
    producers, ``sample`` the share of messages to check, up to 1.
    """

    registry: str
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
    """The progress of a run.

    ``done`` and ``total`` are bytes in the stages ``processing`` and ``compacting``, and numbers of tables in the
    stages ``committing`` and ``committed``. The other members count messages.
    """

    stage: Stage
    done: int = 0
    total: int = 0
    read: int = 0
    landed: int = 0
    dead_lettered: int = 0


ShowProgress = Callable[[Progress], None]


class ReportOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section ``report`` of a job file.

    ``to`` is the URL of the registry that receives reports. ``name`` is the name of the pipeline there and in
    metrics, by default the name of its output folder. ``metrics_file`` is a file that is replaced after each batch.
    While batches are processed, metrics are served at ``metrics_host`` and ``metrics_port``; the port 0 means that
    they are not.
    """

    to: str = ""
    name: str = ""
    metrics_file: str = ""
    metrics_port: int = 0
    metrics_host: str = "127.0.0.1"


FORMATS: Final = {
    "kafka": "kafka",
    "nats": "nats",
    "tls": "nats",
    "mqtt": "mqtt5",
    "mqtts": "mqtt5",
    "amqp": "amqp",
    "amqps": "amqp",
}
"""The input format for each URL scheme of input addresses."""
# The end of msgspec's error text, which has the path of the wrong value.
_PLACE: Final = re.compile(r" - at `\$\.(\w+)`$")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section ``stream`` of a job file."""

    name: str = "stream"
    interval: float = 10.0
    max_messages: int = 500_000


class JobOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a job file. Paths are relative to the working directory, as in command options."""

    registry: str = ""
    groups: tuple[str, ...] = ()
    subjects: Strategy = ""
    inputs: tuple[str, ...] = ()
    input_format: str = ""
    output: str = ""
    storage: dict[str, str | int | bool] = {}
    table_format: TableFormat = "iceberg"
    catalog: dict[str, str | int | float | bool] = {}
    partition: Partition = "day"
    batch_id: str = ""
    master: str = "local[*]"
    jars: tuple[str, ...] = ()
    options: dict[str, str | int | float | bool] = {}
    policy: dict[str, Any] = {}
    max_message_bytes: int = MAX_MESSAGE
    on_damaged_file: OnDamage = "land"
    max_dead_letters: float | None = None
    stream: StreamOptions = StreamOptions()
    report: ReportOptions = ReportOptions()

    def job(self) -> Job:
        """Return the job. Raises ``PipelineError`` for missing or invalid options, and ``PolicyError``."""
        for name in ("registry", "inputs", "output"):
            if not getattr(self, name):
                raise PipelineError(f"a job needs {name}: give --{name.removesuffix('s')}, or {name} in a job file")
        if not 1 <= self.max_message_bytes <= MAX_MESSAGE:
            raise PipelineError(f"max_message_bytes is 1 to {MAX_MESSAGE}, not {self.max_message_bytes}")
        return Job(
            registry=self.registry,
            groups=tuple(self.groups),
            subjects=self.subjects,
            inputs=tuple(self.inputs),
            input_format=self.input_format or FORMATS.get(self.inputs[0].partition("://")[0], "cloudevents-jsonl"),
            output=self.output,
            storage=storage_of(self.storage),
            table_format=self.table_format,
            catalog=parse_catalog(self.catalog),
            partition=self.partition,
            batch_id=self.batch_id,
            master=self.master,
            jars=tuple(map(Path, self.jars)),
            options={name: substitute_variables(name, value) for name, value in self.options.items()},
            policy=parse_policy(self.policy),
            max_message_bytes=self.max_message_bytes,
            on_damaged_file=self.on_damaged_file,
            max_dead_letters=self.max_dead_letters,
        )

    def streaming(self, *, once: bool) -> StreamJob:
        """Return the job as a stream. Raises ``PipelineError`` for missing or invalid options, and ``PolicyError``."""
        stream = self.stream
        if not _NAME.fullmatch(stream.name):
            raise PipelineError(f"the name of a stream has letters, digits, '.', '_' and '-', not {stream.name!r}")
        if not 0 <= stream.interval <= 86_400 or stream.max_messages < 0:
            raise PipelineError("a stream's interval is 0 to 86400 seconds, and its max_messages 0 or more")
        return StreamJob(
            job=self.job(), name=stream.name, interval=stream.interval, most=stream.max_messages, once=once
        )


def storage_of(section: Mapping[str, str | int | bool]) -> Storage:
    """Return the settings of the section ``storage``, with its variables replaced. Raises ``PipelineError``."""
    return Storage.of({name: substitute_variables(f"storage.{name}", value) for name, value in section.items()})


def read(path: Path) -> JobOptions:
    """Return the options in the job file ``path``, which is YAML or JSON by its suffix, else TOML.

    Raises ``PipelineError``.
    """
    try:
        if path.suffix in (".yaml", ".yml", ".json"):
            value: Any = read_document(path)[0]
        else:
            value = tomllib.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(value, JobOptions)
    except OSError as error:
        raise PipelineError(f"cannot read the job file {path}: {error.strerror}") from None
    except RecursionError:
        raise PipelineError(f"the job file {path} is nested too deeply") from None
    except ValueError as error:  # tomllib raises it also for a number with thousands of digits
        raise PipelineError(f"the job file {path}: {error}{_list_known(str(error))}") from None


def _list_known(words: str) -> str:
    """Return a list of the valid names for msgspec's error text ``words`` about an unknown name, otherwise ""."""
    place = _PLACE.search(words)
    name = place[1] if place else ""
    if words.startswith("Invalid enum value"):
        names = filter(None, get_args(get_type_hints(JobOptions).get(name)))
    elif words.startswith("Object contains unknown field"):
        section: Any = get_type_hints(JobOptions)[name] if name else JobOptions
        names = iter(section.__struct_fields__)
    else:
        return ""
    return f"; there are: {', '.join(names)}"


def job_options(file: Path | None, given: Mapping[str, Any], **stream: Any) -> JobOptions:
    """Return the options of the job file ``file``, if any, overridden by the values in ``given`` that are not None.

    The members of ``options`` and ``storage`` are overridden one by one. ``stream`` overrides the section ``stream``.
    In ``given`` the ``catalog`` may be a name or a URL.
    """
    options = JobOptions() if file is None else read(file)
    more = {name: value for name, value in given.items() if value is not None}
    if isinstance(more.get("catalog"), str):
        more["catalog"] = build_catalog_section(more["catalog"])
    for name in ("options", "storage"):
        more[name] = {**getattr(options, name), **more.get(name, {})}
    return msgspec.structs.replace(options, stream=msgspec.structs.replace(options.stream, **stream), **more)
