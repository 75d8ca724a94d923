"""What commands show: words for people on standard error, results on standard output."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, get_args

import typer

from signalbook.cli.credentials import with_token
from signalbook.terminal import strip_controls
from signalbook.values import JSON, JSONObject, dump_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SHOWN_VIOLATIONS: Final = 10
"""The maximum number of rows in tables of violations and of rescued values."""


class CommandGroup(typer.Typer):
    """Commands whose help is their docstring. Its lines are joined: the terminal wraps them anew.

    Those that work on a registry have ``--token``.
    """

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Register a command as Typer does."""

        def add(function: Any) -> Any:
            paragraphs = inspect.cleandoc(function.__doc__).split("\n\n")
            text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
            return super(CommandGroup, self).command(name, help=text, **settings)(with_token(function))

        return add


def declare_options(command: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Make the command line read ``options``, annotations by name, instead of the parameters of ``command``."""
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if get_args(annotation)[0] is bool else None,
            annotation=annotation,
        )
        for name, annotation in options.items()
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = dict(options)


def console() -> Console:
    """Standard error."""
    from signalbook.cli.safeconsole import SafeConsole

    return SafeConsole(stderr=True, soft_wrap=True)


def fail(message: str) -> None:
    """Print an error as one block, in a box on a terminal."""
    from rich.panel import Panel
    from rich.text import Text

    screen = console()
    if screen.is_terminal:
        screen.print(Panel(Text(message), title="error", title_align="left", border_style="red"), soft_wrap=False)
    else:
        screen.print(Text(f"error: {message}"))


def say(message: str, *, style: str = "") -> None:
    """Print one line."""
    from rich.text import Text

    console().print(Text(message, style=style))


def plain(text: str) -> str:
    """Return ``text`` on one line, without characters that a terminal might take for commands."""
    return "".join(character if character.isprintable() else " " for character in text)


@contextmanager
def working(action: str) -> Iterator[Callable[[str], None]]:
    """Show ``action`` on a terminal while the block runs. Yields a function that replaces the text."""
    from rich.text import Text

    screen = console()
    if not screen.is_terminal:
        yield lambda _: None
        return
    with screen.status(Text(action)) as status:
        yield lambda words: status.update(Text(words))


def notice(words: str) -> None:
    """Print a note while a command goes on."""
    echo(f"signalbook: {plain(words)}", err=True)


def print_json(value: JSON) -> None:
    """Print an entity, or several, as JSON to read."""
    sys.stdout.buffer.write(dump_json(value, indent=2) + b"\n")


def output(*, soft_wrap: bool = False) -> Console:
    """Standard output, for results to read."""
    from signalbook.cli.safeconsole import SafeConsole

    return SafeConsole(soft_wrap=soft_wrap)


def echo(content: str | bytes, *, nl: bool = True, err: bool = False) -> None:
    """Write a text without control characters, or bytes, such as JSON, exactly as they are."""
    typer.echo(strip_controls(content) if isinstance(content, str) else content, nl=nl, err=err)


def table(*names: str, numbers: Sequence[str], title: str | None = None) -> Table:
    """A table with these columns, and then with those of ``numbers``."""
    from rich.table import Table

    grid = Table(*names, title=title, title_justify="left")
    for name in numbers:
        grid.add_column(name, justify="right")
    return grid


def counts_table(heading: str, title: str, counts: Iterable[tuple[str, int]]) -> Table:
    """Return a table of numbers of messages, in the given order."""
    from rich.text import Text

    grid = table(heading, numbers=("messages",), title=title)
    for name, count in counts:
        grid.add_row(Text(plain(name)), f"{count:,}")
    return grid


def violations_table(violations: list[JSONObject]) -> Table:
    """Return a table of the most frequent violations of a report, with an example of each."""
    from rich.text import Text

    grid = table("definition", "path", "rule", numbers=("messages",), title="Violations")
    grid.add_column("for example", overflow="fold")
    for violation in violations[:SHOWN_VIOLATIONS]:
        example = violation["example"]
        where = f"{example['source'].rpartition('/')[2]}:{example['position']}: {example['message']}"
        grid.add_row(
            *map(
                Text,
                (violation["definition"], violation["path"], violation["rule"], f"{violation['messages']:,}", where),
            )
        )
    return grid
