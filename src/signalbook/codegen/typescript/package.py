"""TypeScript modules of message definitions: the types of payloads, and for each message ``build`` and ``parse``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Final

from signalbook.codegen.base import Generated, GeneratedFile, Generator, GeneratorInput, grouped
from signalbook.codegen.naming import last_part, pascal, snake, unique
from signalbook.codegen.standalone.messages import (
    PayloadDocument,
    Standalone,
    StandaloneMessage,
    argument_names,
    standalone,
)
from signalbook.codegen.typescript.records import (
    WIDTH,
    alias,
    comment,
    comment_text,
    interfaces,
    member_names,
    quoted,
    referred,
    type_names,
)
from signalbook.messages import Param
from signalbook.values import JSON, dump_json

_PAYLOADS: Final = "payloads"
_RUNTIME: Final = ("rules", "runtime", "wire")
_ARGUMENT_TYPES: Final = {"boolean": "boolean", "integer": "number", "number": "number", "ulong": "number | string"}
Lines = Iterator[str]


def _generate_typescript(input: GeneratorInput) -> Generated:
    result = standalone(input)
    input.progress(f"writing {len(result.messages)} modules")
    return Generated(files=tuple(_write_files(input, result)) if result.messages else (), left_out=result.left_out)


def _write_files(input: GeneratorInput, result: Standalone) -> Iterator[GeneratedFile]:
    for name in _RUNTIME:
        text = (files(__package__) / f"{name}.ts").read_text(encoding="utf-8")
        first = f"// {input.notice}.\n\n"
        yield GeneratedFile(path=f"{name}.ts", content=(first + text).encode(), xids=())
    names_by_document: dict[str, dict[str, str]] = {}
    for name, document in result.documents.items():
        names_by_document[name] = type_names(document.types.table)
        yield _build_file(
            input, f"{_PAYLOADS}/{name}.ts", document.xids, _write_document(document, names_by_document[name])
        )
    groups = grouped(definition.definition for definition in result.messages.values())
    folders = unique(groups, lambda group: snake(last_part(group), "group"), (_PAYLOADS, "node_modules", *_RUNTIME))
    for group, members in groups.items():
        modules = unique(
            (definition.xid for definition in members), lambda xid: snake(last_part(xid), "message"), ("index",)
        )
        for definition in members:
            lines = _write_message(result.messages[definition.xid], names_by_document)
            yield _build_file(input, f"{folders[group]}/{modules[definition.xid]}.ts", (definition.xid,), lines)
        members_of = tuple(definition.xid for definition in members)
        yield _build_file(input, f"{folders[group]}/index.ts", members_of, _write_index(input, group, modules))


def _build_file(input: GeneratorInput, path: str, xids: tuple[str, ...], lines: Lines) -> GeneratedFile:
    head = [f"// {comment_text(line)}" for line in input.header(xids)]
    return GeneratedFile(path=path, content="\n".join([*head, "", *lines, ""]).encode(), xids=xids)


def _write_index(input: GeneratorInput, group: str, modules: Mapping[str, str]) -> Lines:
    yield from comment(str(input.entity(group).get("description") or f"Messages of {last_part(group)}."))
    names = unique(modules.values(), camel, ("index",))
    for module, name in sorted(names.items()):
        yield f'export * as {name} from "./{module}.js";'


def camel(text: str) -> str:
    """A name as a variable has it."""
    name = pascal(text, "Message")
    name = name[:1].lower() + name[1:]
    return f"{name}_" if name in _RESERVED else name


# fmt: off
_RESERVED: Final = frozenset({
    "arguments", "await", "break", "case", "catch", "class", "const", "continue", "debugger", "default",
    "delete", "do", "else", "enum", "eval", "export", "extends", "false", "finally", "for", "function",
    "if", "implements", "import", "in", "instanceof", "interface", "let", "new", "null", "package", "private",
    "protected", "public", "return", "static", "super", "switch", "this", "throw", "true", "try", "typeof",
    "undefined", "var", "void", "while", "with", "yield",
})
# fmt: on


def _write_document(document: PayloadDocument, names: Mapping[str, str]) -> Lines:
    yield 'import type { PayloadSchema } from "../runtime.js";'
    yield from interfaces(document.types.table, names)
    yield ""
    yield "/** How payloads are written, and what they are held to. */"
    yield from _write_constant("export const schema: PayloadSchema = ", document.schema, " as PayloadSchema")


def _write_constant(head: str, value: JSON, kind: str) -> Lines:
    """Yield a constant as JSON in a text: compilers take much longer for objects."""
    text = f"{head}JSON.parse({quoted(dump_json(value).decode())}){kind};"
    if len(text) <= WIDTH:
        yield text
        return
    yield f"{head}JSON.parse("
    yield f"  {quoted(dump_json(value).decode())},"
    yield f"){kind};"


def _write_message(message: StandaloneMessage, names_by_document: Mapping[str, Mapping[str, str]]) -> Lines:
    definition = message.definition
    document, names = "", {}
    if message.types is not None and message.type is not None:
        names = dict(names_by_document[message.types.name])
        document = f'"../{_PAYLOADS}/{message.types.name}.js"'
        used = sorted({names[key] for key in referred(message.type)})
        if used:
            yield from _write_import(used, document)
        yield f"import {{ schema }} from {document};"
    yield 'import * as runtime from "../runtime.js";'
    yield ""
    yield "/** The payload. */"
    if message.type is None:
        yield "export type Payload = Uint8Array | null;"
    else:
        yield from alias("Payload", message.type, names)
    yield ""
    yield from comment(str(definition.definition.get("description") or definition.message_id))
    yield from _write_constant(
        "export const definition: runtime.Definition = ", message.table, " as runtime.Definition"
    )
    yield ""
    yield from _write_build(message, "schema" if document else "null")
    yield ""
    yield "/** What a received message says. Throws UnexpectedMessage for one that is not of this kind. */"
    yield "export function parse(message: runtime.Message): runtime.TypedMessage<Payload> {"
    yield f"  return runtime.parse<Payload>(definition, {'schema' if document else 'null'}, message);"
    yield "}"


def _write_import(names: list[str], source: str) -> Lines:
    text = f"import type {{ {', '.join(names)} }} from {source};"
    if len(text) <= WIDTH:
        yield text
        return
    yield "import type {"
    yield from (f"  {name}," for name in names)
    yield f"}} from {source};"


def _write_build(message: StandaloneMessage, schema: str) -> Lines:
    arguments = list(argument_names(message))
    description = f"A message {message.definition.message_id}. Throws OutboundError with all that is wrong."
    if not arguments:
        yield from comment(description)
        yield "export function build(payload: Payload): runtime.Outbound {"
        yield from _write_return(schema, [], [])
        yield "}"
        return
    names = member_names(argument.name for argument in arguments)
    yield "/** What a message has beside its payload. */"
    yield "export interface Values {"
    for argument in arguments:
        yield f"  {names[argument.name]}{'' if argument.required else '?'}: {_choose_type(argument)};"
    yield "}"
    yield ""
    yield from comment(description)
    yield "export function build(payload: Payload, values: Values): runtime.Outbound {"
    context = [argument for argument in arguments if argument.source == "template"]
    values = [argument for argument in arguments if argument.source != "template"]
    yield from _write_return(schema, list(_list_members(context, names)), list(_list_members(values, names)))
    yield "}"


Member = tuple[str, str]
"""A member of an object literal and its value."""


def _write_return(schema: str, context: list[Member], values: list[Member]) -> Lines:
    objects = [f"{{ {', '.join(map(': '.join, members))} }}" if members else "{}" for members in (context, values)]
    text = f"  return runtime.build(definition, {schema}, payload, {', '.join(objects)});"
    if len(text) <= WIDTH:
        yield text
        return
    yield "  return runtime.build("
    yield from (f"    {line}," for line in ("definition", schema, "payload"))
    for text, members in zip(objects, (context, values), strict=True):
        yield from [f"    {text},"] if len(f"    {text},") <= WIDTH else _write_object(members)
    yield "  );"


def _write_object(members: list[Member]) -> Lines:
    """Yield an object literal, a line for each member."""
    yield "    {"
    for name, value in members:
        text = f"      {name}: {value},"
        yield from [text] if len(text) <= WIDTH else [f"      {name}:", f"        {value},"]
    yield "    },"


def _list_members(params: list[Param], names: Mapping[str, str]) -> Iterator[Member]:
    for param in params:
        name = names[param.name]
        # Without brackets it would be the prototype.
        member = f'["{name}"]' if name == "__proto__" else name
        yield (member, f"values.{name}") if name == param.name else (name, f"values[{name}]")


def _choose_type(param: Param) -> str:
    return "string" if param.source == "template" else _ARGUMENT_TYPES.get(param.type, "string")


GENERATOR: Final = Generator(
    summary="TypeScript modules: types of payloads, and functions that build and parse messages",
    generate=_generate_typescript,
)
