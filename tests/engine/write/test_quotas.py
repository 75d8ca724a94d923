"""How many Resources a Group may have."""

from __future__ import annotations

from typing import Any

import pytest

from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, Method
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.xid import Xid


def write(
    engine: Engine, method: Method, target: str, body: dict[str, Any] | None = None, *, admin: bool = False
) -> None:
    with engine.writing(admin=admin) as session:
        session.execute(Command(method=method, target=Xid.parse(target), body=body))


def refused(engine: Engine, target: str, body: dict[str, Any]) -> str:
    with pytest.raises(RegistryError, match="max_group_resources") as error:
        write(engine, Method.PUT, target, body)
    assert error.value.code == "bad_request"
    return str(error.value)


def test_a_group_has_no_more_resources_than_it_may(store: Store) -> None:
    engine = Engine(store, settings=Settings(max_group_resources=2))
    write(engine, Method.PUT, "/messagegroups/a", {"messages": {"one": {}, "two": {}}})
    assert '"/messagegroups/a" may have 2 Resources' in refused(engine, "/messagegroups/a/messages/three", {})
    # What is there may change, and get Versions; other Groups have a quota of their own.
    write(engine, Method.PUT, "/messagegroups/a/messages/one", {"name": "n"})
    write(engine, Method.PUT, "/messagegroups/a/messages/one/versions/2", {})
    write(engine, Method.PUT, "/messagegroups/b/messages/one", {})
    refused(engine, "/messagegroups/c", {"messages": {"one": {}, "two": {}, "three": {}}})
    with store.read() as reader:
        assert reader.entities.get(Xid.parse("/messagegroups/c")) is None
    write(engine, Method.DELETE, "/messagegroups/a/messages/two")
    write(engine, Method.PUT, "/messagegroups/a/messages/three", {})


def test_writes_that_share_a_commit_count_each_other(store: Store) -> None:
    engine = Engine(store, settings=Settings(max_group_resources=1))
    with engine.batch() as batch:
        with batch.writing() as session:
            session.execute(command("/messagegroups/a/messages/one"))
        with pytest.raises(RegistryError), batch.writing() as session:
            session.execute(command("/messagegroups/a/messages/two"))


def test_a_group_that_has_too_many_already_may_shrink(store: Store) -> None:
    settings = Settings(max_group_resources=1)
    write(Engine(store, settings=Settings()), Method.PUT, "/messagegroups/a", {"messages": {"1": {}, "2": {}, "3": {}}})
    engine = Engine(store, settings=settings)
    write(engine, Method.DELETE, "/messagegroups/a/messages/1")
    refused(engine, "/messagegroups/a/messages/4", {})
    write(engine, Method.PUT, "/messagegroups/a/messages/4", {}, admin=True)


def command(target: str) -> Command:
    return Command(method=Method.PUT, target=Xid.parse(target), body={})
