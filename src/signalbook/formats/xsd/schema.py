"""Schemas of XML Schema documents. Payloads are XML documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import islice
from typing import Any
from xml.etree.ElementTree import Element, tostring

from signalbook.formats.base import (
    MAX_FINDINGS,
    PayloadError,
    Resolve,
    Schema,
    SchemaError,
    make_finding,
    make_payload_error,
    make_unsupported_error,
    parse_media_type,
    shorten,
)
from signalbook.formats.shape import Anything, Shape
from signalbook.formats.tree import SchemaNode
from signalbook.formats.xsd import documents, limits, paths
from signalbook.formats.xsd.content import BAD_TEXT, Child, Planner, Unfit
from signalbook.formats.xsd.documents import Built, Sources
from signalbook.formats.xsd.paths import find_linked, list_roots
from signalbook.formats.xsd.tree import make_tree
from signalbook.values import JSON, Finding, digest


@dataclass(frozen=True, kw_only=True, eq=False)
class XsdSchema:
    """The possible roots of a payload: a linked element or type, or any top-level element of the document.

    ``plans`` and ``components`` are by the tag of the root. A linked type has the tag "", because its root may have any
    name.
    """

    format: str
    built: Built
    sources: Sources
    link: str
    plans: Mapping[str, Child]
    components: Mapping[str, Any]
    warnings: tuple[Finding, ...] = ()

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 digest of the format, the documents and the deep link."""
        texts = b"\n".join(place.encode() + b"\n" + content for place, content in self.sources)
        return digest(f"{self.format} {digest(texts)} {self.link}".encode())

    def decode(self, payload: bytes, content_type: str = "") -> JSON:
        """Decode and validate an XML document. Raises ``PayloadError``."""
        name = parse_media_type(content_type)
        if name and name not in ("application/xml", "text/xml") and not name.endswith("+xml"):
            raise make_unsupported_error(content_type, self.format)
        try:
            document = limits.read(payload)
        except limits.XMLError as error:
            raise make_payload_error("decode_error", "xml", str(error)) from None
        findings = self._find_violations(document.root, BytesIO(payload), document.prefixes)
        if findings:
            raise PayloadError("schema_violation", findings)
        return self._decode_value(document.root)

    def _decode_value(self, root: Element) -> JSON:
        try:
            value = self._plan(root).read(root, ())
        except Unfit as unfit:
            raise PayloadError("unsupported_format", [make_finding(unfit.path, unfit.rule, unfit.message)]) from None
        except BAD_TEXT as error:
            raise make_payload_error("decode_error", "range", f"a value has no JSON form: {error}") from None
        return {limits.local_name(root.tag): value} if len(self.plans) > 1 else value

    def _plan(self, root: Element) -> Child:
        return self.plans[root.tag if root.tag in self.plans else ""]

    def _find_violations(self, root: Element, source: Any, prefixes: Mapping[str, str]) -> list[Finding]:
        component = self.components.get(root.tag, self.components.get(""))
        if component is None:
            message = f"the root is {root.tag}; expected {' or '.join(self.components)}"
            return [Finding(path=f"/{limits.local_name(root.tag)}", rule="root", message=shorten(message))]
        most = self.built.most_elements
        # Check this before validation: the library's search takes the product of this and the longest content model.
        if sum(1 for _ in root.iter()) > most:
            message = f"more than {most} elements, which would take too long with this schema"
            return [Finding(path="", rule="size", message=message)]
        try:
            if _find_tag(component) and component.is_global():
                errors = self.built.schema.iter_errors(source)
            else:
                errors = component.iter_errors(root, namespaces=dict(prefixes))
            return [_build_violation(error) for error in islice(errors, MAX_FINDINGS)]
        except documents.FAILED as error:
            return [Finding(path="", rule="xsd", message=shorten(f"not decided: {error}"))]

    def reading(self, writer: Schema) -> Schema:
        """Return ``writer``: XML Schema has no schema resolution, so a payload is decoded with the
        schema that wrote it.
        """
        return writer

    def encode(self, value: JSON, content_type: str = "") -> bytes:
        """Return a decoded ``value`` as an XML document. Text that starts with ``<`` is used as XML. Raises
        ``PayloadError``.
        """
        if isinstance(value, str) and value.lstrip().startswith("<"):
            payload = value.encode("utf-8", "surrogatepass")
        else:
            try:
                payload = tostring(self._encode_element(value), encoding="utf-8", xml_declaration=True)
            except Unfit as unfit:
                raise PayloadError("schema_violation", [make_finding(unfit.path, unfit.rule, unfit.message)]) from None
        self.decode(payload, content_type)
        return payload

    def validate(self, value: JSON) -> list[Finding]:
        """Return the findings about a decoded ``value`` as an element of this schema, at most ``MAX_FINDINGS``."""
        try:
            root = self._encode_element(value)
        except Unfit as unfit:
            return [make_finding(unfit.path, unfit.rule, unfit.message)]
        return self._find_violations(root, root, {})

    def _encode_element(self, value: JSON) -> Element:
        """Return the element for a decoded ``value``, not yet validated. Raises ``Unfit``."""
        if len(self.plans) == 1:
            ((tag, only),) = self.plans.items()
            return only.plan.write(value, tag or "root", ())
        if not isinstance(value, dict) or len(value) != 1:
            raise Unfit((), "type", "expected an object with the root element as its only member")
        ((name, inner),) = value.items()
        for tag, plan in self.plans.items():
            if plan.name == name:
                return plan.plan.write(inner, tag, ())
        raise Unfit((name,), "root", f"there is no top-level element {name}")

    def shape(self) -> Shape:
        """Return the columns of the root's members, or ``Anything`` if several roots are possible."""
        return next(iter(self.plans.values())).plan.shape if len(self.plans) == 1 else Anything()

    def tree(self) -> SchemaNode:
        """Return the tree of documents of this schema."""
        return make_tree(self.plans, self.components)

    def constants(self) -> Mapping[str, frozenset[JSON]]:
        """Return no constants, because XML documents are distinguished by their root."""
        return {}


def _build_violation(error: Any) -> Finding:
    message = error.reason or error.message
    return Finding(path=error.path or "", rule="xsd", message=shorten(" ".join(str(message).split())))


def check(document: bytes, version: str) -> list[Finding]:
    """Return the findings about a document. If it has references, only checks that do not need them are made."""
    try:
        reason = _explain_unbuilt(documents.read(document).root)
        if reason is not None:
            return [*documents.check_schema(version, document), reason]
        documents.build(version, documents.gather(document, None))
    except SchemaError as error:
        return list(error.findings)
    return []


def parse(document: bytes, version: str, *, format: str, link: str, resolve: Resolve | None) -> XsdSchema:
    """Return the schema for the element or type that ``link`` names, or for all top-level elements.

    Raises ``SchemaError``.
    """
    sources = documents.gather(document, resolve)
    built = documents.build(version, sources)
    prefixes = documents.read(document).prefixes
    meant = [find_linked(built.schema, link, prefixes)] if link.strip("#:/ ") else list_roots(built.schema)
    if not meant:
        raise SchemaError([Finding(path="", rule="link", message="the document declares no element at its top level")])
    return XsdSchema(
        format=format,
        built=built,
        sources=sources,
        link=link.strip(),
        plans=_build_plans(meant),
        components={_find_tag(part): part for part in meant},
        warnings=tuple(_list_warnings(meant)),
    )


def _explain_unbuilt(root: Element) -> Finding | None:
    """Return a warning with the reason why a document is not built for checking, or None if it is built."""
    locations = sorted({part.location for part in documents.list_references(root)})
    if locations:
        return _build_unchecked("import", f"it refers to {', '.join(locations)}")
    test = next(paths.list_unbounded(root), None)
    return (
        None if test is None else _build_unchecked("expression", f"nobody knows how long this expression takes: {test}")
    )


def _build_unchecked(rule: str, why: str) -> Finding:
    return Finding(path="", rule=rule, message=shorten(f"checked in part only: {why}"), severity="warning")


def _find_tag(component: Any) -> str:
    return str(component.name) if hasattr(component, "nillable") else ""


def _build_plans(components: Iterable[Any]) -> Mapping[str, Child]:
    planner = Planner()
    return {_find_tag(part): planner.top(part) if _find_tag(part) else planner.root_of(part) for part in components}


def _list_warnings(components: list[Any]) -> Iterable[Finding]:
    if len(components) > 1:
        names = ", ".join(part.local_name for part in components)
        message = shorten(f"no element is named; the root of a payload may be {names}")
        yield Finding(path="", rule="link", message=message, severity="warning")
