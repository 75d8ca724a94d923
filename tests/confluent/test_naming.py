"""Names of subjects and contexts, and the ids that they are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from signalbook.confluent.naming import (
    SUBJECT,
    Subject,
    context_of,
    group_id,
    id_beginning,
    is_made,
    is_subject,
    parse_context,
    parse_subject,
    schema_ids,
    subject_name,
)
from signalbook.confluent.settings import scope_of, scopes
from signalbook.xid import ID, Xid


@given(st.text(min_size=1).filter(is_subject))
def test_every_name_has_an_id_and_comes_back(name: str) -> None:
    ids = schema_ids(name)
    assert all(ID.fullmatch(each) for each in ids)
    for each in ids:
        xid = Xid(("schemagroups", "g", "schemas", each))
        assert subject_name(xid, {} if each == name else {SUBJECT: name}) == name


@given(st.text(min_size=1).filter(is_subject), st.integers(0, 90))
def test_names_that_begin_alike_have_ids_that_do(name: str, size: int) -> None:
    beginning = id_beginning(name[:size]).lower()
    assert all(each.lower().startswith(beginning) for each in schema_ids(name))
    assert id_beginning("Orders-v") == "Orders-v"
    assert [is_made(each) for each in schema_ids("a b")] == [True]


@given(st.text(), st.text())
def test_two_names_never_have_the_same_made_id(one: str, other: str) -> None:
    assert (schema_ids(one)[-1] == schema_ids(other)[-1]) is (one == other)


def test_a_name_that_is_not_its_own_is_not_taken() -> None:
    """Anybody may write the attribute: what it says has to lead back here."""
    assert subject_name(Xid.parse("/schemagroups/g/schemas/a"), {SUBJECT: "b"}) == "a"
    assert subject_name(Xid.parse("/schemagroups/g/schemas/a"), {SUBJECT: 5}) == "a"


@pytest.mark.parametrize(
    ("text", "context", "expected"),
    [
        ("s", ".", Subject(".", "s")),
        ("s", ".x", Subject(".x", "s")),
        (":.y:s", ".x", Subject(".y", "s")),
        (":.y:a:b", ".", Subject(".y", "a:b")),
        (":.:s", ".x", Subject(".", "s")),
        (":.default:s", ".", Subject(".", "s")),
        (":y:s", ".", Subject(".", ":y:s")),
        (":.y:", ".", Subject(".y", "")),
        (":.a=b:s", ".", Subject(".a=b", "s")),
        (":.::.y:s", ".", Subject(".", ":.y:s")),
    ],
)
def test_names_with_contexts(text: str, context: str, expected: Subject) -> None:
    assert parse_subject(text, context, "default") == expected
    assert parse_subject(str(expected), ".", "default") == expected


def test_contexts_are_groups() -> None:
    contexts = (".", ".dev", ".a b", ".team=eu", ".team:eu")
    assert [group_id(each, "default") for each in contexts] == ["default", "dev", None, "team:eu", None]
    assert [context_of(each, "default") for each in ("default", "dev", "team:eu")] == [".", ".dev", ".team=eu"]


GROUP_IDS = st.from_regex(ID, fullmatch=True) | st.from_regex("[ab:.]{1,3}", fullmatch=True).filter(ID.fullmatch)
NAMES = st.text(max_size=20).filter(is_subject) | st.text("ab:.=", min_size=1, max_size=6)
PLACES = st.tuples(GROUP_IDS, NAMES)


@given(GROUP_IDS, NAMES, st.sampled_from(["default", "a:b", "a"]))
def test_every_subject_comes_back_from_its_text(group: str, name: str, default_group: str) -> None:
    # Ids are unique whatever their case: another group cannot have this one.
    assume(group == default_group or group.lower() != default_group.lower())
    subject = Subject(context_of(group, default_group), name)
    assert group_id(subject.context, default_group) == group
    assert parse_subject(str(subject), ".other", default_group) == (
        Subject(".other", name) if str(subject) == name else subject
    )
    folded = replace(subject, context=subject.context.lower())
    assert parse_subject(scope_of(subject), ".other", default_group) == folded
    assert parse_context(f":{subject.context}:", default_group) == subject.context
    assert parse_context(group if group[0] != "." else f".{group}", default_group) == subject.context


@given(PLACES, PLACES)
def test_no_two_subjects_of_groups_share_a_text_or_a_scope(one: tuple[str, str], other: tuple[str, str]) -> None:
    assume("default" not in (one[0].lower(), other[0].lower()) or one[0] == other[0])
    subjects = [Subject(context_of(group, "default"), name) for group, name in (one, other)]
    assert (str(subjects[0]) == str(subjects[1])) is (one == other)
    same_group = one[0].lower() == other[0].lower()
    assert (scope_of(subjects[0]) == scope_of(subjects[1])) is (same_group and one[1] == other[1])
    # What is set for a whole group holds for the subjects of that group alone.
    whole = scope_of(Subject(subjects[0].context, ""))
    if subjects[0].context != ".":
        assert (whole in scopes(subjects[1])) is same_group
