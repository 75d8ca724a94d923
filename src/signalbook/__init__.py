"""Signalbook: a registry for message definitions and schemas, and a Spark pipeline that checks messages with them."""

from typing import Final

__version__: Final = "0.1.0"
