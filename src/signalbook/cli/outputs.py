"""The options that name an output, and say how the store is reached that it may be in."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

if TYPE_CHECKING:
    from signalbook.pipeline import Place, TopicExcerpt


class TopicEnd(StrEnum):
    """The end of a topic from which messages are read."""

    EARLIEST = "earliest"
    LATEST = "latest"


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


TopicOption = Annotated[
    list[str] | None,
    Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of a topic, such as kafka.security.protocol=SASL_SSL; ${NAME} in a value is an environment "
        "variable; may be given again.",
    ),
]
MaxMessagesOption = Annotated[
    int | None,
    Option(
        "--max-messages",
        metavar="N",
        min=0,
        help="Most messages to read from topics, 0 for all.",
        show_default="100000",
    ),
]
FromOption = Annotated[
    TopicEnd | None,
    Option("--from", help="Read the oldest or the newest messages of topics.", show_default="earliest"),
]


def build_excerpt(max_messages: int | None, end: TopicEnd | None, options: list[str] | None) -> TopicExcerpt:
    """Return the part of topics to read that options name."""
    from signalbook import pipeline

    excerpt = pipeline.TopicExcerpt(newest=end is TopicEnd.LATEST, options=pairs(options, "--option"))
    return excerpt if max_messages is None else replace(excerpt, max_messages=max_messages)


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
    """Return the output that options name. Raises ``PipelineError`` for one that is not supported."""
    from signalbook import pipeline

    return pipeline.place_of(output, pipeline.storage_of(pairs(storage, "--storage")))
