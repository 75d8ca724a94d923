"""Pages about messages, for people who read them in a repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from signalbook.codegen.base import Generated, GeneratedFile, Generator, GeneratorInput, printable
from signalbook.codegen.naming import group_files, last_part
from signalbook.formats.tree import Described, SchemaNode
from signalbook.messages import CompiledDefinition, required_inputs
from signalbook.messages.definitions.definition import declare_attributes, declare_options
from signalbook.messages.properties import Property
from signalbook.values import format_count

_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>#|~!&$]|(?<=\{)%)")
# A list, a rule, a heading, a directive, where a line begins.
_BLOCK_START: Final = re.compile(r"^(\d*)([-+=:.)])")
# In a cell of a table renderers disagree about a backslash before a pipe. Templates are run by some sites, in code too.
_UNSAFE_CODE: Final = re.compile(r"\\\||\{[{%#]")


def _generate_markdown(input: GeneratorInput) -> Generated:
    """A page for each group, and one that leads to them."""
    names = group_files(input.by_group)
    files = [
        GeneratedFile(
            path=f"groups/{names[group]}.md",
            content="\n".join(_write_page(input, group, definitions)).encode(),
            xids=tuple(definition.xid for definition in definitions),
        )
        for group, definitions in input.by_group.items()
    ]
    index = "\n".join(_write_index(input, names)).encode()
    return Generated(files=(*files, GeneratedFile(path="README.md", content=index, xids=tuple(input.messages))))


def _write_head(input: GeneratorInput, xids: Iterable[str]) -> Iterator[str]:
    # Two hyphens may end the comment.
    yield from (f"<!-- {re.sub('-(?=-)', '- ', line)} -->" for line in input.header(xids))
    yield ""


def _write_index(input: GeneratorInput, names: Mapping[str, str]) -> Iterator[str]:
    yield from _write_head(input, input.messages)
    yield "# Messages"
    yield ""
    for group, definitions in input.by_group.items():
        name = last_part(group)
        target = names[group].replace("%", "%25").replace(" ", "%20")
        description = str(input.entity(group).get("description") or "")
        ending = f". {_escape_text(description)}" if description else ""
        yield f"- [{_escape_text(name)}](groups/{target}.md): {format_count(len(definitions), 'message')}{ending}"
    yield ""


def _write_page(input: GeneratorInput, group: str, definitions: tuple[CompiledDefinition, ...]) -> Iterator[str]:
    yield from _write_head(input, (definition.xid for definition in definitions))
    yield f"# {_escape_text(last_part(group))}"
    yield ""
    if input.entity(group).get("description"):
        yield from (_escape_text(str(input.entity(group)["description"])), "")
    for definition in definitions:
        yield from _write_definition(definition)


def _write_definition(definition: CompiledDefinition) -> Iterator[str]:
    raw = definition.definition
    yield f"## {_escape_text(definition.message_id)}"
    yield ""
    if raw.get("description"):
        yield from (_escape_text(str(raw["description"])), "")
    if definition.warnings:
        yield from (f"**{_escape_text(finding.message)}**\n" for finding in definition.warnings)
    facts = [("definition", definition.xid), ("version", definition.version), ("protocol", definition.protocol)]
    facts += [("envelope", str(raw.get("envelope") or "")), ("payload", definition.payload_type)]
    yield from (f"- {name}: {_format_code(value)}" for name, value in facts if value)
    yield ""
    yield from _write_properties("Attributes", declare_attributes(raw))
    yield from _write_properties("Protocol options", declare_options(definition.protocol, raw.get("protocoloptions")))
    inputs = [param.name for param in required_inputs(definition) if param.required]
    if inputs:
        yield from (f"A producer gives: {', '.join(map(_format_code, inputs))}, and the payload.", "")
    yield from _write_payload(definition)


def _write_properties(title: str, declared: list[Property]) -> Iterator[str]:
    if declared:
        rows = [
            (
                _format_code(prop.name),
                _format_code(prop.type),
                _format_code(str(prop.value or "")),
                _mark(prop.required),
            )
            for prop in declared
        ]
        yield from _write_table(title, ("name", "type", "value", "required"), rows)


def _write_payload(definition: CompiledDefinition) -> Iterator[str]:
    schema = definition.schema_use.schema
    if schema is None:
        return
    yield from (f"### Payload ({_escape_text(schema.format)})", "")
    if isinstance(schema, Described):
        tree = schema.tree()
        rows = list(_write_rows(tree, ""))
        if rows:
            yield from _write_table("", ("member", "type", "required", "rules", "description"), rows)
        else:
            yield from (_format_code(tree.type), "")


def _write_rows(node: SchemaNode, above: str) -> Iterator[tuple[str, ...]]:
    for index, member in enumerate(node.members):
        step = member.name or {"array": "[]", "map": "{}", "choice": f"({index + 1})"}.get(node.kind, "")
        path = f"{above}.{step}" if member.name and above else f"{above}{step}"
        rules = ", ".join(f"{name} {value}" for name, value in member.constraints)
        description = f"{member.description} …" if member.cut else member.description
        yield (
            _format_code(path),
            _escape_text(member.type),
            _mark(member.required),
            _format_code(rules),
            _escape_text(description),
        )
        yield from _write_rows(member, path)


def _write_table(title: str, names: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    if title:
        yield from (f"### {title}", "")
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _mark(yes: bool) -> str:
    return "yes" if yes else ""


def _join_lines(text: Any) -> str:
    return " ".join(printable(str(text)).split())


def _escape_text(text: str) -> str:
    """Return Markdown that shows ``text`` as it is."""
    return _BLOCK_START.sub(r"\1\\\2", _MARKUP.sub(r"\\\1", _join_lines(text)))


def _format_code(text: str) -> str:
    """Return Markdown that shows ``text`` as code, or as plain text where code is not safe in all renderers."""
    line = _join_lines(text).replace("|", "\\|")
    if not line:
        return ""
    if _UNSAFE_CODE.search(_join_lines(text)):
        return _escape_text(text)
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


GENERATOR: Final = Generator(summary="pages about the messages of each group, in Markdown", generate=_generate_markdown)
