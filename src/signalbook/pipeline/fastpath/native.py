"""The native module, where it is installed: nothing depends on it, but some things are much faster with it."""

from __future__ import annotations

import logging
from functools import cache
from importlib import import_module
from typing import Any, Final

# As native/src/lib.rs has it: a module built from other sources may misread what it is told.
INTERFACE: Final = 1

_LOG: Final = logging.getLogger("signalbook.pipeline")


@cache
def module() -> Any:
    """``signalbook_native``, or ``None`` where there is none, or one of another interface, which the log tells once."""
    try:
        found = import_module("signalbook_native")
    except ImportError:
        return None
    interface = getattr(found, "INTERFACE", None)
    if interface == INTERFACE:
        return found
    _LOG.warning(
        "signalbook_native is left out, for its interface is %s and not %s, and JSON is read slower: "
        "run pip install ./native in a checkout of this version",
        "none" if interface is None else interface,
        INTERFACE,
    )
    return None


class Inexpressible(Exception):
    """There is no decoder of columns for a schema."""
