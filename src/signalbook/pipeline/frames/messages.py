"""Read rows of a DataFrame as messages. Each row names the protocol of its message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from signalbook.messages import Message
from signalbook.messages.bindings import amqp, http, mqtt, nats
from signalbook.messages.cloudevents import JSON_FORMAT
from signalbook.pipeline import arrays
from signalbook.pipeline.sources.amqp_sections import build_sections
from signalbook.pipeline.sources.base import ATTRIBUTE_PREFIX, MessageBatch, UnreadableMessage
from signalbook.pipeline.sources.kafka import build_records, record_message
from signalbook.pipeline.sources.message_records import MessageRecords

_TYPE: Final = "content-type"
_ENCODING: Final = "content-encoding"
_Row = Mapping[str, Any]
_Pairs = Sequence[tuple[str, Any]]


class DataFrameRows:
    """The source that reads messages from rows of a user's DataFrame."""

    name = "dataframe"
    cloudevents_json = True

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the row at ``index`` as a message. Raises ``UnreadableMessage`` for an unknown protocol."""
        if batch.protocol == "KAFKA":
            return record_message(batch, index)
        make = _MESSAGES.get(batch.protocol)
        if make is None:
            protocols = ", ".join(sorted(name for name in (*_MESSAGES, "KAFKA") if name))
            raise UnreadableMessage(f"no messages of protocol {batch.protocol!r} can be read; there are: {protocols}")
        row = batch.record(index)
        return make(row, arrays.read_headers(batch.protocol, row["headers"]), f"{batch.path}/{row['position']}")

    def to_records(self, batch: MessageBatch, indices: Sequence[int]) -> MessageRecords | None:
        """Return the records of many Kafka messages for dead letters, or None for other protocols."""
        return build_records(batch, indices) if batch.protocol == "KAFKA" else None


SOURCE: Final = DataFrameRows()


def _build_file_message(row: _Row, pairs: _Pairs, reference: str) -> Message:
    """Return a message without a protocol: any content, or an event with its attributes in headers or in JSON."""
    sections: dict[str, Any] = {} if row["address"] is None else {"topic": row["address"]}
    attributes = {
        name.removeprefix(ATTRIBUTE_PREFIX): value for name, value in pairs if name.startswith(ATTRIBUTE_PREFIX)
    }
    stated = dict(pairs)
    return Message(
        content_type=stated.get(_TYPE) or ("" if attributes else JSON_FORMAT),
        content_encoding=stated.get(_ENCODING, ""),
        body=row["value"],
        sections=sections | {"headers": tuple(pairs)} | ({"attributes": attributes} if attributes else {}),
        received_at=row["received_at"],
        reference=reference,
    )


def _request(row: _Row, pairs: _Pairs, reference: str) -> Message:
    target, at = row["address"] or "/", row["received_at"]
    return http.request("POST", target, pairs, row["value"], received_at=at, reference=reference)


def _build_nats_message(row: _Row, pairs: _Pairs, reference: str) -> Message:
    subject, at = row["address"] or "", row["received_at"]
    return nats.message(subject, row["value"] or b"", pairs, received_at=at, reference=reference)


def _publish(row: _Row, pairs: _Pairs, reference: str) -> Message:
    sections: dict[str, Any] = {"topic_name": row["address"] or ""}
    stated = dict(pairs)
    if _TYPE in stated:
        sections["content_type"] = stated[_TYPE]
    sections["user_properties"] = tuple(pair for pair in pairs if pair[0] != _TYPE)
    return mqtt.publish(mqtt.V5, row["value"] or b"", sections, received_at=row["received_at"], reference=reference)


def _build_amqp_message(row: _Row, pairs: _Pairs, reference: str) -> Message:
    sections = build_sections(row["address"], pairs)
    return amqp.message(row["value"], sections, received_at=row["received_at"], reference=reference)


_MESSAGES: Final[Mapping[str, Callable[[_Row, _Pairs, str], Message]]] = {
    "": _build_file_message,
    "AMQP/1.0": _build_amqp_message,
    "HTTP": _request,
    mqtt.V5: _publish,
    "NATS": _build_nats_message,
}
