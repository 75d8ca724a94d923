"""Names of subjects and contexts, and the ids that they are."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from signalbook.confluent import naming
from signalbook.confluent.settings import scope_of, scopes
from signalbook.xid import ID, Xid


@given(st.text(min_size=1).filter(naming.is_subject))
def test_every_name_survives_a_round_trip(name: str) -> None:
    ids = naming.list_schema_ids(name)
    assert all(ID.fullmatch(schema_id) for schema_id in ids)
    for schema_id in ids:
        xid = Xid(("schemagroups", "g", "schemas", schema_id))
        assert naming.read_subject_name(xid, {} if schema_id == name else {naming.SUBJECT: name}) == name


@given(st.text(min_size=1).filter(naming.is_subject), st.integers(0, 90))
def test_names_with_a_common_prefix_have_ids_with_it(name: str, size: int) -> None:
    beginning = naming.id_beginning(name[:size]).lower()
    assert all(schema_id.lower().startswith(beginning) for schema_id in naming.list_schema_ids(name))
    assert naming.id_beginning("Orders-v") == "Orders-v"
    assert [naming.is_made(schema_id) for schema_id in naming.list_schema_ids("a b")] == [True]


@given(st.text(), st.text())
def test_different_names_have_different_ids(first: str, other: str) -> None:
    assert (naming.list_schema_ids(first)[-1] == naming.list_schema_ids(other)[-1]) is (first == other)


def test_a_name_that_is_not_its_own_is_not_taken() -> None:
    """Anybody may write the attribute: what it says has to lead back here."""
    assert naming.read_subject_name(Xid.parse("/schemagroups/g/schemas/a"), {naming.SUBJECT: "b"}) == "a"
    assert naming.read_subject_name(Xid.parse("/schemagroups/g/schemas/a"), {naming.SUBJECT: 5}) == "a"


@pytest.mark.parametrize(
    ("text", "context", "expected"),
    [
        ("s", ".", naming.Subject(".", "s")),
        ("s", ".x", naming.Subject(".x", "s")),
        (":.y:s", ".x", naming.Subject(".y", "s")),
        (":.y:a:b", ".", naming.Subject(".y", "a:b")),
        (":.:s", ".x", naming.Subject(".", "s")),
        (":.default:s", ".", naming.Subject(".", "s")),
        (":y:s", ".", naming.Subject(".", ":y:s")),
        (":.y:", ".", naming.Subject(".y", "")),
        (":.a=b:s", ".", naming.Subject(".a=b", "s")),
        (":.::.y:s", ".", naming.Subject(".", ":.y:s")),
    ],
)
def test_names_with_contexts(text: str, context: str, expected: naming.Subject) -> None:
    assert naming.parse_subject(text, context, "default") == expected
    assert naming.parse_subject(str(expected), ".", "default") == expected


def test_contexts_are_groups() -> None:
    contexts = (".", ".dev", ".a b", ".team=eu", ".team:eu")
    assert [naming.group_id(context, "default") for context in contexts] == ["default", "dev", None, "team:eu", None]
    assert [naming.context_of(context, "default") for context in ("default", "dev", "team:eu")] == [
        ".",
        ".dev",
        ".team=eu",
    ]


GROUP_IDS = st.from_regex(ID, fullmatch=True) | st.from_regex("[ab:.]{1,3}", fullmatch=True).filter(ID.fullmatch)
NAMES = st.text(max_size=20).filter(naming.is_subject) | st.text("ab:.=", min_size=1, max_size=6)
PLACES = st.tuples(GROUP_IDS, NAMES)


@given(GROUP_IDS, NAMES, st.sampled_from(["default", "a:b", "a"]))
def test_every_subject_comes_back_from_its_text(group: str, name: str, default_group: str) -> None:
    # Ids are unique whatever their case: another group cannot have this one.
    assume(group == default_group or group.lower() != default_group.lower())
    subject = naming.Subject(naming.context_of(group, default_group), name)
    assert naming.group_id(subject.context, default_group) == group
    assert naming.parse_subject(str(subject), ".other", default_group) == (
        naming.Subject(".other", name) if str(subject) == name else subject
    )
    folded = replace(subject, context=subject.context.lower())
    assert naming.parse_subject(scope_of(subject), ".other", default_group) == folded
    assert naming.parse_context(f":{subject.context}:", default_group) == subject.context
    assert naming.parse_context(group if group[0] != "." else f".{group}", default_group) == subject.context


@given(PLACES, PLACES)
def test_subjects_of_groups_have_unique_texts_and_scopes(first: tuple[str, str], other: tuple[str, str]) -> None:
    assume("default" not in (first[0].lower(), other[0].lower()) or first[0] == other[0])
    subjects = [naming.Subject(naming.context_of(group, "default"), name) for group, name in (first, other)]
    assert (str(subjects[0]) == str(subjects[1])) is (first == other)
    same_group = first[0].lower() == other[0].lower()
    assert (scope_of(subjects[0]) == scope_of(subjects[1])) is (same_group and first[1] == other[1])
    # What is set for a whole group holds for the subjects of that group alone.
    whole = scope_of(naming.Subject(subjects[0].context, ""))
    if subjects[0].context != ".":
        assert (whole in scopes(subjects[1])) is same_group
