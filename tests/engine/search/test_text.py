import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.engine.search.text import _limit_texts, join_words, split, split_runs
from signalbook.storage.words import Text


@pytest.mark.parametrize(
    ("text", "words", "whole"),
    [
        ("order", ["order"], []),
        ("customer_id", ["customer", "id"], ["customerid"]),
        ("customerId", ["customer", "id"], ["customerid"]),
        ("CustomerID", ["customer", "id"], ["customerid"]),
        ("XMLHttpRequest2", ["xml", "http", "request2"], ["xmlhttprequest2"]),
        ("com.example.order-created", ["com", "example", "order", "created"], ["comexampleordercreated"]),
        ("/a/b", ["a", "b"], []),
        ("Größe", ["grosse"], []),
        ("顧客ID", ["顧", "客", "id"], ["顧客id"]),
        ("Привет, мир", ["привет", "мир"], []),
        ("... -- \x00", [], []),
    ],
)
def test_words_of_a_text(text: str, words: list[str], whole: list[str]) -> None:
    text_runs = list(split_runs(text))
    assert [word.word for run in text_runs for word in run.words] == words
    assert [run.joined.word for run in text_runs if run.joined] == whole


@given(st.text())
def test_places_are_in_the_text_and_words_are_plain(text: str) -> None:
    for run in split_runs(text):
        for word in run.words:
            assert 0 <= word.start < word.end <= len(text)
            assert word.word.isalnum()
            assert word.word == word.word.lower()


@given(st.text() | st.text("aB1_.- é語"))
def test_words_without_positions_are_the_same(text: str) -> None:
    text_runs = list(split_runs(text))
    whole = [run.joined.word for run in text_runs if run.joined]
    assert split(text) == ([word.word for run in text_runs for word in run.words], whole)


@pytest.mark.parametrize("name", ["customer_id", "customerId", "CUSTOMER-ID", "customer.id"])
def test_spellings_of_a_name_are_one_word(name: str) -> None:
    assert join_words(name) == "customerid"


def test_indexed_texts_are_bounded() -> None:
    longest = [Text(False, "p" * 20_000, "t" * 30_000)] * 3
    assert list(_limit_texts(longest)) == longest[:2]
    assert list(_limit_texts([*longest[:2], Text(False, "", "x")])) == longest[:2]
