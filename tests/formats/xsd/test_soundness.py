"""No two XML Schemas are called compatible that are not (G-30): random pairs, judged by the library."""

from __future__ import annotations

from collections import Counter
from random import Random
from xml.etree.ElementTree import Element, tostring

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.formats.xsd.makers import Maker, Writer, write

from signalbook.formats import SchemaError
from signalbook.formats.compatibility import SchemaText
from signalbook.formats.xsd import FORMAT, documents


def outcome(dice: Random, reader: Element, writer: Element, documents_made: int = 25) -> str:
    new, old = write(reader), write(writer)
    try:
        differences = FORMAT.differences(new, old)
        read, written = (
            documents.build("1.1", documents.gather(schema_text.document, None)).schema for schema_text in (new, old)
        )
    except SchemaError:
        return "no schema"
    spaced = SchemaText(document=old.document + b"\n", format=old.format)
    assert FORMAT.differences(spaced, old) == []
    if differences:
        return "different"
    documents_of = Writer(dice, written)
    for _ in range(documents_made):
        try:
            document = documents_of.document()
        except RecursionError:
            continue  # there is no end to what is required
        if written.is_valid(document) and not read.is_valid(document):
            return f"unsound: {tostring(document)!r}: {next(read.iter_errors(document))}"
    return "compatible"


@pytest.mark.merge
@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=examples(60))
@given(st.randoms(use_true_random=False))
def test_compatible_change_has_no_counterexample(dice: Random) -> None:
    maker = Maker(dice)
    schema = maker.schema()
    other = maker.changed(schema)
    for reader, writer in ((other, schema), (schema, other)):
        assert not outcome(dice, reader, writer).startswith("unsound")


@pytest.mark.merge
def test_enough_pairs_are_compatible() -> None:
    """The test above says something."""
    outcomes: Counter[str] = Counter()
    for seed in range(60):
        dice = Random(seed)
        maker = Maker(dice)
        schema = maker.schema()
        outcomes[outcome(dice, maker.changed(schema), schema, 5)] += 1
    assert min(outcomes["compatible"], outcomes["different"]) > 5, outcomes
