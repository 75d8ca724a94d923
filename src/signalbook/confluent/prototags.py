"""Tags in Protobuf documents: the options ``confluent.message_meta`` and ``confluent.field_meta``, found in the text.

Only what has to change is changed: comments, and options that nobody here knows, stay where they are.
Source: the language specifications of proto2 and proto3 (protobuf.dev).
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
    list_options,
    parse_statements,
    replace_options,
    text_of,
)
from signalbook.values import dump_json

META: Final = "confluent/meta.proto"
"""The import that the options need."""
_NO_FIELDS: Final = frozenset({"option", "reserved", "extensions", "import", "package", "syntax", "edition"})


@dataclass(eq=False, slots=True)
class TaggedEntity:
    """A message, or a field of one, at a ``path`` below the package."""

    path: str
    package: str
    is_record: bool
    statement: Statement
    options: list[tuple[Tokens, int]] = field(default_factory=list)
    """Those that have tags, or could have some, and the ends of their statements."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that may name it."""
        return (self.path, f"{self.package}.{self.path}") if self.package else (self.path,)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the entity."""
        return tuple(each for option, _ in self.options for tokens in _tag_values(option) for each in _strings(tokens))


def entities(text: str) -> list[TaggedEntity]:
    """The messages and fields in a document, outer ones first. What is no such document has what can be made out."""
    found: list[TaggedEntity] = []
    messages: dict[int, TaggedEntity] = {}
    package = ""
    for each in parse_statements(text):
        path = each.path
        if each.word == "package" and not each.blocks:
            package = "".join(token.text for token in each.tokens[1:])
        elif each.opens:
            own = find_message_name(each.tokens)
            if own and (path is not None or not each.blocks):
                found.append(TaggedEntity(f"{path}.{own}" if path else own, package, True, each))
                messages[id(each.tokens)] = found[-1]
        elif each.word == "option" and each.blocks and id(each.blocks[-1]) in messages:
            if _is_meta(each.tokens[1:], "message_meta"):
                messages[id(each.blocks[-1])].options.append((each.tokens, each.end))
        elif path is not None and each.word not in _NO_FIELDS and (name := _field_name(each.tokens)):
            options = [(option, each.end) for option in list_options(each.tokens) if _is_meta(option, "field_meta")]
            found.append(TaggedEntity(f"{path}.{name}", package, False, each, options))
    return found


def with_tags(text: str, tags: Mapping[TaggedEntity, Sequence[str]]) -> str:
    """A document whose entities have these ``tags`` instead of theirs."""
    edits: list[Edit] = []
    for entity, wanted in tags.items():
        edits += _message_edits(text, entity, wanted) if entity.is_record else _field_edits(text, entity, wanted)
    if any(tags.values()):
        edits += _import_edits(text)
    return apply_edits(text, edits)


def _message_edits(text: str, entity: TaggedEntity, tags: Sequence[str]) -> Iterator[Edit]:
    left = list(tags)
    for option, end in entity.options:
        if option[-1].text == "}":
            yield option[0].start, option[-1].end, _rewritten(text, option, left)
            left = []
        else:
            # With its line, if it is alone in that.
            line = text.rfind("\n", 0, option[0].start)
            alone = line >= 0 and not text[line : option[0].start].strip()
            yield line if alone else option[0].start, end, ""
    indent = "  " * (len(entity.statement.blocks) + 1)
    lines = "".join(f"\n{indent}option (confluent.message_meta).tags = {_quoted(tag)};" for tag in left)
    if lines:
        yield entity.statement.end, entity.statement.end, lines


def _field_edits(text: str, entity: TaggedEntity, tags: Sequence[str]) -> Iterator[Edit]:
    left, kept = list(tags), []
    for option in list_options(entity.statement.tokens):
        if not _is_meta(option, "field_meta"):
            kept.append(text_of(text, option))
        elif option[-1].text == "}":
            kept.append(_rewritten(text, option, left))
            left = []
    yield replace_options(
        entity.statement.tokens, [*kept, *(f"(confluent.field_meta).tags = {_quoted(tag)}" for tag in left)]
    )


def _import_edits(text: str) -> Iterator[Edit]:
    at = 0
    for each in parse_statements(text):
        if each.word == "import" and each.tokens[-1].text[1:-1] == META:
            return
        if each.word in ("syntax", "edition", "package") and not each.blocks:
            at = each.end
    yield (at, at, f'\nimport "{META}";') if at else (0, 0, f'import "{META}";\n')


def _rewritten(text: str, option: Tokens, tags: Sequence[str]) -> str:
    """An option whose value is written as a message, with these tags in it instead of its own."""
    first = option[0].start
    edits = [(tokens[0].start - first, tokens[-1].end - first, "") for tokens in _tag_values(option)]
    opening = next(token for token in option if token.text == "{")
    if tags:
        edits.append((opening.end - first, opening.end - first, f" tags: [{', '.join(map(_quoted, tags))}]"))
    return apply_edits(text_of(text, option), edits)


def _field_name(tokens: Tokens) -> str:
    equal = next((number for number, token in enumerate(tokens) if token.text == "="), 0)
    return tokens[equal - 1].text if equal > 1 else ""


def _is_meta(option: Tokens, name: str) -> bool:
    """Return True if an option has tags, or could have some. The word ``option`` is not one of its tokens."""
    return _option_name(option).replace("(.", "(") in (f"(confluent.{name})", f"(confluent.{name}).tags")


def _option_name(option: Tokens) -> str:
    """Return the name of an option, before the equals sign, without spaces between its parts."""
    return "".join(token.text for token in option[: next((n for n, t in enumerate(option) if t.text == "="), 0)])


def _tag_values(option: Tokens) -> Iterator[Tokens]:
    """Yield the parts of an option with tags: its value, or the members with tags of a message."""
    equal = next((number for number, token in enumerate(option) if token.text == "="), len(option))
    value = option[equal + 1 :]
    if _option_name(option).endswith(").tags"):
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


def _strings(tokens: Tokens) -> Iterator[str]:
    """The texts in a value: those side by side are one."""
    parts: list[str] = []
    for token in tokens:
        if token.is_string:
            parts.append(_unquoted(token.text))
        elif parts:
            yield "".join(parts)
            parts = []
    if parts:
        yield "".join(parts)


def _unquoted(text: str) -> str:
    try:
        # Escapes are of bytes, of UTF-8 in texts, but for those of characters.
        if "\\u" in text or "\\U" in text:
            found = str(ast.literal_eval(text))
            # A character beyond the first 65536 may be two escapes, and one of these alone is none.
            return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return CUnescape(text[1:-1]).decode("utf-8")
    except (ValueError, SyntaxError):
        return text[1:-1]


def _quoted(tag: str) -> str:
    return dump_json(tag).decode("utf-8")
