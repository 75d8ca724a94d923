"""A Python package of message definitions: the types of payloads, and for each message ``build`` and ``parse``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from signalbook.codegen.base import (
    Generated,
    GeneratedFile,
    Generator,
    GeneratorError,
    GeneratorInput,
    grouped,
    lasting,
)
from signalbook.codegen.naming import last_part, snake, unique
from signalbook.codegen.payloadtypes import ALL_FORMATS, PayloadTypes, payload_types
from signalbook.codegen.python.formatting import format_python
from signalbook.codegen.python.records import EmittedTypes, Style, docstring, emit
from signalbook.messages import CompiledDefinition, Param, Policy, required_inputs
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.values import JSONObject

_STYLES: Final = ("dataclass", "msgspec", "pydantic")
_PAYLOADS: Final = "payloads"
_DATA: Final = "definitions.json"
# Names that modules and functions of the package have a use for.
_MODULES: Final = (_PAYLOADS, "definitions")
_ARGUMENTS: Final = ("payload", "bool", "int", "str")
_ARGUMENT_TYPES: Final = {
    "boolean": "bool",
    "integer": "int",
    "ulong": "int",
    "number": "int | float",
    "timestamp": "str | _datetime.datetime",
}
_BASES: Final = frozenset({"basemessageuri", "basemessage"})


@dataclass(frozen=True, slots=True)
class _Document:
    """A schema document with the module of its types."""

    types: PayloadTypes
    emitted: EmittedTypes


def _generate_python(input: GeneratorInput) -> Generated:
    style = cast(Style, input.option("style", _STYLES))
    package = input.option("package") or "messages"
    if snake(package) != package:
        raise GeneratorError(f"python: package is a name such as shop_messages, not {package!r}")
    input.progress("reading the types of payloads")
    types_by_document, left_out = payload_types(input, ALL_FORMATS)
    documents = {
        key: _Document(definition, emit(definition.table, style)) for key, definition in types_by_document.items()
    }
    definitions = [definition for xid, definition in input.messages.items() if xid not in left_out]
    sources = dict(_write_sources(input, package, definitions, documents))
    input.progress(f"formatting {len(sources)} modules")
    formatted = format_python({path: source for path, (source, _) in sources.items()})
    files = [GeneratedFile(path=path, content=formatted[path], xids=xids) for path, (_, xids) in sources.items()]
    xids = tuple(definition.xid for definition in definitions)
    if definitions:
        files.append(GeneratedFile(path=f"{package}/py.typed", content=b"", xids=()))
        snapshot = _reduce_snapshot(input.snapshot, definitions)
        files.append(GeneratedFile(path=f"{package}/{_DATA}", content=snapshot.to_json() + b"\n", xids=xids))
    return Generated(files=tuple(files) if definitions else (), left_out=left_out)


Sources = Iterator[tuple[str, tuple[str, tuple[str, ...]]]]


def _write_sources(
    input: GeneratorInput, package: str, definitions: list[CompiledDefinition], documents: Mapping[str, _Document]
) -> Sources:
    """Yield the modules of the package by path, each with the definitions that it is made of."""
    xids = tuple(definition.xid for definition in definitions)
    if not definitions:
        return
    yield f"{package}/__init__.py", (_write_module(input, xids, "Messages, made of their definitions.", ()), xids)
    runtime = (
        "from signalbook.codegen.runtime import PackagedDefinitions, MessageHandlers",
        "__all__ = ['DEFINITIONS', 'handlers']",
        "DEFINITIONS = PackagedDefinitions(__package__)",
        "def handlers(*groups: str) -> MessageHandlers:",
        "    " + docstring("A table for functions that take messages of these groups, by their xids, or of all."),
        "    return MessageHandlers(DEFINITIONS.contract(*groups))",
    )
    yield f"{package}/definitions.py", (_write_module(input, xids, "The definitions of this package.", runtime), xids)
    yield f"{package}/{_PAYLOADS}/__init__.py", (_write_module(input, xids, "The types of payloads.", ()), xids)
    for document in documents.values():
        users = tuple(xid for xid in document.types.roots if xid in xids)
        if users:
            text = _write_module(input, users, "The types of payloads.", (document.emitted.source,))
            yield f"{package}/{_PAYLOADS}/{document.types.name}.py", (text, users)
    yield from _write_groups(input, package, definitions, documents)


def _write_groups(
    input: GeneratorInput, package: str, definitions: list[CompiledDefinition], documents: Mapping[str, _Document]
) -> Sources:
    groups = grouped(definitions)
    folders = unique(groups, lambda group: snake(last_part(group), "group"), _MODULES)
    for group, members in groups.items():
        folder, xids = f"{package}/{folders[group]}", tuple(definition.xid for definition in members)
        description = str(input.entity(group).get("description") or f"Messages of {last_part(group)}.")
        yield f"{folder}/__init__.py", (_write_module(input, xids, description, ()), xids)
        names = unique(xids, lambda xid: snake(last_part(xid), "message"))
        for definition in members:
            document = documents.get(definition.schema_use.document) if definition.schema_use.schema else None
            yield (
                f"{folder}/{names[definition.xid]}.py",
                (_write_message_module(input, definition, document), (definition.xid,)),
            )


def _write_module(input: GeneratorInput, xids: tuple[str, ...], description: str, lines: tuple[str, ...]) -> str:
    head = [f"# {line}" for line in input.header(xids)]
    future = ["from __future__ import annotations"] if lines else []
    return "\n".join([*head, docstring(description), *future, *lines, ""])


def _write_message_module(input: GeneratorInput, definition: CompiledDefinition, document: _Document | None) -> str:
    payload, imported = "_t.Any", ""
    if document is not None:
        payload = document.emitted.annotation(document.types.roots[definition.xid], "_types.")
        imported = f"from ..{_PAYLOADS} import {document.types.name} as _types" if "_types." in payload else ""
    elif definition.schema_use.schema is None:
        payload = "bytes | None"
    inputs = [param for param in required_inputs(definition) if param.source == "template" or param.required]
    names = unique((param.name for param in inputs), lambda name: snake(name, "value"), _ARGUMENTS)
    lines = (
        "import datetime as _datetime",
        "import typing as _t",
        "from signalbook.codegen.runtime import MessageType, Outbound, TypedMessage",
        "from signalbook.messages import Message",
        "from ..definitions import DEFINITIONS",
        imported,
        f"Payload: _t.TypeAlias = {payload}",
        f"MESSAGE: _t.Final[MessageType[Payload]] = MessageType({definition.xid!r}, Payload, DEFINITIONS)",
        *_write_build(definition, inputs, names),
        "def parse(message: Message) -> TypedMessage[Payload]:",
        "    " + docstring("What a received message says. Raises UnexpectedMessage for one that is not of this kind."),
        "    return MESSAGE.parse(message)",
    )
    description = str(definition.definition.get("description") or definition.message_id)
    return _write_module(input, (definition.xid,), description, lines)


def _write_build(definition: CompiledDefinition, inputs: list[Param], names: Mapping[str, str]) -> Iterator[str]:
    arguments = "".join(f", {names[param.name]}: {_choose_type(param)}" for param in inputs)
    marker = ", *" if arguments else ""
    yield f"def build(payload: Payload{marker}{arguments}) -> Outbound:"
    yield "    " + docstring(f"A message {definition.message_id}. Raises OutboundError with all that is wrong.")
    context = ", ".join(f"{param.name!r}: {names[param.name]}" for param in inputs if param.source == "template")
    values = ", ".join(f"{param.name!r}: {names[param.name]}" for param in inputs if param.source != "template")
    yield f"    return MESSAGE.build(payload, {{{context}}}, {{{values}}})"


def _choose_type(param: Param) -> str:
    if param.source == "template":
        return "str" if param.required else "str | None = None"
    return _ARGUMENT_TYPES.get(param.type, "str")


def _reduce_snapshot(snapshot: Snapshot, definitions: list[CompiledDefinition]) -> Snapshot:
    """The definitions that the package has with it, and no more than they need, as far as that is easily seen."""
    selected = tuple(definition.xid for definition in definitions)
    messages = {definition.xid: _drop_base(definition) for definition in definitions}
    resources = {definition.schema_use.resource for definition in definitions}
    schemas = {
        xid: schema
        for xid, schema in snapshot.schemas.items()
        if xid.partition("/versions/")[0].partition("?")[0] in resources
    }
    small = replace(snapshot, messages=messages, schemas=schemas, selected=selected, names=())
    # A schema may refer to others: then all go with it.
    whole = (
        small
        if not small.compile(Policy()).verify()
        else replace(small, schemas=snapshot.schemas, names=snapshot.names)
    )
    return whole.check(Policy())


def _drop_base(definition: CompiledDefinition) -> JSONObject:
    """The definition, which has in it already what its bases say."""
    return {name: value for name, value in lasting(definition).items() if name not in _BASES}


GENERATOR: Final = Generator(
    summary="a Python package: types of payloads, and functions that build and parse messages",
    generate=_generate_python,
    options={
        "package": "the name of the package; messages without it",
        "style": "dataclass, msgspec or pydantic: what the types of payloads are",
    },
)
