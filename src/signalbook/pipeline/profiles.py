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
    """The table of one message definition.

    ``declared`` are the columns that the definition would have as it is now; None if nobody asked.
    """

    definition: str
    rows: int
    columns: tuple[ColumnProfile, ...]
    declared: tuple[str, ...] | None = None

    @property
    def unseen(self) -> tuple[str, ...]:
        """What the schema declares and no message ever had."""
        empty = [column.name for column in self.columns if column.payload and column.nulls == self.rows]
        if self.declared is None:
            return tuple(empty)
        there = {column.name for column in self.columns if column.payload}
        return tuple(name for name in self.declared if name in empty or name not in there)

    @property
    def undeclared(self) -> tuple[str, ...]:
        """What messages had, by the schema of their day, and the definition does not declare any more."""
        if self.declared is None:
            return ()
        seen = (column.name for column in self.columns if column.payload and column.nulls < self.rows)
        return tuple(name for name in seen if name not in self.declared)

    def to_json(self) -> JSONObject:
        """The object that ``pipeline profile --json`` prints."""
        columns = [
            {name: value for name, value in asdict(column).items() if value is not None} for column in self.columns
        ]
        drift: JSONObject = {"unseen": list(self.unseen)}
        if self.declared is not None:
            drift["undeclared"] = list(self.undeclared)
        return {"definition": self.definition, "rows": self.rows, **drift, "columns": columns}
