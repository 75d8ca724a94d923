"""Limits for each caller, against a clock of the tests."""

import asyncio
from dataclasses import replace

import pytest

from signalbook.access import limits
from signalbook.access.base import ANONYMOUS, Identity
from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.access.limits import Caller, LoginGuard, RequestLimits, TokenBucket, TooManyRequests, find_network
from signalbook.settings import SettingError, Settings

SETTINGS = Settings(limits="on", limit_requests=10, limit_writes=2, limit_reads=2, limit_logins=3)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def caller(held: RequestLimits, who: str) -> Caller:
    result = held.caller(Access(Identity(subject=who), [], key="k"), "10.0.0.1")
    assert result is not None
    return result


def admitted(held: RequestLimits, who: str, *, write: bool = False, most: int = 1000) -> int:
    for count in range(most):
        try:
            caller(held, who).admit(write=write)
        except TooManyRequests:
            return count
    return most


def test_a_bucket_gives_its_burst_then_its_rate(clock: Clock) -> None:
    bucket = TokenBucket(rate=4, burst=8, clock=clock)
    assert [bucket.take() for _ in range(9)] == [0.0] * 8 + [0.25]
    clock.now += 0.125
    assert bucket.take() == pytest.approx(0.125)
    clock.now += 0.125
    assert bucket.take() == 0.0
    clock.now += 3600
    assert sum(not bucket.take() for _ in range(100)) == 8


def test_callers_have_separate_request_limits(clock: Clock) -> None:
    held = RequestLimits(SETTINGS, clock=clock)
    assert admitted(held, "ann") == 100
    assert admitted(held, "bob") == 100
    clock.now += 1
    assert admitted(held, "ann") == 10


def test_writes_have_a_separate_limit(clock: Clock) -> None:
    held = RequestLimits(SETTINGS, clock=clock)
    assert admitted(held, "ann", write=True) == 20
    assert admitted(held, "ann") == 79  # the refused write was a request, too
    with pytest.raises(TooManyRequests, match="limit_requests") as error:
        caller(held, "ann").admit(write=True)
    assert error.value.retry_after == 1


def test_limit_of_0_means_unlimited() -> None:
    held = RequestLimits(replace(SETTINGS, limit_requests=0, limit_writes=0))
    assert admitted(held, "ann", write=True, most=5000) == 5000


def test_callers_are_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    held = RequestLimits(SETTINGS, clock=clock)
    for number in range(limits._CALLERS + 50):
        caller(held, str(number)).admit(write=True)
    assert len(held._callers) == limits._CALLERS


def test_limits_apply_where_access_is_configured() -> None:
    def held(choice: str, access: Access) -> bool:
        return RequestLimits(replace(SETTINGS, limits=choice)).caller(access, "10.0.0.1") is not None

    ann = Access(Identity(subject="ann"), [], key="k")
    assert held("auto", ann)
    assert not held("auto", UNRESTRICTED)
    assert held("on", UNRESTRICTED)
    assert not held("off", ann)


def test_anonymous_callers_are_limited_by_address() -> None:
    held = RequestLimits(SETTINGS)
    here, there = (held.caller(UNRESTRICTED, address) for address in ("10.0.0.1", "10.0.0.2"))
    assert here is held.caller(UNRESTRICTED, "::ffff:10.0.0.1") is not there


def test_a_caller_is_an_identity_or_a_network() -> None:
    assert find_network("10.0.0.1") == find_network("::ffff:10.0.0.1") != find_network("10.0.0.2")
    assert find_network("2001:db8:1:2::1") == find_network("2001:db8:1:2:ffff::9") != find_network("2001:db8:1:3::1")
    assert find_network("fe80::1%eth0") == "fe80::"
    assert find_network("unix:") == "unix:"

    def known_as(identity: Identity) -> object:
        return Access(identity, [], key="k").caller

    ann = Identity(subject="ann", issuer="https://a")
    other = replace(ann, issuer="https://b")
    assert known_as(ann) == known_as(replace(ann, groups=frozenset({"g"}))) != known_as(other)
    assert known_as(Identity(token="t", subject="ann")) == "t"
    assert known_as(ANONYMOUS) is None


def test_reads_of_one_caller_are_serialised() -> None:
    async def scenario() -> None:
        held = RequestLimits(SETTINGS)
        running = highest = 0
        release = asyncio.Event()

        async def read(who: str) -> None:
            nonlocal running, highest
            turn = await caller(held, who).turn()
            running += 1
            highest = max(highest, running)
            await release.wait()
            running -= 1
            turn.release()

        reads = [asyncio.create_task(read("ann")) for _ in range(5)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert running == 2
        reads.append(asyncio.create_task(read("bob")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert running == 3
        release.set()
        await asyncio.gather(*reads)
        assert highest == 3

    asyncio.run(scenario())


def test_a_read_that_waits_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_WAIT_SECONDS", 0.01)

    async def scenario() -> None:
        ann = caller(RequestLimits(SETTINGS), "ann")
        turns = [await ann.turn(), await ann.turn()]
        with pytest.raises(TooManyRequests, match="limit_reads"):
            await ann.turn()
        waiting = asyncio.create_task(ann.turn())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        turns.pop().release()
        await ann.turn()

    asyncio.run(scenario())


def waits(guard: LoginGuard, address: str = "10.0.0.1", claimed: str = "t") -> int:
    try:
        guard.check(address, claimed)
    except TooManyRequests as error:
        return error.retry_after
    return 0


def test_failed_logins_cost_ever_longer_waits(clock: Clock) -> None:
    guard = LoginGuard(3, clock=clock)
    seen = []
    for number in range(12):
        guard.record_failure("10.0.0.1", "", number)
        seen.append(waits(guard))
        clock.now += seen[-1]
    assert seen == [0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256]
    guard.record_failure("10.0.0.1", "", "more")
    assert waits(guard) == 300
    assert waits(guard, "10.0.0.2", "") == 0
    clock.now += 1000
    guard.record_failure("10.0.0.1", "", "later")
    assert waits(guard) == 0


def test_failed_logins_of_a_name_count_across_addresses(clock: Clock) -> None:
    guard = LoginGuard(3, clock=clock)
    for number in range(5):
        guard.record_failure(f"10.0.0.{number}", "t", number)
    assert waits(guard, "10.9.9.9", "t") == 2
    assert waits(guard, "10.9.9.9", "u") == 0


def test_repeated_wrong_credential_counts_once(clock: Clock) -> None:
    guard = LoginGuard(3, clock=clock)
    for _ in range(100):
        guard.record_failure("10.0.0.1", "t", "expired")
    assert waits(guard) == 0


def test_failed_logins_take_bounded_memory(clock: Clock) -> None:
    guard = LoginGuard(3, clock=clock)
    for number in range(3 * limits._CALLERS):
        guard.record_failure(f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}", str(number), number)
    assert len(guard._failed) == len(guard._wrong) == limits._CALLERS


def test_login_limit_can_be_disabled() -> None:
    guard = LoginGuard(0)
    for number in range(100):
        guard.record_failure("10.0.0.1", "t", number)
    assert waits(guard) == 0


@pytest.mark.parametrize(("name", "value"), [("limits", "maybe"), ("limit_requests", -1), ("limit_logins", -1)])
def test_invalid_limit_is_rejected(name: str, value: object) -> None:
    with pytest.raises(SettingError, match=name):
        RequestLimits(replace(SETTINGS, **{name: value}))  # type: ignore[arg-type]
