"""Why an entity matched: the texts in which words of a query are, with their places, for whoever shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from signalbook.engine.search.query import Query
from signalbook.engine.search.text import NAMES, Run, joined, runs
from signalbook.storage.words import Condition, Phrase, Text
from signalbook.values import JSON, JSONObject

MAX_SNIPPETS: Final = 3
_WIDTH: Final = 200
_BEFORE: Final = 60
_MORE: Final = "…"
_BETWEEN: Final = {number: None for number in range(128) if not chr(number).isalnum()}
"""ASCII that is no part of a word."""

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """A text that matched: that of the attribute, or of the member of the schema, at ``path``.

    ``text`` of a member is its path, or its description. ``ranges`` are where in it words of the query are: characters
    (code points) from the first of each to before the last. ``schema`` is the xid of the schema that it is of, where
    that is another entity, to which the one that was found refers.
    """

    path: str
    text: str
    ranges: tuple[Range, ...]
    member: bool = False
    schema: str = ""

    def to_json(self) -> JSONObject:
        """Return the JSON for clients."""
        kind = "field" if self.member else "attribute"
        ranges: list[JSON] = [list(each) for each in self.ranges]
        shown: JSONObject = {"kind": kind, "path": self.path, "text": self.text, "ranges": ranges}
        return shown | {"schema": self.schema} if self.schema else shown


def snippets(query: Query, texts: Iterable[Text], *, schema: str = "") -> tuple[Snippet, ...]:
    """Up to ``MAX_SNIPPETS`` texts in which words of ``query`` are: those with most of them, then in their order.

    ``schema`` is of what they are, if not of what was found.
    """
    conditions = [condition for condition in query.wanted if condition.parts != ("facets",)]
    found: list[tuple[int, Snippet]] = []
    met: set[int] = set()
    # What is called so need not be described so.
    described = any("prose" in condition.parts for condition in conditions)
    for text in texts if conditions else ():
        # What has nothing new is looked at only while there is room for it.
        wanted = conditions if len(found) < MAX_SNIPPETS else [c for n, c in enumerate(conditions) if n not in met]
        if not wanted:
            break
        member = f"{text.path} {text.text}" if described else text.path
        if not _may_have(member if text.member else text.text, wanted):
            continue
        for snippet, matched in _of_text(text, conditions):
            # What says no more than others is not worth its place, unless there is room; of an xid the id is enough.
            if not matched <= met or (len(found) < MAX_SNIPPETS and snippet.path != "xid"):
                found.append((-len(matched - met), snippet))
            met |= matched
    best = (snippet for _, snippet in sorted(found, key=lambda each: each[0])[:MAX_SNIPPETS])
    return tuple(replace(each, schema=schema) if schema else each for each in best)


def _may_have(text: str, conditions: Iterable[Condition]) -> bool:
    """A quick look: most texts have nothing of what is asked for."""
    if not text.isascii():
        return True
    # Without what stands between the parts of a compound, which may be asked for as one word.
    plain = text.lower().translate(_BETWEEN)
    return any(phrase.words[0] in plain for condition in conditions for phrase in condition.phrases)


def _of_text(text: Text, conditions: Sequence[Condition]) -> Iterator[tuple[Snippet, set[int]]]:
    if not text.member:
        part = "names" if text.path in NAMES else "prose"
        yield from _matched(text.path, text.text, part, conditions, member=False)
        return
    before, _, name = text.path.rpartition(".")
    start = len(before) + 1 if before else 0
    whole = joined(name)
    found = list(runs(name))
    ranges: list[Range] = []
    matched: set[int] = set()
    for number, condition in enumerate(conditions):
        own = _ranges(found, condition) if "fields" in condition.parts else []
        if not own and "members" in condition.parts and any(_is_word(whole, each) for each in condition.phrases):
            own = [(0, len(name))]
        if own:
            matched.add(number)
            ranges += [(start + first, start + last) for first, last in own]
    if ranges:
        yield _cut(text.path, text.path, ranges, member=True), matched
    yield from _matched(text.path, text.text, "prose", conditions, member=True)


def _matched(
    path: str, text: str, part: str, conditions: Sequence[Condition], *, member: bool
) -> Iterator[tuple[Snippet, set[int]]]:
    ranges: list[Range] = []
    matched = set()
    asked = [condition for condition in conditions if part in condition.parts]
    found = list(runs(text)) if asked and _may_have(text, asked) else []
    for number, condition in enumerate(conditions if found else ()):
        if part in condition.parts and (own := _ranges(found, condition)):
            matched.add(number)
            ranges += own
    if ranges:
        yield _cut(path, text, ranges, member=member), matched


def _ranges(found: Sequence[Run], condition: Condition) -> list[Range]:
    """Return the places of the phrases of a condition among the words of a text."""
    return [each for phrase in condition.phrases for each in _places(found, phrase)]


def _places(found: Sequence[Run], phrase: Phrase) -> Iterator[Range]:
    *first, last = phrase.words
    is_last = last.__eq__ if not phrase.prefix else partial(_begins, last)
    if first:
        words = [word for run in found for word in run.words]
        for at in range(len(first), len(words)):
            some = words[at - len(first) : at]
            if is_last(words[at].word) and [each.word for each in some] == first:
                yield some[0].start, words[at].end
        return
    for run in found:
        for word in run.words:
            if is_last(word.word):
                yield word.start, word.end
    for run in found:
        # As one word only where it is no word of it.
        if run.joined is not None and is_last(run.joined.word) and not is_last(run.words[0].word):
            yield run.joined.start, run.joined.end


def _begins(beginning: str, word: str) -> bool:
    return word.startswith(beginning)


def _is_word(word: str, phrase: Phrase) -> bool:
    if len(phrase.words) != 1:
        return False
    return word.startswith(phrase.words[0]) if phrase.prefix else word == phrase.words[0]


def _cut(path: str, text: str, ranges: Iterable[Range], *, member: bool) -> Snippet:
    """A part of ``text`` that is not too long, with the first of the ranges in it."""
    merged = _merged(ranges)
    if len(text) <= _WIDTH:
        return Snippet(path=path, text=text, ranges=tuple(merged), member=member)
    begin = max(0, min(merged[0][0] - _BEFORE, len(text) - _WIDTH))
    end = begin + _WIDTH
    lead = _MORE if begin else ""
    shown = lead + text[begin:end] + (_MORE if end < len(text) else "")
    shift = len(lead) - begin
    kept = [(first + shift, min(last, end) + shift) for first, last in merged if begin <= first < end]
    return Snippet(path=path, text=shown, ranges=tuple(kept), member=member)


def _merged(ranges: Iterable[Range]) -> list[Range]:
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged
