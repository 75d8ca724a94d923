"""What is doubtful or wrong about definitions, before any message is held to them (domain.md K-13, F-7..F-14, F-31)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from signalbook.formats.base import media_type
from signalbook.messages.bindings.registry import find_binding
from signalbook.messages.cloudevents import MEDIA_TYPE, REQUIRED
from signalbook.messages.contenttypes import same_content_type
from signalbook.messages.options import lint_options, stated_content_types
from signalbook.messages.propertylint import Severity, lint_property
from signalbook.messages.protocols import CLOUDEVENTS, canonical_envelope, canonical_protocol, is_known_protocol
from signalbook.messages.structure import malformed
from signalbook.messages.timestamps import NOW
from signalbook.messages.uritemplates import is_template
from signalbook.values import JSON, Finding, JSONObject

_ATTRIBUTE: Final = re.compile(r"[a-z0-9]+", re.ASCII)
_FORMAT: Final = re.compile(r"[^/\s]+/\S+")


def lint(definition: JSONObject) -> list[Finding]:
    """Findings about a materialised definition (F-21); those of severity ``error`` break a MUST."""
    faults = malformed(definition)
    if faults:
        return faults
    return [*_sections(definition), *_schema(definition), *_content_types(definition), *_metadata(definition),
            *_options(definition)]  # fmt: skip


def lint_member(group: Mapping[str, JSON], definition: JSONObject) -> list[Finding]:
    """Whether a materialised definition has the envelope and protocol its group states (F-7, F-8)."""
    findings = []
    for name, canonical in (("envelope", canonical_envelope), ("protocol", canonical_protocol)):
        stated, own = group.get(name), definition.get(name)
        if isinstance(stated, str) and (not isinstance(own, str) or canonical(own) != canonical(stated)):
            text = f"the group states {name} {stated!r}, the message {own!r}: they must be the same"
            findings.append(_finding(name, "group", text))
    return findings


def lint_inline(endpoint: Mapping[str, JSON], definition: JSONObject) -> list[Finding]:
    """Whether a materialised definition fits the endpoint it is in (H-6, H-8).

    Its envelope is at least as precise as the endpoint's; its protocol, if it states one, is the endpoint's.
    """
    findings = []
    stated, own = endpoint.get("envelope"), definition.get("envelope")
    if isinstance(stated, str) and not (isinstance(own, str) and _refines(own, stated)):
        text = f"the endpoint states envelope {stated!r}, the message {own!r}: it may say more of it, nothing else"
        findings.append(_finding("envelope", "endpoint", text))
    stated, own = endpoint.get("protocol"), definition.get("protocol")
    if isinstance(stated, str) and isinstance(own, str) and canonical_protocol(own) != canonical_protocol(stated):
        text = f"the endpoint states protocol {stated!r}, the message {own!r}: they must be the same"
        findings.append(_finding("protocol", "endpoint", text))
    return findings


def _refines(own: str, stated: str) -> bool:
    """Whether ``NAME[/VERSION]`` says all that ``stated`` says, and perhaps more."""
    name, _, version = stated.strip().lower().partition("/")
    own_name, _, own_version = own.strip().lower().partition("/")
    return own_name == name and (not version or own_version == version or own_version.startswith(f"{version}."))


def lint_envelope_options(options: JSON) -> list[Finding]:
    """F-34, H-7: the mode of CloudEvents, and a format where there is one."""
    if options is None:
        return []
    if not isinstance(options, dict):
        return [_finding("envelopeoptions", "structure", "must be an object")]
    findings, mode = [], options.get("mode")
    if mode not in (None, "binary", "structured"):
        findings.append(_finding("envelopeoptions.mode", "value", f"{mode!r} is neither binary nor structured"))
    if mode == "binary" and options.get("format"):
        findings.append(_finding("envelopeoptions.format", "exclusive", "binary mode has no event format"))
    return findings


def lint_together(definitions: Mapping[str, JSONObject]) -> dict[str, list[Finding]]:
    """Doubts that show only among all definitions of a contract, by xid: equal ``type`` constants (K-13)."""
    by_type: dict[tuple[str, str], list[str]] = {}
    for xid, definition in definitions.items():
        entry = (definition.get("envelopemetadata") or {}).get("type")
        value = entry.get("value") if isinstance(entry, dict) else None
        if isinstance(value, str) and not is_template(value):
            by_type.setdefault((value, str(definition.get("protocol") or "")), []).append(xid)
    found: dict[str, list[Finding]] = {}
    for (value, _), xids in by_type.items():
        for xid in xids if len(xids) > 1 else ():
            others = ", ".join(other for other in xids[:10] if other != xid)
            text = f"the type {value!r} is also that of {others}"
            found[xid] = [_finding("envelopemetadata.type", "duplicate_type", text, "warning")]
    return found


def _sections(definition: JSONObject) -> Iterator[Finding]:
    """F-9: an envelope needs its metadata, a protocol its options; both only warn, as models do not demand them."""
    for selector, section in (("envelope", "envelopemetadata"), ("protocol", "protocoloptions")):
        chosen = definition.get(selector)
        if chosen == "":
            yield _finding(selector, "type", f"{selector} must be a non-empty string")
        elif chosen and not isinstance(definition.get(section), dict):
            yield _finding(section, "required", f"{selector} {chosen} asks for {section}", "warning")
        elif not chosen and definition.get(section):
            yield _finding(section, "selector", f"{section} means nothing without {selector}", "warning")
    protocol = definition.get("protocol")
    if isinstance(protocol, str) and not is_known_protocol(protocol) and find_binding(protocol) is None:
        yield _finding("protocol", "unknown", f"no binding for protocol {protocol!r}", "warning")


def _schema(definition: JSONObject) -> Iterator[Finding]:
    """F-10 to F-13."""
    stated = definition.get("dataschemaformat")
    inline, uri, xid = (definition.get(name) for name in ("dataschema", "dataschemauri", "dataschemaxid"))
    if inline is not None and uri is not None:
        yield _finding("dataschema", "exclusive", "a definition has either dataschema or dataschemauri, not both")
    if stated is None and not (inline is None and uri is None):
        name = "dataschema" if inline is not None else "dataschemauri"
        yield _finding("dataschemaformat", "required", f"{name} asks for dataschemaformat")
    if stated is not None and not (isinstance(stated, str) and _FORMAT.fullmatch(stated)):
        yield _finding("dataschemaformat", "format", f"{stated!r} is not of the form NAME/VERSION", "warning")
    if isinstance(xid, str) and isinstance(uri, str) and xid not in uri:
        yield _finding("dataschemaxid", "mismatch", f"dataschemauri {uri!r} is not the URL of {xid}")


def _content_types(definition: JSONObject) -> Iterator[Finding]:
    """F-14, F-32: everywhere the same content type; the envelope's own around a payload is another matter."""
    outer = definition.get("datacontenttype")
    metadata = definition.get("envelopemetadata") or {}
    inner = _value(metadata, "datacontenttype")
    if isinstance(outer, str) and isinstance(inner, str) and not _agree(outer, inner):
        text = f"datacontenttype is {outer!r} here and {inner!r} in envelopemetadata"
        yield _finding("datacontenttype", "mismatch", text)
    yield from _by_protocol(definition, outer if isinstance(outer, str) else inner)
    schema, uri = _value(metadata, "dataschema"), definition.get("dataschemauri")
    if isinstance(schema, str) and isinstance(uri, str) and schema != uri and not is_template(schema):
        text = f"envelopemetadata.dataschema is {schema!r}, dataschemauri {uri!r}"
        yield _finding("envelopemetadata.dataschema", "mismatch", text)


def _by_protocol(definition: JSONObject, stated: JSON) -> Iterator[Finding]:
    """F-14: the content type among the protocol's options; that of an envelope is not the payload's."""
    options = definition.get("protocoloptions")
    if not isinstance(stated, str) or not isinstance(options, dict):
        return
    for path, value in stated_content_types(str(definition.get("protocol") or ""), options):
        if not (media_type(value).startswith(MEDIA_TYPE) or _agree(stated, value)):
            yield _finding(path, "mismatch", f"the content type is {value!r} here, and {stated!r} elsewhere")


def _agree(outer: str, inner: str) -> bool:
    if media_type(outer).startswith(MEDIA_TYPE):
        return True
    return same_content_type(outer, inner) and same_content_type(inner, outer)


def _metadata(definition: JSONObject) -> Iterator[Finding]:
    """F-23 to F-31."""
    metadata = definition.get("envelopemetadata")
    if definition.get("envelope") != CLOUDEVENTS or not isinstance(metadata, dict):
        return
    for name, entry in metadata.items():
        path = f"envelopemetadata.{name}"
        if not _ATTRIBUTE.fullmatch(name) or name == "data":
            yield _finding(path, "name", f"{name!r} is no name of a CloudEvents attribute")
        yield from lint_property(path, entry)
        yield from _core(name, path, entry)


def _core(name: str, path: str, entry: JSONObject) -> Iterator[Finding]:
    """F-31."""
    value = entry.get("value")
    if name in REQUIRED and entry.get("required") is False:
        yield _finding(f"{path}.required", "required", f"CloudEvents demands {name} of every event")
    if name == "specversion" and (value not in (None, "1.0") or entry.get("type", "string") != "string"):
        yield _finding(path, "value", 'specversion is of type string and has the value "1.0"')
    if name == "id" and isinstance(value, str) and not is_template(value):
        yield _finding(f"{path}.value", "constant", "events with one and the same id are duplicates", "warning")
    if name == "time" and value not in (None, NOW):
        yield _finding(f"{path}.value", "constant", f"time has a value other than {NOW}", "warning")


def _options(definition: JSONObject) -> Iterator[Finding]:
    options = definition.get("protocoloptions")
    protocol = str(definition.get("protocol") or "")
    binding = find_binding(protocol)
    if isinstance(options, dict):
        yield from lint_options(protocol, options)
        if binding is not None:
            yield from binding.lint(options)
    yield from lint_envelope_options(definition.get("envelopeoptions"))


def _value(metadata: JSONObject, name: str) -> JSON:
    entry = metadata.get(name)
    return entry.get("value") if isinstance(entry, dict) else None


def _finding(path: str, rule: str, message: str, severity: Severity = "error") -> Finding:
    return Finding(path=path, rule=rule, message=message, severity=severity)
