"""The outbox as a history: read from a position on, and forgotten from its beginning."""

from __future__ import annotations

from datetime import datetime
from itertools import takewhile
from typing import Final

from signalbook.errors import SignalbookError
from signalbook.storage.base import OutboxReader, Record, Store

MOST: Final = 1000
"""Changes forgotten in one transaction: writers wait for its end."""


class Forgotten(SignalbookError):
    """Changes behind a position were asked for, and some of them are kept no longer.

    ``position`` is that of the last one forgotten: all behind it are there.
    """

    def __init__(self, position: int) -> None:
        super().__init__(
            f"changes up to position {position} are kept no longer: read the registry as it is now, then its changes "
            "from there on"
        )
        self.position = position


def changes(outbox: OutboxReader, after: int, limit: int) -> list[Record]:
    """Up to ``limit`` committed changes behind position ``after``, in commit order. Raises ``Forgotten``."""
    records = outbox.records(after, limit)
    # Positions may have gaps of other kinds; without one nothing is missing, and the last change is always there.
    if records and records[0].position > after + 1 and after < (pruned := outbox.pruned()):
        raise Forgotten(pruned)
    return records


def forget(store: Store, *, before: datetime, upto: int) -> int:
    """Forget changes up to position ``upto``, told ``before`` then: the oldest, at most ``MOST``, never the last one.

    Returns how many; 0 once there are no more. Safe to be done by several processes at once.
    """
    with store.read() as transaction:
        records = transaction.outbox.records(transaction.outbox.pruned(), MOST + 1)
    gone = list(takewhile(lambda record: record.position <= upto and record.time < before, records[:-1]))
    if gone:
        with store.write() as writing:
            writing.outbox.prune(gone[-1].position)
    return len(gone)
