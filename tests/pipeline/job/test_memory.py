"""What is kept between batches, and collecting that stops meanwhile."""

from __future__ import annotations

import gc

import pytest

from signalbook.pipeline.job.memory import Latest, uncollected


@uncollected()
def failing() -> None:
    assert not gc.isenabled()
    raise ValueError("x")


@pytest.mark.parametrize("collects", [True, False])
def test_collection_goes_on_as_before(collects: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with pytest.raises(ValueError, match="x"):
            failing()
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()


def test_what_is_kept_is_the_latest_that_there_is_room_for() -> None:
    latest = Latest[str, int](10)
    for number, name in enumerate("abc"):
        latest.keep(name, number, 4)
    assert (latest.get("a"), latest.get("b"), latest.get("c")) == (None, 1, 2)
    assert latest.get("b") == 1  # asked for last: the next takes the room of the other
    latest.keep("d", 3, 6)
    assert (latest.get("c"), latest.get("b"), latest.get("d")) == (None, 1, 3)
    latest.keep("e", 4, 11)
    assert (latest.get("b"), latest.get("d"), latest.get("e")) == (None, None, 4)
