"""How far the outbox is: looked up once for all of a process that wait for more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from signalbook.storage.base import StorageError

_LOOK_EVERY: Final = 0.05

Tell = Callable[[int], None]


class Head:
    """The position of the last change, by whichever process. Safe for threads.

    ``ask`` finds it; nobody asks while nobody listens. While the store cannot be read, it stays where it was.
    """

    def __init__(self, ask: Callable[[], int]) -> None:
        self._ask = ask
        self._position = 0
        self._listeners: dict[object, Tell] = {}
        self._lock = threading.Lock()
        self._looking = False

    @property
    def position(self) -> int:
        """What the last look found; 0 if nobody has looked."""
        return self._position

    def listen(self, tell: Tell) -> Callable[[], None]:
        """Call ``tell`` with each new position, in another thread, until the function that is returned is called.

        It must not take long: the others wait for it.
        """
        mark = object()
        with self._lock:
            self._listeners[mark] = tell
            if not self._looking:
                self._looking = True
                threading.Thread(target=self._look, name="head", daemon=True).start()

        def stop() -> None:
            with self._lock:
                self._listeners.pop(mark, None)

        return stop

    def _look(self) -> None:
        pause = threading.Event()
        while True:
            self._find()
            pause.wait(_LOOK_EVERY)
            with self._lock:
                if not self._listeners:
                    self._looking = False
                    return

    def _find(self) -> None:
        try:
            position = self._ask()
        except StorageError:
            return
        if position != self._position:
            self._position = position
            with self._lock:
                listeners = list(self._listeners.values())
            for tell in listeners:
                tell(position)
