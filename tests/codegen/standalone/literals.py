"""How compilers read literals and comments, as far as generated code has them; and texts to write and read again."""

import re
from typing import Final, Literal

from hypothesis import strategies as st
from tests.codegen.standalone import hostile

Language = Literal["typescript", "java", "go", "rust"]
TEXTS: Final = st.lists(st.sampled_from(hostile.TEXTS) | st.text(max_size=3), max_size=6).map("".join)
_SIMPLE: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\", '"': '"', "'": "'"}
_BACKSPACE: Final = {"b": "\b", "f": "\f"}
_FIXED: Final = r"u([0-9a-fA-F]{4})"
_BRACED: Final = r"u\{([0-9a-fA-F]{1,6})\}"
# The escapes of a language beside the simple ones, and the simple ones that it has.
_ESCAPES: Final[dict[Language, tuple[str, dict[str, str]]]] = {
    "typescript": (rf"{_FIXED}|{_BRACED}", {**_SIMPLE, **_BACKSPACE}),
    "java": (_FIXED, {**_SIMPLE, **_BACKSPACE}),
    "go": (rf"{_FIXED}|U([0-9a-fA-F]{{8}})", {each: _SIMPLE[each] for each in 'nrt\\"'}),
    "rust": (_BRACED, _SIMPLE),
}
_LINE_ENDS: Final = "\n\r\x85\u2028\u2029"
_UTF16: Final = ("typescript", "java")


def read_literal(literal: str, language: Language) -> str:
    """Return the text of a literal. Raises ``ValueError`` for one that a compiler refuses or ends somewhere else."""
    if language == "java":
        literal = translate_unicode_escapes(literal)
    quote = literal[0]
    if quote not in ("\"'" if language == "typescript" else '"') or len(literal) < len('""') or literal[-1] != quote:
        raise ValueError(literal)
    characters, place, body = [], 0, literal[1:-1]
    codes, simple = _ESCAPES[language]
    while place < len(body):
        character = body[place]
        if character == quote or character in _LINE_ENDS[: 2 if language == "java" else None]:
            raise ValueError(literal)
        place += 1
        if character != "\\":
            characters.append(character)
            continue
        code = re.compile(codes).match(body, place)
        characters.append(_character(next(filter(None, code.groups())), language) if code else simple[body[place]])
        place = code.end() if code else place + 1
    return "".join(characters).encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _character(digits: str, language: Language) -> str:
    character = chr(int(digits, 16))
    if "\ud800" <= character <= "\udfff" and language not in _UTF16:
        raise ValueError(digits)
    return character


def translate_unicode_escapes(source: str) -> str:
    r"""Return source of Java as its compiler sees it: ``\u`` is read before anything else (JLS 3.3)."""
    return re.sub(
        r"(?<!\\)((?:\\\\)*)\\u+([0-9a-fA-F]{4})", lambda match: f"{match[1]}{chr(int(match[2], 16))}", source
    )


def is_one_line(source: str) -> bool:
    """Return True if no language and no editor ends the line or hides a part of it."""
    return source.isprintable()
