"""The native module, where it is installed: nothing depends on it, but some things are much faster with it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any


@cache
def module() -> Any:
    """``signalbook_native``, or ``None``."""
    try:
        return import_module("signalbook_native")
    except ImportError:
        return None
