"""Rich's console, for texts that come from servers and documents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.segment import Segment

from signalbook.terminal import strip_controls

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType


class SafeConsole(Console):
    """A console that writes no control characters but its own, and finds no markup in texts unless asked to."""

    def __init__(self, *, markup: bool = False, **settings: Any) -> None:
        super().__init__(markup=markup, emoji=False, highlight=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of ``renderable``; those with text have only printable characters."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(strip_controls(segment.text), segment.style)
