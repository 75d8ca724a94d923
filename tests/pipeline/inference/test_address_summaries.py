"""Templates found behind texts match all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages.uritemplates import parse_template
from signalbook.pipeline.inference.summaries import MOST_SHAPES, AddressSummary

PARTS = st.lists(st.text(st.sampled_from("ab1-.{%"), max_size=4), min_size=1, max_size=3)


def seen(*texts: str) -> AddressSummary:
    summary = AddressSummary()
    for text in texts:
        summary.take(text)
    return summary


@pytest.mark.parametrize(
    ("texts", "template"),
    [
        (["/orders"], "/orders"),
        (["/orders/1", "/orders/2"], "/orders/{order}"),
        (["https://a.example/shops/7/orders/1", "https://a.example/shops/8/orders/2"], "https://a.example/shops/{shop}/orders/{order}"),
        (["order-17", "order-18"], "order-{order}"),
        (["a/7.json", "a/18.json"], "a/{a}.json"),
        (["/x/1/2", "/x/3/4"], "/x/{x}/{x2}"),
        (["/1/a", "/2/a"], "/{value}/a"),
        (["7", "8"], None),
        (["/orders/1", "/orders/1/lines"], None),
        (["/orders/1", "/orders/"], None),
        (["a{b}", "a{b}"], None),
        (["/addresses/1", "/addresses/2"], "/addresses/{address}"),
        (["/categories/1", "/categories/2"], "/categories/{category}"),
        ([], None),
    ],
)  # fmt: skip
def test_templates(texts: list[str], template: str | None) -> None:
    assert seen(*texts).build_template(set()) == template


@given(st.lists(PARTS.map("/".join), min_size=1, max_size=6), st.integers(0, 6))
def test_template_matches_all_observed_addresses(texts: list[str], cut: int) -> None:
    halves = seen(*texts[:cut]), seen(*texts[cut:])
    halves[0].merge(halves[1])
    assert halves[0].build_template(set()) == seen(*texts).build_template(set())
    template = halves[0].build_template(set())
    if template is not None:
        assert all(parse_template(template).match(text) is not None for text in texts)


def test_placeholders_of_one_message_have_different_names() -> None:
    used_names: set[str] = set()
    addresses = seen("/orders/1", "/orders/2")
    assert [addresses.build_template(used_names), addresses.build_template(used_names)] == [
        "/orders/{order}",
        "/orders/{order2}",
    ]


def test_too_many_shapes_are_discarded() -> None:
    texts = ["/" * length for length in range(MOST_SHAPES + 2)]
    assert seen(*texts).shapes is None
    whole = AddressSummary()
    for text in texts:
        whole.merge(seen(text))
    assert whole.shapes is None
