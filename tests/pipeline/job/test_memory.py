"""What is kept between batches, and collecting that stops meanwhile."""

import gc

import pytest

from signalbook.pipeline.job.memory import Latest, pause_collection


@pause_collection()
def failing() -> None:
    assert not gc.isenabled()
    raise ValueError("x")


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_collection_is_restored(collects: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with pytest.raises(ValueError, match="x"):
            failing()
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()


@pytest.mark.parametrize(("object_count", "frozen", "old"), [(10, 0, False), (200_000, 0, True), (200_000, 1, False)])
def test_large_results_are_frozen_for_the_collector(
    monkeypatch: pytest.MonkeyPatch, object_count: int, frozen: int, old: bool
) -> None:
    """Objects are frozen only if they are large and the program has frozen nothing, which is checked only then because
    it takes long.
    """
    counted = list[str]()

    def count() -> int:
        counted.append("count")
        return frozen

    monkeypatch.setattr(gc, "get_freeze_count", count)
    monkeypatch.setattr(gc, "freeze", lambda: counted.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: counted.append("unfreeze"))
    gc.collect(0)
    with pause_collection():
        objects = [[number] for number in range(object_count)]
    assert counted == ["count"] * (object_count > 1000) + ["freeze", "unfreeze"] * old
    assert len(objects) == object_count


def test_latest_results_are_kept_within_the_limit() -> None:
    latest = Latest[str, int](10)
    for number, name in enumerate("abc"):
        latest.keep(name, number, 4)
    assert (latest.get("a"), latest.get("b"), latest.get("c")) == (None, 1, 2)
    assert latest.get("b") == 1  # asked for last: the next takes the room of the other
    latest.keep("d", 3, 6)
    assert (latest.get("c"), latest.get("b"), latest.get("d")) == (None, 1, 3)
    latest.keep("e", 4, 11)
    assert (latest.get("b"), latest.get("d"), latest.get("e")) == (None, None, 4)
