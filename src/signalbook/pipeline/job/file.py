"""A job as a file, in TOML or YAML: what else the options of the command line say (docs/pipeline.md)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from signalbook.documents import read_document
from signalbook.messages.policy import parse_policy
from signalbook.pipeline.commit.journal import Partition, TableFormat
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import Job, StreamJob
from signalbook.pipeline.sources.base import MAX_MESSAGE
from signalbook.pipeline.tables.catalogs import filled, named_catalog, parse_catalog


class ReportOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section ``report`` of a job file.

    ``to`` is the URL of a registry, ``name`` what the pipeline is called there and in metrics, by default as its output
    folder. ``metrics_file`` is replaced after each batch; while batches are processed, metrics are served at
    ``metrics_host`` and ``metrics_port``, with 0 nowhere.
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
"""The input formats that schemes of addresses stand for."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section ``stream`` of a job file."""

    name: str = "stream"
    interval: float = 10.0
    max_messages: int = 500_000


class JobOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a job file may say. Paths are relative to the working directory, as those of options are."""

    registry: str = ""
    groups: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    input_format: str = ""
    output: str = ""
    table_format: TableFormat = "iceberg"
    catalog: dict[str, str | int | float | bool] = {}
    partition: Partition = "day"
    batch_id: str = ""
    master: str = "local[*]"
    jars: tuple[str, ...] = ()
    options: dict[str, str | int | float | bool] = {}
    policy: dict[str, Any] = {}
    max_message_bytes: int = MAX_MESSAGE
    stream: StreamOptions = StreamOptions()
    report: ReportOptions = ReportOptions()

    def job(self) -> Job:
        """The job. Raises ``PipelineError`` if something is missing, and ``PolicyError``."""
        for name in ("registry", "inputs", "output"):
            if not getattr(self, name):
                raise PipelineError(f"a job needs {name}: give --{name.removesuffix('s')}, or {name} in a job file")
        if self.catalog and self.table_format != "iceberg":
            raise PipelineError(f"a catalog is for tables of Iceberg, not of {self.table_format}: leave it out")
        if not 1 <= self.max_message_bytes <= MAX_MESSAGE:
            raise PipelineError(f"max_message_bytes is 1 to {MAX_MESSAGE}, not {self.max_message_bytes}")
        return Job(
            registry=self.registry,
            groups=tuple(self.groups),
            inputs=tuple(self.inputs),
            input_format=self.input_format or _format(self.inputs),
            output=Path(self.output),
            table_format=self.table_format,
            catalog=parse_catalog(self.catalog),
            partition=self.partition,
            batch_id=self.batch_id,
            master=self.master,
            jars=tuple(map(Path, self.jars)),
            options={name: filled(name, value) for name, value in self.options.items()},
            policy=parse_policy(self.policy),
            max_message_bytes=self.max_message_bytes,
        )

    def streaming(self, *, once: bool) -> StreamJob:
        """The job as a stream; raises likewise."""
        stream = self.stream
        if not _NAME.fullmatch(stream.name):
            raise PipelineError(f"the name of a stream has letters, digits, '.', '_' and '-', not {stream.name!r}")
        if not 0 <= stream.interval <= 86_400 or stream.max_messages < 0:
            raise PipelineError("a stream's interval is 0 to 86400 seconds, and its max_messages 0 or more")
        return StreamJob(
            job=self.job(), name=stream.name, interval=stream.interval, most=stream.max_messages, once=once
        )


def read(path: Path) -> JobOptions:
    """What the job file ``path`` says, YAML or JSON by its name or else TOML. Raises ``PipelineError``."""
    try:
        if path.suffix in (".yaml", ".yml", ".json"):
            value: Any = read_document(path)[0]
        else:
            value = tomllib.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(value, JobOptions)
    except OSError as error:
        raise PipelineError(f"cannot read the job file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise PipelineError(f"the job file {path}: {error}") from None


def job_options(file: Path | None, given: Mapping[str, Any], **stream: Any) -> JobOptions:
    """What ``file`` says, if there is one, but for what is ``given`` otherwise and not None; of ``options`` each alone.

    ``stream`` are those of ``StreamOptions``; a ``catalog`` may be a name or a URL.
    """
    found = JobOptions() if file is None else read(file)
    timing = {name: value for name, value in stream.items() if value is not None}
    more = {name: value for name, value in given.items() if value is not None}
    if isinstance(more.get("catalog"), str):
        more["catalog"] = named_catalog(more["catalog"])
    more["options"] = {**found.options, **more.get("options", {})}
    return msgspec.structs.replace(found, stream=msgspec.structs.replace(found.stream, **timing), **more)


def _format(inputs: Sequence[str]) -> str:
    """The input format where none is named."""
    return FORMATS.get(inputs[0].partition("://")[0], "cloudevents-jsonl")
