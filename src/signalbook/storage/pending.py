"""What a write transaction knows by itself: rows it has met, and what the database is told before the commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from signalbook.storage.base import Row
from signalbook.storage.dialect import Parameters
from signalbook.xid import Xid


@dataclass(slots=True, kw_only=True)
class Pending:
    """Of one part of a transaction, or of all that is behind it.

    ``rows`` are entities as they are now, as far as they were met. The database is still to be told ``documents`` by
    digest, how many ``members`` each collection gained (by parent key and type), ``changes`` for the outbox, and how
    many keys were ``reserved``. ``named`` are documents that a row got, ``suspects`` those that one lost; ``touched``
    tells that anything of the registry was written.
    """

    rows: dict[Xid, Row] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)
    members: dict[int, dict[str, int]] = field(default_factory=dict)
    changes: list[Parameters] = field(default_factory=list)
    reserved: int = 0
    named: set[str] = field(default_factory=set)
    suspects: set[str] = field(default_factory=set)
    touched: bool = False

    def absorb(self, part: Pending) -> None:
        """Go on from where ``part`` ended, which came behind this."""
        self.rows.update(part.rows)
        self.documents.update(part.documents)
        for parent, gained in part.members.items():
            add(self.members.setdefault(parent, {}), gained)
        self.changes += part.changes
        self.reserved += part.reserved
        self.named |= part.named
        self.suspects |= part.suspects
        self.touched |= part.touched


def add(counts: dict[str, int], gained: Mapping[str, int], sign: int = 1) -> None:
    """Add to ``counts``, by type, what was ``gained``; with -1 as ``sign`` take it away."""
    for plural, count in gained.items():
        counts[plural] = counts.get(plural, 0) + sign * count
