"""The reader of the outbox: one read for all deliveries that keep up, and which events each of them gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from signalbook import tracing
from signalbook.events.delivery.interest import EventSelection, InterestIndex
from signalbook.events.delivery.machine import Delivery, EventsRead, PendingEvent
from signalbook.events.dialects import EventDialect
from signalbook.events.subscription import Subscription
from signalbook.storage.outbox import Record
from signalbook.values import JSONObject

WINDOW: Final = 500
_IN_MEMORY: Final = 50_000
_MIN_LIMIT: Final = 32
_MAX_LIMIT: Final = 1000

ReadOutbox = Callable[[int, int], Sequence[Record]]
Allow = Callable[[Subscription, Record], bool]
"""Whether a change may be delivered to a subscription."""


class DeliveryReader:
    """Reads the outbox for ``deliveries``, which belong to the dispatcher. For its thread only.

    Current deliveries share one ``cursor``, and one read of the outbox. One that has as many events as it may have, or
    that dropped some, falls behind: it has a position of its own, and is read for again when it has room, several at
    once where they are near each other.

    ``outbox`` is ``Engine.read_changes``: after ``HistoryPruned`` call ``skip``. ``allow`` checks each change that a
    subscription wants. What a read returns has to be given to the deliveries before the next read: the reader counts on
    it that they have it.
    """

    def __init__(
        self,
        outbox: ReadOutbox,
        deliveries: Mapping[str, Delivery],
        allow: Allow = lambda _subscription, _record: True,
    ) -> None:
        self.cursor = 0
        self._outbox = outbox
        self._allow = allow
        self._unread = True
        self._deliveries = deliveries
        self._selections: dict[str, EventSelection] = {}
        self._indexes: dict[str, tuple[EventDialect, InterestIndex[str]]] = {}
        # From which position on each one is read for. That of a current one counts as long as the cursor is before it.
        self._current: dict[str, int] = {}
        self._behind: dict[str, int] = {}
        # Those behind that may have room, as a set that keeps its order: thousands may wait for dead sinks.
        self._may_have_room: dict[str, None] = {}

    def committed(self) -> None:
        """There may be changes behind the cursor."""
        self._unread = True

    def add(self, id: str, selection: EventSelection, position: int) -> None:
        """Read for a delivery, behind ``position``."""
        dialect = selection.dialect
        _, index = self._indexes.setdefault(dialect.source, (dialect, InterestIndex()))
        index.add(id, selection.interest.keys)
        self._selections[id] = selection
        self._behind[id] = position
        self.check_room(id)

    def remove(self, id: str) -> None:
        """Read no more for a delivery, if it was read for."""
        selection = self._selections.pop(id, None)
        if selection is not None:
            self._indexes[selection.dialect.source][1].remove(id, selection.interest.keys)
            self._current.pop(id, None)
            self._behind.pop(id, None)

    def rewind(self, id: str, position: int) -> None:
        """Read again behind ``position``."""
        if id in self._selections:
            self._current.pop(id, None)
            self._behind[id] = position
            self.check_room(id)

    def check_room(self, id: str) -> None:
        """A delivery may have got room for more events."""
        if id in self._behind:
            self._may_have_room[id] = None

    def position(self, id: str) -> int | None:
        """The position up to which all was read for a delivery; None if it is not read for."""
        if id in self._current:
            return max(self._current[id], self.cursor)
        return self._behind.get(id)

    def read_current(self) -> dict[str, EventsRead] | None:
        """Read a window for the current deliveries; who gets something of it. None if there was nothing to read."""
        # Each attempt that ends makes the dispatcher look here: without this it would cost two reads of the outbox.
        if not self._unread or not self._current:
            return None
        records = self._outbox(self.cursor, WINDOW)
        self._unread = bool(records)
        if not records:
            return None
        with tracing.span("dispatch", {"signalbook.changes": len(records)}) as span:
            tracing.describe(span, {}, tracing.correlated(record.correlationid for record in records))
            events_by_id, full = self._sort(records, self._current)
        self.cursor = records[-1].position
        for key, position in full.items():
            self._fall_behind(key, position)
        return self._build_results(events_by_id)

    def read_behind(self) -> dict[str, EventsRead] | None:
        """Read a window for those behind that have room; who gets something of it. None if nobody had room."""
        having_room = self._find_with_room()
        if not having_room:
            return None
        start = min(having_room.values())
        records = self._outbox(start, WINDOW)
        ended = len(records) < WINDOW
        if self._current:
            # Behind the cursor all read on together: what is there now comes with the next read for the current ones.
            ended = ended or records[-1].position >= self.cursor
            records = [record for record in records if record.position <= self.cursor]
        end = records[-1].position if records else start
        if ended and self._current:
            end = max(end, self.cursor)
        # Who is further than this window has its turn when the others are there, too.
        near = {key: position for key, position in having_room.items() if position <= end}
        events_by_id, full = self._sort(records, near)
        if ended and not self._current:
            self.cursor = end  # nobody shares it at present: whoever is current first says where it is
        for key, position in near.items():
            if key in full:
                self._fall_behind(key, full[key])
            elif ended:
                del self._behind[key]
                self._current[key] = max(position, end)
            else:
                self._behind[key] = max(position, end)
        return self._build_results(events_by_id)

    def skip(self, position: int) -> list[str]:
        """Changes up to ``position`` were pruned. Returns whose deliveries miss some."""
        missing = [key for key, read in self._behind.items() if read < position]
        self._behind.update(dict.fromkeys(missing, position))
        if self._current and self.cursor < position:
            self.cursor = position
            missing += self._current
        return missing

    def _fall_behind(self, key: str, position: int) -> None:
        self._current.pop(key, None)
        self._behind[key] = position
        self._may_have_room.pop(key, None)

    def _find_with_room(self) -> dict[str, int]:
        """Return the positions of those behind that have room."""
        limit = self._limit()
        self._may_have_room = {
            key: None for key in self._may_have_room if key in self._behind and self._deliveries[key].has_room(limit)
        }
        return {key: self._behind[key] for key in self._may_have_room}

    def _build_results(self, events_by_id: Mapping[str, list[PendingEvent]]) -> dict[str, EventsRead]:
        positions = {
            key: max(self._current[key], self.cursor) if key in self._current else self._behind[key]
            for key in events_by_id
        }
        return {key: EventsRead(positions[key], tuple(events)) for key, events in events_by_id.items()}

    def _sort(
        self, records: Sequence[Record], positions: Mapping[str, int]
    ) -> tuple[dict[str, list[PendingEvent]], dict[str, int]]:
        """Distribute ``records`` to the deliveries in ``positions``.

        Return their events, and the positions of full ones.

        The events of a change stay together: a full delivery is read again from the next change on.
        """
        limit = self._limit()
        events_by_id: dict[str, list[PendingEvent]] = {}
        full: dict[str, int] = {}
        for record in records:
            takers = [taker for taker in self._find_takers(record, positions) if taker[0] not in full]
            for key, event in takers:
                events_by_id.setdefault(key, []).append((record.position, event))
            for key, _ in takers:
                if len(self._deliveries[key].pending) + len(events_by_id[key]) >= limit:
                    full[key] = record.position
        return events_by_id, full

    def _find_takers(self, record: Record, positions: Mapping[str, int]) -> Iterator[tuple[str, JSONObject]]:
        for dialect, index in self._indexes.values():
            for event in dialect.events(record):
                for key in index.candidates(event):
                    position = positions.get(key)
                    unread = position is not None and position < record.position
                    if (
                        unread
                        and self._is_wanted(key, event)
                        and self._allow(self._deliveries[key].subscription, record)
                    ):
                        yield key, event

    def _is_wanted(self, key: str, event: JSONObject) -> bool:
        return self._selections[key].interest.wants(event)

    def _limit(self) -> int:
        """Events in memory for one delivery: fewer where there are many."""
        return min(_MAX_LIMIT, max(_MIN_LIMIT, _IN_MEMORY // max(1, len(self._selections))))
