"""A sample message of a definition, in forms to copy: as a CloudEvent, for curl, for Kafka.

It is made in the same way as by ``signalbook message build``, with simple values where the definition allows any. It is
validated before it is shown. Members for which no valid value was found are left out.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from shlex import quote
from typing import Any, Final

import msgspec
from markupsafe import escape

from signalbook.formats.base import format_pointer
from signalbook.formats.tree import Described, SchemaNode, sample
from signalbook.messages import CompiledDefinition, Message, Outbound, OutboundError, Surroundings, to_record
from signalbook.messages import build as build_message
from signalbook.messages.bindings.base import Binding, Uncarriable, find_binding
from signalbook.messages.cloudevents import JSON_FORMAT, Mode
from signalbook.messages.eventformats import EventError, find_format
from signalbook.messages.payload import UNSET
from signalbook.messages.producing.building import Param, required_inputs
from signalbook.values import JSON, Finding, format_timestamp
from signalbook.xid import Xid

KAFKA: Final = "KAFKA"
EVENT: Final = "sample-event"
BASE64: Final = "base64: "
"""The prefix of a payload that is not text."""
_WHEN: Final = datetime(2030, 1, 31, 12, tzinfo=UTC)
_MAX_SAMPLE_CHARS: Final = 12_000
_MAX_TOPIC_CHARS: Final = 300
_SERVERS: Final = 10
_MOST_FINDINGS: Final = 20
_DATA: Final = "data"
"""The prefix of paths in a payload, in findings."""
_HERE: Final = Surroundings(clock=lambda: _WHEN, new_id=lambda: "A234-1234-1234")
_OPEN: Final[dict[str, Any]] = {
    "integer": 1,
    "uinteger": 1,
    "ulong": 1,
    "number": 1,
    "boolean": True,
    "binary": "YWJj",
    "timestamp": format_timestamp(_WHEN),
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uriabsolute": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "symbol": "symbol",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleForm:
    """The sample in one form: ``id`` is the id of its HTML element, ``title`` its heading."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaEndpoint:
    """The topic and servers of the endpoint ``xid``, empty if it states none."""

    xid: Xid
    topic: str = ""
    servers: str = ""

    @classmethod
    def of(cls, xid: Xid, options: Mapping[str, JSON]) -> KafkaEndpoint:
        """Read the ``protocoloptions`` of an endpoint, which may have any content."""
        topic, places = options.get("topic"), options.get("endpoints")
        place = places[0] if isinstance(places, list) and places and isinstance(places[0], dict) else {}
        stated_servers = place.get("bootstrap.servers")
        servers = (
            stated_servers if isinstance(stated_servers, list) else [stated_servers] * isinstance(stated_servers, str)
        )
        return cls(
            xid=xid,
            topic=topic[:_MAX_TOPIC_CHARS] if isinstance(topic, str) else "",
            servers=",".join(str(server) for server in servers[:_SERVERS])[:_MAX_TOPIC_CHARS],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """All forms of one sample. ``faults`` are the findings about members that are left out, or the reasons why there is
    no sample.

    If ``is_incomplete``, the sample is not valid, because required members are left out.
    """

    forms: tuple[SampleForm, ...] = ()
    faults: tuple[Finding, ...] = ()
    is_incomplete: bool = False


def build_sample(definition: CompiledDefinition) -> Samples:
    """Return a sample message of ``definition``."""
    schema = definition.schema_use.schema
    return build_samples(definition, schema.tree() if isinstance(schema, Described) else None)


def build_samples(
    definition: CompiledDefinition, tree: SchemaNode | None, endpoint: KafkaEndpoint | None = None
) -> Samples:
    """Return a sample message of ``definition``, with a payload for ``tree``, in all forms for its protocol.

    The form for Kafka is a command with the servers of ``endpoint``, and its topic if the definition has none.
    """
    data = UNSET if tree is None else sample(tree)
    params = required_inputs(definition)
    context = {param.name: param.name for param in params if param.source == "template"}
    overrides = {
        param.paths[0]: _choose_value(param) for param in params if param.source == "property" and param.required
    }
    build = partial(build_message, definition, context, overrides=overrides, surroundings=_HERE)
    try:
        return Samples(forms=_list_short_forms(build(data), endpoint))
    except OutboundError as error:
        faults = error.findings[:_MOST_FINDINGS]
        paths = {fault.path for fault in error.findings}
    if all(path.startswith(f"{_DATA}/") for path in paths):
        # Members without a valid value must not prevent a sample with the others.
        data = _remove_members(data, paths, _DATA)
        for is_draft in (False, True):
            with suppress(OutboundError):
                forms = _list_short_forms(build(data, is_draft=is_draft), endpoint)
                return Samples(forms=forms, faults=faults, is_incomplete=is_draft)
    return Samples(faults=faults)


def _remove_members(value: Any, paths: Collection[str], path: str) -> Any:
    """Return the value at ``path`` without members at ``paths``."""
    if isinstance(value, dict):
        places = {path + format_pointer((name,)): name for name in value}
        return {name: _remove_members(value[name], paths, at) for at, name in places.items() if at not in paths}
    if isinstance(value, list):
        items = {f"{path}/{index}": item for index, item in enumerate(value)}
        return [_remove_members(item, paths, at) for at, item in items.items() if at not in paths]
    return value


def _list_short_forms(outbound: Outbound, endpoint: KafkaEndpoint | None) -> tuple[SampleForm, ...]:
    return tuple(form for form in _list_forms(outbound, endpoint) if len(escape(form.text)) <= _MAX_SAMPLE_CHARS)


def _choose_value(param: Param) -> Any:
    return _OPEN.get(param.type, param.name.rpartition(".")[2] or "value")


def _list_forms(outbound: Outbound, endpoint: KafkaEndpoint | None) -> Iterator[SampleForm]:
    protocol = outbound.definition.protocol
    if outbound.event is not None:
        try:
            event = find_format(JSON_FORMAT).encode(outbound.event)
            text = msgspec.json.format(event, indent=2).decode()
            yield SampleForm(id=EVENT, title="CloudEvent in JSON", text=text)
        except EventError:
            pass
    elif outbound.body is not None:
        yield SampleForm(id="sample-payload", title="Payload", text=_render_body(outbound.body))
    if protocol in ("", "HTTP") and (message := _encode_for_protocol("HTTP", outbound)):
        yield SampleForm(id="sample-curl", title="curl", text=_render_curl(message))
    if protocol in ("", KAFKA) and (message := _encode_for_protocol(KAFKA, outbound)):
        place = "" if endpoint is None else f", to {endpoint.xid}"
        yield SampleForm(id="sample-kafka", title=f"Kafka record, by kcat{place}", text=_render_kcat(message, endpoint))
    if protocol not in ("", "HTTP", KAFKA) and (message := _encode_for_protocol(protocol, outbound)):
        text = msgspec.json.format(to_record(message), indent=2)
        body = "" if message.body is None else f"\n{_render_body(message.body)}"
        yield SampleForm(id="sample-record", title=f"{protocol}: properties, then the body", text=text + body)


def _encode_for_protocol(protocol: str, outbound: Outbound) -> Message | None:
    """Return the message as a protocol carries it, or None if the protocol cannot carry it."""
    binding: Binding | None = find_binding(protocol)
    if binding is None:
        return None
    try:
        if outbound.event is not None:
            message = binding.encode(outbound.event, Mode.BINARY)
        else:
            message = binding.native(outbound.body, outbound.content_type)
        options: Mapping[str, Any] = outbound.options if outbound.definition.protocol == protocol else {}
        return binding.carrying(message, options) if options else message
    except (EventError, Uncarriable):
        return None


def _render_curl(message: Message) -> str:
    sections = message.sections
    method = str(sections.get("method") or "POST")
    path = str(sections.get("path") or "/")
    lines = [f"curl -X {quote(method)} {quote('https://example.com' + path)}"]
    lines += [f"-H {quote(f'{name}: {_decode_text(value)}')}" for name, value in sections.get("headers", ())]
    if message.content_type and not any(name.lower() == "content-type" for name, _ in sections.get("headers", ())):
        lines.append(f"-H {quote(f'Content-Type: {message.content_type}')}")
    if message.body is None:
        return " \\\n  ".join(lines)
    body = message.body
    if _is_text(body):
        return " \\\n  ".join([*lines, f"--data-binary {quote(body.decode())}"])
    return f"echo {b64encode(body).decode()} | base64 -d | " + " \\\n  ".join([*lines, "--data-binary @-"])


def _render_kcat(message: Message, endpoint: KafkaEndpoint | None) -> str:
    sections = message.sections
    topic = str(sections.get("topic") or (endpoint and endpoint.topic) or "TOPIC")
    servers = (endpoint and endpoint.servers) or "localhost:9092"
    lines = [f"kcat -P -b {quote(servers)} -t {quote(topic)}"]
    if (key := sections.get("key")) is not None:
        lines.append(f"-k {quote(_decode_text(key))}")
    lines += [f"-H {quote(f'{name}={_decode_text(value)}')}" for name, value in sections.get("headers", ())]
    body = message.body or b""
    command = " \\\n  ".join(lines)
    if _is_text(body) and b"\n" not in body:
        return f"printf %s {quote(body.decode())} | {command}"
    return f"echo {b64encode(body).decode()} | base64 -d | {command}"


def _render_body(body: bytes) -> str:
    return body.decode() if _is_text(body) else f"{BASE64}{b64encode(body).decode()}"


def _is_text(body: bytes) -> bool:
    try:
        return body.decode().isprintable() or all(
            character.isprintable() or character in "\n\r\t" for character in body.decode()
        )
    except UnicodeDecodeError:
        return False


def _decode_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
