"""In which order versions are registered."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.client.schemaversions import SchemaVersion
from signalbook.replication.confluent.ordering import Key, find_cycle, find_references, split_into_waves

A, B, C = ("a", 1), ("b", 1), ("c", 1)


@pytest.mark.parametrize(
    ("references", "waves"),
    [
        ({}, []),
        ({A: (B,), B: (C,), C: ()}, [[C], [B], [A]]),
        ({A: (("elsewhere", 1),)}, [[A]]),
        ({("a", 2): (), A: (), B: ()}, [[A, B], [("a", 2)]]),
        # Versions out of order, as one may be imported: references go first.
        ({A: (B,), B: (("a", 2),), ("a", 2): ()}, [[("a", 2)], [B], [A]]),
        ({A: (A,), B: ()}, [[B]]),
    ],
)
def test_waves(references: dict[Key, tuple[Key, ...]], waves: list[list[Key]]) -> None:
    assert list(split_into_waves(references)) == waves


def test_a_name_without_a_context_is_of_that_of_who_refers() -> None:
    body = {"references": [{"name": "x", "subject": name, "version": 1} for name in ("b", ":.y:b", ":.:b")]}
    here = SchemaVersion(subject="a", version=1, id=1, body=body)
    assert find_references(here) == (("b", 1), (":.y:b", 1), ("b", 1))
    assert find_references(replace(here, subject=":.x:a")) == ((":.x:b", 1), (":.y:b", 1), ("b", 1))


keys = st.tuples(st.sampled_from("abcdef"), st.integers(1, 3))


@given(st.dictionaries(keys, st.lists(keys, max_size=3).map(tuple)))
def test_references_are_written_before_their_referrers(references: dict[Key, tuple[Key, ...]]) -> None:
    written: set[Key] = set()
    for wave in split_into_waves(references):
        for key in wave:
            assert all(reference in written or reference not in references for reference in references[key])
        assert not written & set(wave)
        written |= set(wave)
    remaining = references.keys() - written
    for key in remaining:
        path = find_cycle(key, references, remaining)
        assert path[-1] in path[:-1]
        assert all(after in references[before] for before, after in pairwise(path))
