from __future__ import annotations

import base64
from typing import Any

import pytest

from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, Method
from signalbook.engine.write.quotas import QuotaExceeded
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.xid import Xid


def write(
    engine: Engine, method: Method, target: str, body: dict[str, Any] | None = None, *, admin: bool = False
) -> None:
    with engine.writing(admin=admin) as session:
        session.execute(Command(method=method, target=Xid.parse(target), body=body))


def refused(engine: Engine, target: str, body: dict[str, Any], *, setting: str = "max_group_resources") -> str:
    with pytest.raises(QuotaExceeded, match=setting) as error:
        write(engine, Method.PUT, target, body)
    assert error.value.code == "bad_request"
    return str(error.value)


def test_a_group_has_no_more_resources_than_it_may(store: Store) -> None:
    engine = Engine(store, settings=Settings(max_group_resources=2))
    write(engine, Method.PUT, "/messagegroups/a", {"messages": {"one": {}, "two": {}}})
    refusal = refused(engine, "/messagegroups/a/messages/three", {})
    assert '"/messagegroups/a" would exceed its limit of 2 Resources' in refusal
    # What is there may change, and get Versions; other Groups have a quota of their own.
    write(engine, Method.PUT, "/messagegroups/a/messages/one", {"name": "n"})
    write(engine, Method.PUT, "/messagegroups/a/messages/one/versions/2", {})
    write(engine, Method.PUT, "/messagegroups/b/messages/one", {})
    refused(engine, "/messagegroups/c", {"messages": {"one": {}, "two": {}, "three": {}}})
    with store.read() as reader:
        assert reader.entities.get(Xid.parse("/messagegroups/c")) is None
    write(engine, Method.DELETE, "/messagegroups/a/messages/two")
    write(engine, Method.PUT, "/messagegroups/a/messages/three", {})


def test_size_of_attributes_is_limited(store: Store) -> None:
    """The limit holds on all levels and for small additions too. Documents do not count, and existing attributes
    may stay.
    """
    settings = Settings(max_entity_bytes=2000)
    engine = Engine(store, settings=settings)
    much = {"labels": {f"l{n}": "x" * 100 for n in range(30)}}
    schema = {"format": "JsonSchema/draft-07", "schema": {"description": "x" * 10_000}}
    write(engine, Method.PUT, "/schemagroups/g/schemas/s", schema)
    for target in ("/", "/schemagroups/g", "/schemagroups/g/schemas/s", "/schemagroups/g/schemas/s/meta"):
        with pytest.raises(RegistryError, match=r"more than 2000 bytes .*max_entity_bytes"):
            write(engine, Method.PATCH, target, much)
    few = {"l": "x" * 1500}
    write(engine, Method.PATCH, "/schemagroups/g", {"labels": few})
    with pytest.raises(RegistryError, match='"/schemagroups/g" take more'):
        write(engine, Method.PATCH, "/schemagroups/g", {"labels": {**few, "m": "y" * 600}})

    write(Engine(store, settings=Settings()), Method.PUT, "/messagegroups/g", much)
    write(engine, Method.PUT, "/messagegroups/g/messages/m", {})
    with pytest.raises(RegistryError, match="max_entity_bytes"):
        write(engine, Method.PATCH, "/messagegroups/g", {"labels": {**much["labels"], "more": "x"}})
    write(engine, Method.PATCH, "/messagegroups/g", {"labels": {**much["labels"], "l1": ""}})


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


def test_versions_of_all_resources_count(store: Store) -> None:
    engine = Engine(store, settings=Settings(max_group_versions=3))
    write(engine, Method.PUT, "/messagegroups/a", {"messages": {"one": {}, "two": {"versions": {"1": {}, "2": {}}}}})
    words = refused(engine, "/messagegroups/a/messages/one/versions/2", {}, setting="max_group_versions")
    assert '"/messagegroups/a" would exceed its limit of 3 Versions (setting max_group_versions)' in words
    write(engine, Method.PUT, "/messagegroups/a/messages/one/versions/1", {"name": "n"})
    write(engine, Method.PUT, "/messagegroups/b/messages/one", {})
    refused(engine, "/messagegroups/c/messages/m", {"versions": {key: {} for key in "1234"}}, setting="versions")
    write(engine, Method.DELETE, "/messagegroups/a/messages/two/versions/1")
    write(engine, Method.PUT, "/messagegroups/a/messages/one/versions/2", {})
    write(engine, Method.DELETE, "/messagegroups/a/messages/two")
    write(engine, Method.PUT, "/messagegroups/a/messages/one/versions/3", {})
    refused(engine, "/messagegroups/a/messages/one/versions/4", {}, setting="max_group_versions")
    # A Group that is made again begins anew, in the same commit, too.
    with engine.writing() as session:
        session.execute(Command(method=Method.DELETE, target=Xid.parse("/messagegroups/a")))
        session.execute(command("/messagegroups/a/messages/one"))
        session.execute(command("/messagegroups/a/messages/one/versions/2"))
    refused(engine, "/messagegroups/a/messages/two", {"versions": {"1": {}, "2": {}}}, setting="max_group_versions")
    write(engine, Method.PUT, "/messagegroups/a/messages/two", {"versions": {"1": {}, "2": {}}}, admin=True)


def test_document_bytes_count_against_the_quota(store: Store) -> None:
    engine = Engine(store, settings=Settings(max_group_bytes=100))

    def document(size: int) -> dict[str, Any]:
        return {"schemabase64": base64.b64encode(b"x" * size).decode(), "contenttype": "text/plain", "format": "X/1"}

    target = "/schemagroups/a/schemas"
    write(engine, Method.PUT, f"{target}/one", document(60))
    # The same document is stored once, and counts for each Version that has it.
    refused(engine, f"{target}/two", document(60), setting="max_group_bytes")
    write(engine, Method.PUT, f"{target}/two", document(40))
    refused(engine, f"{target}/two/versions/2", document(1), setting="max_group_bytes")
    write(engine, Method.PUT, f"{target}/two/versions/2", {"format": "X/1"})
    refused(engine, f"{target}/one", document(61), setting="max_group_bytes")
    write(engine, Method.PUT, f"{target}/one", document(59))
    write(engine, Method.PUT, f"{target}/two/versions/2", document(1))
    with engine.batch() as batch:
        with batch.writing() as session:
            session.execute(Command(method=Method.DELETE, target=Xid.parse(f"{target}/one")))
        with batch.writing() as session:
            session.execute(command(f"{target}/three", document(50)))
        with pytest.raises(QuotaExceeded), batch.writing() as session:
            session.execute(command(f"{target}/four", document(10)))
        with batch.writing() as session:
            session.execute(command(f"{target}/four", document(9)))
    refused(engine, f"{target}/five", document(1), setting="max_group_bytes")
    # Who has too much already may lose some of it.
    smaller = Engine(store, settings=Settings(max_group_bytes=10))
    write(smaller, Method.PUT, f"{target}/three", document(49))
    refused(smaller, f"{target}/three", document(50), setting="max_group_bytes")


def command(target: str, body: dict[str, Any] | None = None) -> Command:
    return Command(method=Method.PUT, target=Xid.parse(target), body=body or {})
