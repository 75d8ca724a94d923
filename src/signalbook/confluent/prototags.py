"""Tags in Protobuf documents: the options ``confluent.message_meta`` and ``confluent.field_meta``, found in the text.

Only what has to change is changed: comments, and options that nobody here knows, stay where they are.
Source: the language specifications of proto2 and proto3 (protobuf.dev).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from google.protobuf.text_encoding import CUnescape

from signalbook.values import dump_json

META: Final = "confluent/meta.proto"
"""The import that the options need."""
_TOKEN: Final = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?|[\w.]+|[^\s\w.]", re.DOTALL
)
_OPENING, _CLOSING = "{[(<", "}])>"
_MOST_BLOCKS: Final = 100
"""Within one another; the compiler takes no more than 32 messages."""
_NO_FIELDS: Final = frozenset({"option", "reserved", "extensions", "import", "package", "syntax", "edition"})


class _Token(NamedTuple):
    text: str
    start: int
    end: int

    @property
    def is_string(self) -> bool:
        return self.text[0] in "\"'"


Tokens = Sequence[_Token]


class _Statement(NamedTuple):
    """Tokens before a semicolon or the brace that ``opens`` a block, and the beginnings of the blocks they are in.

    It ends at the offset ``end``. The brace that closes a block is one by itself.
    """

    tokens: Tokens
    opens: bool
    blocks: tuple[Tokens, ...]
    end: int

    @property
    def word(self) -> str:
        return self.tokens[0].text if self.tokens else ""

    @property
    def path(self) -> str | None:
        """The message that it is in, None where no fields are."""
        names = [_message(block) for block in self.blocks]
        return None if None in names or not names else ".".join(name for name in names if name)


@dataclass(eq=False, slots=True)
class TaggedEntity:
    """A message, or a field of one, at a ``path`` below the package."""

    path: str
    package: str
    is_record: bool
    statement: _Statement
    options: list[tuple[Tokens, int]] = field(default_factory=list)
    """Those that have tags, or could have some, and the ends of their statements."""

    @property
    def paths(self) -> tuple[str, ...]:
        """What it may be named by."""
        return (self.path, f"{self.package}.{self.path}") if self.package else (self.path,)

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return tuple(each for option, _ in self.options for tokens in _tag_values(option) for each in _strings(tokens))


def entities(text: str) -> list[TaggedEntity]:
    """The messages and fields in a document, outer ones first. What is no such document has what can be made out."""
    found: list[TaggedEntity] = []
    messages: dict[int, TaggedEntity] = {}
    package = ""
    for each in _statements(text):
        path = each.path
        if each.word == "package" and not each.blocks:
            package = "".join(token.text for token in each.tokens[1:])
        elif each.opens:
            own = _message(each.tokens)
            if own and (path is not None or not each.blocks):
                found.append(TaggedEntity(f"{path}.{own}" if path else own, package, True, each))
                messages[id(each.tokens)] = found[-1]
        elif each.word == "option" and each.blocks and id(each.blocks[-1]) in messages:
            if _is_meta(each.tokens[1:], "message_meta"):
                messages[id(each.blocks[-1])].options.append((each.tokens, each.end))
        elif path is not None and each.word not in _NO_FIELDS and (name := _field_name(each.tokens)):
            options = [(option, each.end) for option in _listed(each.tokens) if _is_meta(option, "field_meta")]
            found.append(TaggedEntity(f"{path}.{name}", package, False, each, options))
    return found


def with_tags(text: str, tags: Mapping[TaggedEntity, Sequence[str]]) -> str:
    """A document whose entities have these ``tags`` instead of theirs."""
    edits: list[tuple[int, int, str]] = []
    for entity, wanted in tags.items():
        edits += _message_edits(text, entity, wanted) if entity.is_record else _field_edits(text, entity, wanted)
    if any(tags.values()):
        edits += _import_edits(text)
    return _edited(text, edits)


def without_extensions(text: str) -> str:
    """A document without options that extensions define, and without extensions."""
    edits: list[tuple[int, int, str]] = []
    extending: Tokens | None = None
    for each in _statements(text):
        if extending is not None:
            if each.word == "}" and each.blocks[-1] is extending:
                edits.append((extending[0].start, each.end, ""))
                extending = None
        elif each.word == "extend" and each.opens:
            extending = each.tokens
        elif each.word == "extensions" or (
            each.word == "option" and len(each.tokens) > 1 and each.tokens[1].text == "("
        ):
            edits.append((each.tokens[0].start, each.end, ""))
        elif not each.opens and each.blocks and each.word != "option":
            options = _listed(each.tokens)
            kept = [_text(text, option) for option in options if option and option[0].text != "("]
            if len(kept) < len(options):
                edits.append(_list_edit(each.tokens, kept))
    return _edited(text, edits)


def _edited(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    found: list[str] = []
    done = 0
    for start, end, put in sorted(edits):
        found += [text[done:start], put]
        done = end
    return "".join([*found, text[done:]])


def _message_edits(text: str, entity: TaggedEntity, tags: Sequence[str]) -> Iterator[tuple[int, int, str]]:
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


def _field_edits(text: str, entity: TaggedEntity, tags: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    left, kept = list(tags), []
    for option in _listed(entity.statement.tokens):
        if not _is_meta(option, "field_meta"):
            kept.append(_text(text, option))
        elif option[-1].text == "}":
            kept.append(_rewritten(text, option, left))
            left = []
    yield _list_edit(
        entity.statement.tokens, [*kept, *(f"(confluent.field_meta).tags = {_quoted(tag)}" for tag in left)]
    )


def _import_edits(text: str) -> Iterator[tuple[int, int, str]]:
    at = 0
    for each in _statements(text):
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
    return _edited(_text(text, option), edits)


def _list_edit(tokens: Tokens, options: Sequence[str]) -> tuple[int, int, str]:
    """The options of a field in place of those it has."""
    number = _list_start(tokens)
    start = tokens[number - 1].end if number is not None else tokens[-1].end
    return start, tokens[-1].end, f" [{', '.join(options)}]" if options else ""


def _statements(text: str) -> Iterator[_Statement]:
    blocks: list[Tokens] = []
    tokens: list[_Token] = []
    depth = 0
    for match in _TOKEN.finditer(text):
        word = match[0]
        if word.startswith(("//", "/*")):
            continue
        inner = depth > 0 or (tokens[:1] and tokens[0].text == "option")
        if word == ";" and not depth:
            yield _Statement(tokens, False, tuple(blocks), match.end())
            tokens = []
            continue
        if word == "{" and not inner:
            yield _Statement(tokens, True, tuple(blocks), match.end())
            if len(blocks) == _MOST_BLOCKS:
                return
            blocks.append(tokens)
            tokens = []
            continue
        if word == "}" and not depth:
            if not blocks:
                return
            yield _Statement([_Token(word, *match.span())], False, tuple(blocks), match.end())
            blocks.pop()
            tokens = []
            continue
        depth += (word in "{[(") - (word in "}])" and depth > 0)
        tokens.append(_Token(word, match.start(), match.end()))


def _message(head: Tokens) -> str | None:
    """The name of the message whose block begins so, empty for a oneof, None for what has no fields of messages."""
    words = [token.text for token in head[:3]]
    if words[:1] == ["message"] and len(words) > 1:
        return words[1]
    if words[:1] == ["oneof"]:
        return ""
    return words[words.index("group") + 1] if "group" in words[:2] and len(words) > words.index("group") + 1 else None


def _field_name(tokens: Tokens) -> str:
    equal = next((number for number, token in enumerate(tokens) if token.text == "="), 0)
    return tokens[equal - 1].text if equal > 1 else ""


def _list_start(tokens: Tokens) -> int | None:
    """Where in a field its options begin."""
    equal = next((number for number, token in enumerate(tokens) if token.text == "="), len(tokens))
    return next((number for number in range(equal, len(tokens)) if tokens[number].text == "["), None)


def _listed(tokens: Tokens) -> list[Tokens]:
    """The options of a field."""
    start = _list_start(tokens)
    if start is None:
        return []
    found: list[list[_Token]] = [[]]
    depth = 0
    for token in tokens[start + 1 : -1]:
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if token.text == "," and not depth:
            found.append([])
        else:
            found[-1].append(token)
    return [each for each in found if each]


def _is_meta(option: Tokens, name: str) -> bool:
    """Whether an option has tags, or could have some; the word ``option`` is not one of its tokens."""
    return _option_name(option).replace("(.", "(") in (f"(confluent.{name})", f"(confluent.{name}).tags")


def _option_name(option: Tokens) -> str:
    """What is before the equals sign, without the space there may be between its parts."""
    return "".join(token.text for token in option[: next((n for n, t in enumerate(option) if t.text == "="), 0)])


def _tag_values(option: Tokens) -> Iterator[Tokens]:
    """What of an option says tags: its value, or the members with tags of a message."""
    equal = next((number for number, token in enumerate(option) if token.text == "="), len(option))
    value = option[equal + 1 :]
    if _option_name(option).endswith(").tags"):
        yield value
        return
    depth = number = 0
    while number < len(value):
        word = value[number].text
        depth += (word in _OPENING) - (word in _CLOSING)
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


def _text(text: str, tokens: Tokens) -> str:
    return text[tokens[0].start : tokens[-1].end]
