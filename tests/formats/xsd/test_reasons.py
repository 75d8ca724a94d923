"""Every verdict on random pairs of XML Schemas is sound and every reason true, judged by the library (G-30)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from random import Random
from typing import Any
from xml.etree.ElementTree import tostring

from tests.formats.reasons import Tally, judge_pairs
from tests.formats.xsd.test_soundness import Maker, Writer, written

from signalbook.formats import SchemaError
from signalbook.formats.compatibility import Difference
from signalbook.formats.xsd import FORMAT, documents


def names(difference: Difference) -> list[str]:
    """The names of the elements and attributes that a path goes through, without those of types."""
    return [part.lstrip("@") for part in difference.path.split("/") if part[:1] not in ("C", "S")]


def judge(dice: Random, tally: Tally) -> None:
    maker = Maker(dice)
    first = maker.schema()
    second = maker.changed(first)
    old, new = map(written, (first, second) if dice.random() < 0.5 else (second, first))
    try:
        found = FORMAT.differences(new, old)
        read, write = (documents.build("1.1", documents.gather(one.document, None)).schema for one in (new, old))
    except SchemaError:
        tally.counts["no schema"] += 1
        return

    def documents_of() -> Iterator[bytes]:
        for _ in range(600 if found else 20):
            with suppress(RecursionError):  # there is no end to what is required
                yield tostring(Writer(dice, write).element(write.elements["r"]))

    if next(documents_of(), None) is None:
        tally.counts["no documents"] += 1
        return

    def rejections() -> Iterator[Any]:
        for document in documents_of():
            if write.is_valid(BytesIO(document)) and not read.is_valid(BytesIO(document)):
                yield document

    def describes(difference: Difference, document: bytes) -> bool:
        last = (names(difference) or ["r"])[-1]
        if difference.path.startswith("@"):  # the library does not always say which attribute it is
            return f":{last}=" in document.decode()
        errors = list(read.iter_errors(BytesIO(document)))
        return any(last in f"{error.path} {error.reason} {error.message}" for error in errors)

    tally.add(f"{old.document.decode()} read as {new.document.decode()}", found, rejections(), describes)


def test_verdicts_are_sound_and_reasons_true(pairs: int) -> None:
    judge_pairs(judge, pairs // 2)
