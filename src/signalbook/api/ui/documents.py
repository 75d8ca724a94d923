"""Render documents as text with syntax highlighting, limited in size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec
import pygments
from markupsafe import Markup, escape
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Error

from signalbook.api.ui.pages import escape_hidden
from signalbook.values import deeper_than

MAX_HIGHLIGHTED_CHARS: Final = 16_000
_MAX_DOCUMENT_CHARS: Final = 60_000
_MAX_MARKUP_CHARS: Final = 110_000
_LEXERS: Final = {"json": "json", "avro": "json", "jsonschema": "json", "jsonstructure": "json", "protobuf": "protobuf"}
_MOST_WRONG: Final = 50
_MAX_INDENTED_LEVELS: Final = 64
_MAX_INDENTATION_CHARS: Final = 4 << 20
"""The maximum number of spaces that indentation adds.

It adds two for each level on each line, so deep JSON could grow a thousandfold.
"""
_FORMATTER: Final = HtmlFormatter(nowrap=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDocument:
    """A document: its ``markup``, or the reason why there is none in ``note``. ``away`` is its URL if it is stored
    elsewhere.

    ``size`` is in bytes. ``cut`` is True if the markup is truncated.
    """

    markup: str = ""
    note: str = ""
    contenttype: str = ""
    format: str = ""
    size: int = 0
    cut: bool = False
    away: str = ""


def render_highlighted(text: str, language: str) -> tuple[Markup, bool]:
    """Return ``text`` as HTML, and True if it was cut; ``language`` is json, xml, protobuf, or empty."""
    printable = str(escape_hidden(text))
    tokens = _tokenize(printable, language) if language and len(printable) <= MAX_HIGHLIGHTED_CHARS else None
    if tokens is not None:
        return Markup(pygments.format(tokens, _FORMATTER).rstrip("\n")), False  # noqa: S704  it escapes
    visible = printable[:_MAX_DOCUMENT_CHARS]
    while len(markup := escape(visible)) > _MAX_MARKUP_CHARS:
        visible = visible[: len(visible) // 2]
    return markup, len(visible) < len(printable)


def _tokenize(text: str, language: str) -> list[tuple[Any, str]] | None:
    """Return the tokens of a text, or None if much of the text is not in the language.

    After each character that begins no token, pygments may search the whole rest of the text for the end of a token.
    """
    tokens = []
    wrong = 0
    for kind, token in _find_lexer(language).get_tokens(text):
        wrong += kind is Error
        if wrong > _MOST_WRONG:
            return None
        tokens.append((kind, token))
    return tokens


@lru_cache(maxsize=8)
def _find_lexer(language: str) -> Lexer:
    return get_lexer_by_name(language, stripnl=False)


def render_document(content: bytes, *, contenttype: str, format: str) -> ShownDocument:
    """Return a document of a Resource for a page. JSON in one line is indented."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return ShownDocument(note="It is not text.", contenttype=contenttype, format=format, size=len(content))
    language = detect_language(content, contenttype, format)
    if language == "json":
        text = indent_single_line(text)
    markup, cut = render_highlighted(text, language)
    return ShownDocument(markup=markup, contenttype=contenttype, format=format, size=len(content), cut=cut)


def indent_single_line(text: str) -> str:
    """Return JSON that is written in one line with indentation. Other texts and long ones are returned unchanged."""
    return format_json(text) if len(text) <= _MAX_DOCUMENT_CHARS and "\n" not in text.strip() else text


def format_json(text: str) -> str:
    """Return JSON with indentation, and any other text unchanged. Only the space between values differs.

    JSON whose indentation would be too long is returned unchanged, too.
    """
    brackets = text.count("[") + text.count("{")
    lines = 2 * brackets + text.count(",") + 1
    max_levels = min(_MAX_INDENTED_LEVELS, _MAX_INDENTATION_CHARS // (2 * lines))
    try:
        # JSON with few brackets cannot be deep, so most texts need not be decoded.
        if brackets > max_levels and deeper_than(msgspec.json.decode(text), max_levels):
            return text
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return text


def detect_language(content: bytes, contenttype: str, format: str) -> str:
    """Return the language for highlighting, by the document's format, content type or beginning."""
    family = format.partition("/")[0].lower()
    start = content[:200].lstrip()
    if family in _LEXERS:
        return _LEXERS[family]
    if "json" in contenttype or start.startswith((b"{", b"[")):
        return "json"
    if "xml" in contenttype or "xml" in family or family == "xsd" or start.startswith(b"<"):
        return "xml"
    return ""
