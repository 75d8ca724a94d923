from typing import Any

import pytest
from tests.storage.test_behaviour import GROUP, plant, plant_things

from signalbook.storage.base import Condition, Selection
from signalbook.storage.store import Store
from signalbook.xid import ROOT, Xid

THING = GROUP / "things"


@pytest.fixture
def things_key(store: Store) -> int:
    """``t`` with the Versions 1 and B, ``u`` with 1, ``v`` a reference to ``t``, ``w`` to nothing; the Group's key."""
    with store.write() as writer:
        (t,) = plant_things(writer, ["t"], defaultversionid="B", attributes={"meta": "100%_!"})
        group = writer.entities.get(GROUP)
        (u,) = plant(writer, group, [THING / "u"], defaultversionid="1")
        plant(writer, group, [THING / "v"], xref=THING / "t")
        plant(writer, group, [THING / "w"], xref=THING / "none")
        plant(writer, t, [THING / "t" / "versions" / "1"], attributes={"name": "One"})
        plant(writer, t, [THING / "t" / "versions" / "B"], attributes={"name": "Stra\u00dfe"})
        plant(writer, u, [THING / "u" / "versions" / "1"], attributes={"name": "\u00e4"})
        return t.parent


def chosen(store: Store, parent: int, *alternatives: tuple[Condition, ...], **more: Any) -> list[str]:
    """The folded ids of each way to a Version."""
    alternatives = alternatives or ((),)
    selection = Selection(parent=parent, types=("things", "versions"), resource=0, alternatives=alternatives, **more)
    with store.read() as reader:
        return ["/".join(hit.folded for hit in way) for way in reader.entities.select(selection)]


def contains(*values: str, step: int = 1, part: Any = "own") -> Condition:
    return Condition(step=step, part=part, column="attributes", relation="contains", values=values)


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        ((), ["t/1", "t/b", "u/1", "v/1", "v/b"]),
        ((contains('"name":"oNE'),), ["t/1", "t/b", "v/1", "v/b"]),
        ((contains('"name":"', "nothing"),), ["t/1", "t/b", "u/1", "v/1", "v/b"]),
        ((contains("strasse"),), ["t/b", "v/b"]),
        ((contains("%"),), ["t/b", "v/b"]),
        ((contains("100%_!", step=0),), ["t/1", "t/b"]),
        ((contains("100%_!", step=0, part="shown"),), ["t/1", "t/b", "v/1", "v/b"]),
        ((contains("\u00e4", step=0, part="default"),), ["t/1", "t/b", "u/1", "v/1", "v/b"]),
        ((Condition(step=1, part="own", column="folded", relation=">", values=("1",)),), ["t/b", "v/b"]),
        (
            (Condition(step=0, part="default", column="folded", relation="=", values=("b",)),),
            ["t/1", "t/b", "v/1", "v/b"],
        ),
        ((Condition(step=0, part="shown", column="epoch", relation=">=", values=(2,)),), []),
    ],
)
def test_ways(store: Store, things_key: int, tests: tuple[Condition, ...], expected: list[str]) -> None:
    """Rows are in the order of their ids, and references are followed; a text with a sharp s matches everything."""
    assert chosen(store, things_key, tests) == expected


def test_alternatives(store: Store, things_key: int) -> None:
    thing = Condition(step=0, part="own", column="folded", relation="=", values=("u",))
    version = Condition(step=1, part="own", column="folded", relation="=", values=("b",))
    assert chosen(store, things_key, (thing,), (version,)) == ["t/b", "u/1", "v/b"]


def test_selection_can_start_after_an_id(store: Store, things_key: int) -> None:
    assert chosen(store, things_key, after="t") == ["u/1", "v/1", "v/b"]


def test_only_selected_rows_are_read(store: Store, things_key: int) -> None:
    selection = Selection(parent=things_key, types=("things",), resource=0, rows=frozenset({0}))
    with store.read() as reader:
        hits_by_id = {hit.folded: hit for (hit,) in reader.entities.select(selection)}
        (bare,) = next(iter(reader.entities.select(Selection(parent=things_key, types=("things",)))))
    reference, dangling = hits_by_id["v"], hits_by_id["w"]
    assert reference.row is not None
    assert reference.target == hits_by_id["t"].row
    assert reference.default is not None
    assert (reference.row.xid, reference.default.xid.id) == (THING / "v", "B")
    assert (reference.xref, bare.xref) == (reference.row.xref, None)
    assert (dangling.target, dangling.default, dangling.attribute("default", "name")) == (None, None, None)
    assert reference.attribute("default", "name") == "Stra\u00dfe"
    assert (bare.row, bare.default, bare.attribute("own", "name")) == (None, None, None)


def test_rows_by_key(store: Store, things_key: int) -> None:
    with store.read() as reader:
        keys = [row.key for row in reader.entities.children([things_key])]
        assert [row.xid.id for row in reader.entities.by_key([*reversed(keys), 10**9])] == ["t", "u", "v", "w"]
        assert list(reader.entities.by_key([])) == []
        assert reader.entities.get(ROOT) is not None


def test_references_to_references_are_not_followed(store: Store, things_key: int) -> None:
    with store.write() as writer:
        plant(writer, writer.entities.get(Xid.parse("/groups/g")), [THING / "x"], xref=THING / "v")
    assert chosen(store, things_key)[-1] == "v/b"
