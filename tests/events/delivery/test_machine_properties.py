"""Two servers deliver to one sink, through kills, 503s, lost leases, updates and clocks that jump; nothing is lost."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.examples import examples

from signalbook.events.backoff import Backoff, resumed
from signalbook.events.delivery import machine
from signalbook.events.delivery.interest import select
from signalbook.events.delivery.machine import Delivery, Phase
from signalbook.events.sinks.base import DeliveryError, NotYet
from signalbook.events.subscription import Subscription
from signalbook.storage.subscriptions import ACTIVE, GONE, SUSPENDED, DeliveryState
from signalbook.values import JSONObject

BACKOFF = Backoff(first=2.0, longest=60.0, give_up=3600.0, attempts=3)
SUBSCRIPTION = Subscription(id="1", protocol="FILE", sink="file:a", revision=1)
SELECTION = select(SUBSCRIPTION, "https://r.example")
LIMIT = 40

EventID = tuple[int, int]
"""An event: its position in the outbox, and which of that change's events it is."""


@dataclass(slots=True)
class Attempt:
    """An attempt under way, and the events of it that the sink took so far."""

    sent: list[EventID]
    taken: int = 0


@dataclass(slots=True)
class Server:
    """The state of one process, which is lost when the process ends."""

    delivery: Delivery | None = None
    serving: bool = False
    attempt: Attempt | None = None
    refused: bool = False
    unwritten: list[machine.WriteCheckpoint] = field(default_factory=list)
    read_from: int | None = None
    began_at: int = 0
    acknowledged: set[EventID] = field(default_factory=set)
    line: list[str] = field(default_factory=list)
    timers: list[float] = field(default_factory=list)


class Deliveries(RuleBasedStateMachine):
    """The world around two machines: an outbox, the stored state, a lease, clocks, and a sink that remembers all."""

    def __init__(self) -> None:
        super().__init__()
        self.last = 0
        self.events: list[EventID] = []
        self.subscription = SUBSCRIPTION
        self.start = 0
        self.stored: DeliveryState = DeliveryState(position=0)
        self.servers = [Server(), Server()]
        self.holder: int | None = None
        self.clock = 1000.0
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.received: list[EventID] = []
        self.rejected: set[EventID] = set()
        self.repeats = False  # True if events may come again: after kills, lost leases, updates and lost responses
        self.lease_moves(0, noticed=True)

    # Few rules, so that each is chosen often enough.

    @rule(
        sizes=st.lists(st.integers(0, 3), max_size=12),
        window=st.integers(1, 30),
        begins=st.sampled_from([True, True, True, False]),
        count=st.sampled_from([0, 0, 1, 2, 7, 64]),
    )
    def deliver(self, sizes: list[int], window: int, begins: bool, count: int) -> None:
        """Changes are committed and read, an attempt begins, and the sink takes some of its events."""
        self.commit(sizes)
        self.turn(window, begins)
        for server in self.sending():
            self.take(server, count)

    @precondition(lambda self: any(self.sending()))
    @rule(
        which=st.integers(0, 1),
        outcome=st.sampled_from(["", "", "", "503", "503", "415", "410", "not yet"]),
        retry_after=st.none() | st.floats(0.5, 900),
        reported=st.sampled_from([0, 1, 2, 7, 64, 64]),
        took=st.sampled_from([0.01, 0.01, 0.01, 5.0]),
    )
    def an_attempt_ends(self, which: int, outcome: str, retry_after: float | None, reported: int, took: float) -> None:
        self.attempt_is_over(which, outcome, retry_after, reported, took)

    @rule(
        seconds=st.sampled_from([0.1, 1.0, 5.0, 61.0, 901.0, 4000.0]),
        jump=st.just(0.0) | st.floats(-7200, 7200),
        hurries=st.booleans(),
        writes=st.booleans(),
    )
    def time_goes_on(self, seconds: float, jump: float, hurries: bool, writes: bool) -> None:
        """Backoffs end, updates are seen, checkpoints written; and somebody may set the clock."""
        self.clock_is_set(jump)
        self.time_passes(seconds)
        self.lease_is_seen_to_be_lost()
        self.attempt_is_refused()
        self.synchronise()
        if hurries and self.holder is not None:
            self.give(self.servers[self.holder], machine.Hurried())
        if writes and self.holder is not None:
            self.write(self.servers[self.holder])

    @rule(
        event_name=st.sampled_from(["", "", "", "", "kill", "stop", "lease", "lease", "update", "update"]),
        server=st.integers(0, 1),
        other=st.integers(0, 1),
        noticed=st.booleans(),
        elsewhere=st.none() | st.integers(0, 30),
    )
    def something_happens(self, event_name: str, server: int, other: int, noticed: bool, elsewhere: int | None) -> None:
        match event_name:
            case "kill":
                self.killed(server, other)
            case "stop":
                self.stopped(other)
            case "lease":
                self.repeats = True
                self.lease_moves(server, noticed)
            case "update":
                self.update(elsewhere)
                if noticed:
                    self.synchronise()

    # What others do.

    def commit(self, sizes: list[int]) -> None:
        """Changes, each with so many events for the subscription."""
        for size in sizes:
            self.last += 1
            self.events += [(self.last, number) for number in range(size)]

    def update(self, elsewhere: int | None) -> None:
        """Update the subscription in the store; the servers notice it later."""
        self.repeats = True
        self.subscription = replace(self.subscription, revision=self.subscription.revision + 1)
        self.stored = resumed(self.stored)
        if elsewhere is not None and elsewhere <= self.last and str(elsewhere) != self._start(self.subscription):
            self.subscription = replace(self.subscription, config={"after": str(elsewhere)})
            self.stored = replace(self.stored, position=elsewhere)
            # From there on all comes again.
            self.start = elsewhere

    def time_passes(self, seconds: float) -> None:
        self.clock += seconds
        self.now += timedelta(seconds=seconds)
        for server in self.servers:
            for due in [timer for timer in server.timers if timer <= self.clock]:
                server.timers.remove(due)
                self.give(server, machine.TimePassed(self.clock))

    def clock_is_set(self, seconds: float) -> None:
        """Only that of the wall; that is what people are shown."""
        self.now += timedelta(seconds=seconds)

    # The lease.

    def lease_moves(self, to: int | None, noticed: bool) -> None:
        """A server that gets it reads the store; one that loses it may notice later, and sends nothing more then."""
        if to == self.holder:
            return
        before, self.holder = self.holder, to
        if before is not None and noticed:
            self.lose(self.servers[before])
        if to is not None:
            if self.servers[to].serving:
                self.lose(self.servers[to])  # it is another term
            self.gain(self.servers[to])

    def lose(self, server: Server) -> None:
        server.serving = False
        server.unwritten.clear()
        server.line.clear()
        self.give(server, machine.LeaseLost())

    def gain(self, server: Server) -> None:
        server.serving = True
        server.acknowledged.clear()
        self.give(server, self.served(self.stored))

    def lease_is_seen_to_be_lost(self) -> None:
        for server in self.stale():
            self.lose(server)

    # The processes.

    def killed(self, server: int, heir: int) -> None:
        """Kill the server and start it again. Events that the sink received stay received."""
        self.repeats = True
        self.servers[server] = Server()
        if self.holder == server:
            self.holder = None
            self.lease_moves(heir, noticed=True)

    def stopped(self, heir: int) -> None:
        """The holder waits for its attempt, writes its checkpoint and gives back the lease."""
        assert self.holder is not None
        server = self.servers[self.holder]
        self.give(server, machine.ServerStopped())
        self.attempt_is_refused()
        if server.attempt is not None:
            self.take(server, len(server.attempt.sent))
            self.attempt_ends(server, None)
        assert server.delivery is None
        self.write(server)
        self.servers[self.holder], self.holder = Server(), None
        self.lease_moves(heir, noticed=True)

    # What a server does.

    def synchronise(self) -> None:
        """See an update."""
        if (server := self.serving()) and server.delivery and server.delivery.expected != self.subscription:
            elsewhere = self._start(self.subscription) != self._start(server.delivery.subscription)
            self.give(server, self.served(self.stored if elsewhere else None))

    def turn(self, window: int, begins: bool) -> None:
        """Read the outbox, and begin an attempt if a thread is free. Each asks for the lease once more before that."""
        server = self.serving()
        if server is not None:
            self.read(server, window)
        for server in self.servers:
            if begins and server.serving and server.line:
                before = server.attempt
                self.give(server, machine.AttemptPossible(server.line.pop(0)))
                if server.attempt is not before:
                    server.refused = server is not self.serving()

    def attempt_is_refused(self) -> None:
        for server in self.sending(refused=True):
            server.attempt, server.refused = None, False
            self.give(server, machine.AttemptRefused())

    def attempt_is_over(self, which: int, outcome: str, retry_after: float | None, reported: int, took: float) -> None:
        """The sink may have taken more than the server gets to know; never less."""
        server = self.sending()[which % len(self.sending())]
        assert server.attempt is not None
        if not outcome:
            self.take(server, len(server.attempt.sent))
            self.attempt_ends(server, None, took)
            return
        error = _error(outcome, min(reported, server.attempt.taken), retry_after)
        if error.rejected:
            error.delivered = server.attempt.taken  # it answers to each event
        self.attempt_ends(server, error, took)

    # What must hold.

    @invariant()
    def nothing_is_skipped(self) -> None:
        """Whatever the store says is done with was taken or refused."""
        settled = {event_id for event_id in self.events if self.start < event_id[0] <= self.stored.position}
        assert settled <= set(self.received) | self.rejected

    @invariant()
    def everything_is_counted_once(self) -> None:
        """The state to store has the numbers of events that the sink took and rejected, unless events come again."""
        server = self.serving()
        if self.repeats or server is None:
            return
        state = server.unwritten[-1].state if server.unwritten else self.stored
        under_way = 0 if server.attempt is None else server.attempt.taken
        assert len(set(self.received)) == len(self.received)
        assert state.delivered == len(self.received) - under_way
        assert state.rejected == len(self.rejected)

    @invariant()
    def at_most_one_attempt(self) -> None:
        for server in self.servers:
            delivery = server.delivery
            assert (server.attempt is not None) is (delivery is not None and delivery.phase is Phase.SENDING)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        for server in self.servers:
            delivery = server.delivery
            if delivery is None or not server.serving or delivery.deferred is not None:
                continue
            if delivery.phase is Phase.IDLE:
                assert not delivery.pending
            if delivery.phase is Phase.READY:
                assert delivery.pool in server.line
            if delivery.phase is Phase.WAITING:
                assert delivery.due in server.timers
            if delivery.phase is not Phase.OVER:
                assert server.read_from == delivery.read
                assert len(delivery.pending) <= LIMIT // 2 + 3 * 30
                assert all(delivery.position < position <= delivery.read for position, _ in delivery.pending)
            else:
                assert delivery.state.state in (GONE, SUSPENDED)

    def teardown(self) -> None:
        """Check that all events arrive with a working sink and a running server."""
        if self.holder is None:
            self.lease_moves(0, True)
        server = self.serving()
        assert server is not None
        self.all_attempts_end()
        if server.delivery is not None and server.delivery.phase is Phase.OVER:
            self.update(None)
        for _ in range(3 * len(self.events) + 20):
            self.synchronise()
            self.time_passes(901.0)
            self.turn(30, True)
            self.all_attempts_end()
        self.write(server)
        self.give(server, machine.CheckpointDue())
        self.write(server)
        assert self.stored.position == self.last
        assert self.stored.state == ACTIVE
        assert {event_id for event_id in self.events if event_id[0] > self.start} <= set(self.received) | self.rejected

    # How it works.

    def read(self, server: Server, window: int) -> None:
        """Read the next events as the reader does."""
        if server.delivery is None or server.read_from is None or not server.delivery.has_room(LIMIT):
            return
        until = min(server.read_from + window, self.last)
        events = [event_id for event_id in self.events if server.read_from < event_id[0] <= until]
        server.read_from = until
        self.give(server, machine.EventsRead(until, tuple((event_id[0], _event(event_id)) for event_id in events)))

    def all_attempts_end(self) -> None:
        self.attempt_is_refused()
        for _ in self.sending():
            self.attempt_is_over(0, "", None, 0, 0.01)

    def sending(self, *, refused: bool = False) -> list[Server]:
        return [server for server in self.servers if server.attempt is not None and server.refused is refused]

    def stale(self) -> list[Server]:
        """Return the servers that have lost the lease without noticing it."""
        return [server for server in self.servers if server.serving and server is not self.serving()]

    def give(self, server: Server, event: machine.Event) -> None:
        """Give an event to the state machine and execute its actions as the dispatcher does."""
        server.delivery, actions = machine.step(server.delivery, event, BACKOFF)
        for action in actions:
            match action:
                case machine.Schedule():
                    server.line.append(action.pool)
                case machine.Send():
                    assert server.attempt is None
                    server.attempt = Attempt([_id(event) for event in action.events])
                    self.check_sent(server, server.attempt.sent)
                case machine.WakeAt():
                    server.timers.append(action.clock)
                case machine.ReadAgain():
                    server.read_from = action.position
                case machine.Read():
                    server.read_from = server.began_at = action.position
                    again = {event_id for event_id in server.acknowledged if event_id[0] > action.position}
                    if isinstance(event, machine.Served) and event.state is None:
                        # All events of a change are done with or none; nothing else comes again.
                        assert len({position for position, _ in again}) <= 1
                    server.acknowledged -= again
                case machine.StopReading():
                    server.read_from = None
                case machine.WriteCheckpoint():
                    server.unwritten.append(action)

    def check_sent(self, server: Server, sent: list[EventID]) -> None:
        """Check that the events are sent in order, that none is omitted, and that none is repeated that the server
        knows to be done.
        """
        assert sent
        assert server.began_at < sent[0][0]
        assert not server.acknowledged & set(sent)
        first = self.events.index(sent[0])
        assert self.events[first : first + len(sent)] == sent

    def take(self, server: Server, count: int) -> None:
        """The sink takes events of an attempt under way. What comes before them came before, or begins here."""
        assert server.attempt is not None
        fresh = server.attempt.sent[server.attempt.taken :][:count]
        server.attempt.taken += len(fresh)
        delivery = server.delivery
        assert delivery is not None
        for event_id in fresh:
            if server is self.serving() and delivery.deferred is None and delivery.subscription == self.subscription:
                before = {other for other in self.events if self.start < other[0] and other < event_id}
                assert before <= set(self.received) | self.rejected
            self.received.append(event_id)

    def attempt_ends(self, server: Server, error: DeliveryError | None, took: float = 0.01) -> None:
        attempt, server.attempt = server.attempt, None
        assert attempt is not None
        assert server.delivery is not None
        before = server.delivery
        self.repeats |= error is not None and error.delivered < attempt.taken
        if error is not None and error.rejected and error.delivered < len(attempt.sent):
            self.rejected.add(attempt.sent[error.delivered])
        sent = len(attempt.sent)
        ended = machine.AttemptEnded(sent=sent, error=error, took=took, clock=self.clock, now=self.now, chance=0.5)
        self.give(server, ended)
        if before.deferred is None:
            self.check_settled(server, attempt, error)

    def check_settled(self, server: Server, attempt: Attempt, error: DeliveryError | None) -> None:
        """Check that each sink gets the time that it requests, and that nothing is repeated that it is known to
        have received.
        """
        delivery = server.delivery
        assert delivery is not None
        settled = len(attempt.sent) if error is None else min(error.delivered, len(attempt.sent))
        server.acknowledged |= set(attempt.sent[:settled])
        if error is None or error.rejected or delivery.state.over:
            return
        wait = error.retry_after or 0.0
        if not isinstance(error, NotYet):
            assert delivery.phase is Phase.WAITING
            assert delivery.due >= self.clock + max(wait, BACKOFF.first / 2)
        elif wait:
            assert delivery.phase is Phase.WAITING
            assert delivery.due == self.clock + wait

    def write(self, server: Server) -> None:
        """Write the checkpoints in one transaction, in which older revisions are discarded."""
        for written in server.unwritten:
            if written.revision == self.subscription.revision:
                assert written.state.position >= self.stored.position
                self.stored = written.state
        server.unwritten.clear()

    def serving(self) -> Server | None:
        return None if self.holder is None else self.servers[self.holder]

    def served(self, state: DeliveryState | None) -> machine.Served:
        return machine.Served(subscription=self.subscription, selection=SELECTION, state=state)

    @staticmethod
    def _start(subscription: Subscription) -> Any:
        return subscription.config.get("after")


def _event(id: EventID) -> JSONObject:
    return {"position": id[0], "number": id[1]}


def _id(event: JSONObject) -> EventID:
    return (event["position"], event["number"])


def _error(outcome: str, delivered: int, retry_after: float | None) -> DeliveryError:
    match outcome:
        case "503":
            return DeliveryError("503", delivered=delivered, retry_after=retry_after)
        case "415":
            return DeliveryError("415", delivered=delivered, rejected=True)
        case "410":
            return DeliveryError("410", delivered=delivered, gone=True)
    return NotYet("slower", delivered=delivered, retry_after=retry_after)


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = settings(stateful_step_count=60, max_examples=examples(100))
