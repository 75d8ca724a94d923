"""A registry that says what a folder says."""

from __future__ import annotations

import pytest

from signalbook.documents import DocumentError
from signalbook.engine.write.commands import Command, ConfigCommand, Method
from signalbook.errors import RegistryError
from signalbook.xid import Xid

from .conftest import Catalogue

SCHEMA = {"format": "JsonSchema/draft-07", "versions": {"1": {"format": "JsonSchema/draft-07", "schema": {"a": 1}}}}
BOOK = {"schemagroups": {"g": {"description": "d", "labels": {"a": "b"}, "schemas": {"s": SCHEMA}}}}


def test_what_is_in_the_folder_is_in_the_registry(catalogue: Catalogue) -> None:
    catalogue.write("a.xreg.json", BOOK)
    catalogue.write("deep/b.xreg.yaml", "{name: book, messagegroups: {m: {}}}")
    catalogue.watch.load()
    assert catalogue.get("/schemagroups/g/schemas/s")["versionscount"] == 1
    assert catalogue.has("/messagegroups/m")
    assert catalogue.get()["name"] == "book"


def test_what_is_no_more_in_the_folder_goes(catalogue: Catalogue) -> None:
    catalogue.write("a.xreg.json", {**BOOK, "name": "book"})
    catalogue.write("b.xreg.json", {"xid": "/schemagroups/g/schemas/t", **SCHEMA})
    catalogue.watch.load()
    (catalogue.path / "b.xreg.json").unlink()
    catalogue.write("a.xreg.json", {"schemagroups": {"g": {"schemas": {"s": SCHEMA}}}, "messagegroups": {"m": {}}})
    catalogue.watch.load()
    group = catalogue.get("/schemagroups/g")
    assert "description" not in group
    assert "labels" not in group
    assert group["schemas"].keys() == {"s"}
    assert "name" not in catalogue.get()
    catalogue.write("a.xreg.json", {"messagegroups": {"m": {}}})
    catalogue.watch.load()
    assert not catalogue.has("/schemagroups/g")


def test_versions_and_meta_that_go(catalogue: Catalogue) -> None:
    version = SCHEMA["versions"]["1"]  # type: ignore[index]
    meta = {"labels": {"a": "b"}, "defaultversionid": "1", "defaultversionsticky": True}
    catalogue.write("a.json", {"schemagroups": {"g": {"schemas": {"s": {"versions": {"1": version, "2": version},
                                                                       "meta": meta}}}}})  # fmt: skip
    catalogue.watch.load()
    catalogue.write("a.json", {"schemagroups": {"g": {"schemas": {"s": {"versions": {"2": version}}}}}})
    catalogue.watch.load()
    found = catalogue.get("/schemagroups/g/schemas/s")
    assert found["versions"].keys() == {"2"}
    assert "labels" not in found["meta"]
    assert found["meta"]["defaultversionsticky"] is False


def test_only_what_is_different_is_touched(catalogue: Catalogue) -> None:
    catalogue.write("a.json", {"messagegroups": {"m": {"messages": {"one": {}, "two": {}}}, "n": {}}})
    catalogue.watch.load()
    before = len(catalogue.changes())
    two = {"messages": {"one": {}, "two": {"description": "new"}}}
    catalogue.write("a.json", {"messagegroups": {"m": two, "n": {}}})
    catalogue.watch.load()
    told = {xid for xid, _ in catalogue.changes()[before:]}
    assert "/messagegroups/m/messages/two" in told
    assert not told & {"/messagegroups/n", "/messagegroups/m/messages/one", "/capabilities", "/model"}


def test_the_same_in_another_form_is_the_same(catalogue: Catalogue) -> None:
    catalogue.write("a.json", {"messagegroups": {"m": {}}})
    catalogue.watch.load()
    before = catalogue.changes()
    (catalogue.path / "a.json").unlink()
    catalogue.write("b.yaml", "messagegroups:\n  m: {}\n")
    catalogue.watch.load()
    assert catalogue.changes() == before


def test_a_model_of_its_own(catalogue: Catalogue) -> None:
    catalogue.write("m.json", {"groups": {"dirs": {"singular": "dir"}}})
    catalogue.write("a.json", {"dirs": {"d": {}}})
    catalogue.watch.load()
    assert catalogue.has("/dirs/d")
    (catalogue.path / "m.json").unlink()
    catalogue.write("a.json", {"messagegroups": {"m": {}}})
    catalogue.watch.load()
    assert "dirs" not in catalogue.get()


def test_a_model_that_neither_old_nor_new_entities_bar(catalogue: Catalogue) -> None:
    """Where no single step leads there, all is made anew, in one transaction."""
    model = {"groups": {"dirs": {"singular": "dir", "attributes": {"old": {"type": "string"}}}}}
    catalogue.write("a.json", {"modelsource": model, "dirs": {"d": {"old": "x"}}})
    catalogue.watch.load()
    model["groups"]["dirs"]["attributes"] = {"new": {"type": "string"}}
    catalogue.write("a.json", {"modelsource": model, "dirs": {"d": {"new": "x"}}})
    catalogue.watch.load()
    assert catalogue.get("/dirs/d")["new"] == "x"


def test_a_fault_names_the_file_and_changes_nothing(catalogue: Catalogue) -> None:
    catalogue.write("a.json", {"messagegroups": {"m": {}}})
    catalogue.watch.load()
    before = (catalogue.get(), catalogue.changes())
    catalogue.write("bad.json", {"messagegroups": {"n": {"messages": {"one": {"nonsense": 1}}}}})
    with pytest.raises(DocumentError, match=r"nonsense(.|\n)*in .*bad\.json"):
        catalogue.watch.load()
    assert (catalogue.get(), catalogue.changes()) == before


@pytest.mark.parametrize(
    "command",
    [
        Command(method=Method.PUT, target=Xid.parse("/messagegroups/m"), body={}),
        Command(method=Method.DELETE, target=Xid.parse("/messagegroups/m")),
        ConfigCommand(name="modelsource", method=Method.PUT, body={}),
        ConfigCommand(name="capabilities", method=Method.PATCH, body={"available": None}),
    ],
)
def test_nobody_else_writes(catalogue: Catalogue, command: Command | ConfigCommand) -> None:
    """``not_available``: nothing is mutable by the capabilities (R116)."""
    catalogue.write("a.json", {"messagegroups": {"m": {}}})
    catalogue.watch.load()
    with pytest.raises(RegistryError) as caught, catalogue.engine.writing() as session:
        session.execute(command)
    assert caught.value.code == "not_available"


def test_documents_of_old_are_repaired(catalogue: Catalogue) -> None:
    catalogue.write("old.cereg", '{"definitionGroups": {"m": {"definitions": {}}},}')
    catalogue.watch.load()
    assert catalogue.has("/messagegroups/m")
    assert catalogue.watch.status["repairs"] > 0


def test_capabilities_in_a_document_are_not_taken(catalogue: Catalogue) -> None:
    catalogue.write("a.json", {"capabilities": {"pagination": False}, "messagegroups": {}})
    catalogue.watch.load()
    with catalogue.engine.reading() as view:
        assert view.capabilities["available"]["entities"] == {"mutable": False}
