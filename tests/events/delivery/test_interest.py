from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.events.delivery.interest import EventKey, Interest, InterestIndex, interest
from signalbook.events.subscription import Subscription


def wanted(*filters: Any, types: tuple[str, ...] = ()) -> Interest:
    return interest(Subscription(id="s", protocol="HTTP", sink="https://e.example", filters=filters, types=types))


SUBJECT = EventKey("subject", True, "/a/b")
PREFIX = EventKey("subject", False, "/a/")
TYPE = EventKey("type", True, "t1")


@pytest.mark.parametrize(
    ("filters", "types", "keys"),
    [
        ((), (), None),
        ((), ("t1",), {TYPE}),
        (({"exact": {"subject": "/a/b"}},), (), {SUBJECT}),
        (({"prefix": {"subject": "/a/"}},), (), {PREFIX}),
        (({"prefix": {"subject": "/a/"}}, {"exact": {"type": "t1"}}), (), {PREFIX}),
        (({"prefix": {"subject": "/a/"}}, {"exact": {"subject": "/a/b"}}), ("t1",), {SUBJECT}),
        (({"exact": {"subject": "/a/b", "type": "t1"}},), (), {SUBJECT}),
        (({"all": [{"suffix": {"subject": "b"}}, {"prefix": {"subject": "/a/"}}]},), (), {PREFIX}),
        (({"any": [{"exact": {"subject": "/a/b"}}, {"exact": {"type": "t1"}}]},), (), {SUBJECT, TYPE}),
        (({"any": [{"exact": {"subject": "/a/b"}}, {"suffix": {"type": "t1"}}]},), (), None),
        (({"not": {"exact": {"subject": "/a/b"}}},), (), None),
        (({"sql": "subject = '/a/b'"},), (), None),
        (({"suffix": {"subject": "b"}},), (), None),
        (({"exact": {"xregcorrelationid": "x"}},), (), None),
    ],
)
def test_keys(filters: tuple[Any, ...], types: tuple[str, ...], keys: set[EventKey] | None) -> None:
    """The keys are the narrowest that every wanted event has (D-28, D-29)."""
    assert wanted(*filters, types=types).keys == keys


PARTS = st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/b", "t1", "t2"])
ATTRIBUTES = st.sampled_from(["subject", "type", "source"])
COMPARISONS = st.builds(
    lambda dialect, pairs: {dialect: pairs},
    st.sampled_from(["exact", "prefix", "suffix"]),
    st.dictionaries(ATTRIBUTES, PARTS, min_size=1),
)
FILTERS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds(lambda members: {"all": members}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda members: {"any": members}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda member: {"not": member}, inner),
    ),
    max_leaves=5,
)
INTERESTS = st.builds(
    lambda filters, types: wanted(*filters, types=tuple(types)),
    st.lists(FILTERS, max_size=3),
    st.lists(PARTS, max_size=2),
)
EVENTS = st.fixed_dictionaries({"subject": PARTS, "type": PARTS, "source": PARTS})


@given(st.lists(INTERESTS, max_size=8), st.lists(EVENTS, min_size=1, max_size=5), st.data())
def test_candidates_include_all_interested(
    interests: list[Interest], events: list[dict[str, str]], data: st.DataObject
) -> None:
    """The candidates for an event include everybody who wants it, before and after removals."""
    index: InterestIndex[int] = InterestIndex()
    for number, wish in enumerate(interests):
        index.add(number, wish.keys)
    gone = data.draw(st.sets(st.sampled_from(range(len(interests)))) if interests else st.just(set()))
    for number in gone:
        index.remove(number, interests[number].keys)
    for event in events:
        candidates = list(index.candidates(event))
        wants = {number for number, wish in enumerate(interests) if number not in gone and wish.wants(event)}
        assert wants <= set(candidates)
        assert len(candidates) == len(set(candidates))
        assert not gone & set(candidates)


def test_uninterested_subscribers_are_not_candidates() -> None:
    index: InterestIndex[int] = InterestIndex()
    for number in range(1000):
        index.add(number, wanted({"prefix": {"subject": f"/dirs/d{number:04}/"}}).keys)
    assert list(index.candidates({"subject": "/dirs/d0042/files/x", "type": "t"})) == [42]
