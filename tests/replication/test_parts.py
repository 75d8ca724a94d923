"""What needs no registry: scopes, labels, reports, states, and walking side by side."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.client import BadResponse
from signalbook.replication import link
from signalbook.replication.comparing import build_difference, has_all, is_same, join_by_id
from signalbook.replication.link import Scope, is_within
from signalbook.replication.replicating import StateError, StateFile
from signalbook.replication.report import CopyOutcome, CopyReport
from signalbook.values import JSONObject
from signalbook.xid import Kind, Xid

NAMES = st.sets(st.from_regex(r"[a-z][a-z0-9]{0,3}", fullmatch=True))


@given(NAMES, NAMES)
def test_side_by_side(ours: set[str], theirs: set[str]) -> None:
    """The result contains every name once, with the values of both sides."""
    pairs = list(join_by_id([(name, name) for name in sorted(ours)], [(name, name) for name in sorted(theirs)]))
    assert [name for name, *_ in pairs] == sorted(ours | theirs)
    assert {name for name, our_value, _ in pairs if our_value is not None} == ours
    assert {name for name, _, other in pairs if other is not None} == theirs


def test_unsorted_members_are_an_error() -> None:
    """Members that seem to be missing would be deleted."""
    with pytest.raises(BadResponse, match="does not come by id"):
        list(join_by_id([("b", 1), ("a", 1)], [("a", 1)]))


def test_a_scope_with_other_names() -> None:
    """Names are mapped in both directions; an entity that already has the new name is hidden (D-2, D-14)."""
    scope = Scope.parse("/schemagroups", ["schemagroups/a=b"])
    a, b, c = (Xid.parse(f"/schemagroups/{name}/schemas/s") for name in "abc")
    assert (scope.there(a), scope.there(b), scope.there(c)) == (b, None, c)
    assert (scope.here(a), scope.here(b), scope.here(c)) == (None, a, c)
    assert scope.holds(a)
    assert not scope.holds(Xid.parse("/messagegroups/a"))
    value = ["/schemagroups/a", {"x": "/schemagroups/a/schemas/s", "y": "see /schemagroups/a", "z": "/no xid"}]
    assert scope.translate(value) == [
        "/schemagroups/b",
        {"x": "/schemagroups/b/schemas/s", "y": "see /schemagroups/a", "z": "/no xid"},
    ]


def test_the_way_a_copy_came() -> None:
    """The nearest registry is the first; other labels are kept, and invalid ones are ignored (D-8, D-11)."""
    hub = link.with_origin(link.with_origin({"labels": {"a": "b"}}, "http://one"), "http://hub")
    assert hub == {"labels": {"a": "b", "replicatedfrom": "http://hub http://one"}}
    assert link.strip_origin(hub) == {"labels": {"a": "b"}}
    assert [link.is_owned_by(hub, url) for url in ("http://one", "http://hub", "http://two")] == [True, True, False]
    assert [link.read_origins(nonsense) for nonsense in ({}, {"labels": None}, {"labels": {"replicatedfrom": 5}})] == [
        ()
    ] * 3


@pytest.mark.parametrize(
    ("uri", "authority", "expected"),
    [
        ("http://a.example", "http://a.example/", True),
        ("http://a.example/x", "http://a.example", True),
        ("http://a.example.evil/x", "http://a.example", False),
        ("urn:a:b", "urn:a", True),
        ("urn:ab", "urn:a", False),
    ],
)
def test_uris_within_an_authority(uri: str, authority: str, expected: bool) -> None:
    """D-13, A-28."""
    assert is_within(uri, authority) is expected


def test_difference_of_two_entities() -> None:
    """Times of change and labels of copies do not count; documents are replaced as a whole."""
    there: JSONObject = {"name": "n", "modifiedat": "1", "labels": {"replicatedfrom": "x"}, "schemaurl": "u", "old": 1}
    assert is_same({"name": "n", "modifiedat": "2", "schemaurl": "u", "old": 1}, there)
    expected: JSONObject = {"name": "m", "schemabase64": "b"}
    assert build_difference(expected, there, "schema") == {**expected, "labels": None, "old": None}
    assert build_difference(expected, there, "schema", partial=True) == expected
    assert has_all(there, {"name": "n", "createdat": "3"})
    assert not has_all({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}})


def test_report_lists_a_limited_number_of_refusals() -> None:
    report = CopyReport()
    assert str(report) == "nothing to copy"
    report.count(CopyOutcome.CREATED, Kind.VERSION, 2)
    report.count(CopyOutcome.UNCHANGED, Kind.GROUP)
    for number in range(1500):
        report.refuse(Xid.parse(f"/schemagroups/g{number}"), "no")
    assert str(report) == "created 2 versions; unchanged 1 group; refused 1500"
    assert (len(report.to_json()["refused"]), report.to_json()["refusedcount"], report.moved) == (1000, 1500, 2)


def test_a_state_in_a_file(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state")
    assert state.load() is None
    state.save({"position": 5})
    assert state.load() == {"position": 5}
    (tmp_path / "state").write_bytes(b"{")
    with pytest.raises(StateError, match="is no state"):
        state.load()
    with pytest.raises(StateError, match="cannot be written"):
        StateFile(tmp_path / "nowhere" / "state").save({})
