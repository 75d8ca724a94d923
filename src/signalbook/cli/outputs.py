"""The options that name an output, and say how the store is reached that it may be in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

if TYPE_CHECKING:
    from signalbook.pipeline import Place

OutputOption = Annotated[
    str, Option("--output", metavar="DIR|URL", help="The output: a folder, or a URL such as s3://...")
]
StorageOption = Annotated[
    list[str] | None,
    Option(
        "--storage",
        metavar="NAME=VALUE",
        help="How a store is reached, such as endpoint=URL; ${NAME} in a value is an environment variable; "
        "may be given again.",
        show_default="as its SDKs find it",
    ),
]


def pairs(options: list[str] | None, option: str) -> dict[str, str]:
    """Return the names and values of options NAME=VALUE."""
    values = {}
    for text in options or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"an option is NAME=VALUE, not {name!r}", param_hint=option)
        values[name] = value
    return values


def place(output: str, storage: list[str] | None) -> Place:
    """The output that options name. Raises ``PipelineError`` for one that is not supported."""
    from signalbook import pipeline

    return pipeline.place_of(output, pipeline.storage_of(pairs(storage, "--storage")))
