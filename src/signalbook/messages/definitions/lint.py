"""Find problems in definitions before any message is checked with them (K-13, F-7 to F-34).

``lint`` checks a definition alone, ``review`` checks it in its group or endpoint. Protocol options have rules that a
model cannot express (F.7; the binding of HTTP has those of HTTP). Sections of AMQP have property definitions, like
envelopes. MQTT, Kafka and NATS have plain values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

from signalbook.formats.base import is_json, parse_media_type
from signalbook.messages.bindings.base import find_binding
from signalbook.messages.bindings.options import parse_named_items
from signalbook.messages.bindings.outgoing import TOKEN
from signalbook.messages.cloudevents import ATTRIBUTE_NAME, MEDIA_TYPE, REQUIRED
from signalbook.messages.content import TEXT_INDICATOR, is_content_type, same_content_type
from signalbook.messages.definitions.normalise import (
    ALIASES,
    CLOUDEVENTS,
    CYCLE,
    UNRESOLVED,
    Bases,
    canonical_envelope,
    canonical_protocol,
    is_known_protocol,
    materialise,
)
from signalbook.messages.properties import (
    NOW,
    TEXT,
    PropertyError,
    check_type,
    find_malformed_property,
    finding,
    lint_property,
    lint_template,
    make_type_finding,
)
from signalbook.messages.uritemplates import is_template
from signalbook.values import JSON, Finding, JSONObject, Severity

_NAME_AND_VERSION: Final = re.compile(r"[^/\s]+/\S+")
_ALIKE: Final = 0.85
_PROTOCOL: Final = re.compile(r"[^/\s]+(/\S+)?")


def lint(definition: JSONObject) -> list[Finding]:
    """Return findings about a materialised definition (F-21). Severity ``error`` means that a MUST is violated.

    The spelling of envelope and protocol is checked in the raw definition by ``lint_selectors``.
    """
    faults = find_malformed(definition)
    if faults:
        return faults
    return [*_check_sections(definition), *_check_schema(definition), *_check_content_types(definition),
            *_check_metadata(definition), *_check_protocol(definition)]  # fmt: skip


def lint_selectors(stated: Mapping[str, JSON]) -> list[Finding]:
    """Check that a raw definition or message group names envelope and protocol correctly (F-5, F-6)."""
    findings, envelope, protocol = [], stated.get("envelope"), stated.get("protocol")
    if isinstance(envelope, str) and not _NAME_AND_VERSION.fullmatch(envelope):
        text = f"{envelope!r} is not of the form NAME/VERSION, such as {CLOUDEVENTS}"
        findings.append(finding("envelope", "format", text))
    if isinstance(protocol, str) and not _PROTOCOL.fullmatch(protocol):
        text = f"{protocol!r} is not of the form NAME or NAME/VERSION, such as KAFKA or AMQP/1.0"
        findings.append(finding("protocol", "format", text))
    elif isinstance(protocol, str) and protocol.lower() == "mqtt":
        text = "MQTT/3.1.1 and MQTT/5.0 have other options: name the version too"
        findings.append(finding("protocol", "version", text))
    return findings


# Attributes of messages in a registry, in rc4's text and model, and in the drafts. Others are extensions.
_KNOWN_NAMES: Final = (
    "messageid", "versionid", "name", "description", "documentation", "labels", "icon", "deprecated", "ancestorid",
    "createdat", "modifiedat", "isdefault", "basemessage", "basemessageuri", "envelope", "envelopemetadata",
    "envelopeoptions", "protocol", "protocoloptions", "dataschema", "dataschemaformat", "dataschemauri",
    "dataschemaxid", "datacontenttype", "authority", "relatedto", "relatedvia", "relation", "globaluri",
    "documentationtext",
)  # fmt: skip


def lint_names(raw: Mapping[str, JSON]) -> Iterator[Finding]:
    """Yield warnings for extensions of a raw definition whose names look like spelling mistakes."""
    for name in sorted(raw.keys() - ALIASES - set(_KNOWN_NAMES)):
        meant = get_close_matches(name, _KNOWN_NAMES, 1, _ALIKE)
        if meant:
            yield finding(name, "name", f"is {meant[0]} meant? As it is, this is an extension", "warning")


def lint_member(group: Mapping[str, JSON], definition: JSONObject) -> list[Finding]:
    """Check that a materialised definition has the envelope and protocol of its group (F-7, F-8)."""
    findings = []
    for name, canonical in (("envelope", canonical_envelope), ("protocol", canonical_protocol)):
        stated, message_value = group.get(name), definition.get(name)
        required = canonical(stated) if isinstance(stated, str) else ""
        if required and (not isinstance(message_value, str) or canonical(message_value) != required):
            text = f"the group states {name} {stated!r}, the message {message_value!r}: they must be the same"
            findings.append(finding(name, "group", text))
    return findings


def lint_inline(endpoint: Mapping[str, JSON], definition: JSONObject) -> list[Finding]:
    """Check that a materialised definition fits the endpoint that contains it (H-6, H-8).

    Its envelope must be the endpoint's, and may add a version. If both state a protocol, it must be the same.
    """
    findings = []
    stated, message_value = endpoint.get("envelope"), definition.get("envelope")
    if isinstance(stated, str) and not (isinstance(message_value, str) and _refines(message_value, stated)):
        text = f"the endpoint states envelope {stated!r}, the message {message_value!r}"
        text = f"{text}: it may say more of it, nothing else"
        findings.append(finding("envelope", "endpoint", text))
    stated, message_value = endpoint.get("protocol"), definition.get("protocol")
    protocols = {canonical_protocol(name) for name in (stated, message_value) if isinstance(name, str)}
    if len(protocols - {""}) > 1:
        text = f"the endpoint states protocol {stated!r}, the message {message_value!r}: they must be the same"
        findings.append(finding("protocol", "endpoint", text))
    return findings


def _refines(value: str, stated: str) -> bool:
    """Return True if ``NAME[/VERSION]`` states everything that ``stated`` does, and perhaps more."""
    name, _, version = stated.strip().lower().partition("/")
    own_name, _, own_version = value.strip().lower().partition("/")
    return own_name == name and (not version or own_version == version or own_version.startswith(f"{version}."))


def lint_envelope_options(options: JSON) -> list[Finding]:
    """Check the mode of CloudEvents, and the format, which only structured mode has (F-34, H-7)."""
    if options is None:
        return []
    if not isinstance(options, dict):
        return [finding("envelopeoptions", "structure", "must be an object")]
    findings, mode = [], options.get("mode")
    if mode not in (None, "binary", "structured"):
        findings.append(finding("envelopeoptions.mode", "value", f"{mode!r} is neither binary nor structured"))
    if mode == "binary" and options.get("format"):
        findings.append(finding("envelopeoptions.format", "exclusive", "binary mode has no event format"))
    return findings


def _check_sections(definition: JSONObject) -> Iterator[Finding]:
    """Check that an envelope has its metadata, and a protocol its options (F-9)."""
    for selector, section in (("envelope", "envelopemetadata"), ("protocol", "protocoloptions")):
        chosen = definition.get(selector)
        if chosen and not isinstance(definition.get(section), dict):
            yield finding(section, "required", f"{selector} {chosen} asks for {section}, be it empty: {{}}")
        elif not chosen and definition.get(section):
            yield finding(section, "selector", f"{section} means nothing without {selector}", "warning")
    protocol = definition.get("protocol")
    if isinstance(protocol, str) and not is_known_protocol(protocol) and find_binding(protocol) is None:
        yield finding("protocol", "unknown", f"no binding for protocol {protocol!r}", "warning")


def _check_schema(definition: JSONObject) -> Iterator[Finding]:
    """Check the members that name the schema and its format (F-10 to F-13)."""
    stated = definition.get("dataschemaformat")
    inline, uri, xid = (definition.get(name) for name in ("dataschema", "dataschemauri", "dataschemaxid"))
    if inline is not None and uri is not None:
        yield finding("dataschema", "exclusive", "a definition has either dataschema or dataschemauri, not both")
    if stated is None and not (inline is None and uri is None):
        name = "dataschema" if inline is not None else "dataschemauri"
        yield finding("dataschemaformat", "required", f"{name} asks for dataschemaformat")
    if stated is not None and not (isinstance(stated, str) and _NAME_AND_VERSION.fullmatch(stated)):
        text = f"{stated!r} is not of the form NAME/VERSION, such as JsonSchema/draft-07 or Avro/1.12.0"
        yield finding("dataschemaformat", "format", text)
    if isinstance(xid, str) and isinstance(uri, str) and xid not in uri:
        yield finding("dataschemaxid", "mismatch", f"dataschemauri {uri!r} is not the URL of {xid}")


def _check_content_types(definition: JSONObject) -> Iterator[Finding]:
    """Check that content types agree everywhere (F-14, F-32). The content type of an envelope is not the payload's."""
    outer = definition.get("datacontenttype")
    metadata = definition.get("envelopemetadata") or {}
    inner = _find_value(metadata, "datacontenttype")
    for path, value in (("datacontenttype", outer), ("envelopemetadata.datacontenttype.value", inner)):
        if isinstance(value, str) and not (is_content_type(value) or (value != outer and is_template(value))):
            yield finding(path, "media_type", f"{value!r} is no media type, such as text/plain; charset=utf-8")
    if isinstance(outer, str) and isinstance(inner, str) and not _agree(outer, inner):
        text = f"datacontenttype is {outer!r} here and {inner!r} in envelopemetadata"
        yield finding("datacontenttype", "mismatch", text)
    yield from _check_protocol_types(definition, outer if isinstance(outer, str) else inner)
    schema, uri = _find_value(metadata, "dataschema"), definition.get("dataschemauri")
    if isinstance(schema, str) and isinstance(uri, str) and schema != uri and not is_template(schema):
        text = f"envelopemetadata.dataschema is {schema!r}, dataschemauri {uri!r}"
        yield finding("envelopemetadata.dataschema", "mismatch", text)


def _check_protocol_types(definition: JSONObject, stated: JSON) -> Iterator[Finding]:
    """Check content types in the protocol options (F-14). The content type of an envelope is not the payload's."""
    options = definition.get("protocoloptions")
    if not isinstance(stated, str) or not isinstance(options, dict):
        return
    for path, value in find_content_types(str(definition.get("protocol") or ""), options):
        if not (parse_media_type(value).startswith(MEDIA_TYPE) or _agree(stated, value)):
            yield finding(path, "mismatch", f"the content type is {value!r} here, and {stated!r} elsewhere")


def _agree(outer: str, inner: str) -> bool:
    # The content type of an envelope does not describe the payload.
    if parse_media_type(outer).startswith(MEDIA_TYPE):
        return True
    return same_content_type(outer, inner) and same_content_type(inner, outer)


def _check_metadata(definition: JSONObject) -> Iterator[Finding]:
    """Check the declarations of attributes (F-23 to F-31)."""
    metadata = definition.get("envelopemetadata")
    if definition.get("envelope") != CLOUDEVENTS or not isinstance(metadata, dict):
        return
    for name, entry in metadata.items():
        path = f"envelopemetadata.{name}"
        if not ATTRIBUTE_NAME.fullmatch(name) or name == "data":
            yield finding(path, "name", f"{name!r} is no name of a CloudEvents attribute")
        yield from lint_property(path, entry)
        yield from _check_core_attribute(name, path, entry)


def _check_core_attribute(name: str, path: str, entry: JSONObject) -> Iterator[Finding]:
    """Check the declaration of a core attribute (F-31)."""
    value = entry.get("value")
    if name in REQUIRED and entry.get("required") is False:
        yield finding(f"{path}.required", "required", f"CloudEvents demands {name} of every event")
    if name == "specversion" and (value not in (None, "1.0") or entry.get("type", "string") != "string"):
        yield finding(path, "value", 'specversion is of type string and has the value "1.0"')
    if name == "id" and isinstance(value, str) and not is_template(value):
        yield finding(f"{path}.value", "constant", "events with one and the same id are duplicates", "warning")
    if name == "time" and value not in (None, NOW):
        yield finding(f"{path}.value", "constant", f"time has a value other than {NOW}", "warning")


def _check_protocol(definition: JSONObject) -> Iterator[Finding]:
    options = definition.get("protocoloptions")
    protocol = str(definition.get("protocol") or "")
    binding = find_binding(protocol)
    if isinstance(options, dict):
        yield from lint_options(protocol, options)
        if binding is not None:
            yield from binding.lint(options)
        yield from _check_text_indicator(definition, options)
    yield from lint_envelope_options(definition.get("envelopeoptions"))


def _check_text_indicator(definition: JSONObject, options: JSONObject) -> Iterator[Finding]:
    """Yield a warning if a definition marks payloads as UTF-8 text (MQTT 5) although their format is binary."""
    name = next((name for name in ("payload_format", TEXT_INDICATOR) if options.get(name) == 1), "")
    binary_format = _find_binary_format(definition, options) if name else ""
    if binary_format:
        text = f"1 says that payloads are UTF-8 text, but {binary_format} is binary: use 0 or leave it out"
        yield _make_option_finding(name, "text", text, "warning")


def _find_binary_format(definition: JSONObject, options: JSONObject) -> str:
    """Return the event format or schema format that makes messages binary, or ``""`` if they may be text."""
    stated = definition.get("envelopeoptions")
    envelope_options = stated if isinstance(stated, dict) else {}
    mode = envelope_options.get("mode")
    # In binary mode, the event format is not used, because the payload is sent as it is.
    event_format = "" if mode == "binary" else str(envelope_options.get("format") or "")
    if event_format or mode == "structured":
        return event_format if event_format and not is_json(event_format) else ""
    inner = _find_value(definition.get("envelopemetadata") or {}, "datacontenttype")
    stated_types = (value for _, value in find_content_types(str(definition.get("protocol") or ""), options))
    # Avro and Protobuf have JSON encodings, too.
    if any(
        is_json(str(content_type or "")) for content_type in (inner, definition.get("datacontenttype"), *stated_types)
    ):
        return ""
    schema_format = str(definition.get("dataschemaformat") or "")
    return schema_format if schema_format.lower().startswith(("avro/", "protobuf/")) else ""


def _find_value(metadata: JSONObject, name: str) -> JSON:
    entry = metadata.get(name)
    return entry.get("value") if isinstance(entry, dict) else None


def review(
    raw: Mapping[str, JSON], group: Mapping[str, JSON], bases: Bases, *, endpoint: bool = False
) -> list[Finding]:
    """Return all findings about a raw definition in ``group``, or in an ``endpoint`` (F-7 to F-34, H-6, H-8).

    Those of severity ``error`` break a MUST. A circle of bases is an error here, since its author can repair it (F-16).
    A missing base is not (F-17): it may contain what the definition lacks.
    """
    completed = materialise(raw, bases)
    unresolved = any(finding.rule == UNRESOLVED for finding in completed.findings)
    severities: dict[str, Severity] = {CYCLE: "error"}
    if unresolved:
        severities["required"] = "warning"
    findings = [
        replace(finding, severity=severities.get(finding.rule, finding.severity))
        for finding in [*completed.findings, *lint_names(raw), *lint_selectors(raw), *lint(completed.definition)]
    ]
    return (
        findings
        if find_malformed(completed.definition)
        else findings + _check_membership(group, completed.definition, endpoint)
    )


def review_borrowed(
    raw: Mapping[str, JSON], group: Mapping[str, JSON], bases: Bases, *, endpoint: bool = False
) -> list[Finding]:
    """Return findings about a message in a group that borrows it. Other findings belong to its own group (F-8)."""
    definition = materialise(raw, bases).definition
    return [] if find_malformed(definition) else _check_membership(group, definition, endpoint)


def _check_membership(group: Mapping[str, JSON], definition: JSONObject, endpoint: bool) -> list[Finding]:
    return lint_inline(group, definition) if endpoint else lint_member(group, definition)


_TEXT_MEMBERS: Final = (
    "envelope", "protocol", "dataschemaformat", "dataschemauri", "dataschemaxid", "datacontenttype", "basemessageuri",
)  # fmt: skip


_OBJECT_MEMBERS: Final = ("envelopemetadata", "envelopeoptions", "protocoloptions")


_OBJECT: Final = (dict, type(None))


def find_malformed(definition: JSONObject) -> list[Finding]:
    """Return findings for members of a normalised definition that have the wrong JSON type."""
    return [*_check_members(definition), *_check_attributes(definition)]


def _check_members(definition: JSONObject) -> Iterator[Finding]:
    for name in _TEXT_MEMBERS:
        if not isinstance(definition.get(name), TEXT):
            yield make_type_finding(name, "a string")
    for name in _OBJECT_MEMBERS:
        if not isinstance(definition.get(name), _OBJECT):
            yield make_type_finding(name, "an object")
    options = definition.get("envelopeoptions")
    options = options if isinstance(options, dict) else {}
    for name in ("mode", "format"):
        if not isinstance(options.get(name), TEXT):
            yield make_type_finding(f"envelopeoptions.{name}", "a string")


def _check_attributes(definition: JSONObject) -> Iterator[Finding]:
    metadata = definition.get("envelopemetadata")
    for name, entry in metadata.items() if isinstance(metadata, dict) else ():
        yield from find_malformed_property(f"envelopemetadata.{name}", entry)


_AMQP_SECTIONS: Final = ("application-properties", "message-annotations", "delivery-annotations", "footer")
_MQTT5_ONLY: Final = (
    "payload_format", "payload_format_indicator", "message_expiry_interval", "response_topic", "correlation_data",
    "content_type", "user_properties",
)  # fmt: skip
_UINT32: Final = 2**32 - 1
_MAX_PRIORITY: Final = 255


def lint_options(protocol: str, options: JSONObject) -> list[Finding]:
    """Return findings about the ``protocoloptions`` of a message. ``protocol`` is the canonical name."""
    rules = _OPTION_RULES.get(protocol)
    return [] if rules is None else list(rules(options))


def find_content_types(protocol: str, options: JSONObject) -> Iterator[tuple[str, str]]:
    """Yield the places in protocol options that state the payload's type, with the type (F-14)."""
    if protocol == "AMQP/1.0":
        properties = options.get("properties")
        entry = properties.get("content-type") if isinstance(properties, dict) else None
        stated_type: Any = entry.get("value") if isinstance(entry, dict) else None
        places = [("protocoloptions.properties.content-type.value", stated_type)]
    elif protocol == "MQTT/5.0":
        places = [("protocoloptions.content_type", options.get("content_type"))]
    else:
        places = [
            (f"protocoloptions.headers.{item['name']}", item.get("value"))
            for item in _parse_items(options.get("headers", []))
            if item["name"].lower() == "content-type"
        ]
    for path, value in places:
        if isinstance(value, str) and value and not is_template(value):
            yield path, value


def _check_http(options: JSONObject) -> Iterator[Finding]:
    yield from _check_template("path", options)
    yield from lint_header_names(options.get("headers"))
    yield from _check_named_section("headers", options)
    yield from _check_named_section("query", options)


def lint_header_names(headers: JSON) -> Iterator[Finding]:
    """Yield findings for names of HTTP headers that are not tokens (RFC 9110, 5.1)."""
    for position, item in enumerate(headers if isinstance(headers, list) else ()):
        name = item.get("name") if isinstance(item, dict) else None
        if isinstance(name, str) and not TOKEN.fullmatch(name):
            path = f"headers[{position}].name"
            yield _make_option_finding(path, "value", f"{name!r} is no name of an HTTP header")


def _check_amqp(options: JSONObject) -> Iterator[Finding]:
    """Check the sections of property definitions, and the ranges of header fields."""
    for section in ("properties", *_AMQP_SECTIONS):
        entries = options.get(section)
        if entries is not None and not isinstance(entries, dict):
            yield _make_option_finding(section, "structure", "must be an object")
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            yield from _check_property(f"protocoloptions.{section}.{name}", entry)
    properties = options.get("properties")
    identifier = properties.get("message-id") if isinstance(properties, dict) else None
    value = identifier.get("value") if isinstance(identifier, dict) else None
    if isinstance(value, str) and not is_template(value):
        text = "messages with one and the same id are duplicates"
        yield _make_option_finding("properties.message-id.value", "constant", text, "warning")
    header = options.get("header")
    for name, most in (("priority", _MAX_PRIORITY), ("ttl", _UINT32), ("delivery-count", _UINT32)):
        yield from _check_range(f"header.{name}", header.get(name) if isinstance(header, dict) else None, most)


def _check_property(path: str, entry: JSON) -> Iterator[Finding]:
    faults = list(find_malformed_property(path, entry))
    yield from faults or lint_property(path, entry)


def _check_mqtt3(options: JSONObject) -> Iterator[Finding]:
    yield from _publish(options)
    for name in _MQTT5_ONLY:
        if name in options:
            yield _make_option_finding(name, "version", "this is an option of MQTT/5.0, not of MQTT/3.1.1")


def _check_mqtt5(options: JSONObject) -> Iterator[Finding]:
    yield from _publish(options)
    yield from _check_topic("response_topic", options, "+#")
    yield from _check_range("message_expiry_interval", options.get("message_expiry_interval"), _UINT32)
    yield from _check_alias("payload_format", "payload_format_indicator", options)
    for name in ("payload_format", "payload_format_indicator"):
        yield from _check_range(name, options.get(name), 1)
    yield from _check_named_section("user_properties", options)


def _publish(options: JSONObject) -> Iterator[Finding]:
    yield from _check_range("qos", options.get("qos"), 2)
    yield from _check_topic("topic_name", options, "+#")


def _check_kafka(options: JSONObject) -> Iterator[Finding]:
    yield from _check_template("topic", options)
    yield from _check_range("partition", options.get("partition"), 2**31 - 1)
    encoded = options.get("key_base64")
    if encoded is not None and options.get("key") is not None:
        yield _make_option_finding("key_base64", "exclusive", "a record has one key: key or key_base64, not both")
    if encoded is not None and not (isinstance(encoded, str) and check_type("binary", encoded)):
        yield _make_option_finding("key_base64", "type", "must be base64")
    headers = options.get("headers")
    for name, entry in headers.items() if isinstance(headers, dict) else ():
        own_name = entry.get("name", name) if isinstance(entry, dict) else name
        if not isinstance(own_name, str) or own_name.lower() != name.lower():
            text = f"the header stands under {name!r} and calls itself {own_name!r}"
            yield _make_option_finding(f"headers.{name}.name", "mismatch", text)
    yield from _check_named_section("headers", options)


def _check_nats(options: JSONObject) -> Iterator[Finding]:
    for name in ("subject", "reply-to", "reply"):
        yield from _check_topic(name, options, "*>")
    yield from _check_alias("reply", "reply-to", options)
    yield from _check_named_section("headers", options)


_OPTION_RULES: Final[Mapping[str, Callable[[JSONObject], Iterator[Finding]]]] = {
    "HTTP": _check_http,
    "AMQP/1.0": _check_amqp,
    "MQTT/3.1.1": _check_mqtt3,
    "MQTT/5.0": _check_mqtt5,
    "KAFKA": _check_kafka,
    "NATS": _check_nats,
}


def _check_topic(name: str, options: JSONObject, wildcards: str) -> Iterator[Finding]:
    """Check a topic or subject: a template without ``wildcards``."""
    yield from _check_template(name, options)
    value = options.get(name)
    if isinstance(value, str) and set(value) & set(wildcards):
        yield _make_option_finding(
            name, "wildcard", f"no message is published to a name with {' or '.join(wildcards)} in it"
        )


def _check_template(name: str, options: JSONObject) -> Iterator[Finding]:
    value = options.get(name)
    if isinstance(value, str) and "{" in value:
        yield from lint_template(f"protocoloptions.{name}", value)


def _check_range(name: str, value: JSON, most: int) -> Iterator[Finding]:
    if isinstance(value, int) and not isinstance(value, bool) and not 0 <= value <= most:
        yield _make_option_finding(name, "range", f"{value} is not from 0 to {most}")


def _check_alias(name: str, alias: str, options: JSONObject) -> Iterator[Finding]:
    if name in options and alias in options and options[name] != options[alias]:
        yield _make_option_finding(name, "alias", f"{name} and {alias} mean the same, but differ")


def _check_named_section(section: str, options: JSONObject) -> Iterator[Finding]:
    """Check a section of named properties, in any of its forms."""
    try:
        items = parse_named_items(options.get(section, []))
    except PropertyError as error:
        yield _make_option_finding(section, "structure", str(error))
    else:
        for item in items:
            yield from lint_property(
                f"protocoloptions.{section}.{item['name']}", {**item, "type": item.get("type") or "string"}
            )


def _parse_items(value: JSON) -> list[JSONObject]:
    try:
        return parse_named_items(value)
    except PropertyError:
        return []


def _make_option_finding(name: str, rule: str, message: str, severity: Severity = "error") -> Finding:
    return Finding(path=f"protocoloptions.{name}", rule=rule, message=message, severity=severity)
