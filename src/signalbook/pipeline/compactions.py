"""What a compaction tells of a table."""

from __future__ import annotations

from dataclasses import dataclass

from signalbook.pipeline.tables.naming import TableName, definition_of
from signalbook.values import JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What became of one table: files and their bytes before and after."""

    table: TableName
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows: int

    def to_json(self) -> JSONObject:
        """The object that ``pipeline compact --json`` prints."""
        return {
            "table": str(self.table),
            "definition": definition_of(self.table),
            "rows": self.rows,
            "files": {"before": self.files_before, "after": self.files_after},
            "bytes": {"before": self.bytes_before, "after": self.bytes_after},
        }
