"""Garbage collection, put off where masses of values are made that stay or go without it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no cycles meanwhile: among millions of fresh values that takes longer than to make them."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
