"""A registry in an open database, as replication sees it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from signalbook.engine.commands import Command, Method
from signalbook.engine.engine import Engine
from signalbook.replication.local import LocalRegistry
from signalbook.replication.registry import Pruned
from signalbook.settings import Settings
from signalbook.storage.base import Store
from signalbook.xid import ROOT


def test_a_history_that_does_not_reach_back(store: Store) -> None:
    engine = Engine(store, settings=Settings(model="empty"))
    for name in "abc":
        with engine.writing() as session:
            session.execute(Command(method=Method.PATCH, target=ROOT, body={"name": name}))
    registry = LocalRegistry(engine, "https://r.example")
    assert len(registry.changes(0).events) == 3
    engine.forget(before=datetime.max.replace(tzinfo=UTC), upto=engine.position())
    with pytest.raises(Pruned, match="kept no longer"):
        registry.changes(0)
    assert len(registry.changes(engine.position() - 1).events) == 1
