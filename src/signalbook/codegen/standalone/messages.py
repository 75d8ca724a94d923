"""Message definitions as tables: what a program has to know of one to build, send, match and read its messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from signalbook.codegen.base import GeneratorInput, Inexpressible
from signalbook.codegen.datatypes import DataType
from signalbook.codegen.payloadtypes import PayloadTypes, payload_types
from signalbook.codegen.standalone.rules import SchemaRules
from signalbook.formats.base import is_json, media_type
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.messages import CompiledDefinition, Param, required_inputs
from signalbook.messages.cloudevents import JSON_FORMAT, MEDIA_TYPE
from signalbook.messages.definitions.properties import LEGACY_NOW, NOW, Property
from signalbook.messages.payloads.content import is_content_type
from signalbook.messages.producing.building import declared_properties, is_open
from signalbook.messages.producing.values import ENVELOPE, OPTIONS
from signalbook.uris import is_uri
from signalbook.values import JSON, JSONObject

_ENCODINGS: Final = ("content-encoding", "content_encoding")
_IDENTITY: Final = ("", "identity")


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneMessage:
    """One definition for code without Signalbook's runtime.

    ``inputs`` are what ``build`` takes beside the payload, ``table`` what the runtime reads. ``type`` is that of the
    payload, None for bytes that no schema describes; ``rules`` are the rules of its schema.
    """

    definition: CompiledDefinition
    inputs: tuple[Param, ...]
    table: JSONObject
    types: PayloadTypes | None
    type: DataType | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standalone:
    """What targets of such code have in common: messages, the rules of each document of types, and what is left out."""

    messages: Mapping[str, StandaloneMessage]
    rules: Mapping[str, SchemaRules]
    left_out: Mapping[str, str]

    @property
    def documents(self) -> dict[str, tuple[PayloadTypes, SchemaRules, tuple[str, ...]]]:
        """The documents that messages use, by name: their types and rules, and the xids of the messages."""
        found: dict[str, tuple[PayloadTypes, SchemaRules, tuple[str, ...]]] = {}
        for xid, each in self.messages.items():
            if each.types is not None:
                name = each.types.name
                _, _, xids = found.get(name, (None, None, ()))
                found[name] = (each.types, self.rules[name], (*xids, xid))
        return found


def standalone(given: GeneratorInput) -> Standalone:
    """The messages of the input, and those that such code has no form for."""
    given.progress("reading the types of payloads")
    documents, left_out = payload_types(given)
    rules: dict[str, SchemaRules] = {}
    messages = {}
    for xid, definition in given.messages.items():
        if xid in left_out:
            continue
        types = documents.get(definition.schema_use.document) if definition.schema_use.schema else None
        try:
            messages[xid] = _message(definition, types, rules)
        except (Inexpressible, RecursionError) as error:
            left_out[xid] = str(error) or "its schema is nested too deep"
    return Standalone(messages=messages, rules=rules, left_out=left_out)


def _message(
    definition: CompiledDefinition, types: PayloadTypes | None, rules: dict[str, SchemaRules]
) -> StandaloneMessage:
    """Raises ``Inexpressible``."""
    inputs = tuple(each for each in required_inputs(definition) if each.source == "template" or each.required)
    taken = {each.paths[0] for each in inputs if each.source == "property"}
    mode, form = _mode(definition)
    content_type, stated = _content_type(definition)
    table: JSONObject = {
        "xid": definition.xid,
        "id": definition.message_id,
        "event": definition.is_event,
        "protocol": definition.protocol,
        "mode": mode or ("structured" if form else ""),
        "contentType": content_type,
        "stated": stated,
        "properties": [_property(each, taken) for each in declared_properties(definition)],
    }
    uri = definition.definition.get("dataschemauri")
    if isinstance(uri, str) and is_uri(uri):
        table["dataschema"] = uri
    if definition.schema_use.schema is not None:
        table["root"] = _root(definition, types, rules, content_type)
    return StandaloneMessage(
        definition=definition,
        inputs=inputs,
        table=table,
        types=types,
        type=types.roots[definition.xid] if types is not None else None,
    )


def _root(
    definition: CompiledDefinition, types: PayloadTypes | None, rules: dict[str, SchemaRules], content_type: str
) -> int:
    """The place of the payload's rule among those of its document."""
    schema = definition.schema_use.schema
    if not isinstance(schema, JsonSchema) or types is None:
        raise Inexpressible(f"its payload is of {schema and schema.format}, which this target does not write")
    if content_type and not is_json(content_type):
        raise Inexpressible(f"its payload is {content_type}, and JSON Schema describes JSON alone")
    if types.name not in rules:
        rules[types.name] = SchemaRules(schema.document)
    return rules[types.name].at(schema.uri)


def _content_type(definition: CompiledDefinition) -> tuple[str, bool]:
    """The content type of payloads, and whether the definition states it, so that only the same will do."""
    outer = str(definition.definition.get("datacontenttype") or "")
    return definition.payload_type, definition.payload_type == outer and is_content_type(outer)


def _mode(definition: CompiledDefinition) -> tuple[str, str]:
    """The content mode and the event format that the definition demands. Raises ``Inexpressible``."""
    options = definition.definition.get("envelopeoptions") or {}
    outer = str(definition.definition.get("datacontenttype") or "")
    form = outer if outer.lower().startswith(MEDIA_TYPE) else str(options.get("format") or "")
    if form and media_type(form) != JSON_FORMAT:
        raise Inexpressible(f"its events are {form}; this target has them in {JSON_FORMAT} alone")
    return str(options.get("mode") or ""), form


def _property(declared: Property, taken: set[str]) -> JSONObject:
    """An attribute or an option of the protocol. Raises ``Inexpressible``."""
    scope, _, name = declared.path.partition(".")
    value = declared.value
    if name.lower().rpartition(".")[2] in _ENCODINGS and str(value or "").lower() not in _IDENTITY:
        raise Inexpressible(f"its payload is compressed ({value}), which this target does not do")
    entry: JSONObject = {"name": declared.name, "path": declared.path, "type": declared.type}
    flags = {
        "attribute": scope + "." == ENVELOPE,
        "required": declared.required,
        "multiple": declared.multiple,
        "delivery": declared.role == "delivery",
        "contentType": declared.comparison == "content_type",
        "input": declared.path in taken,
    }
    entry |= {flag: True for flag, on in flags.items() if on}
    template = declared.template()
    if template is not None:
        entry["template"] = {
            "text": template.text,
            "names": list(template.names),
            "literals": list(template.literals),
            "encoded": template.encoded,
            "separator": template.separator,
        }
    elif value in (NOW, LEGACY_NOW) and declared.type == "timestamp":
        entry["now"] = True
    elif not is_open(declared):
        entry["value"] = _text(value)
    return entry


def _text(value: JSON) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def option_name(path: str) -> str:
    """The name of an option of the protocol."""
    return path.removeprefix(OPTIONS)


def argument_names(message: StandaloneMessage) -> Iterator[Param]:
    """What ``build`` takes beside the payload, those that are required first."""
    yield from sorted(message.inputs, key=lambda each: not each.required)
