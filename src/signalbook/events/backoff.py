"""Compute the state of a delivery after an attempt: delivered, retrying after a backoff, suspended or gone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from signalbook.events.sinks.base import DeliveryError, NotYet
from signalbook.storage.subscriptions import ACTIVE, GONE, RETRYING, SUSPENDED, DeliveryState
from signalbook.values import format_timestamp, parse_timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The rules for waiting between failed attempts.

    The first wait takes ``first`` seconds, and each further wait is twice as long, up to ``longest``. Each wait is
    shortened at random by up to half, so that sinks that failed together are not tried together. A sink that accepted
    nothing for ``give_up`` seconds and in ``attempts`` attempts is suspended.
    """

    first: float = 1.0
    longest: float = 300.0
    give_up: float = 86_400.0
    attempts: int = 8

    def wait(self, failures: int, chance: float) -> float:
        """Return the seconds to wait after ``failures`` (1 or more) in a row. ``chance`` is random, from 0 to 1."""
        whole = min(self.longest, self.first * 2.0 ** min(failures - 1, 30))
        return whole * (1 - chance / 2)


def delivered(state: DeliveryState, count: int, now: datetime) -> DeliveryState:
    """Return the state after the sink has accepted ``count`` events at the time ``now``."""
    stamp = format_timestamp(now)
    fresh = replace(state, delivered=state.delivered + count, lastattempt=stamp, state=ACTIVE, next="")
    if not count:
        return fresh
    return replace(fresh, lastdelivery=stamp, failures=0, failing="", lasterror="")


def failed(
    state: DeliveryState, error: DeliveryError, now: datetime, backoff: Backoff, chance: float
) -> tuple[DeliveryState, float]:
    """Return the state after a failed attempt, and the seconds to wait before the next one."""
    stamp = format_timestamp(now)
    if isinstance(error, NotYet):
        wait = error.retry_after or 0.0
        return replace(state, next=_add_seconds(now, wait)), wait
    attempted = replace(state, lasterror=str(error), lastattempt=stamp)
    if error.gone:
        return replace(attempted, state=GONE, failures=state.failures + 1, next=""), 0.0
    if error.rejected:
        return replace(attempted, rejected=state.rejected + 1, state=ACTIVE, next=""), 0.0
    attempted = replace(attempted, failures=state.failures + 1, failing=state.failing or stamp)
    if _is_over(attempted, now, backoff):
        return replace(attempted, state=SUSPENDED, next=""), 0.0
    wait = max(backoff.wait(attempted.failures, chance), error.retry_after or 0.0)
    return replace(attempted, state=RETRYING, next=_add_seconds(now, wait)), wait


def resumed(state: DeliveryState) -> DeliveryState:
    """Return the state after an update of the subscription: failures are reset, the position stays."""
    return replace(state, state=ACTIVE, failures=0, failing="", next="")


def _is_over(state: DeliveryState, now: datetime, backoff: Backoff) -> bool:
    since = parse_timestamp(state.failing)
    # Require both. With the time alone, a sink would be suspended at its first failure after this server was off for
    # long. With attempts alone, a sink that restarts would be suspended too early.
    return state.failures >= backoff.attempts and now - since >= timedelta(seconds=backoff.give_up)


def _add_seconds(now: datetime, seconds: float) -> str:
    return format_timestamp(now + timedelta(seconds=seconds))
