import threading
from collections.abc import Callable

import pytest

from signalbook.events.feed import Head
from signalbook.storage.base import StorageError

DEADLINE = 300


class Outbox:
    """Positions to be found; looks are counted."""

    def __init__(self) -> None:
        self.position = 0
        self.looks = 0
        self.broken = False
        self.looked = threading.Condition()

    def ask(self) -> int:
        with self.looked:
            self.looks += 1
            self.looked.notify_all()
        if self.broken:
            raise StorageError("away")
        return self.position

    def until(self, is_done: Callable[[], bool]) -> None:
        with self.looked:
            assert self.looked.wait_for(is_done, DEADLINE)

    def later(self) -> None:
        """Wait for a look that begins from now on."""
        expected = self.looks + 2
        self.until(lambda: self.looks >= expected)


def test_all_are_notified_of_each_move() -> None:
    outbox, notified = Outbox(), [threading.Event(), threading.Event()]
    head = Head(outbox.ask)
    stops = [head.listen(lambda position, event=event: event.set()) for event in notified]  # type: ignore[misc]
    outbox.position = 7
    assert all(event.wait(DEADLINE) for event in notified)
    assert head.position == 7
    for stop in stops:
        stop()


def test_head_stops_polling_without_listeners() -> None:
    outbox, earlier_threads = Outbox(), set(threading.enumerate())
    head = Head(outbox.ask)
    stop = head.listen(lambda _: None)
    outbox.later()
    (thread,) = (thread for thread in set(threading.enumerate()) - earlier_threads if thread.name == "head")
    stop()
    thread.join(DEADLINE)
    assert not thread.is_alive()
    stop = head.listen(lambda _: None)
    outbox.later()
    stop()


@pytest.mark.parametrize("broken", [True, False])
def test_unavailable_store_is_queried_again(broken: bool) -> None:
    outbox, notified = Outbox(), threading.Event()
    outbox.broken, outbox.position = broken, 3
    stop = Head(outbox.ask).listen(lambda _: notified.set())
    outbox.later()
    assert notified.is_set() is not broken
    outbox.broken = False
    assert notified.wait(DEADLINE)
    stop()
