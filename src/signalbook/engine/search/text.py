"""The words of a text, and the texts of an entity: what it can be found by (docs/decisions/150-search.md).

A word is letters and digits, in lower case and without accents. ``customer_id``, ``customerId`` and ``customer-id`` are
two words that also count as one: ``customerid``. A Chinese, Japanese or Korean character is a word by itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from signalbook.engine.search.links import PINNED, SCHEMA
from signalbook.formats.base import family
from signalbook.formats.members import Member
from signalbook.model import builtin, compile_model
from signalbook.storage.base import Row
from signalbook.storage.words import BREAK, CURRENT, DEPRECATED, IndexEntry, Link, Part, Text
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind, Xid

MAX_TEXT: Final = 100_000
"""Characters of all texts of an entity; what comes behind is not found."""
_LONGEST: Final = 2_000
MOST_OF_A_TEXT: Final = 2 * _LONGEST
"""Characters of one text and its path."""
_LONGEST_WORD: Final = 64
_DEPTH: Final = 12
_RUN: Final = re.compile(r"[\w.~@-]+")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z0-9]+|[A-Z]", re.ASCII)
_CJK: Final = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_BEYOND_ASCII: Final = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
ALL: Final = "xall"
"""What every entity has among its facets."""
IS_GROUP: Final = "xgroup"
PINS: Final = "xpins"
"""What names a Version as its schema, and not whatever is the default one."""


class Word(NamedTuple):
    """A word at a place of a text."""

    word: str
    start: int
    end: int


class Run(NamedTuple):
    """A text without spaces: its words, and several words also as one."""

    words: tuple[Word, ...]
    joined: Word | None


def runs(text: str) -> Iterator[Run]:
    """The words of a text, in its order."""
    for found in _RUN.finditer(text):
        run = found[0]
        start = found.start()
        if run.isalnum() and run.isascii() and (run.islower() or run.isdigit()):
            yield Run((Word(run[:_LONGEST_WORD], start, found.end()),), None)
            continue
        words = tuple(_words(run, start))
        if len(words) > 1:
            joined = "".join(each.word for each in words)
            whole = Word(joined, words[0].start, words[-1].end)
            yield Run(words, whole if len(joined) <= _LONGEST_WORD else None)
        elif words:
            yield Run(words, None)


def _words(run: str, start: int) -> Iterator[Word]:
    # In other scripts capital letters begin no words in the middle of a name.
    for found in (_WORD if run.isascii() else _BEYOND_ASCII).finditer(run):
        word = found[0].lower() if run.isascii() else _folded(found[0])
        if word:
            yield Word(word[:_LONGEST_WORD], start + found.start(), start + found.end())


def _folded(word: str) -> str:
    plain = unicodedata.normalize("NFKD", word).casefold()
    return "".join(each for each in plain if each.isalnum())


def split(text: str) -> tuple[list[str], list[str]]:
    """The words of ``runs``, and those that are joined, without their places: at a third of the cost."""
    if not text.isascii():
        found = list(runs(text))
        return [each.word for run in found for each in run.words], [run.joined.word for run in found if run.joined]
    words: list[str] = []
    whole: list[str] = []
    for run in _RUN.findall(text):
        if run.isalnum() and (run.islower() or run.isdigit()):
            words.append(run[:_LONGEST_WORD])
            continue
        parts = [part.lower()[:_LONGEST_WORD] for part in _WORD.findall(run)]
        words += parts
        if len(parts) > 1 and len(one := "".join(parts)) <= _LONGEST_WORD:
            whole.append(one)
    return words, whole


def joined(name: str) -> str:
    """A name as one word; empty if it has no letter or digit."""
    return "".join(split(name)[0])[:_LONGEST_WORD]


@lru_cache(maxsize=1 << 12)
def facet(kind: str, value: str) -> str:
    """A word that stands for a value to filter by."""
    return kind + blake2b(value.casefold().encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


_SPELLED: Final = {ord(mark): 0xE001 + number for number, mark in enumerate("._~:@-")}
"""Characters of ids that are no letters: for private ones, which both databases take for parts of words."""
PLACES: Final = (("a", ""), ("c", "d"), ("h", ""), ("j", "k"))
"""Of the parts of a Resource's xid, what is before them as words, and before ids from behind."""


def spelled(part: str) -> str:
    """A part of an xid, or of a pattern for it, as one word that begins as the part does."""
    return part.casefold().translate(_SPELLED)


TYPE: Final = "t"
GROUP: Final = "g"
FORMAT: Final = "f"
PROTOCOL: Final = "p"
ENVELOPE: Final = "e"


def entry_of(
    row: Row, members: Sequence[Member], *, current: bool, deprecated: bool, links: Iterable[Link] = ()
) -> IndexEntry:
    """Return the index entry of a Group, a Version or a cross reference.

    ``members`` are those of its schema. A Version is found by its Resource's names.
    """
    attributes = row.attributes
    shown = row.xid.resource if row.xid.kind is Kind.VERSION else row.xid
    named = {name: _text(attributes, name) for name in ("format", "protocol", "envelope")}
    named["format"] = named["format"] or _text(attributes, "dataschemaformat")
    texts = list(_bounded(_texts(row, shown, members)))
    there = frozenset(links)
    pins = any(link.kind == SCHEMA + PINNED for link in there)
    return IndexEntry(
        key=row.key,
        xid=str(row.xid),
        folded=shown.id.lower(),
        flags=CURRENT * current | DEPRECATED * deprecated,
        words=_parts(texts, [*_facets(shown, named), *([PINS] if pins else [])]),
        texts=texts,
        links=there,
        **named,
    )


def _text(attributes: JSONObject, name: str) -> str | None:
    value = attributes.get(name)
    # PostgreSQL has no NUL in texts.
    return value[:_LONGEST].replace("\0", "\ufffd") if isinstance(value, str) and value else None


def _facets(xid: Xid, named: Mapping[str, str | None]) -> list[str]:
    found = [ALL, facet(TYPE, xid.parts[-2]), facet(GROUP, str(Xid(xid.parts[:2])))]
    if xid.kind is Kind.GROUP:
        found.append(IS_GROUP)
    for part, (forward, backward) in zip(map(spelled, xid.parts), PLACES, strict=False):
        found.append(forward + part)
        if backward:
            found.append(backward + part[::-1])
    for kind, name in ((FORMAT, "format"), (PROTOCOL, "protocol"), (ENVELOPE, "envelope")):
        if value := named[name]:
            # By name alone, too, such as avro for Avro/1.11.
            short = family(value) if kind == FORMAT else value.partition("/")[0]
            found += dict.fromkeys((facet(kind, value), facet(kind, short)))
    return found


NAMES: Final = ("id", "name")
"""Paths of the texts that are names."""


def _parts(texts: Sequence[Text], facets: list[str]) -> dict[Part, list[str]]:
    parts: dict[Part, list[str]] = {"names": [], "fields": [], "members": [], "prose": [], "facets": facets}
    for each in texts:
        if each.member:
            words = _add(parts["fields"], each.path.rpartition(".")[2])
            if words:
                parts["members"].append("".join(words)[:_LONGEST_WORD])
            if each.text:
                _add(parts["prose"], each.text)
        else:
            _add(parts["names" if each.path in NAMES else "prose"], each.text)
    return parts


def _add(part: list[str], text: str) -> list[str]:
    words, whole = split(text)
    part += words
    # Behind the words, which follow one another.
    part += whole
    part.append(BREAK)
    return words


def _bounded(texts: Iterable[Text]) -> Iterator[Text]:
    left = MAX_TEXT
    for each in texts:
        left -= len(each.path) + len(each.text)
        if left < 0:
            return
        yield each


def _texts(row: Row, shown: Xid, members: Sequence[Member]) -> Iterator[Text]:
    yield Text(False, "id", shown.id)
    name = row.attributes.get("name")
    if isinstance(name, str):
        yield Text(False, "name", _cut(name))
    yield Text(False, "xid", str(shown))
    for key, value in row.attributes.items():
        if key not in _LEFT_OUT:
            yield from _values(key, key, value, 0)
    yield from (Text(True, member.path, member.description) for member in members)


INLINE: Final = ("dataschema", "schema")
"""Attributes that are documents: of these members are found."""
_LEFT_OUT: Final = frozenset({"name", "contenttype", *INLINE})


def _values(path: str, key: str, value: JSON, depth: int) -> Iterator[Text]:
    """Yield all strings in a value, and the names in it that are not the model's: people chose these."""
    if isinstance(value, str):
        yield Text(False, path, _cut(value))
    elif isinstance(value, dict) and depth < _DEPTH:
        for name, inner in value.items():
            within = f"{path}.{name}"[:_LONGEST]
            if name not in _structural():
                yield Text(False, path, _cut(name))
            yield from _values(within, name, inner, depth + 1)
    elif isinstance(value, list) and depth < _DEPTH:
        for inner in value:
            yield from _values(path, key, inner, depth + 1)


def _cut(text: str) -> str:
    return text[:_LONGEST] if text.isascii() else unicodedata.normalize("NFC", text[:_LONGEST])


@lru_cache(maxsize=1)
def _structural() -> frozenset[str]:
    """Names of attributes in the model that comes with the program: ``description`` is a word of hardly any entity."""
    return frozenset(_attribute_names(compile_model(builtin("default")).document))


def _attribute_names(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "attributes" and isinstance(value, dict):
                yield from (name for name in value if name != "*")
            yield from _attribute_names(value)
    elif isinstance(node, list):
        for each in node:
            yield from _attribute_names(each)
