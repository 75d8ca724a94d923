"""The words of a text, and the texts by which an entity can be found (docs/decisions/150-search.md).

A word consists of letters and digits, in lower case and without accents. ``customer_id``, ``customerId`` and
``customer-id`` are two words, and also the joined word ``customerid``. A Chinese, Japanese or Korean character is a
word by itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from signalbook.engine.search.links import PINNED, SCHEMA
from signalbook.formats.base import find_family
from signalbook.formats.members import Member
from signalbook.model import builtin, compile_model
from signalbook.storage.base import Row
from signalbook.storage.words import BREAK, CURRENT, DEPRECATED, IndexEntry, Link, Part, Text
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind, Xid

MAX_TEXT_CHARS: Final = 100_000
"""The maximum number of indexed characters of all texts of an entity together."""
_MAX_INDEXED_CHARS: Final = 2_000
MAX_PATH_AND_TEXT_CHARS: Final = 2 * _MAX_INDEXED_CHARS
"""The maximum number of characters of one text and its path."""
_MAX_WORD_CHARS: Final = 64
_MAX_DEPTH: Final = 12
_RUN: Final = re.compile(r"[\w.~@-]+")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z0-9]+|[A-Z]", re.ASCII)
_CJK: Final = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_BEYOND_ASCII: Final = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
ANY_ENTITY: Final = "xall"
"""The word that every entity has among its facets, so that a query can select all entities."""
IS_GROUP: Final = "xgroup"
PINS: Final = "xpins"
"""The facet word of entities whose schema reference names a certain Version instead of the default one."""


class Word(NamedTuple):
    """A word and its position in a text."""

    word: str
    start: int
    end: int


class Run(NamedTuple):
    """The words of a text without spaces, such as a name, and several words also joined as one word."""

    words: tuple[Word, ...]
    joined: Word | None


def split_runs(text: str) -> Iterator[Run]:
    """Yield the runs of words in a text, in order."""
    for match in _RUN.finditer(text):
        run = match[0]
        start = match.start()
        if run.isalnum() and run.isascii() and (run.islower() or run.isdigit()):
            yield Run((Word(run[:_MAX_WORD_CHARS], start, match.end()),), None)
            continue
        words = tuple(_split_words(run, start))
        if len(words) > 1:
            joined = "".join(word.word for word in words)
            whole = Word(joined, words[0].start, words[-1].end)
            yield Run(words, whole if len(joined) <= _MAX_WORD_CHARS else None)
        elif words:
            yield Run(words, None)


def _split_words(run: str, start: int) -> Iterator[Word]:
    # In other scripts, capital letters in the middle of a name do not start a new word.
    for match in (_WORD if run.isascii() else _BEYOND_ASCII).finditer(run):
        word = match[0].lower() if run.isascii() else _fold(match[0])
        if word:
            yield Word(word[:_MAX_WORD_CHARS], start + match.start(), start + match.end())


def _fold(word: str) -> str:
    plain = unicodedata.normalize("NFKD", word).casefold()
    return "".join(character for character in plain if character.isalnum())


def split(text: str) -> tuple[list[str], list[str]]:
    """Return the words of a text and its joined words, without positions.

    Takes a third of the time of ``split_runs``.
    """
    if not text.isascii():
        text_runs = list(split_runs(text))
        joined = [run.joined.word for run in text_runs if run.joined]
        return [word.word for run in text_runs for word in run.words], joined
    words: list[str] = []
    whole: list[str] = []
    for run in _RUN.findall(text):
        if run.isalnum() and (run.islower() or run.isdigit()):
            words.append(run[:_MAX_WORD_CHARS])
            continue
        parts = [part.lower()[:_MAX_WORD_CHARS] for part in _WORD.findall(run)]
        words += parts
        if len(parts) > 1 and len(joined_word := "".join(parts)) <= _MAX_WORD_CHARS:
            whole.append(joined_word)
    return words, whole


def join_words(name: str) -> str:
    """Return all words of a name joined as one word. Empty if the name has no letter or digit."""
    return "".join(split(name)[0])[:_MAX_WORD_CHARS]


@lru_cache(maxsize=1 << 12)
def make_facet(kind: str, value: str) -> str:
    """Return the facet word for a ``value`` to filter by. ``kind`` is the letter of the facet."""
    return kind + blake2b(value.casefold().encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


_PRIVATE_LETTERS: Final = {ord(mark): 0xE001 + number for number, mark in enumerate("._~:@-")}
"""Punctuation in ids, mapped to private-use characters, which both databases treat as parts of words."""
PART_LETTERS: Final = (("a", ""), ("c", "d"), ("h", ""), ("j", "k"))
"""For each part of a Resource's xid: the prefix of its facet word, and the prefix of the reversed word
("" for none).
"""


def spell_part(part: str) -> str:
    """Return a part of an xid, or the beginning of one in a pattern, as one word, so that prefixes can be searched."""
    return part.casefold().translate(_PRIVATE_LETTERS)


TYPE: Final = "t"
GROUP: Final = "g"
FORMAT: Final = "f"
PROTOCOL: Final = "p"
ENVELOPE: Final = "e"


def make_entry(
    row: Row, members: Sequence[Member], *, current: bool, deprecated: bool, links: Iterable[Link] = ()
) -> IndexEntry:
    """Return the index entry of a Group, a Version or a cross reference.

    ``members`` are those of its schema. A Version is indexed with the id and xid of its Resource, and with its own
    name. ``current`` means that the entity is shown by default.
    """
    attributes = row.attributes
    shown_xid = row.xid.resource if row.xid.kind is Kind.VERSION else row.xid
    properties = {name: _read_text(attributes, name) for name in ("format", "protocol", "envelope")}
    properties["format"] = properties["format"] or _read_text(attributes, "dataschemaformat")
    texts = list(_limit_texts(_list_texts(row, shown_xid, members)))
    all_links = frozenset(links)
    pins = any(link.kind == SCHEMA + PINNED for link in all_links)
    return IndexEntry(
        key=row.key,
        xid=str(row.xid),
        folded=shown_xid.id.lower(),
        flags=CURRENT * current | DEPRECATED * deprecated,
        words=_split_parts(texts, [*_list_facets(shown_xid, properties), *([PINS] if pins else [])]),
        texts=texts,
        links=all_links,
        **properties,
    )


def _read_text(attributes: JSONObject, name: str) -> str | None:
    value = attributes.get(name)
    # PostgreSQL cannot store NUL in texts.
    return value[:_MAX_INDEXED_CHARS].replace("\0", "\ufffd") if isinstance(value, str) and value else None


def _list_facets(xid: Xid, properties: Mapping[str, str | None]) -> list[str]:
    facets = [ANY_ENTITY, make_facet(TYPE, xid.parts[-2]), make_facet(GROUP, str(Xid(xid.parts[:2])))]
    if xid.kind is Kind.GROUP:
        facets.append(IS_GROUP)
    for part, (forward, backward) in zip(map(spell_part, xid.parts), PART_LETTERS, strict=False):
        facets.append(forward + part)
        if backward:
            facets.append(backward + part[::-1])
    for kind, name in ((FORMAT, "format"), (PROTOCOL, "protocol"), (ENVELOPE, "envelope")):
        if value := properties[name]:
            # Also by the name alone, such as avro for Avro/1.11.
            short = find_family(value) if kind == FORMAT else value.partition("/")[0]
            facets += dict.fromkeys((make_facet(kind, value), make_facet(kind, short)))
    return facets


NAMES: Final = ("id", "name")
"""The paths of texts that are names of the entity."""


def _split_parts(texts: Sequence[Text], facets: list[str]) -> dict[Part, list[str]]:
    parts: dict[Part, list[str]] = {"names": [], "fields": [], "members": [], "prose": [], "facets": facets}
    for text in texts:
        if text.member:
            words = _add_words(parts["fields"], text.path.rpartition(".")[2])
            if words:
                parts["members"].append("".join(words)[:_MAX_WORD_CHARS])
            if text.text:
                _add_words(parts["prose"], text.text)
        else:
            _add_words(parts["names" if text.path in NAMES else "prose"], text.text)
    return parts


def _add_words(part: list[str], text: str) -> list[str]:
    words, whole = split(text)
    part += words
    # Joined words come after the other words, so that these stay adjacent for phrases.
    part += whole
    part.append(BREAK)
    return words


def _limit_texts(texts: Iterable[Text]) -> Iterator[Text]:
    chars_left = MAX_TEXT_CHARS
    for text in texts:
        chars_left -= len(text.path) + len(text.text)
        if chars_left < 0:
            return
        yield text


def _list_texts(row: Row, shown_xid: Xid, members: Sequence[Member]) -> Iterator[Text]:
    yield Text(False, "id", shown_xid.id)
    name = row.attributes.get("name")
    if isinstance(name, str):
        yield Text(False, "name", _shorten(name))
    yield Text(False, "xid", str(shown_xid))
    for key, value in row.attributes.items():
        if key not in _UNINDEXED:
            yield from _list_strings(key, key, value, 0)
    yield from (Text(True, member.path, member.description) for member in members)


INLINE: Final = ("dataschema", "schema")
"""Attributes that are schema documents. Their members are indexed, not their text."""
_UNINDEXED: Final = frozenset({"name", "contenttype", *INLINE})


def _list_strings(path: str, key: str, value: JSON, depth: int) -> Iterator[Text]:
    """Yield all strings in ``value``, and all keys in it that are not names of the built-in model, because users chose
    these.
    """
    if isinstance(value, str):
        yield Text(False, path, _shorten(value))
    elif isinstance(value, dict) and depth < _MAX_DEPTH:
        for name, inner in value.items():
            within = f"{path}.{name}"[:_MAX_INDEXED_CHARS]
            if name not in _find_structural_names():
                yield Text(False, path, _shorten(name))
            yield from _list_strings(within, name, inner, depth + 1)
    elif isinstance(value, list) and depth < _MAX_DEPTH:
        for inner in value:
            yield from _list_strings(path, key, inner, depth + 1)


def _shorten(text: str) -> str:
    return text[:_MAX_INDEXED_CHARS] if text.isascii() else unicodedata.normalize("NFC", text[:_MAX_INDEXED_CHARS])


@lru_cache(maxsize=1)
def _find_structural_names() -> frozenset[str]:
    """Return the names of attributes in the built-in model, which nearly every entity contains."""
    return frozenset(_list_attribute_names(compile_model(builtin("default")).document))


def _list_attribute_names(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "attributes" and isinstance(value, dict):
                yield from (name for name in value if name != "*")
            yield from _list_attribute_names(value)
    elif isinstance(node, list):
        for item in node:
            yield from _list_attribute_names(item)
