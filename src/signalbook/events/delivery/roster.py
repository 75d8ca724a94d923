"""Who gets what: outbox records sorted into the queues of those who want them, each record looked at once for all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from typing import Final

from signalbook.events.delivery.index import Index
from signalbook.events.delivery.recipient import Phase, Recipient
from signalbook.events.delivery.state import State
from signalbook.events.dialects import Dialect
from signalbook.storage.base import Record
from signalbook.values import JSONObject

WINDOW: Final = 500
_IN_MEMORY: Final = 50_000
_LEAST: Final = 32
_MOST: Final = 1000

Outbox = Callable[[int, int], Sequence[Record]]
Members = dict[Recipient, int]
Still = Callable[[Recipient], bool]


class Roster:
    """The recipients of one server. Structure and reading are for one thread; ``lock`` guards what senders touch.

    Those who keep up share one ``cursor``, and one read. Who falls behind, its queue being full or its sink dead, is
    ``behind`` with a position of its own, and read for again when it has room: several of them at once where they are
    near each other. ``stirred`` says that one of them may have room since they were looked at.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.members: dict[str, Recipient] = {}
        self.cursor = 0
        self.more = False
        self.stirred = False
        self._indexes: dict[str, tuple[Dialect, Index[Recipient]]] = {}
        self._current: dict[Recipient, None] = {}
        self._behind: dict[Recipient, None] = {}

    def add(self, recipient: Recipient) -> None:
        """Have it served from the position of its state on."""
        self.members[recipient.subscription.id] = recipient
        dialect = recipient.dialect
        if recipient.phase is Phase.OVER or dialect is None:
            return
        _, index = self._indexes.setdefault(dialect.source, (dialect, Index()))
        index.add(recipient, recipient.interest.keys)
        with self.lock:
            self._behind[recipient] = None
            self.stirred = True

    def remove(self, recipient: Recipient) -> None:
        """Serve it no more."""
        if self.members.get(recipient.subscription.id) is recipient:
            del self.members[recipient.subscription.id]
        with self.lock:
            recipient.pending.clear()
            recipient.phase = Phase.OVER
        self.forget(recipient)

    def forget(self, recipient: Recipient) -> None:
        """Read no more for one that is over; it stays a member."""
        with self.lock:
            served = recipient in self._current or recipient in self._behind
            self._current.pop(recipient, None)
            self._behind.pop(recipient, None)
        if served and recipient.dialect is not None:
            self._indexes[recipient.dialect.source][1].remove(recipient, recipient.interest.keys)

    def fall_behind(self, recipient: Recipient) -> None:
        """What was taken out of its queue is to be read again. With the lock."""
        if recipient in self._current:
            del self._current[recipient]
            self._behind[recipient] = None
            self.stirred = True

    def state(self, recipient: Recipient) -> State:
        """The state to keep. With the lock."""
        if recipient.phase is Phase.OVER:  # what was pending is not any more, and yet not delivered
            return recipient.state
        if recipient in self._current and not recipient.pending:
            return replace(recipient.state, position=max(recipient.state.position, self.cursor))
        return replace(recipient.state, position=recipient.position)

    def read(self, outbox: Outbox) -> list[Recipient]:
        """Read a window for those who keep up and one for those behind: who has something to send now.

        ``outbox`` as ``Engine.outbox``, whose ``Forgotten`` asks for ``skip``. Call it again as long as ``more``.
        """
        before = self.cursor
        given = self._read_current(outbox)
        behind = self._with_room() if self.stirred else {}
        if behind:
            given += self._read_behind(outbox, behind)
        self.more = bool(behind) or self.cursor != before
        return given

    def skip(self, position: int, why: str) -> list[Recipient]:
        """What is before ``position`` is there no more: who missed something, and now is told ``why`` in its state."""
        with self.lock:
            missing = [member for member in self._behind if member.scanned < position]
            for member in missing:
                member.scanned = position
                member.state = replace(member.state, lasterror=why)
            if self._current and self.cursor < position:
                self.cursor = position
                missing += self._current
        return missing

    def _read_current(self, outbox: Outbox) -> list[Recipient]:
        records = outbox(self.cursor, WINDOW) if self._current else ()
        if not records:
            return []
        # Who is cut meanwhile is not among them any more.
        given = self._give(records, self._current, lambda member: member in self._current)
        self.cursor = records[-1].position
        return given

    def _read_behind(self, outbox: Outbox, members: Members) -> list[Recipient]:
        start = min(member.scanned for member in members)
        records = outbox(start, WINDOW)
        ended = len(records) < WINDOW
        if self._current:
            ended = ended or records[-1].position >= self.cursor
            records = [record for record in records if record.position <= self.cursor]
        end = records[-1].position if records else start
        if ended and self._current:
            end = max(end, self.cursor)
        near = {member: cuts for member, cuts in members.items() if member.scanned <= end}
        given = self._give(records, near, lambda member: member.cuts == near[member])
        self._move(near, end, ended)
        return given

    def _with_room(self) -> dict[Recipient, int]:
        limit = self._limit()
        with self.lock:
            found = {member: member.cuts for member in self._behind if member.room(limit)}
            self.stirred = bool(found)
        return found

    def _move(self, members: Members, end: int, ended: bool) -> None:
        """Those who were not filled up have everything up to ``end``; at the end of all they keep up from now on."""
        with self.lock:
            if ended and not self._current:
                self.cursor = end
            for member, cuts in members.items():
                if member.cuts == cuts and member in self._behind:
                    member.scanned = max(member.scanned, end)
                    if ended:
                        del self._behind[member]
                        self._current[member] = None

    def _give(self, records: Sequence[Record], members: Container[Recipient], still: Still) -> list[Recipient]:
        """Sort ``records`` into the queues of ``members``; who is full goes behind.

        A queue that was cut meanwhile, so that it is not ``still`` what it was, gets nothing: a part of what it had is
        to be read again first.
        """
        limit = self._limit()
        found: dict[Recipient, list[tuple[int, JSONObject]]] = {}
        full: dict[Recipient, int] = {}
        for record in records:
            takers = [taken for taken in self._takers(record, members) if taken[0] not in full]
            for member, event in takers:
                found.setdefault(member, []).append((record.position, event))
            for member, _ in takers:
                if len(member.pending) + len(found[member]) >= limit:
                    full[member] = record.position
        with self.lock:
            for member, events in found.items():
                if still(member) and member.phase is not Phase.OVER:
                    member.pending.extend(events)
                    if member in full:
                        self.fall_behind(member)
                        member.cuts += 1
                        member.scanned = full[member]
        return list(found)

    def _takers(self, record: Record, members: Container[Recipient]) -> Iterator[tuple[Recipient, JSONObject]]:
        for dialect, index in self._indexes.values():
            for event in dialect.events(record):
                for member in index.candidates(event):
                    if member in members and record.position > member.scanned and member.interest.wants(event):
                        yield member, event

    def _limit(self) -> int:
        """Events in one queue: fewer where there are many queues."""
        return min(_MOST, max(_LEAST, _IN_MEMORY // max(1, len(self.members))))
