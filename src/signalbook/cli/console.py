"""Words for people, on standard error: colours and boxes on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """Standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def fail(message: str) -> None:
    """One block about what went wrong."""
    from rich.panel import Panel
    from rich.text import Text

    screen = console()
    if screen.is_terminal:
        screen.print(Panel(Text(message), title="error", title_align="left", border_style="red"), soft_wrap=False)
    else:
        screen.print(Text(f"error: {message}"))


def say(message: str, *, style: str = "") -> None:
    """One line."""
    from rich.text import Text

    console().print(Text(message, style=style))


def plain(text: str) -> str:
    """On one line, and without what a terminal might take for a command."""
    return "".join(character if character.isprintable() else " " for character in text)


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that ``what`` is under way; what is yielded takes other words for it."""
    screen = console()
    if not screen.is_terminal:
        yield lambda _: None
        return
    with screen.status(what) as status:
        yield status.update
