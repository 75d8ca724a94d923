"""Bar charts as values: rectangles that a template writes as SVG, without scripts and inline styles.

Only shapes are scaled to the width of the page. Texts are next to them in HTML, where they keep their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from signalbook.values import format_count

WIDTH: Final = 600
HEIGHT: Final = 100
_WIDEST: Final = 24.0
_GAP: Final = 0.2
SPARK_HEIGHT: Final = 24
SPARK_STEP: Final = 4
_LOWEST: Final = 1.5
"""The minimum height of a bar, so that a small number does not look like zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A rectangle of a chart. ``kind`` is the kind of things that it counts, ``title`` its tooltip text."""

    kind: str
    title: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a chart: its ``label`` on the axis, and the number for each kind."""

    label: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart: its bars, the value of the highest bar as text, and the labels at both ends of the axis."""

    title: str
    kinds: tuple[tuple[str, str], ...]
    bars: tuple[Bar, ...]
    top: str
    first: str
    last: str


def build_stacked_chart(
    title: str, kinds: Sequence[tuple[str, str]], columns: Sequence[Column], unit: str = ""
) -> Chart:
    """Return a column of bars for each of ``columns``, from left to right; ``kinds`` are their classes and names."""
    most = max((sum(column.values) for column in columns), default=0)
    width = round(min(WIDTH / max(len(columns), 1), _WIDEST) * (1 - _GAP), 2)
    # The first stands at the left end and the last at the right one, where their labels are.
    step = (WIDTH - width) / max(len(columns) - 1, 1)
    bars: list[Bar] = []
    for place, column in enumerate(columns):
        reached = 0.0
        for (kind, name), value in zip(kinds, column.values, strict=True):
            if value <= 0 or most <= 0:
                continue
            height = max(_LOWEST, value / most * HEIGHT)
            bars.append(
                Bar(
                    kind=kind,
                    title=f"{column.label}: {format_number(value)}{unit} {name}",
                    x=round(place * step, 2),
                    y=round(max(0.0, HEIGHT - reached - height), 2),
                    width=width,
                    height=round(height, 2),
                )
            )
            reached += height
    return Chart(
        title=title,
        kinds=tuple(kinds),
        bars=tuple(bars),
        top=f"{format_number(most)}{unit}",
        first=columns[0].label if columns else "",
        last=columns[-1].label if columns else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """A chart as small as a word: an SVG path for each kind, and the same in words."""

    width: int
    height: int
    paths: tuple[tuple[str, str], ...]
    label: str


def build_sparkline(kinds: Sequence[tuple[str, str]], columns: Sequence[Sequence[int]]) -> Sparkline | None:
    """Return the stacked bars of ``columns``, None without columns. ``kinds`` are the classes of the paths
    and their names."""
    if not columns:
        return None
    most = max(sum(column) for column in columns) or 1
    shapes: dict[str, list[str]] = {kind: [] for kind, _ in kinds}
    for place, column in enumerate(columns):
        top = SPARK_HEIGHT
        for (kind, _), value in zip(kinds, column, strict=True):
            height = min(top, max(1, round(value / most * SPARK_HEIGHT))) if value else 0
            top -= height
            if height:
                shapes[kind].append(f"M{place * SPARK_STEP} {top}h{SPARK_STEP - 1}v{height}h{1 - SPARK_STEP}z")
    sums = [sum(column) for column in zip(*columns, strict=True)]
    words = ", ".join(f"{format_number(total)} {name}" for (_, name), total in zip(kinds, sums, strict=True))
    return Sparkline(
        width=len(columns) * SPARK_STEP - 1,
        height=SPARK_HEIGHT,
        paths=tuple((kind, "".join(shape)) for kind, shape in shapes.items() if shape),
        label=f"{format_count(len(columns), 'batch', 'batches')}: {words}",
    )


def format_number(value: float) -> str:
    """Return a number as people read it: 12,345 or 0.5."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
