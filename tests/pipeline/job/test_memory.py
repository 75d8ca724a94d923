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


@pytest.mark.parametrize(("made", "frozen", "old"), [(10, 0, False), (200_000, 0, True), (200_000, 1, False)])
def test_what_is_made_is_old_at_once(monkeypatch: pytest.MonkeyPatch, made: int, frozen: int, old: bool) -> None:
    """If it is much, and the program has frozen nothing: that is asked for then only, since it takes long."""
    asked = list[str]()

    def count() -> int:
        asked.append("count")
        return frozen

    monkeypatch.setattr(gc, "get_freeze_count", count)
    monkeypatch.setattr(gc, "freeze", lambda: asked.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: asked.append("unfreeze"))
    gc.collect(0)
    with uncollected():
        kept = [[number] for number in range(made)]
    assert asked == ["count"] * (made > 1000) + ["freeze", "unfreeze"] * old
    assert len(kept) == made


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
