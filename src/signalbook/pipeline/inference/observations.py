"""Classify messages into kinds, and summarize the messages of each kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from signalbook.formats.base import is_json
from signalbook.messages import CloudEvent, Message, Mode, format_attribute
from signalbook.messages.bindings.base import find_binding
from signalbook.messages.cloudevents import Attribute
from signalbook.messages.content import Unreadable, unpack_message
from signalbook.messages.eventformats import EventError, find_format
from signalbook.messages.matching.contract import decode_event
from signalbook.messages.payload import Payload
from signalbook.pipeline.inference.discriminators import (
    ANY_TOPIC,
    Discriminator,
    MemberChoice,
    check_member,
    choose_members,
    find_member_text,
)
from signalbook.pipeline.inference.summaries import AddressSummary, MemoryBudget, ValueSummary
from signalbook.values import JSON, JSONObject

EVENT: Final = "event"
REQUEST: Final = "request"
PLAIN: Final = "plain"
"""The kind of JSON messages in files and topics that are not CloudEvents."""
HTTP: Final = "HTTP"
KAFKA: Final = "KAFKA"
MOST_KINDS: Final = 5000
LONGEST_NAME: Final = 1024
_HEADER: Final = "headers."
# Headers about the delivery, its client or its credentials. They never show the kind of a message.
_TRANSPORT: Final = re.compile(
    r"accept.*|age|authorization|cache-control|connection|content-.*|cookie|date|expect|forwarded|host|if-.*|keep-alive"
    r"|origin|referer|sec-.*|te|trace.*|transfer-encoding|upgrade|user-agent|via|x-forwarded-.*|x-real-ip|x-request-id"
)
_VARYING: Final = re.compile(r".*\d.*|.{33,}", re.DOTALL)
_FEW: Final = 500


class KindSummary(msgspec.Struct):
    """The observations of ``count`` messages of one kind. ``kind`` and ``names`` identify it.

    ``attributes`` summarize the context attributes of events, or the path and headers of requests. ``natives`` are the
    types of context attributes, such as ``integer``, or ``any`` if they differ. ``types`` counts payloads by content
    type. ``payloads`` is the number of JSON payloads, which ``data`` summarizes.
    """

    kind: str
    names: list[str]
    count: int = 0
    payloads: int = 0
    attributes: dict[str, AddressSummary] = {}
    natives: dict[str, str] = {}
    types: dict[str, int] = {}
    data: ValueSummary = msgspec.field(default_factory=ValueSummary)

    def merge(self, other: KindSummary, room: MemoryBudget) -> None:
        """Add the observations of ``other``."""
        self.count += other.count
        self.payloads += other.payloads
        self.data.merge(other.data, room)
        for name, addresses in other.attributes.items():
            place = self.find_attribute(name, room)
            if place is not None:
                place.merge(addresses)
        self.add_types(other.natives)
        for content_type, count in other.types.items():
            self.count_type(content_type, count, room)

    def find_attribute(self, name: str, room: MemoryBudget) -> AddressSummary | None:
        """Return the summary of the attribute ``name``, which is created if necessary. None if ``room`` is used up."""
        summary = self.attributes.get(name)
        if summary is None and room.take(name):
            summary = self.attributes[name] = AddressSummary()
        return summary

    def add_types(self, natives: Mapping[str, str]) -> None:
        """Record the types of attributes by name. Attributes without a summary are ignored."""
        for name, native in natives.items():
            if name in self.attributes and self.natives.setdefault(name, native) != native:
                self.natives[name] = "any"

    def count_type(self, content_type: str, count: int, room: MemoryBudget) -> None:
        """Count payloads of a content type, unless it is new and ``room`` is used up."""
        if content_type in self.types or room.take(content_type):
            self.types[content_type] = self.types.get(content_type, 0) + count


class Observations(msgspec.Struct):
    """The observations of messages by kind. ``unknown`` counts messages that are broken or of no recognized kind.

    The size is limited by ``room`` and by the number of kinds, whatever the messages contain.
    """

    kinds: dict[str, KindSummary] = {}
    unknown: int = 0
    room: MemoryBudget = msgspec.field(default_factory=MemoryBudget)

    def take(self, message: Message, by: Discriminator) -> None:
        """Observe a message. ``by`` distinguishes the kinds of messages that are not CloudEvents."""
        parts = list(_split_parts(message))
        self.unknown += not parts
        for part in parts:
            observed = None if _is_broken(part.payload) else self._find_observed(part, by)
            if observed is None:
                self.unknown += 1
            else:
                _observe_part(*observed, part.payload, self.room)
                attributes = {} if part.event is None else part.event.attributes
                observed[0].add_types({name: _find_native_type(value) for name, value in attributes.items()})

    def _find_observed(self, part: _Part, by: Discriminator) -> tuple[KindSummary, dict[str, str]] | None:
        """Return the summary for the kind of ``part``, and its texts by name; None if its kind is not recognized."""
        texts = _read_texts(part)
        kind, names = _classify(part, texts, by)
        summary = self._find_kind(kind, names) if kind else None
        return None if summary is None else (summary, texts)

    def _find_kind(self, kind: str, names: list[str]) -> KindSummary | None:
        key = _build_key(kind, names)
        summary = self.kinds.get(key)
        if summary is None and len(self.kinds) < MOST_KINDS and len(key) <= LONGEST_NAME:
            summary = self.kinds[key] = KindSummary(kind=kind, names=names)
        return summary

    def merge(self, other: Observations) -> None:
        """Add the observations of ``other``."""
        self.unknown += other.unknown
        for observed in other.kinds.values():
            mine = self._find_kind(observed.kind, observed.names)
            if mine is None:
                self.unknown += observed.count
            else:
                mine.merge(observed, self.room)


def find_kinds(message: Message, by: Discriminator) -> dict[str, str]:
    """Return the names of the kinds of ``message`` by their keys in ``Observations``; empty if none is recognized.

    A batched message has a kind for each event.
    """
    names_by_key = {}
    for part in _split_parts(message):
        kind, names = _classify(part, _read_texts(part), by)
        if kind and len(_build_key(kind, names)) <= LONGEST_NAME:
            names_by_key[_build_key(kind, names)] = " ".join(filter(None, names))
    return names_by_key


def _build_key(kind: str, names: list[str]) -> str:
    return " ".join((kind, *names))


def find_discriminator(
    messages: Iterable[Message], name: str, member: str = ""
) -> tuple[Discriminator, dict[str, MemberChoice]]:
    """Return the discriminator for ``messages`` that are not CloudEvents, and the member chosen for each topic.

    ``name`` is the name for messages without a topic if they are all of one kind. With ``member``, use that member for
    all topics and choose none. Raises ``PipelineError`` if it has too many values.
    """
    requests: list[_Part] = []
    payloads: list[tuple[str, JSONObject]] = []
    for part in (part for message in messages for part in _split_parts(message) if part.event is None):
        if part.message.protocol == HTTP:
            requests.append(part)
        elif _is_plain(part) and isinstance(part.payload.value, dict):
            payloads.append((_read_topic(part), part.payload.value))
    if member:
        check_member(member, (payload for _, payload in payloads))
        return Discriminator(header=_find_kind_header(requests), members={ANY_TOPIC: member}, name=name), {}
    choices = choose_members(payloads)
    members = {topic: choice.member for topic, choice in choices.items()}
    return Discriminator(header=_find_kind_header(requests), members=members, name=name), choices


def _find_kind_header(requests: Sequence[_Part]) -> str:
    """Return the header (in lower case) whose value classifies plain HTTP requests, "" if there is none.

    Every request has the header, and it has few but at least two values. Of several such headers, choose the one whose
    values best predict the members of the payloads.
    """
    seen: dict[str, Counter[tuple[str, str]]] = {}
    for part in requests:
        members = _join_members(part.payload)
        for name, value in _iterate_headers(part.values):
            if not is_transport(name):
                seen.setdefault(name.removeprefix(_HEADER), Counter())[value, members] += 1
    whole = {name: pairs for name, pairs in seen.items() if pairs.total() == len(requests) and _has_few_values(pairs)}
    return min(whole, key=lambda name: (-_measure_agreement(whole[name]), len(whole[name]), name), default="")


def build_path_shape(path: str) -> str:
    """Return a path with ``{}`` for each segment that looks like a value."""
    return "/".join("{}" if _VARYING.fullmatch(segment) else segment for segment in path.split("/"))


class _Part(msgspec.Struct, frozen=True):
    """A message, or one event of a batched message. ``message`` is without content encoding.

    ``values`` are the message's properties by name, ``event`` is the CloudEvent in it, if any, and ``payload`` the
    data.
    """

    message: Message
    values: Mapping[str, Any]
    event: CloudEvent | None
    payload: Payload


def _build_part(message: Message, values: Mapping[str, Any], event: CloudEvent | None) -> _Part:
    payload = Payload(message, event)
    payload.decode_json()
    return _Part(message, values, event, payload)


def _split_parts(message: Message) -> Iterator[_Part]:
    """Yield the parts of ``message``: one, or for a batched message one per event. An unreadable message has none."""
    binding = find_binding(message.protocol)
    if binding is None:
        return
    try:
        clear = unpack_message(message)
        values = binding.values(clear)
        mode = binding.mode(clear, values)
        if mode is Mode.BATCH:
            form = find_format(clear.content_type)
            yield from [_build_part(clear, values, form.decode(part)) for part in form.split(clear.body or b"")]
        else:
            yield _build_part(clear, values, None if mode is Mode.NONE else decode_event(clear, binding, values, mode))
    except (Unreadable, EventError):
        return


def read_payloads(message: Message) -> list[JSON]:
    """Return the JSON payloads of ``message``: one, or for a batched message one per event that has one."""
    return [part.payload.value for part in _split_parts(message) if part.payload.value is not msgspec.UNSET]


def _read_texts(part: _Part) -> dict[str, str]:
    """Return the texts to summarize by name: attributes of an event, or properties of a request; else empty."""
    if part.event is not None:
        return {name: format_attribute(value) for name, value in part.event.attributes.items()}
    if part.message.protocol == HTTP:
        return {name: value for name, value in part.values.items() if isinstance(value, str)} | dict(
            _iterate_headers(part.values)
        )
    return {}


def _classify(part: _Part, texts: Mapping[str, str], by: Discriminator) -> tuple[str, list[str]]:
    """Return the kind of ``part`` and the names that identify it. The kind is "" if it is not recognized."""
    if part.event is not None:
        return EVENT, [texts["type"]]
    if part.message.protocol == HTTP:
        about = texts.get(_HEADER + by.header, "") if by.header else build_path_shape(texts.get("path", ""))
        return REQUEST, [texts.get("method", ""), about]
    if not _is_plain(part):
        return "", []
    topic = _read_topic(part)
    member = by.find_member(topic)
    if not member:
        return PLAIN, [topic, "" if topic else by.name]
    text = find_member_text(part.payload.value, member)
    return (PLAIN, [topic, text]) if text else ("", [])


def _is_plain(part: _Part) -> bool:
    """Return True if ``part`` is JSON from a file or a Kafka topic."""
    return part.message.protocol in ("", KAFKA) and part.payload.value is not msgspec.UNSET


def _read_topic(part: _Part) -> str:
    topic = part.values.get("topic", "") if part.message.protocol == KAFKA else ""
    return topic if isinstance(topic, str) else ""


def is_transport(name: str) -> bool:
    """Return True if the property ``name`` is a header about the delivery instead of the message."""
    header = name.removeprefix(_HEADER)
    return header != name and (_TRANSPORT.fullmatch(header) is not None)


def _iterate_headers(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the property name and value of headers that occur exactly once in a message."""
    for name, values_of_header in values.items():
        if name.startswith(_HEADER) and len(values_of_header) == 1:
            yield name, values_of_header[0]


def _is_broken(payload: Payload) -> bool:
    """Return True if the content type of the payload is JSON, but the payload is not valid JSON."""
    return payload.value is msgspec.UNSET and is_json(payload.content_type()) and bool(payload.body())


def _find_native_type(value: Attribute) -> str:
    if isinstance(value, str):
        return "string"
    return "boolean" if isinstance(value, bool) else "integer"


def _observe_part(observed: KindSummary, texts: Mapping[str, str], payload: Payload, room: MemoryBudget) -> None:
    observed.count += 1
    for name, text in texts.items():
        place = observed.find_attribute(name, room)
        if place is not None:
            place.take(text)
    observed.count_type(payload.content_type(), 1, room)
    if payload.value is not msgspec.UNSET:
        observed.payloads += 1
        observed.data.take(payload.value, room)


def _join_members(payload: Payload) -> str:
    value: JSON = payload.value
    return " ".join(sorted(value)) if isinstance(value, dict) else ""


def _has_few_values(pairs: Counter[tuple[str, str]]) -> bool:
    values = {value for value, _ in pairs}
    return 1 < len(values) <= min(_FEW, pairs.total() // 2)


def _measure_agreement(pairs: Counter[tuple[str, str]]) -> float:
    """Return the share of messages whose members are the most common ones for their value of a header.

    ``pairs`` counts messages by value and members.
    """
    commonest: dict[str, int] = {}
    for (value, _), count in pairs.items():
        commonest[value] = max(commonest.get(value, 0), count)
    return sum(commonest.values()) / pairs.total()
