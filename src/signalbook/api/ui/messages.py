"""The page of a message definition: its properties and where they come from, its payload, and a sample of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from signalbook.api.ui.attributes import AttributeValues
from signalbook.api.ui.definitions import RegistryDefinitions
from signalbook.api.ui.documents import render_highlighted
from signalbook.api.ui.entities import EntityContent, build_entity_content, build_title
from signalbook.api.ui.listing import ENDPOINTS
from signalbook.api.ui.pages import Page, UIRequest, build_crumbs
from signalbook.api.ui.samples import KAFKA, KafkaEndpoint, Samples, build_samples
from signalbook.api.ui.schemas import TREE_BYTES, describe_too_large, format_finding, limit_work, take_fitting
from signalbook.api.xregistry.requests import explain_dangling_xref
from signalbook.engine.read.view import View
from signalbook.formats.tree import Described, SchemaNode
from signalbook.messages import DefinitionError, Materialised, normalise
from signalbook.messages.cloudevents import REQUIRED
from signalbook.messages.definitions.definition import declare_attributes, declare_options
from signalbook.messages.definitions.normalise import CLOUDEVENTS
from signalbook.messages.definitions.schemas import SchemaUse
from signalbook.messages.properties import Property, PropertyError
from signalbook.values import JSON, JSONObject
from signalbook.work import OutOfTime, TooComplex
from signalbook.xid import Kind, Xid

_MAX_VALUE_CHARS: Final = 400
_USERS: Final = 10
_MOST_FINDINGS: Final = 20
_INLINE: Final = 8_000
_SECTION_ATTRIBUTES: Final = frozenset(
    {
        *("envelope", "envelopemetadata", "protocol", "protocoloptions", "dataschema", "dataschemaformat"),
        *("dataschemauri", "dataschemaxid", "datacontenttype", "basemessage", "basemessageuri"),
    }
)
"""Attributes that sections of their own show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRow:
    """A property. ``how`` is fixed, template or any; ``origin`` is the page of the base that states the property, if
    any."""

    name: str
    how: str
    value: str
    type: str
    required: bool
    description: str
    origin: str
    origin_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyTable:
    """The properties of the envelope, or of the protocol."""

    title: str
    about: str
    rows: tuple[PropertyRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadContent:
    """The payload: its ``schema`` as a page below ``/ui`` with its ``name``, or inline; ``missing`` is why there is no
    tree."""

    format: str
    contenttype: str
    schema: str
    name: str
    inline: str
    tree: SchemaNode | None
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContent:
    """The content of the page: ``entity`` is the content that all entities have, the rest is only for messages."""

    entity: EntityContent
    bases: tuple[str, ...]
    doubts: tuple[str, ...]
    tables: tuple[PropertyTable, ...]
    payload: PayloadContent | None
    samples: Samples | None
    tried_at: str


def page(view: View, request: UIRequest, xid: Xid) -> Page:
    """Return the page of a message definition, or of one Version of it."""
    definitions = RegistryDefinitions(view=view, root=request.base_url)
    entity = build_entity_content(view, request, xid, leave_out=_SECTION_ATTRIBUTES)
    materialised = definitions.materialised(xid)
    assert materialised is not None, "entity_content has found it"
    tables = tuple(_list_tables(materialised, definitions, xid))
    payload, samples, faults = _build_payload_and_samples(definitions, xid, materialised, view, request)
    content = MessageContent(
        entity=entity,
        bases=tuple(materialised.chain),
        doubts=(*(str(finding) for finding in materialised.findings[:_MOST_FINDINGS]), *faults),
        tables=tables,
        payload=payload,
        samples=samples,
        tried_at=f"/-/try{xid}",
    )
    return Page(template="message.html", title=entity.heading.title, content=content, crumbs=build_crumbs(xid))


def _list_tables(materialised: Materialised, definitions: RegistryDefinitions, xid: Xid) -> Iterator[PropertyTable]:
    definition = materialised.definition
    layers = list(_list_layers(materialised, definitions, xid))
    if definition.get("envelope"):
        attributes = declare_attributes(definition)
        stated_properties = definition.get("envelopemetadata") or {}
        rows = [
            _build_row(declared, declared.name, stated_properties, layers, "envelopemetadata")
            for declared in attributes
        ]
        if definition["envelope"] == CLOUDEVENTS:
            rows += [
                _build_required_row(name)
                for name in REQUIRED
                if name not in stated_properties and name != "specversion"
            ]
        about = "Context attributes of each event."
        yield PropertyTable(title=f"Envelope: {definition['envelope']}", about=about, rows=tuple(rows))
    protocol = str(definition.get("protocol") or "")
    if protocol:
        try:
            options = declare_options(protocol, definition.get("protocoloptions"))
        except PropertyError:
            options = []
        stated_properties = definition.get("protocoloptions") or {}
        rows = [
            _build_row(
                declared, declared.path.removeprefix("protocoloptions."), stated_properties, layers, "protocoloptions"
            )
            for declared in options
        ]
        yield PropertyTable(
            title=f"Protocol: {protocol}", about="What the protocol carries beside the payload.", rows=tuple(rows)
        )


def _list_layers(
    materialised: Materialised, definitions: RegistryDefinitions, xid: Xid
) -> Iterator[tuple[str, JSONObject]]:
    """Yield the definition, with the reference "", and each of its bases with its reference, not merged with others."""
    own_definition = definitions.load_raw(xid)
    yield "", normalise(own_definition or {})[0]
    for reference in materialised.chain:
        yield reference, normalise(definitions.base(reference) or {})[0]


def _build_row(
    declared: Property,
    name: str,
    stated_properties: Mapping[str, JSON],
    layers: list[tuple[str, JSONObject]],
    section: str,
) -> PropertyRow:
    origin = next((reference for reference, layer in layers if _is_stated(layer.get(section), name)), "")
    entry = stated_properties.get(name)
    try:
        template = declared.template()
    except PropertyError:
        template = None
    value = "" if declared.value is None else str(declared.value)
    return PropertyRow(
        name=name,
        how="template" if template is not None else "fixed" if declared.value is not None else "any",
        value=value[:_MAX_VALUE_CHARS],
        type=declared.type,
        required=declared.required,
        description=str(entry.get("description") or "")[:_MAX_VALUE_CHARS] if isinstance(entry, dict) else "",
        origin=origin,
        origin_name=origin.rpartition("/")[2],
    )


def _is_stated(section: JSON, name: str) -> bool:
    """Return True if a section of one definition states the property, by its name or the first part of its path."""
    if not isinstance(section, dict):
        return False
    if name in section:
        return True
    first, _, remaining_path = name.partition(".")
    inner = section.get(first)
    if isinstance(inner, dict):
        return not remaining_path or remaining_path in inner
    return isinstance(inner, list) and any(
        isinstance(entry, dict) and entry.get("name") == remaining_path for entry in inner
    )


def _build_required_row(name: str) -> PropertyRow:
    return PropertyRow(
        name=name,
        how="any",
        value="",
        type="string" if name != "source" else "urireference",
        required=True,
        description="Every CloudEvent has it.",
        origin="",
        origin_name="",
    )


def _build_payload_and_samples(
    definitions: RegistryDefinitions, xid: Xid, materialised: Materialised, view: View, request: UIRequest
) -> tuple[PayloadContent | None, Samples | None, tuple[str, ...]]:
    values = AttributeValues(model=view.model, root=request.base_url)
    try:
        # Schemas are read when they are first asked for.
        with limit_work().on_the_spot():
            compiled = definitions.compile(xid, materialised)
            use = compiled.schema_use
            tree = use.schema.tree() if isinstance(use.schema, Described) else None
            payload = _build_payload(materialised.definition, use, tree, values, compiled.payload_type)
            payload = _explain_missing_schema(payload, definitions)
            return payload, build_samples(compiled, tree, _find_kafka_endpoint(view, xid, compiled.protocol)), ()
    except DefinitionError as error:
        return None, None, tuple(str(finding) for finding in error.findings[:_MOST_FINDINGS])
    except (TooComplex, OutOfTime):
        return None, None, (describe_too_large("The schemas of its payload have"),)


def _find_kafka_endpoint(view: View, xid: Xid, protocol: str) -> KafkaEndpoint | None:
    """Return the first Kafka endpoint that sends a message: the endpoint that contains it, or one with its message
    group."""
    if protocol not in ("", KAFKA):
        return None
    user_xids = [dependent.xid for dependent in view.find_direct_dependents(xid.resource, _USERS)]
    rows = view.reader.get_many(
        [user for user in user_xids if user.group_type == ENDPOINTS and user.kind is Kind.GROUP]
    )
    for endpoint in sorted(rows):
        options = rows[endpoint].attributes.get("protocoloptions")
        if rows[endpoint].attributes.get("protocol") == KAFKA and isinstance(options, dict):
            return KafkaEndpoint.of(endpoint, options)
    return None


def _build_payload(
    definition: JSONObject, use: SchemaUse, tree: SchemaNode | None, values: AttributeValues, contenttype: str
) -> PayloadContent | None:
    reference = str(definition.get("dataschemaxid") or definition.get("dataschemauri") or "")
    inline = definition.get("dataschema")
    if not (reference or inline is not None or contenttype):
        return None
    inline_markup = ""
    if inline is not None:
        text = inline if isinstance(inline, str) else _format_inline(inline)
        visible_text = text if len(text) <= _INLINE else f"{text[:_INLINE]}…"
        inline_markup, _ = render_highlighted(visible_text, "json" if not isinstance(inline, str) else "")
    schema = values.link(use.document or reference) or ""
    return PayloadContent(
        format=str(definition.get("dataschemaformat") or (use.schema.format if use.schema else "")),
        contenttype=contenttype,
        schema=schema,
        name=build_title(Xid.parse(schema)) if schema else "",
        inline=inline_markup,
        tree=None if tree is None else take_fitting(tree, [TREE_BYTES]),
        missing=tuple(format_finding(finding) for finding in use.findings[:_MOST_FINDINGS]),
    )


def _explain_missing_schema(payload: PayloadContent | None, definitions: RegistryDefinitions) -> PayloadContent | None:
    """Return ``payload``; if its schema is a dangling cross reference, with ``missing`` saying so."""
    xid = None if payload is None else definitions.find_xid(payload.schema)
    text = "" if xid is None else explain_dangling_xref(definitions.view, xid)
    return replace(payload, missing=(text,)) if payload is not None and text else payload


def _format_inline(value: JSON) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
