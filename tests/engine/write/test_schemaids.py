from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import FreshStore
from tests.engine.conftest import Registry, registry_of
from tests.examples import examples

from signalbook.engine.write.commands import Command, Method
from signalbook.errors import RegistryError
from signalbook.storage import confluent
from signalbook.storage.store import Store
from signalbook.xid import Xid

PATH = "/schemagroups/g/schemas/orders"
AVRO = "Avro/1.11"


@pytest.fixture
def registry(store: Store) -> Registry:
    """A registry with the default model, on either database."""
    return registry_of(store)


def avro(name: str = "a", **attributes: Any) -> Any:
    return {"format": AVRO, "schema": {"type": "record", "name": name, "fields": []}, **attributes}


def number(registry: Registry, path: str) -> int | None:
    return registry.row(path).schemaid


def test_the_same_content_has_the_same_number(registry: Registry) -> None:
    registry.put(f"{PATH}/versions/1", avro())
    registry.put(f"{PATH}/versions/2", avro("b"))
    registry.put("/schemagroups/g/schemas/returns/versions/7", avro())
    registry.put("/schemagroups/G2/schemas/orders/versions/1", avro("b"))
    numbers = [number(registry, f"{PATH}/versions/{version}") for version in (1, 2)]
    assert numbers == [1, 2]
    assert number(registry, "/schemagroups/g/schemas/returns/versions/7") == 1
    assert number(registry, "/schemagroups/G2/schemas/orders/versions/1") == 1
    assert registry.row(PATH).schemaid is None


@pytest.mark.parametrize(
    ("attributes", "same"),
    [
        ({"description": "d", "labels": {"a": "b"}}, True),
        ({"format": "Avro/1.12"}, True),
        ({"references": [{"name": "n", "subject": "s", "version": 1}]}, False),
        ({"metadata": {"properties": {"a": "b"}}}, False),
        ({"ruleset": {"domainRules": []}}, False),
    ],
    ids=str,
)
def test_content_number_depends_on_relevant_attributes(registry: Registry, attributes: Any, same: bool) -> None:
    registry.put(f"{PATH}/versions/1", avro())
    registry.put("/schemagroups/g/schemas/other/versions/1", avro() | attributes)
    assert (number(registry, "/schemagroups/g/schemas/other/versions/1") == 1) is same


def test_number_is_kept_after_deletion(registry: Registry) -> None:
    registry.put(f"{PATH}/versions/1", avro())
    registry.delete("/schemagroups/g")
    registry.put(f"{PATH}/versions/1", avro("b"))
    registry.put(f"{PATH}/versions/2", avro())
    assert [number(registry, f"{PATH}/versions/{version}") for version in (1, 2)] == [2, 1]


def test_changed_version_has_the_number_of_its_content(registry: Registry) -> None:
    registry.put(f"{PATH}/versions/1", avro())
    registry.put(f"{PATH}/versions/1", avro("b"))
    assert number(registry, f"{PATH}/versions/1") == 2
    registry.patch(f"{PATH}/versions/1", {"description": "the same"})
    assert number(registry, f"{PATH}/versions/1") == 2
    registry.put(f"{PATH}/versions/1", {"format": "Runes/1", "schema": "x"})
    assert number(registry, f"{PATH}/versions/1") is None


def test_a_version_keeps_its_number_among_several(registry: Registry) -> None:
    registry.put(f"{PATH}/versions/1", avro())
    with registry.engine.writing() as session:
        content = session.transaction.confluent.content("g", 1)
        assert content is not None
        session.transaction.confluent.claim("g", content, 7)
        session.execute(Command(method=Method.PUT, target=Xid.parse(f"{PATH}/versions/2"), body=avro()))
    registry.patch(f"{PATH}/versions/2", {"description": "the same"})
    assert [number(registry, f"{PATH}/versions/{version}") for version in (1, 2)] == [1, 7]


def test_version_without_validated_content_has_no_number(registry: Registry) -> None:
    registry.put(f"{PATH}/versions/1", {"format": AVRO, "schemaurl": "https://example.com/s"})
    registry.put("/schemagroups/g/schemas/runes/versions/1", {"format": "Runes/1", "schema": "x"})
    actual = [number(registry, path) for path in (f"{PATH}/versions/1", "/schemagroups/g/schemas/runes/versions/1")]
    assert actual == [None, None]


def test_numbers_of_undone_writes_are_reused(registry: Registry) -> None:
    with registry.engine.trying() as batch, batch.writing() as session:
        assert session.transaction.confluent.give("g", ["x"]) == {"x": 1}
    body = {"schemas": {f"s{n:02}": {"versions": {"1": avro(f"r{n}")}} for n in range(20)}}
    registry.put("/schemagroups/g", body)
    assert [number(registry, f"/schemagroups/g/schemas/s{n:02}/versions/1") for n in range(20)] == list(range(1, 21))


NAMES = st.sampled_from("abc")
WRITE = st.tuples(st.sampled_from(["put", "delete", "group"]), NAMES, st.integers(1, 3), NAMES)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(WRITE, max_size=25))
def test_numbers_of_random_writes(fresh_store: FreshStore, writes: list[tuple[str, str, int, str]]) -> None:
    """Against a model: a content that was met first has the next number, and keeps it."""
    with fresh_store() as store:
        registry = registry_of(store)
        model: dict[str, int] = {}
        there: dict[str, str] = {}
        for kind, schema, version, name in writes:
            path = f"/schemagroups/g/schemas/{schema}/versions/{version}"
            if kind == "put":
                registry.put(path, avro(name))
                model.setdefault(name, len(model) + 1)
                there[path] = name
            elif kind == "group" and there:
                registry.delete("/schemagroups/g")
                there.clear()
            elif kind == "delete" and path in there:
                registry.delete(path)
                del there[path]
            expected = {path: model[name] for path, name in there.items()}
            assert {path: number(registry, path) for path in there} == expected


def test_a_group_without_free_numbers_is_an_error(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent, "MOST", 1)
    registry.put(f"{PATH}/versions/1", avro())
    with pytest.raises(RegistryError, match="all 1 schema ids of the group g are used") as caught:
        registry.put(f"{PATH}/versions/2", avro("b"))
    assert (caught.value.status, caught.value.subject) == (400, "/schemagroups/g")
