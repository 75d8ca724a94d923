"""Every verdict on random pairs of XML Schemas is sound and every reason true, judged by the library (G-30)."""

import re
from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element, tostring

from tests.formats.reasons import Tally, judge_pairs
from tests.formats.xsd.makers import COMPLEX, SIMPLE, Maker, Writer, write

from signalbook.formats import SchemaError
from signalbook.formats.compatibility import Difference, SchemaText
from signalbook.formats.xsd import FORMAT, documents

# The reader takes these documents, but not for what was meant.
SKIPPED: Final = ("default_changed", "whitespace_changed")


class Rejection(NamedTuple):
    """A document that the writer's schema takes, and why the reader's does not."""

    document: str
    errors: list[str]


def find_names(difference: Difference, reader: Element) -> list[str]:
    """Return the names of the elements and attributes that a path goes through, and of elements of a type in it."""
    first, *rest = (part.lstrip("@") for part in difference.path.split("/"))
    if first not in (*COMPLEX, *SIMPLE):
        return [first, *rest]
    return [*(node.get("name", "") for node in reader.iter("element") if node.get("type") == first), *rest]


def judge(dice: Random, tally: Tally) -> None:
    schemas = Maker(dice)
    first = schemas.schema()
    second = schemas.changed(first)
    # Both ways, since building two schemas takes most of the time.
    judge_pair(dice, tally, first, second)
    judge_pair(dice, tally, second, first)


def judge_pair(dice: Random, tally: Tally, writer_tree: Element, reader_tree: Element) -> None:
    old, new = write(writer_tree), write(reader_tree)
    try:
        differences = [difference for difference in FORMAT.differences(new, old) if can_be_shown(difference)]
        read, written = (
            documents.build("1.1", documents.gather(schema_text.document, None)).schema for schema_text in (new, old)
        )
    except SchemaError:
        tally.counts["no schema"] += 1
        return
    spaced = SchemaText(document=old.document + b"\n", format=old.format)
    assert FORMAT.differences(spaced, old) == []
    writer = Writer(dice, written)
    open_reasons = [difference for difference in differences if difference.rule not in ("undecided", *SKIPPED)]

    def rejections() -> Iterator[Rejection]:
        accepted: dict[tuple[str, ...], Element] = {}  # by the names of their root and its children
        for _ in range(3000 if differences else 20):
            wanted = find_names(dice.choice(open_reasons), reader_tree) if open_reasons else ()
            document = writer.document(wanted)
            similar = [other for other in accepted.values() if other.tag == document.tag]
            if similar and dice.random() < 0.5:
                document = splice(dice, dice.choice(similar), document)
            errors = [f"{error.path} {error.reason} {error.message}" for error in read.iter_errors(document)]
            if not written.is_valid(document):
                continue
            if errors:
                yield Rejection(tostring(document, encoding="unicode"), errors)
            else:
                accepted[document.tag, *(child.tag for child in document)] = document

    def describes(difference: Difference, rejection: Rejection) -> bool:
        described = is_cause(difference, rejection, find_names(difference, reader_tree))
        if described:
            open_reasons.remove(difference)
        return described

    tally.add(f"{old.document.decode()} read as {new.document.decode()}", differences, rejections(), describes)


def can_be_shown(difference: Difference) -> bool:
    """Return False if the library refuses no document for this reason."""
    if "may have more digits" in difference.message:
        return False  # the reader takes the numbers, but loses digits
    # Without a declaration any element may have xsi:nil. The library refuses it then, too.
    return (difference.rule, difference.new) != ("element_added_to_open_content_model", "anyType")


def splice(dice: Random, first: Element, second: Element) -> Element:
    """Return a document with the first children of one document and the last children of another.

    Long contents that the reader accepts for a while arise from short ones that it accepts.
    """
    document = Element(first.tag, first.attrib)
    document.extend([*first[: dice.randint(0, len(first))], *second[dice.randint(0, len(second)) :]])
    return document


def is_cause(difference: Difference, rejection: Rejection, names: list[str]) -> bool:
    """Return True if an error of the library is about what a difference says, as far as can be seen."""
    if difference.path.startswith("@"):  # the library does not always say which attribute it is
        return f":{names[-1]}=" in rejection.document
    # Without a slash a path names a type, whose elements are meant.
    words = names[-1:] if "/" in difference.path else names
    if difference.rule == "element_required":  # the library may name only what is there instead
        words = [*words, *re.findall(r"\b[a-ehst]\b", difference.message)]
    if difference.rule == "derived_type_removed":
        words = [*words, str(difference.old)]
    word = f"({'|'.join(words)})"
    # Of a group that occurs too often the library names no element.
    about = re.compile(rf"'{word}'|/{word}(\[\d+\])? |\b{word}=|occurs \d+ times")
    return any(map(about.search, rejection.errors))


def test_verdicts_are_sound_and_reasons_true(pairs: int) -> None:
    judge_pairs(judge, pairs // 8, SKIPPED)
