"""What ``signalbook pipeline run`` and ``stream`` are told alike: a job, by a file or by options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from signalbook.cli import letters


class TableFormat(StrEnum):
    """How tables are kept."""

    ICEBERG = "iceberg"
    PARQUET = "parquet"
    DELTA = "delta"


class Partition(StrEnum):
    """How new tables are divided."""

    DAY = "day"
    NONE = "none"


JobOption = Annotated[
    Path | None,
    typer.Option("--job", metavar="FILE", help="A job file, TOML or YAML; options count more.", show_default=False),
]
RegistryOption = Annotated[
    str | None,
    typer.Option("--registry", metavar="URL|FILE|DIR", help="Where the definitions are.", show_default=False),
]
GroupOption = letters.GroupOption
InputFormatOption = Annotated[
    str | None,
    typer.Option(
        "--input-format",
        metavar="FORMAT",
        help="What the input holds, such as cloudevents-jsonl, http-jsonl, kafka, nats.",
        show_default="cloudevents-jsonl, or what the URL says",
    ),
]
OutputOption = Annotated[str | None, typer.Option("--output", metavar="DIR", help="Where to land.", show_default=False)]
TableFormatOption = Annotated[
    TableFormat | None, typer.Option("--table-format", help="Kind of tables.", show_default="iceberg")
]
CatalogOption = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="NAME|URL",
        help="Iceberg catalog, as pyiceberg's configuration names it, or the URL of a REST catalog.",
        show_default="one in the output folder",
    ),
]
PartitionOption = Annotated[
    Partition | None, typer.Option("--partition", help="How new tables are divided.", show_default="day")
]
OptionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="What the source is told; ${NAME} in a value is an environment variable; may be given again.",
        show_default=False,
    ),
]
PolicyOption = letters.PolicyOption
JarsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--jars",
        metavar="PATH",
        envvar="SIGNALBOOK_JARS",
        help="JAR files of Spark's connectors, or a folder of them, instead of fetching them.",
        show_default=False,
    ),
]
MasterOption = Annotated[str | None, typer.Option("--master", help="Spark master.", show_default="local[*]")]


def settings(job: Path | None, *, options: list[str] | None, policy: list[str] | None, **given: Any) -> dict[str, Any]:
    """What options say of a job, by the names of job files. Raises for what neither they nor a file may say."""
    from signalbook.messages import flag_settings

    for name, option in (("registry", "--registry"), ("inputs", "--input"), ("output", "--output")):
        if job is None and not given[name]:
            raise typer.BadParameter(f"{option} is missing, or --job with a file that says it")
    plain = {name: value.value if isinstance(value, StrEnum) else value for name, value in given.items()}
    return {
        **plain,
        "options": None if options is None else dict(map(_option, options)),
        "policy": None if policy is None else flag_settings(policy),
    }


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter(f"an option is NAME=VALUE, not {name!r}", param_hint="--option")
    return name, value
