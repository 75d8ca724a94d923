"""Decode payloads, check them with schemas, and encode them (K-39 to K-43)."""

from __future__ import annotations

from typing import Final

import msgspec

from signalbook.formats import PayloadError, Schema
from signalbook.formats.base import (
    JsonValues,
    Tolerant,
    encode_json,
    is_elsewhere,
    is_json,
    is_judging,
    parse_media_type,
)
from signalbook.messages.cloudevents import CloudEvent
from signalbook.messages.content import read_writer_schema, schema_id
from signalbook.messages.definitions.definition import CompiledDefinition
from signalbook.messages.definitions.schemas import SchemaUse
from signalbook.messages.message import DUPLICATE, Message, Reason
from signalbook.values import JSON, MAX_VALUES, Finding, JSONError, Severity, parse_json, repeated_names, said_twice

UNSET: Final = msgspec.UNSET


class PayloadResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking a payload: the decoded data, or the reason why there is none.

    ``data`` is ``UNSET`` if there is no schema. If ``reason`` is set, ``data`` is the value that violates the schema,
    or ``UNSET`` if the payload could not be decoded. ``bare`` is the payload without its wire prefix, or None.
    """

    data: JSON = UNSET
    schema: Schema | None = None
    reason: Reason | None = None
    findings: tuple[Finding, ...] = ()
    bare: bytes | None = None


OPAQUE: Final = PayloadResult()
_MISSING: Final = PayloadResult(
    reason=Reason.SCHEMA_VIOLATION,
    findings=(Finding(path="", rule="required", message="there is no payload, but the definition names its schema"),),
)


class Payload:
    """The payload of one message. It is decoded from JSON at most once, even if several definitions check it.

    ``value`` is the decoded payload, or ``UNSET``.
    """

    __slots__ = ("_broken", "_event", "_message", "_repeated", "value")

    def __init__(self, message: Message, event: CloudEvent | None) -> None:
        self._message = message
        self._event = event
        self._broken: PayloadResult | None = None
        self.value: JSON = UNSET if event is None else event.value
        self._repeated = None if event is None else event.repeated

    def decode_json(self) -> None:
        """Decode the payload into ``value`` if its content type allows JSON and its text is valid JSON."""
        if self.value is not UNSET or not self.content_type_allows_json():
            return
        body = self.body()
        if body:
            try:
                self.value = parse_json(body, max_values=MAX_VALUES, exact=True)
                self._repeated = _find_repeated(body, self.value)
            except JSONError as error:
                finding = Finding(path="", rule="json", message=f"not JSON: {error}")
                self._broken = PayloadResult(reason=Reason.DECODE_ERROR, findings=(finding,))

    def content_type_allows_json(self) -> bool:
        """Return True if the content type is JSON, or absent."""
        content_type = self.content_type()
        return not content_type or is_json(content_type)

    def content_type(self) -> str:
        """Return the content type that the message states for the payload, or ``""``."""
        return self._message.content_type if self._event is None else self._event.content_type

    def body(self) -> bytes | None:
        """Return the bytes of the payload, or None if there is no payload."""
        return self._message.body if self._event is None else self._event.payload()

    def check(self, definition: CompiledDefinition) -> PayloadResult:
        """Check the payload by the definition's schema (K-39 to K-41) and its policy on duplicate names."""
        result = self._check(definition)
        rejected = definition.policy.on_duplicate_names == "dead_letter"
        if self._repeated is None or result.schema is None or (result.reason is not None and not rejected):
            return result
        severity: Severity = "error" if rejected else "warning"
        finding = Finding(path="", rule=DUPLICATE, message=said_twice(self._repeated), severity=severity)
        if rejected:
            return PayloadResult(schema=result.schema, reason=Reason.DECODE_ERROR, findings=(finding,))
        return msgspec.structs.replace(result, findings=(*result.findings, finding))

    def violates(self, definition: CompiledDefinition) -> bool:
        """Return True if the payload has been decoded and certainly violates the definition's schema.

        ``check`` returns the violations.
        """
        if self.value is UNSET or self._is_prefixed(definition):
            return False
        use = self._find_schema_use(definition)
        schema = use.schema if use.of_values else None
        return schema is not None and is_judging(schema) and not schema.allows(self.value)

    def _is_prefixed(self, definition: CompiledDefinition) -> bool:
        # Data in a JSON event was decoded together with the event, so it has no prefix.
        return definition.policy.wire_prefix != "none" and (self._event is None or self._event.value is UNSET)

    def _find_schema_use(self, definition: CompiledDefinition) -> SchemaUse:
        dataschema = None if self._event is None else self._event.attributes.get("dataschema")
        return definition.schema_use if dataschema is None else definition.schema_for(str(dataschema))

    def _check(self, definition: CompiledDefinition) -> PayloadResult:
        if self._is_prefixed(definition):
            return self._check_prefixed(definition)
        use = self._find_schema_use(definition)
        if use.schema is None:
            return _explain_no_schema(use)
        # The value has already been decoded, with the event or for an earlier definition.
        if use.of_values and self.value is not UNSET:
            return self._check_value(use.schema)
        # Decoding failed for an earlier definition, so it would fail again.
        if use.of_values and self._broken is not None:
            return self._broken
        return self._check_body(definition, use.schema, self.body())

    def _check_prefixed(self, definition: CompiledDefinition) -> PayloadResult:
        """Check the payload by the schema that its wire prefix or header names."""
        use, body = definition.schema_use, self.body()
        if use.schema is None:
            return _explain_no_schema(use)
        if body is None:
            return _MISSING
        try:
            written = read_writer_schema(self._message, body, use.schema.format)
        except ValueError as error:
            return _make_prefix_error(use.schema, str(error))
        use = definition.schema_of_number(written.id)
        if use.schema is None:
            return _explain_no_schema(use)
        if is_elsewhere(use.schema, written.indices):
            place = ", ".join(map(str, written.indices))
            return _make_prefix_error(
                use.schema, f"the payload is of another message type of its schema, that at [{place}]"
            )
        result = self._check_body(definition, use.schema, written.payload)
        return msgspec.structs.replace(result, bare=written.payload)

    def is_written_for(self, definition: CompiledDefinition) -> bool:
        """Return True if the wire prefix names a schema of ``definition``, or the prefix cannot rule it out."""
        schema, body = definition.schema_use.schema, self.body()
        if not self._is_prefixed(definition) or schema is None or body is None:
            return True
        try:
            use = definition.schema_of_number(schema_id(self._message, body))
            if use.schema is None:
                return use.reason is not Reason.SCHEMA_NOT_FOUND
            written = read_writer_schema(self._message, body, schema.format)
            return not is_elsewhere(use.schema, written.indices)
        except ValueError:
            return True

    def _check_value(self, schema: Schema) -> PayloadResult:
        findings = schema.validate(self.value)
        if not findings:
            return PayloadResult(data=self.value, schema=schema)
        return PayloadResult(data=self.value, schema=schema, reason=Reason.SCHEMA_VIOLATION, findings=tuple(findings))

    def _check_body(self, definition: CompiledDefinition, schema: Schema, body: bytes | None) -> PayloadResult:
        if body is None:
            return _MISSING
        reader = schema
        if definition.policy.unknown_fields == "drop" and isinstance(schema, Tolerant):
            reader = schema.tolerant
        content_type = self.content_type() or definition.payload_type
        result = _decode(schema, reader, body, content_type)
        if self.value is UNSET:  # otherwise names were checked when it was decoded
            as_json = is_json(content_type) or isinstance(schema, JsonValues)
            self._repeated = _find_repeated_by_schema(schema, body, result) if as_json else None
        return result


def _make_prefix_error(schema: Schema, message: str) -> PayloadResult:
    finding = Finding(path="", rule="wire_prefix", message=message)
    return PayloadResult(schema=schema, reason=Reason.DECODE_ERROR, findings=(finding,))


def _decode(schema: Schema, reader: Schema, body: bytes, content_type: str) -> PayloadResult:
    try:
        return PayloadResult(data=reader.decode(body, content_type), schema=schema)
    except PayloadError as error:
        return PayloadResult(schema=schema, reason=Reason(error.reason), findings=error.findings)


def _find_repeated_by_schema(schema: Schema, body: bytes, result: PayloadResult) -> str | None:
    """Return a name that an object in a decoded JSON payload has twice, or None. The payload need not conform."""
    if result.reason is None and isinstance(schema, JsonValues):
        return _find_repeated(body, result.data)
    return (
        _find_repeated(body, parse_json(body, exact=True)) if result.reason in (None, Reason.SCHEMA_VIOLATION) else None
    )


def _find_repeated(body: bytes, value: JSON) -> str | None:
    return next((name for name in repeated_names(body, value) if name is not None), None)


def _explain_no_schema(use: SchemaUse) -> PayloadResult:
    return OPAQUE if use.reason is None else PayloadResult(reason=use.reason, findings=use.findings)


def encode_payload(use: SchemaUse, value: JSON, content_type: str) -> bytes | None:
    """Return ``value`` encoded by a schema, or None if ``value`` is ``UNSET`` and there is no schema.

    ``value`` has the form that ``Schema.decode`` returns; XML may also be text. ``bytes`` are checked and returned as
    they are. Without a schema, ``value`` is encoded as JSON, or as text if ``content_type`` says so. Raises
    ``PayloadError`` for a value that does not conform or cannot be encoded.
    """
    if use.reason is not None:
        raise _make_payload_error(use.reason.value, f"the schema cannot be used: {'; '.join(map(str, use.findings))}")
    if use.schema is None:
        return None if value is UNSET else _encode_opaque(value, content_type)
    if value is UNSET:
        raise _make_payload_error("required", "there is no payload, but the definition names its schema: give data")
    if not isinstance(value, bytes):
        return use.schema.encode(value, content_type)
    use.schema.decode(value, content_type)
    return value


def _encode_opaque(value: JSON, content_type: str) -> bytes:
    """Return ``value`` encoded without a schema. Raises ``PayloadError`` if ``content_type`` is not supported."""
    if isinstance(value, bytes):
        return value
    if not content_type or is_json(content_type):
        return encode_json(value)
    kind = parse_media_type(content_type)
    if isinstance(value, str) and (kind.startswith("text/") or kind.endswith(("/xml", "+xml"))):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise _make_payload_error("text", f"no text: {error}") from None
    raise _make_payload_error(
        "content_type", f"nothing here writes {content_type} without a schema: give the payload as bytes"
    )


def _make_payload_error(rule: str, message: str) -> PayloadError:
    return PayloadError("schema_violation", [Finding(path="", rule=rule, message=message)])
