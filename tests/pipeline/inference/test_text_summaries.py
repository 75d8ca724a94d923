"""Texts are counted, their formats found, and the few of a place remembered."""

import pytest
from tests.pipeline.inference.conftest import summary

from signalbook.pipeline.inference.summaries import MOST_TEXTS, MemoryBudget, TextSummary


@pytest.mark.parametrize(
    ("texts", "formats"),
    [
        (["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5+01:00"], ["date-time"]),
        (["2026-01-02"], ["date"]),
        (["2026-13-02"], []),
        (["0a0a0a0a-1111-2222-3333-444444444444"], ["uuid"]),
        (["a.b@example.com"], ["email"]),
        (["127.0.0.1", "8.8.8.8"], ["ipv4"]),
        (["256.0.0.1"], []),
        (["https://example.com/a", "urn:a://b"], ["uri"]),
        (["https://example.com/a", ""], []),
    ],
)
def test_formats_are_those_of_all_texts(texts: list[str], formats: list[str]) -> None:
    assert summary(*texts).texts.formats == formats


def test_few_short_texts_are_kept() -> None:
    assert summary("a", "b", "a").texts.values == {"a": 2, "b": 1}
    assert summary("x" * 1000).texts.values is None
    many = summary(*(str(number) for number in range(MOST_TEXTS + 1)))
    assert (many.texts.values, many.texts.count) == (None, MOST_TEXTS + 1)
    halves = [TextSummary(count=40, values={f"{half}{n}": 1 for n in range(40)}, formats=[]) for half in "ab"]
    halves[0].merge(halves[1], MemoryBudget())
    assert halves[0].values is None
