"""Documents as text with their syntax highlighted, bounded in size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec
import pygments
from markupsafe import Markup, escape
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Error, _TokenType

from signalbook.api.ui.pages import shown_text

_HIGHLIGHTED: Final = 16_000
_SHOWN: Final = 60_000
_MARKUP: Final = 110_000
_LEXERS: Final = {"json": "json", "avro": "json", "jsonschema": "json", "jsonstructure": "json", "protobuf": "protobuf"}
_MOST_WRONG: Final = 50
_FORMATTER: Final = HtmlFormatter(nowrap=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDocument:
    """A document: its ``markup``, or why there is none in ``note``; ``away`` is where it is if it is elsewhere.

    ``size`` is in bytes; ``cut`` says that the markup is not all of it.
    """

    markup: str = ""
    note: str = ""
    contenttype: str = ""
    format: str = ""
    size: int = 0
    cut: bool = False
    away: str = ""


def highlighted(text: str, language: str) -> tuple[Markup, bool]:
    """``text`` as HTML, and whether that is not all of it; ``language`` is json, xml, protobuf, or empty."""
    shown = str(shown_text(text))
    tokens = _tokens(shown, language) if language and len(shown) <= _HIGHLIGHTED else None
    if tokens is not None:
        return Markup(pygments.format(tokens, _FORMATTER).rstrip("\n")), False  # noqa: S704  it escapes
    kept = shown[:_SHOWN]
    while len(markup := escape(kept)) > _MARKUP:
        kept = kept[: len(kept) // 2]
    return markup, len(kept) < len(shown)


def _tokens(text: str, language: str) -> list[tuple[_TokenType, str]] | None:
    """The tokens of a text; None if much of it is not in the language.

    After each character that begins nothing pygments looks through the rest for the end of what might have begun.
    """
    found = []
    wrong = 0
    for kind, token in _lexer(language).get_tokens(text):
        wrong += kind is Error
        if wrong > _MOST_WRONG:
            return None
        found.append((kind, token))
    return found


@lru_cache(maxsize=8)
def _lexer(language: str) -> Lexer:
    return get_lexer_by_name(language, stripnl=False)


def shown_document(content: bytes, *, contenttype: str, format: str) -> ShownDocument:
    """A document of a Resource for people. JSON in one line is laid out."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return ShownDocument(note="It is not text.", contenttype=contenttype, format=format, size=len(content))
    language = language_of(content, contenttype, format)
    if language == "json" and len(text) <= _SHOWN and "\n" not in text.strip():
        text = laid_out(text)
    markup, cut = highlighted(text, language)
    return ShownDocument(markup=markup, contenttype=contenttype, format=format, size=len(content), cut=cut)


def laid_out(text: str) -> str:
    """JSON with indentation; what is none stays as it is."""
    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:
        return text


def language_of(content: bytes, contenttype: str, format: str) -> str:
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
