"""Signalbook: one registry for what crosses a messaging system, and a Spark pipeline that holds live traffic to it."""

from typing import Final

__version__: Final = "0.1.0"
