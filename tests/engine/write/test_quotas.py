import base64
from typing import Any

import pytest
from tests.engine.conftest import Registry, registry_of

from signalbook.engine.write.commands import Command, Method
from signalbook.engine.write.quotas import QuotaExceeded
from signalbook.errors import RegistryError
from signalbook.storage.store import Store
from signalbook.xid import Xid


def refused(registry: Registry, target: str, body: dict[str, Any], *, setting: str = "max_group_resources") -> str:
    error = registry.refused("PUT", target, body)
    assert isinstance(error, QuotaExceeded)
    assert (error.code, setting in str(error)) == ("bad_request", True)
    return str(error)


def put_as_admin(registry: Registry, target: str, body: dict[str, Any]) -> None:
    with registry.engine.writing(admin=True) as session:
        session.execute(command(target, body))


def test_a_group_has_no_more_resources_than_it_may(store: Store) -> None:
    registry = registry_of(store, max_group_resources=2)
    registry.put("/messagegroups/a", {"messages": {"one": {}, "two": {}}})
    refusal = refused(registry, "/messagegroups/a/messages/three", {})
    assert '"/messagegroups/a" would exceed its limit of 2 Resources' in refusal
    # What is there may change, and get Versions; other Groups have a quota of their own.
    registry.put("/messagegroups/a/messages/one", {"name": "n"})
    registry.put("/messagegroups/a/messages/one/versions/2", {})
    registry.put("/messagegroups/b/messages/one", {})
    refused(registry, "/messagegroups/c", {"messages": {"one": {}, "two": {}, "three": {}}})
    with store.read() as reader:
        assert reader.entities.get(Xid.parse("/messagegroups/c")) is None
    registry.delete("/messagegroups/a/messages/two")
    registry.put("/messagegroups/a/messages/three", {})


def test_size_of_attributes_is_limited(store: Store) -> None:
    """The limit holds on all levels and for small additions too. Documents do not count, and existing attributes
    may stay.
    """
    registry = registry_of(store, max_entity_bytes=2000)
    much = {"labels": {f"l{n}": "x" * 100 for n in range(30)}}
    schema = {"format": "JsonSchema/draft-07", "schema": {"description": "x" * 10_000}}
    registry.put("/schemagroups/g/schemas/s", schema)
    for target in ("/", "/schemagroups/g", "/schemagroups/g/schemas/s", "/schemagroups/g/schemas/s/meta"):
        with pytest.raises(RegistryError, match=r"more than 2000 bytes .*max_entity_bytes"):
            registry.patch(target, much)
    few = {"l": "x" * 1500}
    registry.patch("/schemagroups/g", {"labels": few})
    with pytest.raises(RegistryError, match='"/schemagroups/g" take more'):
        registry.patch("/schemagroups/g", {"labels": {**few, "m": "y" * 600}})

    registry_of(store).put("/messagegroups/g", much)
    registry.put("/messagegroups/g/messages/m", {})
    with pytest.raises(RegistryError, match="max_entity_bytes"):
        registry.patch("/messagegroups/g", {"labels": {**much["labels"], "more": "x"}})
    registry.patch("/messagegroups/g", {"labels": {**much["labels"], "l1": ""}})


def test_writes_that_share_a_commit_count_each_other(store: Store) -> None:
    registry = registry_of(store, max_group_resources=1)
    with registry.engine.batch() as batch:
        with batch.writing() as session:
            session.execute(command("/messagegroups/a/messages/one"))
        with pytest.raises(RegistryError), batch.writing() as session:
            session.execute(command("/messagegroups/a/messages/two"))


def test_a_group_that_has_too_many_already_may_shrink(store: Store) -> None:
    registry_of(store).put("/messagegroups/a", {"messages": {"1": {}, "2": {}, "3": {}}})
    registry = registry_of(store, max_group_resources=1)
    registry.delete("/messagegroups/a/messages/1")
    refused(registry, "/messagegroups/a/messages/4", {})
    put_as_admin(registry, "/messagegroups/a/messages/4", {})


def test_versions_of_all_resources_count(store: Store) -> None:
    registry = registry_of(store, max_group_versions=3)
    registry.put("/messagegroups/a", {"messages": {"one": {}, "two": {"versions": {"1": {}, "2": {}}}}})
    words = refused(registry, "/messagegroups/a/messages/one/versions/2", {}, setting="max_group_versions")
    assert '"/messagegroups/a" would exceed its limit of 3 Versions (setting max_group_versions)' in words
    registry.put("/messagegroups/a/messages/one/versions/1", {"name": "n"})
    registry.put("/messagegroups/b/messages/one", {})
    refused(registry, "/messagegroups/c/messages/m", {"versions": {key: {} for key in "1234"}}, setting="versions")
    registry.delete("/messagegroups/a/messages/two/versions/1")
    registry.put("/messagegroups/a/messages/one/versions/2", {})
    registry.delete("/messagegroups/a/messages/two")
    registry.put("/messagegroups/a/messages/one/versions/3", {})
    refused(registry, "/messagegroups/a/messages/one/versions/4", {}, setting="max_group_versions")
    # A Group that is made again begins anew, in the same commit, too.
    with registry.engine.writing() as session:
        session.execute(Command(method=Method.DELETE, target=Xid.parse("/messagegroups/a")))
        session.execute(command("/messagegroups/a/messages/one"))
        session.execute(command("/messagegroups/a/messages/one/versions/2"))
    refused(registry, "/messagegroups/a/messages/two", {"versions": {"1": {}, "2": {}}}, setting="max_group_versions")
    put_as_admin(registry, "/messagegroups/a/messages/two", {"versions": {"1": {}, "2": {}}})


def test_document_bytes_count_against_the_quota(store: Store) -> None:
    registry = registry_of(store, max_group_bytes=100)

    def document(size: int) -> dict[str, Any]:
        return {"schemabase64": base64.b64encode(b"x" * size).decode(), "contenttype": "text/plain", "format": "X/1"}

    target = "/schemagroups/a/schemas"
    registry.put(f"{target}/one", document(60))
    # The same document is stored once, and counts for each Version that has it.
    refused(registry, f"{target}/two", document(60), setting="max_group_bytes")
    registry.put(f"{target}/two", document(40))
    refused(registry, f"{target}/two/versions/2", document(1), setting="max_group_bytes")
    registry.put(f"{target}/two/versions/2", {"format": "X/1"})
    refused(registry, f"{target}/one", document(61), setting="max_group_bytes")
    registry.put(f"{target}/one", document(59))
    registry.put(f"{target}/two/versions/2", document(1))
    with registry.engine.batch() as batch:
        with batch.writing() as session:
            session.execute(Command(method=Method.DELETE, target=Xid.parse(f"{target}/one")))
        with batch.writing() as session:
            session.execute(command(f"{target}/three", document(50)))
        with pytest.raises(QuotaExceeded), batch.writing() as session:
            session.execute(command(f"{target}/four", document(10)))
        with batch.writing() as session:
            session.execute(command(f"{target}/four", document(9)))
    refused(registry, f"{target}/five", document(1), setting="max_group_bytes")
    # Who has too much already may lose some of it.
    smaller = registry_of(store, max_group_bytes=10)
    smaller.put(f"{target}/three", document(49))
    refused(smaller, f"{target}/three", document(50), setting="max_group_bytes")


def command(target: str, body: dict[str, Any] | None = None) -> Command:
    return Command(method=Method.PUT, target=Xid.parse(target), body=body or {})
