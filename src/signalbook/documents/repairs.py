"""What a lenient reading put right: a value for each repair, told to people and kept on what was repaired."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One thing put right: what, where, and why.

    ``line`` is from 1, of damaged text; ``path`` (``/endpoints/e#usage``) is of a sound document with names or values
    of another day. ``rule`` is the reason's number in docs/documents.md.
    """

    message: str
    line: int | None = None
    path: str = ""
    rule: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}" if self.line is not None else self.path
        return f"{where}: {self.message}" + (f" [{self.rule}]" if self.rule else "")
