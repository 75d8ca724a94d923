"""Read and write HTTP requests and responses (F.7, K.5, K-7; CloudEvents HTTP protocol binding).

Sections of a message: ``method``, ``path``, ``status`` (text), ``headers`` and ``query`` (pairs of name and value).
Values by property name: ``method``, ``path``, ``status``, ``headers.<name in lower case>``, ``query.<name>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qsl

from signalbook.messages.bindings import outgoing
from signalbook.messages.bindings.base import Binding
from signalbook.messages.bindings.options import (
    add_content_type,
    declare_header,
    group_values,
    parse_named_section,
    read_header_attributes,
)
from signalbook.messages.bindings.outgoing import escape_header, regroup
from signalbook.messages.cloudevents import (
    REQUIRED,
    Attribute,
    CloudEvent,
    format_attribute,
)
from signalbook.messages.message import Message
from signalbook.messages.properties import Property, PropertyError
from signalbook.messages.uritemplates import is_template
from signalbook.values import JSON, Finding, JSONObject

Pairs = Iterable[tuple[str, str]]

_ATTRIBUTE_PREFIX: Final = "headers.ce-"
_CARRY_RULES: Final = {
    "method": outgoing.method, "path": outgoing.path, "status": outgoing.status, "headers.": outgoing.header,
    "query.": outgoing.parameter,
}  # fmt: skip
_METHODS: Final = re.compile(r"[!#$%&'*+.^_`|~A-Z0-9-]+", re.ASCII)
_STATUS: Final = re.compile(r"[1-5]\d\d", re.ASCII)


def request(
    method: str,
    target: str,
    headers: Pairs,
    body: bytes | None,
    *,
    received_at: datetime | None = None,
    reference: str = "",
) -> Message:
    """Return a request as a message. ``target`` is the path, with the query if there is one."""
    path, _, query = target.partition("?")
    parameters = tuple(parse_qsl(query, keep_blank_values=True)) if query else ()
    sections = {"method": method.upper(), "path": path, "query": parameters}
    return _build_message(sections, headers, body, received_at, reference)


def _build_message(
    sections: dict[str, Any], headers: Pairs, body: bytes | None, received_at: datetime | None, reference: str
) -> Message:
    sections["headers"] = pairs = tuple(headers)
    content_type = content_encoding = ""
    for name, value in pairs:
        folded = name.lower()
        if folded == "content-type":
            content_type = value
        elif folded == "content-encoding":
            content_encoding = f"{content_encoding}, {value}" if content_encoding else value  # RFC 9110 5.3
    return Message(
        protocol="HTTP", content_type=content_type, content_encoding=content_encoding, body=body,
        sections=sections, received_at=received_at, reference=reference,
    )  # fmt: skip


class HttpBinding(Binding):
    """The binding of HTTP, all versions."""

    protocol: Final = "HTTP"
    mandatory = (tuple(_ATTRIBUTE_PREFIX + name for name in REQUIRED),)

    def normalise(self, options: JSONObject) -> tuple[JSONObject, list[Finding]]:
        """Return the options with headers and query as lists, the method in upper case, and the status as text."""
        normal = dict(options)
        for section in ("headers", "query"):
            if section in normal:
                normal[section] = parse_named_section(section, normal[section])
        if isinstance(normal.get("method"), str):
            normal["method"] = normal["method"].upper()
        if isinstance(normal.get("status"), int):
            normal["status"] = str(normal["status"])
        return normal, []

    def properties(self, options: JSONObject) -> list[Property]:
        """Return the properties for method, status, path, headers and query parameters."""
        declared = [
            _declare_scalar(name, options[name]) for name in ("method", "status") if options.get(name) is not None
        ]
        if options.get("path") is not None:
            declared.append(_declare_path(options["path"]))
        declared += [declare_header(item) for item in parse_named_section("headers", options.get("headers", []))]
        return declared + [_declare_parameter(item) for item in parse_named_section("query", options.get("query", []))]

    def lint(self, options: JSONObject) -> list[Finding]:
        """Return findings for a method together with a status, and for an invalid method or status (F.7)."""
        findings = []
        if options.get("method") is not None and options.get("status") is not None:
            findings.append(
                _make_option_finding("status", "exclusive", "a request has a method, a response a status: not both")
            )
        if not _METHODS.fullmatch(str(options.get("method", "POST"))):
            findings.append(_make_option_finding("method", "value", f"{options['method']!r} is no HTTP method"))
        if not _STATUS.fullmatch(str(options.get("status", "200"))):
            findings.append(_make_option_finding("status", "value", f"{options['status']!r} is no HTTP status code"))
        return findings

    def values(self, message: Message) -> Mapping[str, Any]:
        """Return method, path, status, headers and query parameters by property name."""
        sections = message.sections
        values: dict[str, Any] = group_values(sections.get("headers", ()), "headers.", fold=True)
        if parameters := sections.get("query"):
            values.update(group_values(parameters, "query.", fold=False))
        for name in ("method", "path", "status"):
            if name in sections:
                values[name] = sections[name]
        return values

    def attributes(self, message: Message, values: Mapping[str, Any]) -> dict[str, Attribute]:
        """Return the ``ce-`` headers, unquoted and percent-decoded, and the content type as ``datacontenttype``."""
        return add_content_type(read_header_attributes(values, _ATTRIBUTE_PREFIX), message, "ce-datacontenttype")

    def binary(self, event: CloudEvent) -> Message:
        """Return a POST to ``/``. The content type is stated even if a JSON event would only imply it (K-23)."""
        message = self.native(event.payload(), event.content_type)
        attribute_headers = [
            (f"ce-{name}", escape_header(format_attribute(value)))
            for name, value in event.attributes.items()
            if name != "datacontenttype"
        ]
        return _build_message(
            {**message.sections}, (*attribute_headers, *message.sections["headers"]), message.body, None, ""
        )

    def native(self, body: bytes | None, content_type: str) -> Message:
        """Return a POST to ``/``."""
        return request("POST", "/", [("Content-Type", content_type)] if content_type else [], body)

    def carrying(self, message: Message, values: Mapping[str, Any]) -> Message:
        """Return the request with ``values`` set, or a response if one of them is the ``status``."""
        outgoing.refuse(values, _CARRY_RULES)
        texts = outgoing.texts(values)
        old_sections = dict(message.sections)
        sections: dict[str, Any] = {
            name: texts.get(name, old_sections.get(name))
            for name in ("method", "path", "status")
            if name in (*texts, *old_sections)
        }
        # A message with a status is a response, which has neither method nor path.
        if "status" in texts:
            sections = {"status": texts["status"]}
        else:
            sections["query"] = regroup(old_sections.get("query", ()), texts, "query.", fold=False)
        headers = regroup(old_sections.get("headers", ()), texts, "headers.", fold=True)
        return _build_message(sections, headers, message.body, message.received_at, message.reference)


def _declare_scalar(name: str, value: JSON) -> Property:
    _check_text(name, value)
    return Property(name=name, path=f"protocoloptions.{name}", value=value, role="discriminator")


def _declare_path(value: JSON) -> Property:
    _check_text("path", value)
    return Property(
        name="path", path="protocoloptions.path", type="uritemplate", value=value, required=True, role="discriminator"
    )


def _check_text(name: str, value: JSON) -> None:
    if not isinstance(value, str):
        raise PropertyError(f"protocoloptions.{name}: must be a string")


def _declare_parameter(item: JSONObject) -> Property:
    value = item.get("value")
    return Property(
        name=f"query.{item['name']}",
        path=f"protocoloptions.query.{item['name']}",
        type=item.get("type") or "string",
        value=value,
        required=item.get("required") is True,
        multiple=True,
        role="discriminator" if value is not None and not is_template(str(value)) else "plain",
    )


def _make_option_finding(name: str, rule: str, message: str) -> Finding:
    return Finding(path=f"protocoloptions.{name}", rule=rule, message=message)


BINDING: Final = HttpBinding()
