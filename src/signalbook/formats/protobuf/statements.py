"""Split Protobuf documents into statements, so that their text can be edited without a full parser.

Source: the language specifications of proto2 and proto3 (protobuf.dev).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_PROTO_TOKEN: Final = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?|[\w.]+|[^\s\w.]", re.DOTALL
)
OPENING, CLOSING = "{[(<", "}])>"
_MOST_BLOCKS: Final = 100
"""The maximum nesting of blocks; the compiler accepts at most 32 nested messages."""
Edit = tuple[int, int, str]
"""An edit: the start and end offsets of a part of a text, and its replacement."""


class Token(NamedTuple):
    """A word, number, string or sign, with its offsets in the text."""

    text: str
    start: int
    end: int

    @property
    def is_string(self) -> bool:
        """True if the token is a quoted string."""
        return self.text[0] in "\"'"


Tokens = Sequence[Token]


class Statement(NamedTuple):
    """The tokens before a semicolon, or before the brace of a block that the statement ``opens``.

    ``blocks`` has the heads of the blocks around the statement, ``end`` is the offset after it. The closing brace of a
    block is a separate statement.
    """

    tokens: Tokens
    opens: bool
    blocks: tuple[Tokens, ...]
    end: int

    @property
    def word(self) -> str:
        """The first word of the statement, or "" if it has no tokens."""
        return self.tokens[0].text if self.tokens else ""

    @property
    def path(self) -> str | None:
        """The dotted name of the message around the statement; None outside of blocks and in a block without fields."""
        names = [find_message_name(block) for block in self.blocks]
        return None if None in names or not names else ".".join(name for name in names if name)


def remove_custom_options(text: str, *, extensions: bool = False) -> str:
    """Return ``text`` without custom options, and with ``extensions`` also without the definitions of extensions."""
    edits: list[Edit] = []
    extending: Tokens | None = None
    for statement in parse_statements(text):
        if extending is not None:
            if statement.word == "}" and statement.blocks[-1] is extending:
                edits.append((extending[0].start, statement.end, ""))
                extending = None
        elif extensions and statement.word == "extend" and statement.opens:
            extending = statement.tokens
        elif (extensions and statement.word == "extensions") or (
            statement.word == "option" and len(statement.tokens) > 1 and statement.tokens[1].text == "("
        ):
            edits.append((statement.tokens[0].start, statement.end, ""))
        elif not statement.opens and statement.blocks and statement.word != "option":
            options = list_options(statement.tokens)
            standard_options = [join_tokens(text, option) for option in options if option and option[0].text != "("]
            if len(standard_options) < len(options):
                edits.append(replace_options(statement.tokens, standard_options))
    return apply_edits(text, edits)


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Return ``text`` with the edits applied."""
    parts: list[str] = []
    position = 0
    for start, end, put in sorted(edits):
        parts += [text[position:start], put]
        position = end
    return "".join([*parts, text[position:]])


def replace_options(tokens: Tokens, options: Sequence[str]) -> Edit:
    """Return the edit that replaces the options of the field ``tokens`` by ``options``."""
    number = _find_list(tokens)
    start = tokens[number - 1].end if number is not None else tokens[-1].end
    return start, tokens[-1].end, f" [{', '.join(options)}]" if options else ""


def parse_statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a document; stop at the first unbalanced or too deeply nested block."""
    blocks: list[Tokens] = []
    tokens: list[Token] = []
    depth = 0
    for match in _PROTO_TOKEN.finditer(text):
        word = match[0]
        if word.startswith(("//", "/*")):
            continue
        inner = depth > 0 or (tokens[:1] and tokens[0].text == "option")
        if word == ";" and not depth:
            yield Statement(tokens, False, tuple(blocks), match.end())
            tokens = []
            continue
        if word == "{" and not inner:
            yield Statement(tokens, True, tuple(blocks), match.end())
            if len(blocks) == _MOST_BLOCKS:
                return
            blocks.append(tokens)
            tokens = []
            continue
        if word == "}" and not depth:
            if not blocks:
                return
            yield Statement([Token(word, *match.span())], False, tuple(blocks), match.end())
            blocks.pop()
            tokens = []
            continue
        depth += (word in "{[(") - (word in "}])" and depth > 0)
        tokens.append(Token(word, match.start(), match.end()))


def find_message_name(head: Tokens) -> str | None:
    """Return the name of the message whose block begins with ``head``.

    The name is empty for a oneof. None means that the block cannot contain fields.
    """
    words = [token.text for token in head[:3]]
    if words[:1] == ["message"] and len(words) > 1:
        return words[1]
    if words[:1] == ["oneof"]:
        return ""
    return words[words.index("group") + 1] if "group" in words[:2] and len(words) > words.index("group") + 1 else None


def _find_list(tokens: Tokens) -> int | None:
    """Return the index of the bracket before the options of a field, or None if the field has no options."""
    equal = next((number for number, token in enumerate(tokens) if token.text == "="), len(tokens))
    return next((number for number in range(equal, len(tokens)) if tokens[number].text == "["), None)


def list_options(tokens: Tokens) -> list[Tokens]:
    """Return the tokens of each option of the field ``tokens``."""
    start = _find_list(tokens)
    if start is None:
        return []
    options: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[start + 1 : -1]:
        depth += (token.text in OPENING) - (token.text in CLOSING)
        if token.text == "," and not depth:
            options.append([])
        else:
            options[-1].append(token)
    return [option for option in options if option]


def join_tokens(text: str, tokens: Tokens) -> str:
    """Return the part of ``text`` from the first to the last of ``tokens``."""
    return text[tokens[0].start : tokens[-1].end]
