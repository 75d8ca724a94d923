"""Snippets: the texts of an entity that contain words of a query, with the positions of these words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from signalbook.engine.search.query import Query
from signalbook.engine.search.text import NAMES, Run, join_words, split_runs
from signalbook.storage.words import Condition, Phrase, Text
from signalbook.values import JSON, JSONObject

MAX_SNIPPETS: Final = 3
_MAX_CHARS: Final = 200
_CHARS_BEFORE: Final = 60
_ELLIPSIS: Final = "…"
_BETWEEN: Final = {number: None for number in range(128) if not chr(number).isalnum()}
"""ASCII characters that are not part of a word, mapped to None."""

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """A text that matched a query. ``path`` is the path of its attribute, or of the schema member it belongs to.

    For a member, ``text`` is the member's path or its description. ``ranges`` are the positions of matching words in
    ``text``: start and end (exclusive) in characters (code points). ``schema`` is the xid of the schema if the text
    belongs to a schema that the found entity refers to, else empty.
    """

    path: str
    text: str
    ranges: tuple[Range, ...]
    member: bool = False
    schema: str = ""

    def to_json(self) -> JSONObject:
        """Return the snippet as the JSON object that clients receive."""
        kind = "field" if self.member else "attribute"
        ranges: list[JSON] = [list(span) for span in self.ranges]
        document: JSONObject = {"kind": kind, "path": self.path, "text": self.text, "ranges": ranges}
        return document | {"schema": self.schema} if self.schema else document


def find_snippets(query: Query, texts: Iterable[Text], *, schema: str = "") -> tuple[Snippet, ...]:
    """Return up to ``MAX_SNIPPETS`` snippets of ``texts``, first those that match the most conditions of ``query``.

    ``schema`` is the xid of the schema that the texts belong to, if that is not the found entity itself.
    """
    conditions = [condition for condition in query.required if condition.parts != ("facets",)]
    ranked: list[tuple[int, Snippet]] = []
    matched_conditions: set[int] = set()
    # If only names are searched, descriptions of members need not be searched.
    has_prose = any("prose" in condition.parts for condition in conditions)
    for text in texts if conditions else ():
        # Once there are enough snippets, a text is searched only for conditions that no other text matched.
        open_conditions = conditions
        if len(ranked) >= MAX_SNIPPETS:
            open_conditions = [c for n, c in enumerate(conditions) if n not in matched_conditions]
        if not open_conditions:
            break
        member = f"{text.path} {text.text}" if has_prose else text.path
        if not _may_match(member if text.member else text.text, open_conditions):
            continue
        for snippet, matched in _match_text(text, conditions):
            # A text that matches nothing new is used only while there is room. An xid is never used then, because the
            # id is enough.
            if not matched <= matched_conditions or (len(ranked) < MAX_SNIPPETS and snippet.path != "xid"):
                ranked.append((-len(matched - matched_conditions), snippet))
            matched_conditions |= matched
    best = (snippet for _, snippet in sorted(ranked, key=lambda pair: pair[0])[:MAX_SNIPPETS])
    return tuple(replace(snippet, schema=schema) if schema else snippet for snippet in best)


def _may_match(text: str, conditions: Iterable[Condition]) -> bool:
    """Return False if a text certainly contains none of the words, as most texts do."""
    if not text.isascii():
        return True
    # Without the separators between parts of a compound, because the compound may be searched as one word.
    plain = text.lower().translate(_BETWEEN)
    return any(phrase.words[0] in plain for condition in conditions for phrase in condition.phrases)


def _match_text(text: Text, conditions: Sequence[Condition]) -> Iterator[tuple[Snippet, set[int]]]:
    if not text.member:
        part = "names" if text.path in NAMES else "prose"
        yield from _match_words(text.path, text.text, part, conditions, member=False)
        return
    before, _, name = text.path.rpartition(".")
    start = len(before) + 1 if before else 0
    whole = join_words(name)
    found_runs = list(split_runs(name))
    ranges: list[Range] = []
    matched: set[int] = set()
    for number, condition in enumerate(conditions):
        condition_ranges = _find_ranges(found_runs, condition) if "fields" in condition.parts else []
        if (
            not condition_ranges
            and "members" in condition.parts
            and any(_is_word(whole, phrase) for phrase in condition.phrases)
        ):
            condition_ranges = [(0, len(name))]
        if condition_ranges:
            matched.add(number)
            ranges += [(start + first, start + last) for first, last in condition_ranges]
    if ranges:
        yield _make_snippet(text.path, text.path, ranges, member=True), matched
    yield from _match_words(text.path, text.text, "prose", conditions, member=True)


def _match_words(
    path: str, text: str, part: str, conditions: Sequence[Condition], *, member: bool
) -> Iterator[tuple[Snippet, set[int]]]:
    ranges: list[Range] = []
    matched = set()
    part_conditions = [condition for condition in conditions if part in condition.parts]
    found_runs = list(split_runs(text)) if part_conditions and _may_match(text, part_conditions) else []
    for number, condition in enumerate(conditions if found_runs else ()):
        if part in condition.parts and (condition_ranges := _find_ranges(found_runs, condition)):
            matched.add(number)
            ranges += condition_ranges
    if ranges:
        yield _make_snippet(path, text, ranges, member=member), matched


def _find_ranges(text_runs: Sequence[Run], condition: Condition) -> list[Range]:
    """Return the positions at which phrases of a condition match the words of a text."""
    return [span for phrase in condition.phrases for span in _find_phrase(text_runs, phrase)]


def _find_phrase(text_runs: Sequence[Run], phrase: Phrase) -> Iterator[Range]:
    *first, last = phrase.words
    is_last = last.__eq__ if not phrase.prefix else partial(_starts_with, last)
    if first:
        words = [word for run in text_runs for word in run.words]
        for position in range(len(first), len(words)):
            preceding = words[position - len(first) : position]
            if is_last(words[position].word) and [word.word for word in preceding] == first:
                yield preceding[0].start, words[position].end
        return
    for run in text_runs:
        for word in run.words:
            if is_last(word.word):
                yield word.start, word.end
    for run in text_runs:
        # The joined word matches only if its first part does not match by itself.
        if run.joined is not None and is_last(run.joined.word) and not is_last(run.words[0].word):
            yield run.joined.start, run.joined.end


def _starts_with(beginning: str, word: str) -> bool:
    return word.startswith(beginning)


def _is_word(word: str, phrase: Phrase) -> bool:
    if len(phrase.words) != 1:
        return False
    return word.startswith(phrase.words[0]) if phrase.prefix else word == phrase.words[0]


def _make_snippet(path: str, text: str, ranges: Iterable[Range], *, member: bool) -> Snippet:
    """Return a snippet with an excerpt of ``text`` that has a limited length and contains the first range."""
    merged = _merge_ranges(ranges)
    if len(text) <= _MAX_CHARS:
        return Snippet(path=path, text=text, ranges=tuple(merged), member=member)
    begin = max(0, min(merged[0][0] - _CHARS_BEFORE, len(text) - _MAX_CHARS))
    end = begin + _MAX_CHARS
    lead = _ELLIPSIS if begin else ""
    excerpt = lead + text[begin:end] + (_ELLIPSIS if end < len(text) else "")
    shift = len(lead) - begin
    shifted = [(first + shift, min(last, end) + shift) for first, last in merged if begin <= first < end]
    return Snippet(path=path, text=excerpt, ranges=tuple(shifted), member=member)


def _merge_ranges(ranges: Iterable[Range]) -> list[Range]:
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged
