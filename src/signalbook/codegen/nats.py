"""Generated messages to and from NATS, by the connection of nats-py that a program has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from signalbook.codegen.runtime import MessageHandlers, OnUnexpected
from signalbook.messages import Message, Outbound, bind
from signalbook.messages.bindings.nats import message as nats_message
from signalbook.values import JSON


class NatsConnection(Protocol):
    """The needed part of ``nats.aio.client.Client``, or of ``nats.js.JetStreamContext``."""

    async def publish(self, subject: str, *args: Any, **kwargs: Any) -> Any:
        """Send a message."""


class TypedNatsPublisher:
    """A publisher for built messages. ``endpoint`` has what their definitions leave open, such as the subject."""

    def __init__(self, connection: NatsConnection, endpoint: Mapping[str, JSON] | None = None) -> None:
        self._connection = connection
        self._endpoint = endpoint or {"protocol": "NATS"}

    async def send(self, outbound: Outbound, context: Mapping[str, str] | None = None) -> Any:
        """Send a message. Return the connection's answer, such as JetStream's acknowledgement.

        Raises ``OutboundError``, and the errors of nats-py. ``context`` is for placeholders of the endpoint that the
        message does not have.
        """
        message = bind(outbound, self._endpoint, context)
        sections = message.sections
        reply = {"reply": sections["reply-to"]} if sections.get("reply-to") else {}
        # The client has one value for each name.
        headers = dict(sections["headers"]) or None
        return await self._connection.publish(sections["subject"], message.body or b"", headers=headers, **reply)


class TypedNatsReceiver:
    """A receiver that calls handlers with messages. Pass ``receive`` to a subscription as its callback (``cb``).

    What is of no definition goes to ``on_unexpected``; without that it is raised.
    """

    def __init__(self, handlers: MessageHandlers, on_unexpected: OnUnexpected | None = None) -> None:
        self._handlers = handlers
        self._on_unexpected = on_unexpected

    async def receive(self, message: Any) -> None:
        """Take a ``nats.aio.msg.Msg``. Raises ``UnexpectedMessage``, and what handlers raise."""
        self._handlers.receive(received(message), self._on_unexpected)


def received(message: Any) -> Message:
    """A ``nats.aio.msg.Msg`` as ``parse`` takes it."""
    return nats_message(
        message.subject, message.data, tuple((message.headers or {}).items()), reply_to=message.reply or ""
    )
