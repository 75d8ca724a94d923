"""Encode and decode CloudEvents and batches of them in JSON, Avro and Protobuf (K-22, K-23)."""

from signalbook.messages.cloudevents import EventError
from signalbook.messages.eventformats.base import JSON_EVENTS, EventFormat, find_format

__all__ = ["JSON_EVENTS", "EventError", "EventFormat", "find_format"]
