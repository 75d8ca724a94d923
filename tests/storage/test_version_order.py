from collections.abc import Iterator, Sequence

import pytest
from tests.storage.test_behaviour import a_row

from signalbook.storage.base import Row
from signalbook.storage.store import ReadTransaction, Store
from signalbook.xid import Xid

THING = Xid.parse("/groups/g/things/t")
# id, rank, ancestor: two lines from a, one of them ending in C, the other in e; f is alone.
VERSIONS = [("a", "1", "a"), ("b", "3", "a"), ("C", "2", "b"), ("d", "3", "a"), ("e", "4", "d"), ("f", "0 x", "f")]


@pytest.fixture
def rows(store: Store) -> dict[str, Row]:
    with store.write() as writer:
        rows = [
            a_row(key, 9, THING / "versions" / name, rank=rank, ancestorid=ancestor)
            for key, (name, rank, ancestor) in enumerate(VERSIONS, 10)
        ]
        writer.entities.insert([*rows, a_row(1, 9, THING / "notes" / "z")])
    return {row.xid.id: row for row in rows}


@pytest.fixture
def reader(store: Store, rows: dict[str, Row]) -> Iterator[ReadTransaction]:
    with store.read() as transaction:
        yield transaction


def ids(rows: Sequence[Row]) -> str:
    return "".join(row.xid.id for row in rows)


@pytest.mark.parametrize(("limit", "expected"), [(1, "e"), (3, "edb"), (9, "edbCaf")])
def test_the_newest_by_rank_then_id(reader: ReadTransaction, limit: int, expected: str) -> None:
    assert ids(reader.entities.newest(9, limit)) == expected
    assert reader.entities.newest(8, limit) == []


@pytest.mark.parametrize(
    ("limit", "above", "expected"),
    [(1, ("", ""), "e"), (9, ("", ""), "eCf"), (9, ("2", "c"), "e"), (9, ("4", "e"), "")],
)
def test_leaves_are_no_ones_ancestor_but_their_own(
    reader: ReadTransaction, limit: int, above: tuple[str, str], expected: str
) -> None:
    assert ids(reader.entities.leaves(9, limit, above=above)) == expected


@pytest.mark.parametrize(
    ("place", "expected"),
    [(("3", "b"), ("Ca", "de")), (("3", "c"), ("bC", "de")), (("", ""), ("", "fa")), (("9", "Z"), ("ed", ""))],
)
def test_neighbours_of_a_place_taken_or_not(
    reader: ReadTransaction, place: tuple[str, str], expected: tuple[str, str]
) -> None:
    assert tuple(map(ids, reader.entities.neighbours(9, *place, 2))) == expected


@pytest.mark.parametrize(("names", "expected"), [("", ""), ("a", "bd"), ("fb", "C"), ("A", "")])
def test_derived_from(reader: ReadTransaction, names: str, expected: str) -> None:
    assert ids(reader.entities.derived(9, list(names))) == expected


@pytest.mark.parametrize(("names", "expected"), [("", ""), ("a", "a"), ("abd", "bd"), ("abCdef", ""), ("Cef", "")])
def test_ancestors_of_others(reader: ReadTransaction, rows: dict[str, Row], names: str, expected: str) -> None:
    ancestors = reader.entities.ancestors([rows[name].key for name in names])
    assert ancestors == {rows[name].key for name in expected}
