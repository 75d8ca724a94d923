"""Read the outbox for all deliveries, and distribute the events to them."""

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
"""Returns True if a change may be delivered to a subscription."""


class DeliveryReader:
    """Reads the outbox for ``deliveries``, which belong to the dispatcher. Only the dispatcher's thread uses it.

    Current deliveries share one ``cursor`` and one read of the outbox. A delivery that has its maximum of events, or
    dropped some, falls behind: it has its own position and is read for again when it has room. Deliveries behind that
    are near each other share a read.

    ``outbox`` is ``Engine.read_changes``. If it raises ``HistoryPruned``, call ``skip``. ``allow`` checks each change
    that a subscription wants. The result of a read must be passed to the deliveries before the next read, because the
    reader relies on their number of pending events.
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
        # The position up to which the outbox was read for each delivery. For a current delivery it counts only while
        # the cursor is lower.
        self._current: dict[str, int] = {}
        self._behind: dict[str, int] = {}
        # Deliveries behind that may have room, as a set that keeps its order. Thousands of others may wait for dead
        # sinks.
        self._may_have_room: dict[str, None] = {}

    def committed(self) -> None:
        """Note that there may be changes after the cursor."""
        self._unread = True

    def add(self, id: str, selection: EventSelection, position: int) -> None:
        """Start to read for the delivery ``id``, after ``position``."""
        dialect = selection.dialect
        _, index = self._indexes.setdefault(dialect.source, (dialect, InterestIndex()))
        index.add(id, selection.interest.keys)
        self._selections[id] = selection
        self._behind[id] = position
        self.check_room(id)

    def remove(self, id: str) -> None:
        """Stop reading for the delivery ``id``, if it is read for."""
        selection = self._selections.pop(id, None)
        if selection is not None:
            self._indexes[selection.dialect.source][1].remove(id, selection.interest.keys)
            self._current.pop(id, None)
            self._behind.pop(id, None)

    def rewind(self, id: str, position: int) -> None:
        """Read for the delivery ``id`` again after ``position``."""
        if id in self._selections:
            self._current.pop(id, None)
            self._behind[id] = position
            self.check_room(id)

    def check_room(self, id: str) -> None:
        """Note that the delivery ``id`` may have room for more events."""
        if id in self._behind:
            self._may_have_room[id] = None

    def position(self, id: str) -> int | None:
        """Return the position up to which the outbox was read for the delivery ``id``, or None if it was not."""
        if id in self._current:
            return max(self._current[id], self.cursor)
        return self._behind.get(id)

    def read_current(self) -> dict[str, EventsRead] | None:
        """Read a window of the outbox for the current deliveries, and return their events by id.

        Deliveries without events are not in the result. Return None if there was nothing to read.
        """
        # The dispatcher calls this after each attempt. Without this check that would cost two reads of the outbox.
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
        """Read a window of the outbox for the deliveries behind that have room, and return their events by id.

        Deliveries without events are not in the result. Return None if no delivery behind has room.
        """
        having_room = self._find_with_room()
        if not having_room:
            return None
        start = min(having_room.values())
        records = self._outbox(start, WINDOW)
        ended = len(records) < WINDOW
        if self._current:
            # Changes after the cursor come with the next read for the current deliveries.
            ended = ended or records[-1].position >= self.cursor
            records = [record for record in records if record.position <= self.cursor]
        end = records[-1].position if records else start
        if ended and self._current:
            end = max(end, self.cursor)
        # Deliveries with a position after this window are read for when the others have reached them.
        near = {key: position for key, position in having_room.items() if position <= end}
        events_by_id, full = self._sort(records, near)
        if ended and not self._current:
            self.cursor = end  # no delivery shares the cursor now, so the first current delivery sets it
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
        """Continue after ``position``, because changes up to it were pruned.

        Return the ids of deliveries that miss some.
        """
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
        """Return the positions of the deliveries behind that have room, by id."""
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
        """Return the maximum number of events in memory for one delivery: less if there are many deliveries."""
        return min(_MAX_LIMIT, max(_MIN_LIMIT, _IN_MEMORY // max(1, len(self._selections))))
