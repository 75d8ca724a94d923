"""What of a request's work is done in its write turn, what is left for later, and where it ends."""

from contextlib import suppress

import pytest

from signalbook import work
from signalbook.confluent.errors import schema_not_found
from signalbook.errors import RegistryError, SignalbookError
from signalbook.work import IN_TURN, OutOfTime, Postponed, TooComplex, Work, compute_or_postpone, spend


def steps(number: int) -> str:
    for _ in range(number):
        spend()
    return f"{number} steps"


def test_without_a_request_nothing_is_counted_or_left_for_later() -> None:
    assert compute_or_postpone("key", lambda: steps(2 * IN_TURN), size=10 * IN_TURN) == f"{2 * IN_TURN} steps"


def test_small_work_is_done_in_the_turn() -> None:
    budget, calls = Work(steps=0, seconds=0), []
    for _ in range(2):
        with budget.in_turn():
            assert compute_or_postpone("key", lambda: calls.append(steps(10)), size=10) is None
    assert calls == ["10 steps"]


@pytest.mark.parametrize(("number", "size"), [(10 * IN_TURN, 0), (1, IN_TURN + 1)], ids=["steps", "size"])
def test_large_work_is_done_between_two_turns(number: int, size: int) -> None:
    budget, turns = Work(steps=0, seconds=0), []
    with pytest.raises(Postponed), budget.in_turn():
        turns.append(compute_or_postpone("key", lambda: steps(number), size=size))
    budget.work_out()
    with budget.in_turn():
        turns.append(compute_or_postpone("key", lambda: steps(number), size=size))
    assert turns == [None, f"{number} steps"]


def test_turns_of_a_request_share_their_limit() -> None:
    budget = Work(steps=0, seconds=0)
    with pytest.raises(Postponed), budget.in_turn():
        results = [compute_or_postpone(key, lambda: steps(IN_TURN // 10)) for key in range(20)]
    assert [result is not None for result in results] == [True] * 10 + [False] * 10


@pytest.mark.parametrize("error", [RegistryError("not_found", subject="/"), schema_not_found()])
def test_postponed_work_comes_before_an_error(error: SignalbookError) -> None:
    """Errors are shown together: an answer must not depend on which of them was found in the turn."""

    def fail() -> None:
        compute_or_postpone("key", lambda: steps(1), size=IN_TURN + 1)
        raise error

    budget = Work(steps=0, seconds=0)
    with pytest.raises(Postponed), budget.in_turn():
        fail()


def test_waiting_documents_have_a_memory_limit() -> None:
    budget = Work(steps=0, seconds=0)
    with suppress(Postponed), budget.in_turn():
        compute_or_postpone(1, lambda: None, size=60_000_000)
        for key in (2, 3):  # a batch goes on with its next item
            with pytest.raises(Postponed):
                compute_or_postpone(key, lambda: None, size=60_000_000)
        assert (list(budget.postponed), budget.size) == ([1, 2], 120_000_000)


def test_step_limit_is_deterministic() -> None:
    """The limit is the same in the turn, outside of it, and in both together."""

    def left(budget: Work, number: int) -> None:
        with suppress(Postponed), budget.in_turn():
            compute_or_postpone("little", lambda: steps(1000))
            compute_or_postpone("much", lambda: steps(number - 1000), size=IN_TURN + 1)

    fits, exceeds = Work(steps=5000, seconds=0), Work(steps=5000, seconds=0)
    left(fits, 5000)
    fits.work_out()
    left(exceeds, 5001)
    with pytest.raises(TooComplex, match="more than 5000 steps"):
        exceeds.work_out()


def test_time_limit_ends_work() -> None:
    budget = Work(steps=0, seconds=0.01)
    with pytest.raises(Postponed), budget.in_turn():
        compute_or_postpone("key", lambda: steps(100_000_000), size=IN_TURN + 1)
    with pytest.raises(OutOfTime):
        budget.work_out()


def test_unlimited_work_is_done_immediately() -> None:
    budget = Work(steps=1, seconds=0)
    with budget.in_turn(), work.unlimited():
        assert compute_or_postpone("key", lambda: steps(2 * IN_TURN), size=10 * IN_TURN) is not None


def test_readers_have_limits() -> None:
    budget = Work(steps=10, seconds=0)
    with budget.on_the_spot():
        spend(10)
        with pytest.raises(TooComplex):
            spend()
    spend(1000)
