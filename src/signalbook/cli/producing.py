"""Messages of definitions for the command line: found by name, made of what options say, read and written as lines."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from signalbook.errors import SignalbookError
from signalbook.messages import (
    CompiledDefinition,
    Contract,
    Message,
    Outbound,
    Policy,
    of_record,
    required_inputs,
    to_record,
)
from signalbook.messages.cloudevents import CORE, JSON_BATCH_FORMAT, JSON_FORMAT
from signalbook.messages.eventformats.base import JSON_EVENTS
from signalbook.pipeline.job.documents import read_documents
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.values import JSON, MAX_DEPTH, JSONError, JSONObject, dump_json, parse_json

_MAX_NAMES_SHOWN: Final = 20
# A message in a record, or data in an event: each may be as deep as a document.
_DEEP: Final = MAX_DEPTH + 8
_PATHS: Final = ("envelopemetadata.", "protocoloptions.")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDefinitions:
    """The definitions of a registry, compiled, and its documents."""

    contract: Contract
    documents: tuple[JSONObject, ...]

    @classmethod
    def read(cls, registry: str, groups: Sequence[str] = ()) -> KnownDefinitions:
        """Read the definitions of ``groups`` (endpoints with the groups they name), or all.

        Raises ``SignalbookError``.
        """
        documents = read_documents(registry)
        contract = Snapshot.of_registry(registry, documents, groups).compile(Policy())
        return cls(contract=contract, documents=tuple(document for _, document in documents))

    def definition(self, name: str) -> CompiledDefinition:
        """The definition with this xid or message id. Raises ``SignalbookError`` if there is none, or several."""
        definitions = self.contract.definitions
        xids = [xid for xid in definitions if name in (xid, xid.rpartition("/")[2])]
        if len(xids) == 1:
            return definitions[xids[0]]
        if xids:
            raise SignalbookError(f"several messages have the id {name}, name one by its xid: {', '.join(xids)}")
        for xid, findings in self.contract.broken.items():
            if name in (xid, xid.rpartition("/")[2]):
                raise SignalbookError(f"{xid} cannot be used: {'; '.join(map(str, findings))}")
        there = ", ".join(sorted(definitions)[:_MAX_NAMES_SHOWN]) + (
            ", …" if len(definitions) > _MAX_NAMES_SHOWN else ""
        )
        raise SignalbookError(f"there is no message {name}; there are: {there}")

    def endpoint(self, xid: str) -> JSONObject:
        """The endpoint with this xid. Raises ``SignalbookError``."""
        for document in self.documents:
            value: Any = document
            for part in xid.strip("/").split("/"):
                value = value.get(part) if isinstance(value, dict) else None
            if isinstance(value, dict) and xid.startswith("/endpoints/"):
                return value
        raise SignalbookError(f"there is no endpoint {xid}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedInputs:
    """Inputs that were set by name: placeholders of the definition, properties, placeholders of the endpoint."""

    context: Mapping[str, str]
    overrides: Mapping[str, str]
    more: Mapping[str, str]

    @classmethod
    def sort(cls, assigned: Mapping[str, str], definition: CompiledDefinition, endpoint: JSONObject) -> AssignedInputs:
        """Sort inputs by the meaning of their names; a path names a property. Raises ``SignalbookError``."""
        inputs = required_inputs(definition)
        placeholders = {parameter.name for parameter in inputs if parameter.source == "template"}
        properties = {path.removeprefix(_PATHS[0]) for parameter in inputs for path in parameter.paths} | CORE
        options = json.dumps(endpoint.get("protocoloptions") or {})
        context, overrides, more = {}, {}, {}
        for name, value in assigned.items():
            if name in placeholders:
                context[name] = value
            elif name.startswith(_PATHS) or (name in properties and definition.is_event):
                overrides[name] = value
            elif f"{{{name}}}" in options:
                more[name] = value
            else:
                there = ", ".join(sorted({parameter.name for parameter in inputs})) or "none"
                advice = f"give an attribute that is not declared as {_PATHS[0]}{name}"
                raise SignalbookError(f"{definition.xid} has no input {name}; there are: {there}; {advice}")
        return cls(context=context, overrides=overrides, more=more)


def data_in(content: bytes, definition: CompiledDefinition) -> JSON:
    """The data of a payload written in JSON, whatever the payload will be; XML and what nobody reads stay as they are.

    Raises ``PayloadError``, and ``SignalbookError`` for what is no JSON.
    """
    schema = definition.schema_use.schema
    kind = "" if schema is None else schema.format.partition("/")[0].lower()
    if schema is not None and kind in ("avro", "protobuf"):
        return schema.decode(content, "application/json")
    if kind == "xsd" or (schema is None and definition.payload_type not in ("", "application/json")):
        return content
    try:
        return parse_json(content)
    except JSONError as error:
        raise SignalbookError(f"the data is not JSON: {error}") from None


def as_event(outbound: Outbound) -> bytes:
    """An event as a line of JSON. Raises ``SignalbookError`` for a message that is none."""
    if outbound.event is None:
        raise SignalbookError(f"{outbound.definition.xid} is of no event: say --as message")
    return JSON_EVENTS.encode(outbound.event)


def as_record(message: Message) -> bytes:
    """A message of any protocol as a line of JSON, its body as text where it is some."""
    record: JSONObject = json.loads(to_record(message))
    if message.body is not None:
        try:
            record["body"] = message.body.decode()
        except UnicodeDecodeError:
            record["body_base64"] = b64encode(message.body).decode("ascii")
    return dump_json(record)


def as_request(message: Message, endpoint: JSONObject) -> bytes:
    """An HTTP request or response as it is sent, to the first address of ``endpoint``.

    Raises ``SignalbookError`` for a message of another protocol.
    """
    if message.protocol != "HTTP":
        text = message.protocol or "no protocol: give --protocol HTTP"
        raise SignalbookError(f"there is no HTTP request of it: the message is for {text}")
    sections, body = message.sections, message.body or b""
    if "status" in sections:
        lines = [f"HTTP/1.1 {sections['status']}"]
    else:
        query = urlencode(sections.get("query", ()), quote_via=quote)
        target = f"{sections['path']}?{query}" if query else sections["path"]
        lines = [f"{sections['method']} {target} HTTP/1.1", f"Host: {_find_host(endpoint)}"]
    lines += [f"{name}: {value}" for name, value in sections["headers"]]
    lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def _find_host(endpoint: JSONObject) -> str:
    addresses = (endpoint.get("protocoloptions") or {}).get("endpoints") or [{}]
    uri = addresses[0].get("uri") if isinstance(addresses[0], dict) else None
    host = urlsplit(uri).netloc.rpartition("@")[2] if isinstance(uri, str) else ""
    return host if host.isascii() and host.isprintable() and host else "localhost"


def messages_in(name: str, content: bytes) -> Iterator[tuple[str, Message]]:
    """The messages in a file, each with its place: events, batches of them, and records, one a line or alone.

    Raises ``SignalbookError`` for what is none of these.
    """
    try:
        whole = parse_json(content, max_depth=_DEEP)
    except JSONError:
        lines = [(f"{name}:{number}", line) for number, line in enumerate(content.split(b"\n"), 1) if line.strip()]
    else:
        yield name, _parse_message(name, content, whole)
        return
    for place, line in lines:
        try:
            value = parse_json(line, max_depth=_DEEP)
        except JSONError as error:
            raise SignalbookError(f"{place}: not JSON: {error}") from None
        yield place, _parse_message(place, line, value)


def _parse_message(place: str, text: bytes, value: JSON) -> Message:
    if isinstance(value, list):
        return Message(content_type=JSON_BATCH_FORMAT, body=text)
    if not isinstance(value, dict):
        raise SignalbookError(f"{place}: neither an event nor a message")
    # A message as a record names its protocol; an event may have an extension of that name.
    if "protocol" not in value or "specversion" in value:
        return Message(content_type=JSON_FORMAT, body=text)
    try:
        body = b64decode(value.pop("body_base64"), validate=True) if "body_base64" in value else _encode_body(value)
        return of_record(json.dumps(value), body)
    except ValueError as error:
        raise SignalbookError(f"{place}: not a message as message build writes it: {error}") from None


def _encode_body(record: JSONObject) -> bytes:
    """Return the body of a record, which says that there is none by its absence."""
    if "body" not in record:
        record["body"] = None
        return b""
    return str(record.pop("body")).encode()


def table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Rows as lines, in columns."""
    lines = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)] if lines else []
    for row in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
