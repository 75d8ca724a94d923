"""Event formats: CloudEvents as bytes, in JSON, Avro and Protobuf, and batches of them (domain.md K-22, K-23)."""

from signalbook.messages.eventformats.base import EventError, EventFormat
from signalbook.messages.eventformats.json import JSON
from signalbook.messages.eventformats.registry import find_format

__all__ = ["JSON", "EventError", "EventFormat", "find_format"]
