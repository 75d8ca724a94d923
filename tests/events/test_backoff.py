import random
from datetime import UTC, datetime, timedelta

import pytest

from signalbook.events.backoff import Backoff, delivered, failed, resumed
from signalbook.events.sinks.base import DeliveryError, NotYet
from signalbook.storage.subscriptions import ACTIVE, GONE, RETRYING, SUSPENDED, DeliveryState

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RETRIES = Backoff(first=1.0, longest=60.0, give_up=3600.0, attempts=3)


def test_waits_grow_up_to_a_limit() -> None:
    waits = [RETRIES.wait(failures, 0.0) for failures in range(1, 10)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert RETRIES.wait(10**6, 1.0) == 30


def test_random_factor_spreads_retries() -> None:
    assert {0.5 <= RETRIES.wait(1, random.random()) <= 1.0 for _ in range(100)} == {True}
    assert len({RETRIES.wait(1, random.random()) for _ in range(100)}) > 50


def test_delivered_events_reset_the_failures() -> None:
    before = DeliveryState(position=7, state=RETRYING, delivered=3, failures=2, failing="x", lasterror="y", next="z")
    at = "2030-01-01T00:00:00Z"
    assert delivered(before, 2, NOW) == DeliveryState(position=7, delivered=5, lastattempt=at, lastdelivery=at)


def test_a_failure_is_reported_with_the_next_attempt() -> None:
    state, wait = failed(DeliveryState(position=7), DeliveryError("no"), NOW, RETRIES, random.random())
    assert (state.state, state.failures, state.lasterror, state.failing) == (RETRYING, 1, "no", "2030-01-01T00:00:00Z")
    assert 0.5 <= wait <= 1.0
    assert "2030-01-01T00:00:00.5" <= state.next <= "2030-01-01T00:00:01Z"


def test_retry_after_is_respected() -> None:
    """The delay is that of the header Retry-After (D-33)."""
    actual = failed(DeliveryState(position=7), DeliveryError("no", retry_after=600), NOW, RETRIES, random.random())[1]
    assert actual == 600


def test_a_pause_is_no_failure() -> None:
    """The rate is exhausted (D-34)."""
    state, wait = failed(DeliveryState(position=7), NotYet("slow", retry_after=5), NOW, RETRIES, random.random())
    assert (state, wait) == (DeliveryState(position=7, next="2030-01-01T00:00:05Z"), 5)


@pytest.mark.parametrize(
    ("error", "state", "rejected"),
    [(DeliveryError("x", gone=True), GONE, 0), (DeliveryError("x", rejected=True), ACTIVE, 1)],
)
def test_permanent_errors_cause_no_wait(error: DeliveryError, state: str, rejected: int) -> None:
    """The statuses are 410 and 415 (D-33)."""
    after, wait = failed(DeliveryState(position=7), error, NOW, RETRIES, random.random())
    assert (after.state, after.rejected, after.lasterror, wait) == (state, rejected, "x", 0)
    assert after.over is (state == GONE)


@pytest.mark.parametrize(
    ("failures", "hours", "over"), [(0, 0, False), (1, 5, False), (2, 0.5, False), (2, 1.0, True), (9, 1.5, True)]
)
def test_giving_up_takes_time_and_attempts(failures: int, hours: float, over: bool) -> None:
    """A server that was off for long does not give up at once."""
    failing = (NOW - timedelta(hours=hours)).isoformat().replace("+00:00", "Z")
    before = DeliveryState(position=7, state=RETRYING, failures=failures, failing=failing if failures else "")
    after, _ = failed(before, DeliveryError("no"), NOW, RETRIES, random.random())
    assert (after.state == SUSPENDED) is over


def test_update_resets_the_failures() -> None:
    before = DeliveryState(position=7, state=SUSPENDED, delivered=3, failures=9, failing="x", lasterror="y")
    assert resumed(before) == DeliveryState(position=7, delivered=3, lasterror="y")
