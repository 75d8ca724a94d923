"""Find and edit tags in Protobuf documents: the options ``confluent.message_meta`` and ``confluent.field_meta``.

The text is edited only where necessary, so that comments and unknown options are kept. Source: the language
specifications of proto2 and proto3 (protobuf.dev).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.text_encoding import CUnescape

from signalbook.formats.protobuf.statements import (
    CLOSING,
    OPENING,
    Edit,
    Statement,
    Tokens,
    apply_edits,
    find_message_name,
    join_tokens,
    list_options,
    parse_statements,
    replace_options,
)
from signalbook.values import dump_json

META: Final = "confluent/meta.proto"
"""The import that the options need."""
_NO_FIELDS: Final = frozenset({"option", "reserved", "extensions", "import", "package", "syntax", "edition"})


@dataclass(eq=False, slots=True)
class TaggedEntity:
    """A message or field, with its ``path`` below the package."""

    path: str
    package: str
    is_record: bool
    statement: Statement
    options: list[tuple[Tokens, int]] = field(default_factory=list)
    """The options that can have tags, with the ends of their statements."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that may name the entity: without and with the package."""
        return (self.path, f"{self.package}.{self.path}") if self.package else (self.path,)

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(
            tag for option, _ in self.options for tokens in _find_tag_values(option) for tag in _join_strings(tokens)
        )


def list_entities(text: str) -> list[TaggedEntity]:
    """Return the messages and fields in a document, outer ones first.

    For a text that is not a valid document, return what can be recognised.
    """
    entities: list[TaggedEntity] = []
    messages: dict[int, TaggedEntity] = {}
    package = ""
    for statement in parse_statements(text):
        path = statement.path
        if statement.word == "package" and not statement.blocks:
            package = "".join(token.text for token in statement.tokens[1:])
        elif statement.opens:
            message_name = find_message_name(statement.tokens)
            if message_name and (path is not None or not statement.blocks):
                entities.append(
                    TaggedEntity(f"{path}.{message_name}" if path else message_name, package, True, statement)
                )
                messages[id(statement.tokens)] = entities[-1]
        elif statement.word == "option" and statement.blocks and id(statement.blocks[-1]) in messages:
            if _is_meta(statement.tokens[1:], "message_meta"):
                messages[id(statement.blocks[-1])].options.append((statement.tokens, statement.end))
        elif path is not None and statement.word not in _NO_FIELDS and (name := _find_field_name(statement.tokens)):
            options = [
                (option, statement.end) for option in list_options(statement.tokens) if _is_meta(option, "field_meta")
            ]
            entities.append(TaggedEntity(f"{path}.{name}", package, False, statement, options))
    return entities


def with_tags(text: str, tags: Mapping[TaggedEntity, Sequence[str]]) -> str:
    """Return a document in which entities have these ``tags`` instead of their own."""
    edits: list[Edit] = []
    for entity, entity_tags in tags.items():
        edits += (
            _build_message_edits(text, entity, entity_tags)
            if entity.is_record
            else _build_field_edits(text, entity, entity_tags)
        )
    if any(tags.values()):
        edits += _build_import_edits(text)
    return apply_edits(text, edits)


def _build_message_edits(text: str, entity: TaggedEntity, tags: Sequence[str]) -> Iterator[Edit]:
    missing_tags = list(tags)
    for option, end in entity.options:
        if option[-1].text == "}":
            yield option[0].start, option[-1].end, _rewrite_option(text, option, missing_tags)
            missing_tags = []
        else:
            # Remove the whole line if it has only this option.
            line = text.rfind("\n", 0, option[0].start)
            alone = line >= 0 and not text[line : option[0].start].strip()
            yield line if alone else option[0].start, end, ""
    indent = "  " * (len(entity.statement.blocks) + 1)
    lines = "".join(f"\n{indent}option (confluent.message_meta).tags = {_quote(tag)};" for tag in missing_tags)
    if lines:
        yield entity.statement.end, entity.statement.end, lines


def _build_field_edits(text: str, entity: TaggedEntity, tags: Sequence[str]) -> Iterator[Edit]:
    missing_tags, options = list(tags), []
    for option in list_options(entity.statement.tokens):
        if not _is_meta(option, "field_meta"):
            options.append(join_tokens(text, option))
        elif option[-1].text == "}":
            options.append(_rewrite_option(text, option, missing_tags))
            missing_tags = []
    yield replace_options(
        entity.statement.tokens, [*options, *(f"(confluent.field_meta).tags = {_quote(tag)}" for tag in missing_tags)]
    )


def _build_import_edits(text: str) -> Iterator[Edit]:
    at = 0
    for statement in parse_statements(text):
        if statement.word == "import" and statement.tokens[-1].text[1:-1] == META:
            return
        if statement.word in ("syntax", "edition", "package") and not statement.blocks:
            at = statement.end
    yield (at, at, f'\nimport "{META}";') if at else (0, 0, f'import "{META}";\n')


def _rewrite_option(text: str, option: Tokens, tags: Sequence[str]) -> str:
    """Return an option whose value is written as a message, with ``tags`` in place of its own."""
    first = option[0].start
    edits = [(tokens[0].start - first, tokens[-1].end - first, "") for tokens in _find_tag_values(option)]
    opening = next(token for token in option if token.text == "{")
    if tags:
        edits.append((opening.end - first, opening.end - first, f" tags: [{', '.join(map(_quote, tags))}]"))
    return apply_edits(join_tokens(text, option), edits)


def _find_field_name(tokens: Tokens) -> str:
    equal = next((number for number, token in enumerate(tokens) if token.text == "="), 0)
    return tokens[equal - 1].text if equal > 1 else ""


def _is_meta(option: Tokens, name: str) -> bool:
    """Return True if an option can have tags. Its tokens do not include the word ``option``."""
    return _find_option_name(option).replace("(.", "(") in (f"(confluent.{name})", f"(confluent.{name}).tags")


def _find_option_name(option: Tokens) -> str:
    """Return the name of an option, before the equals sign, without spaces between its parts."""
    return "".join(token.text for token in option[: next((n for n, t in enumerate(option) if t.text == "="), 0)])


def _find_tag_values(option: Tokens) -> Iterator[Tokens]:
    """Yield the parts of an option with tags: its value, or the ``tags`` members in it."""
    equal = next((number for number, token in enumerate(option) if token.text == "="), len(option))
    value = option[equal + 1 :]
    if _find_option_name(option).endswith(").tags"):
        yield value
        return
    depth = number = 0
    while number < len(value):
        word = value[number].text
        depth += (word in OPENING) - (word in CLOSING)
        if word == "tags" and depth == 1:
            end = number + 1
            while end < len(value) and (value[end].is_string or value[end].text in (":", "[", ",", "]", ";")):
                end += 1
            yield value[number:end]
            number = end
            continue
        number += 1


def _join_strings(tokens: Tokens) -> Iterator[str]:
    """Yield the strings in a value. Adjacent strings are one."""
    parts: list[str] = []
    for token in tokens:
        if token.is_string:
            parts.append(_unquote(token.text))
        elif parts:
            yield "".join(parts)
            parts = []
    if parts:
        yield "".join(parts)


def _unquote(text: str) -> str:
    try:
        # Escapes stand for bytes of UTF-8, except \u and \U, which stand for characters.
        if "\\u" in text or "\\U" in text:
            literal = str(ast.literal_eval(text))
            # A character beyond the first 65536 may be written as two escapes. One of them alone is invalid.
            return literal.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return CUnescape(text[1:-1]).decode("utf-8")
    except (ValueError, SyntaxError):
        return text[1:-1]


def _quote(tag: str) -> str:
    return dump_json(tag).decode("utf-8")
