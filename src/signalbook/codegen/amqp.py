"""Generated messages to and from AMQP 1.0, by the senders and receivers of Qpid Proton that a program has."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from signalbook.brokers.amqp.messages import Timestamp, body_bytes
from signalbook.codegen.runtime import MessageHandlers, OnUnexpected
from signalbook.messages import Message, Outbound, bind
from signalbook.messages.bindings.amqp import message as amqp_message
from signalbook.values import JSON

# Our names as attributes of ``proton.Message``.
_PROPERTIES: Final = {
    "message-id": "id",
    "user-id": "user_id",
    "to": "address",
    "subject": "subject",
    "reply-to": "reply_to",
    "correlation-id": "correlation_id",
    "content-type": "content_type",
    "content-encoding": "content_encoding",
    "absolute-expiry-time": "expiry_time",
    "creation-time": "creation_time",
    "group-id": "group_id",
    "group-sequence": "group_sequence",
    "reply-to-group-id": "reply_to_group_id",
}
_HEADER: Final = {
    "durable": "durable",
    "priority": "priority",
    "ttl": "ttl",
    "first-acquirer": "first_acquirer",
    "delivery-count": "delivery_count",
}
_MAPS: Final = {
    "application-properties": "properties",
    "message-annotations": "annotations",
    "delivery-annotations": "instructions",
}
_IDS: Final = ("message-id", "correlation-id")
"""The fields of which Proton has no default: their 0 and their empty text were sent."""
_SYMBOLS: Final = ("content-type", "content-encoding")
_TIMES_IN_SECONDS: Final = ("absolute-expiry-time", "creation-time")
_PLAIN_CLASSES: Final[tuple[type[Any], ...]] = (bool, int, float, str, bytes)
_PRIORITY: Final = 4
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ProtonSender(Protocol):
    """The needed part of ``proton.Sender``, or of ``proton.utils.BlockingSender``."""

    def send(self, msg: Any, *args: Any, **kwargs: Any) -> Any:
        """Send a message."""


class TypedAmqpSender:
    """A sender of built messages to the address of its link.

    ``endpoint`` says what their definitions leave open.
    """

    def __init__(self, sender: ProtonSender, endpoint: Mapping[str, JSON] | None = None) -> None:
        self._sender = sender
        self._endpoint = endpoint or {"protocol": "AMQP/1.0"}

    def send(self, outbound: Outbound, context: Mapping[str, str] | None = None) -> Any:
        """Send a message, and return its delivery. Raises ``OutboundError``, and what Proton raises.

        ``context`` is for placeholders of the endpoint that the message does not have.
        """
        return self._sender.send(_build_message(bind(outbound, self._endpoint, context)))


class TypedAmqpReceiver:
    """A receiver that calls handlers with each ``proton.Message`` that it is called with.

    What is of no definition goes to ``on_unexpected``; without that it is raised.
    """

    def __init__(self, handlers: MessageHandlers, on_unexpected: OnUnexpected | None = None) -> None:
        self._handlers = handlers
        self._on_unexpected = on_unexpected

    def __call__(self, found: Any) -> None:
        """Take a message. Raises ``UnexpectedMessage``, and what handlers raise."""
        self._handlers.receive(received(found), self._on_unexpected)


def received(message: Any) -> Message:
    """A ``proton.Message`` as ``parse`` takes it.

    Proton does not tell a field that was not sent from one that has its default: such are absent.
    """
    header = {ours: getattr(message, theirs) for ours, theirs in _HEADER.items()}
    if header["priority"] == _PRIORITY:
        del header["priority"]
    if header["ttl"]:
        header["ttl"] = round(header["ttl"] * 1000)  # milliseconds (part 3, 3.2.1)
    properties = {ours: _read_property(ours, getattr(message, theirs)) for ours, theirs in _PROPERTIES.items()}
    sections = {"header": header, "properties": properties}
    present: dict[str, Any] = {
        name: {key: value for key, value in fields.items() if value or (value is not None and key in _IDS)}
        for name, fields in sections.items()
    }
    for ours, theirs in _MAPS.items():
        present[ours] = {str(key): _simplify(value) for key, value in (getattr(message, theirs) or {}).items()}
    return amqp_message(
        body_bytes(_simplify(message.body)), {name: fields for name, fields in present.items() if fields}
    )


def _build_message(message: Message) -> Any:
    # The client is the program's: only who sends needs it.
    import proton

    proton_message: Any = proton.Message(body=message.body or b"", inferred=True)
    for section, names in (("header", _HEADER), ("properties", _PROPERTIES)):
        for ours, theirs in names.items():
            value = message.sections.get(section, {}).get(ours)
            if value is not None:
                setattr(proton_message, theirs, _convert_field(ours, value))
    for ours, theirs in _MAPS.items():
        fields = {
            _build_key(ours, name, proton): _convert_time(value, proton) for name, value in _list_fields(message, ours)
        }
        if fields:
            setattr(proton_message, theirs, fields)
    return proton_message


def _list_fields(message: Message, section: str) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in message.sections.get(section, {}).items() if value is not None]


def _build_key(section: str, name: str, proton: Any) -> Any:
    # Annotations are by symbols, application properties by strings (part 3, 3.2.10 and 3.2.5).
    return name if section == "application-properties" else proton.symbol(name)


def _convert_field(name: str, value: Any) -> Any:
    """Return a field of the header or the properties as Proton takes it: times in seconds, who sends in bytes."""
    if isinstance(value, datetime):
        return (value - _EPOCH) / timedelta(seconds=1)
    if name == "ttl":
        return value / 1000
    return value.encode() if name == "user-id" and isinstance(value, str) else value


def _convert_time(value: Any, proton: Any) -> Any:
    return (
        proton.timestamp(round((value - _EPOCH) / timedelta(milliseconds=1))) if isinstance(value, datetime) else value
    )


def _read_property(name: str, value: Any) -> Any:
    if name in _TIMES_IN_SECONDS:
        return Timestamp(round(value * 1000)).moment() if value else None
    if name in _SYMBOLS and value == "None":  # which Proton makes of one that is absent
        return None
    return _simplify(value)


def _simplify(value: Any) -> Any:
    """Return a value as Python has it, without the classes that Proton has for widths and kinds."""
    if isinstance(value, memoryview):
        return value.tobytes()
    if type(value).__name__ == "timestamp":
        return Timestamp(value).moment()
    if type(value).__name__ == "Described":
        return _simplify(value.value)
    if isinstance(value, dict):
        return {_simplify(key): _simplify(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_simplify(item) for item in value]
    kind = next((item for item in _PLAIN_CLASSES if isinstance(value, item)), None)
    return value if kind is None else kind(value)
