"""The kinds of violations that are reported: few, counted right, with small examples."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.pipeline.report import MOST, TOP, Violations
from signalbook.values import Finding


def finding(path: str = "/a", rule: str = "type", message: str = "no") -> Finding:
    return Finding(path=path, rule=rule, message=message)


def see(violations: Violations, *findings: Finding, definition: str = "/d", original: bytes = b"{}") -> None:
    violations.record(definition, findings, source="in.jsonl", position=7, original=original)


def test_the_first_message_is_the_example() -> None:
    """The first message of a violation is its example (K-48)."""
    violations = Violations()
    see(violations, finding(message="first"), original=b'{"a": 1}')
    see(violations, finding(message="second"))
    (only,) = violations.list_top()
    assert only.to_json() == {
        "definition": "/d",
        "path": "/a",
        "rule": "type",
        "messages": 2,
        "example": {"source": "in.jsonl", "position": 7, "message": "first", "excerpt": '{"a": 1}'},
    }


def test_places_in_arrays_are_one_path() -> None:
    violations = Violations()
    see(
        violations,
        finding("/items/0/price"),
        finding("/items/17/price"),
        finding("/items/x2/price"),
        finding("/items/3"),
    )
    expected = {("/items/*/price", 1), ("/items/x2/price", 1), ("/items/*", 1)}
    assert {(violation.path, violation.messages) for violation in violations.list_top()} == expected


def test_the_example_shows_the_place_of_the_fault() -> None:
    violations = Violations()
    event = b'{"type": "t", "id": "' + b"x" * 300 + b'", "data": {"a": 7}}'
    see(violations, finding("/a"), finding("", "required"), finding("", "no_match"), original=event)
    excerpts = {violation.rule: violation.example.excerpt for violation in violations.list_top()}
    assert '"data": {"a": 7}}' in excerpts["type"]
    assert '"data": {"a": 7}}' in excerpts["required"]
    assert '{"type": "t"' in excerpts["no_match"]


@pytest.mark.parametrize("text", ["x" * 10_000, "\ud800", "\x1b[31m", "\n" * 300])
def test_hostile_text_is_cut_and_can_be_written(text: str) -> None:
    violations = Violations()
    see(violations, finding(text, text, text), original=text.encode("utf-8", "surrogatepass") * 5)
    (only,) = violations.list_top()
    texts = (only.path, only.rule, only.example.message, only.example.excerpt)
    assert all(text_.isprintable() and len(text_) <= 200 for text_ in texts)
    assert msgspec.json.decode(msgspec.json.encode(violations), type=Violations) == violations


def test_number_of_kinds_is_bounded() -> None:
    violations = Violations()
    for number in range(5 * MOST):
        see(violations, finding("/often"), finding(f"/rare{number}"), definition=f"/d{number % 300}")
    assert len(violations.found) <= 4 * MOST
    assert violations.total == 10 * MOST
    assert len(violations.list_top()) <= MOST
    assert {violation.path for violation in violations.list_top()[:300]} == {"/often"}


def test_one_definition_does_not_fill_the_report() -> None:
    violations = Violations()
    for number in range(3 * TOP):
        see(violations, finding(f"/p{number}"))
    see(violations, finding("/q"), definition="/other")
    assert [violation.definition for violation in violations.list_top()].count("/d") == TOP
    assert [violation.definition for violation in violations.list_top()].count("/other") == 1


@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), max_size=5), max_size=6))
def test_adding_parts_counts_as_the_whole_does(parts: list[list[tuple[str, str]]]) -> None:
    whole, merged = Violations(), Violations()
    for part in parts:
        mine = Violations()
        for path, definition in part:
            see(mine, finding(path), definition=definition)
            see(whole, finding(path), definition=definition)
        merged.add(mine)
    assert merged == whole
    total = whole.total
    whole.trim()
    assert whole.total == total
