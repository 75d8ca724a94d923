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
from signalbook.messages.definitions.properties import Property

_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>#|~!&$]|(?<=\{)%)")
# A list, a rule, a heading, a directive, where a line begins.
_BLOCK_START: Final = re.compile(r"^(\d*)([-+=:.)])")
# In a cell of a table renderers disagree about a backslash before a pipe. Templates are run by some sites, in code too.
_UNSAFE_CODE: Final = re.compile(r"\\\||\{[{%#]")


def _generate(given: GeneratorInput) -> Generated:
    """A page for each group, and one that leads to them."""
    names = group_files(given.by_group)
    files = [
        GeneratedFile(
            path=f"groups/{names[group]}.md",
            content="\n".join(_page(given, group, definitions)).encode(),
            xids=tuple(each.xid for each in definitions),
        )
        for group, definitions in given.by_group.items()
    ]
    index = "\n".join(_index(given, names)).encode()
    return Generated(files=(*files, GeneratedFile(path="README.md", content=index, xids=tuple(given.messages))))


def _head(given: GeneratorInput, xids: Iterable[str]) -> Iterator[str]:
    # Two hyphens may end the comment.
    yield from (f"<!-- {re.sub('-(?=-)', '- ', line)} -->" for line in given.header(xids))
    yield ""


def _index(given: GeneratorInput, names: Mapping[str, str]) -> Iterator[str]:
    yield from _head(given, given.messages)
    yield "# Messages"
    yield ""
    for group, definitions in given.by_group.items():
        name = last_part(group)
        target = names[group].replace("%", "%25").replace(" ", "%20")
        said = str(given.entity(group).get("description") or "")
        yield f"- [{_text(name)}](groups/{target}.md): {len(definitions)} messages{'. ' + _text(said) if said else ''}"
    yield ""


def _page(given: GeneratorInput, group: str, definitions: tuple[CompiledDefinition, ...]) -> Iterator[str]:
    yield from _head(given, (each.xid for each in definitions))
    yield f"# {_text(last_part(group))}"
    yield ""
    if given.entity(group).get("description"):
        yield from (_text(str(given.entity(group)["description"])), "")
    for each in definitions:
        yield from _message(each)


def _message(definition: CompiledDefinition) -> Iterator[str]:
    raw = definition.definition
    yield f"## {_text(definition.message_id)}"
    yield ""
    if raw.get("description"):
        yield from (_text(str(raw["description"])), "")
    if definition.warnings:
        yield from (f"**{_text(finding.message)}**\n" for finding in definition.warnings)
    facts = [("definition", definition.xid), ("version", definition.version), ("protocol", definition.protocol)]
    facts += [("envelope", str(raw.get("envelope") or "")), ("payload", definition.payload_type)]
    yield from (f"- {name}: {_code(value)}" for name, value in facts if value)
    yield ""
    yield from _properties("Attributes", declare_attributes(raw))
    yield from _properties("Protocol options", declare_options(definition.protocol, raw.get("protocoloptions")))
    inputs = [each.name for each in required_inputs(definition) if each.required]
    if inputs:
        yield from (f"A producer gives: {', '.join(map(_code, inputs))}, and the payload.", "")
    yield from _payload(definition)


def _properties(title: str, declared: list[Property]) -> Iterator[str]:
    if declared:
        rows = [
            (_code(each.name), _code(each.type), _code(str(each.value or "")), _mark(each.required))
            for each in declared
        ]
        yield from _table(title, ("name", "type", "value", "required"), rows)


def _payload(definition: CompiledDefinition) -> Iterator[str]:
    schema = definition.schema_use.schema
    if schema is None:
        return
    yield from (f"### Payload ({_text(schema.format)})", "")
    if isinstance(schema, Described):
        tree = schema.tree()
        rows = list(_rows(tree, ""))
        if rows:
            yield from _table("", ("member", "type", "required", "rules", "description"), rows)
        else:
            yield from (_code(tree.type), "")


def _rows(node: SchemaNode, above: str) -> Iterator[tuple[str, ...]]:
    for index, each in enumerate(node.members):
        step = each.name or {"array": "[]", "map": "{}", "choice": f"({index + 1})"}.get(node.kind, "")
        path = f"{above}.{step}" if each.name and above else f"{above}{step}"
        rules = ", ".join(f"{name} {value}" for name, value in each.constraints)
        said = f"{each.description} …" if each.cut else each.description
        yield _code(path), _text(each.type), _mark(each.required), _code(rules), _text(said)
        yield from _rows(each, path)


def _table(title: str, names: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    if title:
        yield from (f"### {title}", "")
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _mark(yes: bool) -> str:
    return "yes" if yes else ""


def _line(text: Any) -> str:
    return " ".join(printable(str(text)).split())


def _text(text: str) -> str:
    """Return Markdown that shows ``text`` as it is."""
    return _BLOCK_START.sub(r"\1\\\2", _MARKUP.sub(r"\\\1", _line(text)))


def _code(text: str) -> str:
    """Return Markdown that shows ``text`` as code, or as plain text where code is not safe in all renderers."""
    line = _line(text).replace("|", "\\|")
    if not line:
        return ""
    if _UNSAFE_CODE.search(_line(text)):
        return _text(text)
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


GENERATOR: Final = Generator(summary="pages about the messages of each group, in Markdown", generate=_generate)
