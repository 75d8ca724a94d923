"""Registries in databases of this process, on each kind: as sources and as targets."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from signalbook.client.registry import Refusal
from signalbook.engine.engine import Engine, prune
from signalbook.replication import comparing
from signalbook.replication.comparing import Types
from signalbook.replication.copying import Copy, of_events
from signalbook.replication.link import Link
from signalbook.replication.local import LocalRegistry
from signalbook.replication.opening import extend_model
from signalbook.replication.replicating import Replication, StateInMemory
from signalbook.replication.report import CopyReport
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.storage.store import Store
from signalbook.values import now
from signalbook.xid import ROOT, Xid

from .servers import plain, version

ONE, TWO = "http://one.example", "http://two.example"
GROUPS = ROOT / "schemagroups"


@pytest.fixture
def source() -> Iterator[LocalRegistry]:
    """A registry with two groups, one with many schemas."""
    with closing(open_store("sqlite://")) as store:
        registry = LocalRegistry(Engine(store, settings=Settings()), f"{ONE}/")
        many = {f"s{n}": {"versions": {"1": version(), "2": version(ancestorid="1")}} for n in range(450)}
        registry.patch(GROUPS, {"many": {"schemas": many}, "few": {"schemas": {"t": {"versions": {"1": version()}}}}})
        yield registry


@pytest.fixture
def target(store: Store) -> LocalRegistry:
    return LocalRegistry(Engine(store, settings=Settings()), TWO)


def content(registry: LocalRegistry) -> Any:
    return {name: plain(registry.find(GROUPS / name, deep=True)) for name, _ in registry.members(GROUPS, deep=False)}


def copied(source: LocalRegistry, target: LocalRegistry, events: list[dict[str, Any]] | None = None) -> CopyReport:
    report = CopyReport()
    copy = Copy(source, target, Link(source=ONE, target=TWO, bases=source.bases()), report)
    if events is None:
        copy.everything()
    else:
        copy.changed(of_events(events))
    return report


def test_a_database_is_copied_and_followed(source: LocalRegistry, target: LocalRegistry) -> None:
    """The copy is made page by page, and then by the changes (D-15)."""
    assert (copied(source, target).refused, content(target)) == ([], content(source))
    begin = source.position()
    source.patch(
        GROUPS / "many", {"name": "Many", "schemas": {f"s{n}": {"versions": {"3": version()}} for n in range(90)}}
    )
    source.delete(GROUPS / "many" / "schemas", [f"s{n}" for n in range(300, 450)])
    source.delete(GROUPS, ["few"])
    changes = source.changes(begin)
    assert not changes.more
    assert copied(source, target, list(changes.events)).refused == []
    assert content(target) == content(source)
    target.wait(target.position(), 0.01)


@pytest.mark.merge
def test_resources_too_large_to_be_held(
    source: LocalRegistry, target: LocalRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their versions are walked a page at a time, on both sides; only those that changed when these are known."""
    for registry in (source, target):
        monkeypatch.setattr(registry, "max_bytes", 20_000)
    schema = GROUPS / "few" / "schemas" / "t"
    chain = {str(n): version(ancestorid=str(n - 1), createdat=f"2026-01-01T00:00:{n % 60:02}Z") for n in range(2, 130)}
    source.patch(schema, {"versions": chain})
    types = Types(source.model())
    assert dict(comparing.read_resources(source, schema.parent, types))["t"].versions is None
    assert copied(source, target).refused == []
    begin = source.position()
    source.delete(schema / "versions", ["7"])
    source.patch(schema, {"versions": {"x": version(), "8": {"description": "eight"}}})
    assert copied(source, target, list(source.changes(begin).events)).refused == []
    monkeypatch.undo()
    assert content(target) == content(source)


def test_model_is_extended_by_missing_types(target: LocalRegistry) -> None:
    """Types of groups and of resources; none that is there is touched."""
    kind = {"singular": "note", "hasdocument": False}
    other = {"groups": {"books": {"singular": "book", "resources": {"notes": kind}}}}
    extended_model = extend_model(target.modelsource(), other)
    assert extended_model is not None
    target.replace_model(extended_model)
    assert {"books", "schemagroups"} <= target.model()["groups"].keys()
    assert extend_model(target.modelsource(), other) is None
    more = {"groups": {"books": {"singular": "book", "resources": {"pages": {**kind, "singular": "page"}}}}}
    both = extend_model(target.modelsource(), more)
    assert both is not None
    assert both["groups"]["books"]["resources"].keys() == {"notes", "pages"}
    with pytest.raises(Refusal):
        target.replace_model({"groups": {"x": 5}})


def test_missing_entity_is_not_found(target: LocalRegistry) -> None:
    xid = Xid.parse("/schemagroups/g/schemas/s")
    assert target.find(xid, deep=True) is None
    assert list(target.members(xid / "versions", deep=False)) == []
    with pytest.raises(Refusal):
        target.patch(xid, {"unknown": {"versions": {}}})


def test_everything_is_compared_if_events_are_pruned(target: LocalRegistry) -> None:
    """The pruned events are lost: everything is compared, and nothing is missed."""
    with closing(open_store("sqlite://")) as store:
        registry = LocalRegistry(Engine(store, settings=Settings()), "http://forgets.example")
        registry.patch(GROUPS, {"g": {"schemas": {name: {"versions": {"1": version()}} for name in ("a", "b")}}})
        way = Link(source=registry.url, target=TWO)
        work = Replication(registry, partial(Copy, registry, target, way, CopyReport()), way, StateInMemory())
        while work.advance():
            pass
        registry.patch(GROUPS / "g" / "schemas", {"c": {"versions": {"1": version()}}})
        registry.delete(GROUPS / "g" / "schemas", ["a"])
        registry.patch(GROUPS, {"g": {"name": "last"}})
        prune(store, before=now() + timedelta(days=1), upto=registry.position())
        while work.advance():
            pass
        assert content(target) == content(registry)
        assert list(content(target)["g"]["schemas"]) == ["b", "c"]
