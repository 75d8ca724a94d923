"""Every verdict on random pairs of XML Schemas is sound and every reason true, judged by the library (G-30)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Final
from xml.etree.ElementTree import Element, tostring

from tests.formats.reasons import Tally, judge_pairs
from tests.formats.xsd.makers import Maker, Writer, write

from signalbook.formats import SchemaError
from signalbook.formats.compatibility import Difference
from signalbook.formats.xsd import FORMAT, documents

# The reader takes these documents, but not for what was meant.
SKIPPED: Final = ("default_changed", "whitespace_changed")


def names(difference: Difference) -> list[str]:
    """The names of the elements and attributes that a path goes through, without those of types."""
    return [part.lstrip("@") for part in difference.path.split("/") if part[:1] not in ("C", "S")]


def judge(dice: Random, tally: Tally) -> None:
    schemas = Maker(dice)
    first = schemas.schema()
    second = schemas.changed(first)
    old, new = map(write, (first, second) if dice.random() < 0.5 else (second, first))
    try:
        differences = FORMAT.differences(new, old)
        read, written = (
            documents.build("1.1", documents.gather(schema_text.document, None)).schema for schema_text in (new, old)
        )
    except SchemaError:
        tally.counts["no schema"] += 1
        return

    writer = Writer(dice, written)

    def documents_of() -> Iterator[Element]:
        for _ in range(600 if differences else 20):
            with suppress(RecursionError):  # there is no end to what is required
                yield writer.document()

    if next(documents_of(), None) is None:
        tally.counts["no documents"] += 1
        return

    def rejections() -> Iterator[Element]:
        for document in documents_of():
            if written.is_valid(document) and not read.is_valid(document):
                yield document

    def describes(difference: Difference, document: Element) -> bool:
        last = (names(difference) or ["r"])[-1]
        if difference.path.startswith("@"):  # the library does not always say which attribute it is
            return f":{last}=" in tostring(document).decode()
        errors = (f"{error.path} {error.reason} {error.message}" for error in read.iter_errors(document))
        # Of a group that occurs too often the library names no element.
        return any(re.search(rf"'{last}'|/{last}\b|\b{last}=|occurs \d+ times", error) for error in errors)

    tally.add(f"{old.document.decode()} read as {new.document.decode()}", differences, rejections(), describes)


def test_verdicts_are_sound_and_reasons_true(pairs: int) -> None:
    judge_pairs(judge, pairs // 4, SKIPPED)
