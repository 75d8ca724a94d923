"""The store as one identity sees it: what that costs."""

from typing import Any

import pytest

from signalbook.access.base import ANONYMOUS
from signalbook.access.decisions import Access
from signalbook.access.policy import read_policy
from signalbook.engine.engine import Engine
from signalbook.engine.read.filters import parse_filter
from signalbook.engine.read.pages import PageRequest
from signalbook.engine.read.view import ViewOptions
from signalbook.engine.write.commands import Command, Method
from signalbook.settings import Settings
from signalbook.storage import base
from signalbook.storage.schema import load
from signalbook.storage.store import Store
from signalbook.xid import ROOT, Xid

GROUPS = 300


def access(*patterns: str) -> Access:
    return read_policy({"rules": [{"who": ["anyone"], "role": "reader", "on": list(patterns)}]}).access(ANONYMOUS)


@pytest.fixture
def engine(store: Store) -> Engine:
    engine = Engine(store, settings=Settings())
    groups = {f"g{number:03}": {"description": "x" * 100} for number in range(GROUPS)}
    with engine.writing() as session:
        session.execute(Command(method=Method.POST, target=ROOT, body={"schemagroups": groups}))
    return engine


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gains one member for each decoded row."""
    rows: list[int] = []

    def counting(record: tuple[Any, ...]) -> base.Row:
        rows.append(1)
        return load(record)

    monkeypatch.setattr("signalbook.storage.entities.load", counting)
    return rows


@pytest.mark.parametrize(
    ("patterns", "count"), [(["/schemagroups/g00*"], 10), (["/schemagroups/g001", "/schemagroups/g299"], 2)]
)
def test_counting_does_not_read_the_counted_rows(
    engine: Engine, decoded: list[int], patterns: list[str], count: int
) -> None:
    with engine.reading(access(*patterns)) as view:
        decoded.clear()
        assert view.render_entity(ROOT, ViewOptions())["schemagroupscount"] == count
    assert len(decoded) <= 5


def test_a_page_reads_few_rows_more_than_it_shows(engine: Engine, decoded: list[int]) -> None:
    with engine.reading(access("/schemagroups/g1*")) as view:
        decoded.clear()
        page = view.list_members(Xid.parse("/schemagroups"), ViewOptions(), PageRequest(limit=10, after=None))
        assert [node.xid.id for node in page.members] == [f"g{number}" for number in range(100, 110)]
    assert len(decoded) <= 210


def test_a_filter_decides_once_for_all_versions_of_a_resource(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {
        f"v{number}": {"name": "x", "format": "JsonSchema/draft-07", "schemaurl": "https://s.example/x"}
        for number in range(20)
    }
    schemas = {name: {"versions": versions} for name in ("a", "b", "hidden")}
    group = Xid.parse("/schemagroups/g001")
    with engine.writing() as session:
        session.execute(Command(method=Method.PATCH, target=group, body={"schemas": schemas}))
    decided: list[Xid] = []

    def counting(self: Access, xid: Xid) -> bool:
        decided.append(xid)
        return readable(self, xid)

    readable = Access.is_readable
    with engine.reading(access("/schemagroups/*/schemas/a*", "/schemagroups/*/schemas/b")) as view:
        options = ViewOptions(filter=parse_filter(["versions.name=x"], group / "schemas", view.model, subject=""))
        monkeypatch.setattr(Access, "is_readable", counting)
        listed = view.list_members(group / "schemas", options, PageRequest(limit=10))
        assert [node.xid.id for node in listed.members] == ["a", "b"]
    assert len(decided) < 20
