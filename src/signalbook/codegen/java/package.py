"""Java classes of message definitions: the types of payloads, and for each message ``build`` and ``parse``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Final

from signalbook.codegen.base import (
    Generated,
    GeneratedFile,
    Generator,
    GeneratorError,
    GeneratorInput,
    Inexpressible,
    grouped,
)
from signalbook.codegen.java.records import (
    CLASSES,
    KEYWORDS,
    class_names,
    classes,
    comment,
    comment_text,
    field_names,
    pieces,
    quoted,
    written,
)
from signalbook.codegen.naming import last_part, pascal, snake, unique
from signalbook.codegen.payloadtypes import PayloadTypes
from signalbook.codegen.standalone.messages import (
    PayloadDocument,
    Standalone,
    StandaloneMessage,
    argument_names,
    standalone,
)
from signalbook.messages import Param
from signalbook.values import dump_json

_RUNTIME: Final = ("Messages", "Rules", "Wire")
_PACKAGE: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
_ARGUMENT_TYPES: Final = {"boolean": "Boolean", "integer": "Integer", "number": "Double", "ulong": "Long"}
_MAX_NAME_CHARS: Final = 10_000
"""A class file has literals of at most 65,535 bytes (JVMS 4.4.7), and a character takes up to six."""
_MAX_INPUTS: Final = 254
"""A method has at most 255 parameters (JVMS 4.3.3), one of which is the payload."""
_REFERENCE: Final = "com.fasterxml.jackson.core.type.TypeReference"
Lines = Iterator[str]


def _generate_java(input: GeneratorInput) -> Generated:
    package = input.option("package") or "messages"
    if not _PACKAGE.fullmatch(package) or KEYWORDS & set(package.split(".")):
        raise GeneratorError(f"java: package is a name such as com.example.shop, not {package!r}")
    result = _drop_unwritable(standalone(input, _check))
    input.progress(f"writing {len(result.messages)} classes")
    return Generated(
        files=tuple(_write_files(input, result, package)) if result.messages else (), left_out=result.left_out
    )


def _check(types: PayloadTypes) -> None:
    """Raise ``Inexpressible`` for what Jackson has no annotation for."""
    names = [member.name for record in types.table.records.values() for member in record.members]
    if "" in names:
        raise Inexpressible("its schema has a member without a name, for which Jackson has no annotation")
    if any(len(name) > _MAX_NAME_CHARS for name in names):
        raise Inexpressible("its schema has a member whose name is longer than a literal of Java can be")


def _drop_unwritable(result: Standalone) -> Standalone:
    """Leave out messages with more inputs than a method of Java has parameters, or too long names of them."""
    left_out = {
        xid: f"it has {len(message.inputs)} inputs, or names of inputs too long for a literal of Java"
        for xid, message in result.messages.items()
        if len(message.inputs) > _MAX_INPUTS or any(len(param.name) > _MAX_NAME_CHARS for param in message.inputs)
    }
    messages = {xid: message for xid, message in result.messages.items() if xid not in left_out}
    return replace(result, messages=messages, left_out={**result.left_out, **left_out})


def _write_files(input: GeneratorInput, result: Standalone, package: str) -> Iterator[GeneratedFile]:
    for name in _RUNTIME:
        text = (files(__package__) / f"{name}.java").read_text(encoding="utf-8")
        first = f"// {input.notice}."
        content = f"{first}\n\npackage {package};\n\n{text}".encode()
        yield GeneratedFile(path=_build_path(package, name), content=content, xids=())
    documents = result.documents
    holders = unique(documents, lambda name: f"{pascal(name, 'Payload')}Types")
    class_names_by_document = {name: class_names(item.types.table, holders[name]) for name, item in documents.items()}
    for name, document in documents.items():
        lines = _write_document(document, holders[name], class_names_by_document[name], package)
        yield _build_file(input, f"{package}.payloads", holders[name], document.xids, lines)
    groups = grouped(item.definition for item in result.messages.values())
    folders = unique(groups, _choose_folder, ("payloads", *(name.lower() for name in _RUNTIME)))
    for group, members in groups.items():
        names = unique((item.xid for item in members), lambda xid: pascal(last_part(xid), "Message"), CLASSES)
        for item in members:
            lines = _write_message_class(
                result.messages[item.xid], names[item.xid], holders, class_names_by_document, package
            )
            yield _build_file(input, f"{package}.{folders[group]}", names[item.xid], (item.xid,), lines)


def _choose_folder(group: str) -> str:
    name = snake(last_part(group), "group")
    return f"{name}_" if name in KEYWORDS else name


def _build_path(package: str, name: str) -> str:
    return f"{package.replace('.', '/')}/{name}.java"


def _build_file(input: GeneratorInput, package: str, name: str, xids: tuple[str, ...], lines: Lines) -> GeneratedFile:
    head = [f"// {comment_text(line)}" for line in input.header(xids)]
    text = "\n".join([*head, "", f"package {package};", "", *lines, ""])
    return GeneratedFile(path=_build_path(package, name), content=text.encode(), xids=xids)


def _write_document(document: PayloadDocument, holder: str, names: Mapping[str, str], package: str) -> Lines:
    yield "/** The types of payloads. */"
    yield f"public final class {holder} {{"
    yield "  /** How payloads are written, and what they are held to. */"
    yield from _write_constant(f"{package}.Messages.PayloadSchema", "SCHEMA", document.schema)
    yield ""
    yield f"  private {holder}() {{}}"
    yield from classes(document.types.table, names, package.partition(".")[0])
    yield "}"


def _write_constant(kind: str, name: str, value: object) -> Lines:
    yield f"  public static final {kind} {name} ="
    yield f"      new {kind}("
    literals = list(pieces(dump_json(value).decode()))
    yield from (f"          {literal}," for literal in literals[:-1])
    yield f"          {literals[-1]});"


def _write_message_class(
    message: StandaloneMessage,
    name: str,
    holders: Mapping[str, str],
    class_names_by_document: Mapping[str, Mapping[str, str]],
    package: str,
) -> Lines:
    definition, runtime = message.definition, f"{package}.Messages"
    payload, schema, holder = "byte[]", "null", ""
    if message.types is not None and message.type is not None:
        holder = f"{package}.payloads.{holders[message.types.name]}"
        schema = f"{holder}.SCHEMA"
        inner = {
            key: f"{holder}.{class_name}" for key, class_name in class_names_by_document[message.types.name].items()
        }
        payload = written(message.type, inner)
    yield from comment(str(definition.definition.get("description") or definition.message_id))
    yield f"public final class {name} {{"
    yield "  /** The definition. */"
    yield from _write_constant(f"{runtime}.Definition", "DEFINITION", message.table)
    yield ""
    yield f"  private {name}() {{}}"
    yield ""
    yield from _write_build(message, runtime, payload, schema, package)
    yield ""
    yield "  /** What a received message says. Throws UnexpectedMessageException for one that is not of this kind. */"
    yield f"  public static {runtime}.TypedMessage<{payload}> parse({runtime}.Message message) {{"
    yield f"    return {runtime}.parse("
    yield f"        DEFINITION, {schema}, new {_REFERENCE}<{payload}>() {{}}, message);"
    yield "  }"
    yield "}"


def _write_build(message: StandaloneMessage, runtime: str, payload: str, schema: str, package: str) -> Lines:
    arguments = list(argument_names(message))
    names = field_names((argument.name for argument in arguments), ("payload", package.partition(".")[0]))
    description = f"A message {message.definition.message_id}. Throws OutboundException with all that is wrong."
    yield from (f"  {line}" for line in comment(description))
    parameters = "".join(f", {_choose_type(argument)} {names[argument.name]}" for argument in arguments)
    yield f"  public static {runtime}.Outbound build({payload} payload{parameters}) {{"
    context = _write_named(runtime, [argument for argument in arguments if argument.source == "template"], names)
    values = _write_named(runtime, [argument for argument in arguments if argument.source != "template"], names)
    yield f"    return {runtime}.build("
    yield f"        DEFINITION, {schema}, payload, {context}, {values});"
    yield "  }"


def _write_named(runtime: str, params: list[Param], names: Mapping[str, str]) -> str:
    return f"{runtime}.named({', '.join(f'{quoted(param.name)}, {names[param.name]}' for param in params)})"


def _choose_type(param: Param) -> str:
    return "String" if param.source == "template" else _ARGUMENT_TYPES.get(param.type, "String")


GENERATOR: Final = Generator(
    summary="Java classes: types of payloads for Jackson, and methods that build and parse messages",
    generate=_generate_java,
    options={"package": "the name of the package, such as com.example.shop; messages without it"},
)
