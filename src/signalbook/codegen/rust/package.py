"""A Rust crate of message definitions: the types of payloads, and for each message ``build`` and ``parse``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from signalbook.codegen.base import (
    Generated,
    GeneratedFile,
    Generator,
    GeneratorError,
    GeneratorInput,
    grouped,
    runtime_files,
)
from signalbook.codegen.naming import last_part, underscored, unique
from signalbook.codegen.rust.records import (
    KEYWORDS,
    MOST_ARGUMENTS,
    NOT_RAW,
    WIDTH,
    DocumentNames,
    call,
    comment,
    comment_text,
    document_names,
    field_names,
    identifier,
    imports,
    quoted,
    raw,
    signature,
    types,
    written,
    written_types,
)
from signalbook.codegen.standalone.messages import (
    PayloadDocument,
    Standalone,
    StandaloneMessage,
    argument_names,
    standalone,
)
from signalbook.codegen.standalone.patterns import linear
from signalbook.messages import Param
from signalbook.values import JSON

_PACKAGE: Final = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
_RESERVED: Final = KEYWORDS | {"alloc", "core", "proc_macro", "regex", "serde_json", "std", "test"}
_ARGUMENT_TYPES: Final = {"boolean": "bool", "integer": "i32", "number": "f64", "ulong": "u64"}
_MANIFEST: Final = """
[package]
name = "{package}"
version = "0.1.0"
edition = "2021"
rust-version = "1.71"

[dependencies]
regex = {{ version = "1.9", default-features = false, features = ["std", "perf", "unicode-gencat"] }}
serde_json = {{ version = "1", default-features = false, features = ["float_roundtrip", "std"] }}
"""
_ATTRIBUTES: Final = """
#![forbid(unsafe_code)]
// Names and shapes are those of the definitions.
#![allow(
    clippy::enum_variant_names,
    clippy::large_enum_variant,
    clippy::module_inception,
    clippy::ptr_arg,
    clippy::type_complexity,
    clippy::upper_case_acronyms
)]
"""
_IMPORTS: Final = """
use crate::runtime::{
    self, Definition, Inputs, Message, Outbound, OutboundError, TypedMessage, UnexpectedMessage,
};
"""
# Folders in ``src``: Cargo has a use for some of them.
_TAKEN: Final = NOT_RAW | {"bin", "lib", "main", "payloads", "runtime"}
Lines = Iterator[str]


def _generate_rust(input: GeneratorInput) -> Generated:
    package = input.option("package") or "messages"
    if not _PACKAGE.fullmatch(package) or package in _RESERVED:
        raise GeneratorError(f"rust: package is a name such as shop-messages, not {package!r}")
    result = standalone(input, pattern=linear)
    input.progress(f"writing {len(result.messages)} modules")
    return Generated(
        files=tuple(_write_files(input, result, package)) if result.messages else (), left_out=result.left_out
    )


def _write_files(input: GeneratorInput, result: Standalone, package: str) -> Iterator[GeneratedFile]:
    first = f"{input.notice}."
    manifest = f"# {first}\n{_MANIFEST.format(package=package)}"
    yield GeneratedFile(path="Cargo.toml", content=manifest.encode(), xids=())
    for path, text in runtime_files(__package__, ".rs"):
        yield GeneratedFile(path=f"src/runtime/{path}", content=f"// {first}\n\n{text}".encode(), xids=())
    names_by_document = {}
    modules = unique(result.documents, lambda name: name, NOT_RAW)
    for name, document in result.documents.items():
        roots = {xid: document.types.roots[xid] for xid in document.xids}
        names_by_document[name] = document_names(str(document.schema["format"]), document.types.table, roots)
        yield _build_file(
            input, f"payloads/{modules[name]}", document.xids, _write_document(document, names_by_document[name])
        )
    yield _build_file(input, "payloads/mod", (), _write_index("The types of payloads.", modules.values()))
    groups = grouped(definition.definition for definition in result.messages.values())
    folders = unique(groups, lambda group: underscored(last_part(group), "group"), _TAKEN)
    for group, members in groups.items():
        members_of = tuple(definition.xid for definition in members)
        names = unique(members_of, lambda xid: underscored(last_part(xid), "message"), NOT_RAW)
        for definition in members:
            lines = _write_message(result.messages[definition.xid], names_by_document, modules)
            yield _build_file(input, f"{folders[group]}/{names[definition.xid]}", (definition.xid,), lines)
        description = str(input.entity(group).get("description") or f"Messages of {last_part(group)}.")
        yield _build_file(input, f"{folders[group]}/mod", members_of, _write_index(description, names.values()))
    head = [f"// {first}", "", "//! Messages by their definitions.", *_ATTRIBUTES.splitlines(), ""]
    crate = "\n".join([*head, *_write_modules(["payloads", "runtime", *folders.values()]), ""])
    yield GeneratedFile(path="src/lib.rs", content=crate.encode(), xids=())


def _build_file(input: GeneratorInput, path: str, xids: tuple[str, ...], lines: Lines) -> GeneratedFile:
    head = [f"// {comment_text(line)}" for line in input.header(xids)]
    return GeneratedFile(path=f"src/{path}.rs", content="\n".join([*head, "", *lines, ""]).encode(), xids=xids)


def _write_index(description: str, modules: Iterable[str]) -> Lines:
    yield from _write_about(description)
    yield from _write_modules(modules)


def _write_about(text: str) -> Lines:
    """Yield the documentation of a module, and an empty line after it."""
    lines = list(comment(text, mark="//!"))
    yield from [*lines, ""] if lines else []


def _write_modules(names: Iterable[str]) -> Lines:
    yield from (f"pub mod {identifier(module)};" for module in sorted(names))


def _write_document(document: PayloadDocument, names: DocumentNames) -> Lines:
    lines = list(types(document.types.table, names))
    macros = [
        macro for macro in ("closed_set", "record") if f"{macro}! {{" in {line[: len(macro) + 3] for line in lines}
    ]
    yield from _write_about("The types of payloads.")
    yield from imports(written_types(document.types.table, names))
    if macros:
        listed = f"{{{', '.join(macros)}}}" if len(macros) > 1 else macros[0]
        yield f"use crate::runtime::payload::{listed};"
    yield "use crate::runtime::PayloadSchema;"
    yield ""
    yield "/// How payloads are written, and what they are held to."
    yield from _write_table("SCHEMA", "PayloadSchema", document.schema)
    yield from lines


def _write_table(name: str, kind: str, value: JSON) -> Lines:
    """Yield a table as JSON in a text: it is read when it is first used."""
    text = raw(json.dumps(value, separators=(",", ":")))
    head, tail = f"pub static {name}: {kind} = {kind}::new(", ");"
    if len(f"{head}{text}{tail}") <= WIDTH:
        yield f"{head}{text}{tail}"
        return
    if len(f"    {kind}::new({text});") <= WIDTH:
        yield f"pub static {name}: {kind} ="
        yield f"    {kind}::new({text});"
        return
    yield head
    yield f"    {text},"
    yield tail


def _write_message(
    message: StandaloneMessage, names_by_document: Mapping[str, DocumentNames], modules: Mapping[str, str]
) -> Lines:
    definition = message.definition
    payload, scope = "Option<Vec<u8>>", ""
    if message.types is not None and message.type is not None:
        scope = f"crate::payloads::{identifier(modules[message.types.name])}::"
        payload = written(message.type, names_by_document[message.types.name], "payload value", scope=scope)
    description = str(definition.definition.get("description") or definition.message_id)
    yield from _write_about(description)
    yield from imports([payload])
    if scope:
        yield f"use {scope}SCHEMA;"
    yield from _IMPORTS.strip().splitlines()
    yield ""
    yield "/// The payload."
    if len(f"pub type Payload = {payload};") <= WIDTH:
        yield f"pub type Payload = {payload};"
    else:
        yield "pub type Payload ="
        yield f"    {payload};"
    yield ""
    yield "/// The definition."
    yield from _write_table("DEFINITION", "Definition", message.table)
    yield ""
    yield from _write_build(message, bool(scope))
    yield ""
    yield "/// What a received message says."
    yield "///"
    yield "/// # Errors"
    yield "///"
    yield "/// The message is not of this kind: all that does not fit."
    yield "pub fn parse(message: &Message) -> Result<TypedMessage<Payload>, UnexpectedMessage> {"
    yield f"    runtime::{'parse(&DEFINITION, &SCHEMA, message)' if scope else 'parse_bytes(&DEFINITION, message)'}"
    yield "}"


def _write_build(message: StandaloneMessage, typed: bool) -> Lines:
    arguments = list(argument_names(message))
    names = field_names((argument.name for argument in arguments), ("payload", "inputs"))
    yield from comment(f"A message {message.definition.message_id}.")
    yield "///"
    yield "/// # Errors"
    yield "///"
    yield "/// The definition does not allow the message: all that is wrong, each with its path."
    parameters = ["payload: &Payload" if typed else "payload: Option<&[u8]>"]
    parameters += [f"{names[argument.name]}: {_choose_type(argument)}" for argument in arguments]
    if len(parameters) > MOST_ARGUMENTS:
        yield "#[allow(clippy::too_many_arguments)]"
    yield from signature("pub fn build", parameters, "Result<Outbound, OutboundError>")
    yield f"    let {'mut ' if arguments else ''}inputs = Inputs::default();"
    for argument in arguments:
        method = "placeholder" if argument.source == "template" else "value"
        yield from call(f"    inputs.{method}", [quoted(argument.name), names[argument.name]], ";")
    if typed:
        yield "    runtime::build(&DEFINITION, &SCHEMA, payload, inputs)"
    else:
        yield "    runtime::build_bytes(&DEFINITION, payload, inputs)"
    yield "}"


def _choose_type(param: Param) -> str:
    if param.source == "template":
        return "&str" if param.required else "Option<&str>"
    return _ARGUMENT_TYPES.get(param.type, "&str")


GENERATOR: Final = Generator(
    summary="a Rust crate: types of payloads, and functions that build and parse messages",
    generate=_generate_rust,
    options={"package": "the name of the crate, such as shop-messages; messages without it"},
)
