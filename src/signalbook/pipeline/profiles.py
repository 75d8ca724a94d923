"""What a profile tells of a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from signalbook.values import JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """One column, or member of one (``order.total``): its values over all rows.

    ``payload`` tells those the definition's schema declares from those the pipeline adds. ``distinct`` is within 5 %,
    None for lists and maps; ``least`` and ``most`` are texts, of lists and maps their sizes, None without a value.
    """

    name: str
    type: str
    payload: bool
    nulls: int
    distinct: int | None
    least: str | None
    most: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The table of one message definition."""

    definition: str
    rows: int
    columns: tuple[ColumnProfile, ...]

    @property
    def unseen(self) -> tuple[str, ...]:
        """What the schema declares and no message ever had."""
        return tuple(column.name for column in self.columns if column.payload and column.nulls == self.rows)

    def to_json(self) -> JSONObject:
        """The object that ``pipeline profile --json`` prints."""
        columns = [
            {name: value for name, value in asdict(column).items() if value is not None} for column in self.columns
        ]
        return {"definition": self.definition, "rows": self.rows, "unseen": list(self.unseen), "columns": columns}
