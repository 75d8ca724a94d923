"""A folder of documents as a read-only registry, on each database."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from signalbook.documents import DocumentError
from signalbook.engine.engine import Engine
from signalbook.engine.read.nodes import ALL
from signalbook.engine.read.view import ViewOptions
from signalbook.engine.write.commands import Command, ConfigCommand, Method
from signalbook.errors import RegistryError
from signalbook.folder_registry import FolderWatch
from signalbook.model import builtin
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.values import JSONObject
from signalbook.xid import Xid


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFolder:
    """The folder at ``path``, the registry in ``engine`` and the ``watch`` between them."""

    path: Path
    engine: Engine
    watch: FolderWatch

    def write(self, name: str, document: object) -> None:
        """A file of the folder."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(document if isinstance(document, str) else json.dumps(document))

    def get(self, xid: str = "/") -> JSONObject:
        """An entity with all beneath it."""
        with self.engine.reading() as view:
            return view.render_entity(Xid.parse(xid), ViewOptions(inline=ALL))

    def has(self, xid: str) -> bool:
        """Return True if the entity exists."""
        with self.engine.reading() as view:
            return view.exists(Xid.parse(xid))

    def changes(self) -> list[tuple[str, str]]:
        """Return the subjects and actions of the change feed."""
        records: list[Any] = self.engine.read_changes(0, 1000)
        return [(record.change["xid"], record.change["action"]) for record in records]


@pytest.fixture
def folder(store: Store, tmp_path: Path) -> ServedFolder:
    path = tmp_path / "book"
    path.mkdir()
    engine = Engine(store, settings=Settings())
    return ServedFolder(path=path, engine=engine, watch=FolderWatch(engine, path, builtin("default")))


GROUP = {"id": "shop", "specversion": "0.1", "format": "NATS", "definitions": {}}
PUB = {"pub": {"subject": {"value": "a"}}}


def test_documents_of_a_message_catalog_are_served(folder: ServedFolder) -> None:
    """The documents are JSON or YAML in any shape; other documents are reported (C-14)."""
    folder.write("shop/group.json", GROUP)
    folder.write("shop/placed.yaml", "{id: placed, versions: [{version: 3, definition: {pub: {subject: {value: a}}}}]}")
    folder.write("package.json", {"name": "left-pad"})
    folder.watch.load()
    message = folder.get("/messagegroups/shop/messages/placed")
    assert (message["versionid"], message["protocoloptions"]) == ("3", {"subject": "a"})
    assert folder.watch.status["repairs"] == 1


def test_changed_catalog_is_followed(folder: ServedFolder) -> None:
    folder.write("shop/group.json", GROUP)
    folder.write("shop/placed.json", {"id": "placed", "definition": PUB})
    folder.watch.load()
    folder.write("shop/placed.json", {"id": "placed", "version": 2, "definition": PUB})
    folder.watch.load()
    assert list(folder.get("/messagegroups/shop/messages/placed")["versions"]) == ["2"]


def test_a_group_is_in_one_file(folder: ServedFolder) -> None:
    """A group in two files is an error (C-14)."""
    folder.write("a.json", GROUP)
    folder.write("b.json", GROUP)
    with pytest.raises(DocumentError, match="both have the group shop"):
        folder.watch.load()


SCHEMA = {"format": "JsonSchema/draft-07", "versions": {"1": {"format": "JsonSchema/draft-07", "schema": {"a": 1}}}}
BOOK = {"schemagroups": {"g": {"description": "d", "labels": {"a": "b"}, "schemas": {"s": SCHEMA}}}}


def test_registry_contains_the_documents_of_the_folder(folder: ServedFolder) -> None:
    folder.write("a.xreg.json", BOOK)
    folder.write("deep/b.xreg.yaml", "{name: book, messagegroups: {m: {}}}")
    folder.watch.load()
    assert folder.get("/schemagroups/g/schemas/s")["versionscount"] == 1
    assert folder.has("/messagegroups/m")
    assert folder.get()["name"] == "book"


def test_removed_entities_are_deleted(folder: ServedFolder) -> None:
    folder.write("a.xreg.json", {**BOOK, "name": "book"})
    folder.write("b.xreg.json", {"xid": "/schemagroups/g/schemas/t", **SCHEMA})
    folder.watch.load()
    (folder.path / "b.xreg.json").unlink()
    folder.write("a.xreg.json", {"schemagroups": {"g": {"schemas": {"s": SCHEMA}}}, "messagegroups": {"m": {}}})
    folder.watch.load()
    group = folder.get("/schemagroups/g")
    assert "description" not in group
    assert "labels" not in group
    assert group["schemas"].keys() == {"s"}
    assert "name" not in folder.get()
    folder.write("a.xreg.json", {"messagegroups": {"m": {}}})
    folder.watch.load()
    assert not folder.has("/schemagroups/g")


def test_removed_versions_and_meta_are_deleted(folder: ServedFolder) -> None:
    version = SCHEMA["versions"]["1"]  # type: ignore[index]
    meta = {"labels": {"a": "b"}, "defaultversionid": "1", "defaultversionsticky": True}
    folder.write("a.json", {"schemagroups": {"g": {"schemas": {"s": {"versions": {"1": version, "2": version},
                                                                       "meta": meta}}}}})  # fmt: skip
    folder.watch.load()
    folder.write("a.json", {"schemagroups": {"g": {"schemas": {"s": {"versions": {"2": version}}}}}})
    folder.watch.load()
    schema = folder.get("/schemagroups/g/schemas/s")
    assert schema["versions"].keys() == {"2"}
    assert "labels" not in schema["meta"]
    assert schema["meta"]["defaultversionsticky"] is False


def test_only_changed_entities_are_written(folder: ServedFolder) -> None:
    folder.write("a.json", {"messagegroups": {"m": {"messages": {"one": {}, "two": {}}}, "n": {}}})
    folder.watch.load()
    before = len(folder.changes())
    two = {"messages": {"one": {}, "two": {"description": "new"}}}
    folder.write("a.json", {"messagegroups": {"m": two, "n": {}}})
    folder.watch.load()
    changed_xids = {xid for xid, _ in folder.changes()[before:]}
    assert "/messagegroups/m/messages/two" in changed_xids
    assert not changed_xids & {"/messagegroups/n", "/messagegroups/m/messages/one", "/capabilities", "/model"}


def test_the_same_in_another_form_is_the_same(followed: ServedFolder) -> None:
    before = followed.changes()
    (followed.path / "a.json").unlink()
    followed.write("b.yaml", "messagegroups:\n  m: {}\n")
    followed.watch.load()
    assert followed.changes() == before


def test_a_model_of_its_own(folder: ServedFolder) -> None:
    folder.write("m.json", {"groups": {"dirs": {"singular": "dir"}}})
    folder.write("a.json", {"dirs": {"d": {}}})
    folder.watch.load()
    assert folder.has("/dirs/d")
    (folder.path / "m.json").unlink()
    folder.write("a.json", {"messagegroups": {"m": {}}})
    folder.watch.load()
    assert "dirs" not in folder.get()


def test_model_and_entities_can_change_together(folder: ServedFolder) -> None:
    """Everything is created again in one transaction if the model cannot be changed step by step."""
    model = {"groups": {"dirs": {"singular": "dir", "attributes": {"old": {"type": "string"}}}}}
    folder.write("a.json", {"modelsource": model, "dirs": {"d": {"old": "x"}}})
    folder.watch.load()
    model["groups"]["dirs"]["attributes"] = {"new": {"type": "string"}}
    folder.write("a.json", {"modelsource": model, "dirs": {"d": {"new": "x"}}})
    folder.watch.load()
    assert folder.get("/dirs/d")["new"] == "x"


def test_a_fault_names_the_file_and_changes_nothing(followed: ServedFolder) -> None:
    before = (followed.get(), followed.changes())
    followed.write("bad.json", {"messagegroups": {"n": {"messages": {"one": {"envelope": 1}}}}})
    with pytest.raises(DocumentError, match=r"envelope(.|\n)*in .*bad\.json"):
        followed.watch.load()
    assert (followed.get(), followed.changes()) == before


@pytest.mark.parametrize(
    "command",
    [
        Command(method=Method.PUT, target=Xid.parse("/messagegroups/m"), body={}),
        Command(method=Method.DELETE, target=Xid.parse("/messagegroups/m")),
        ConfigCommand(name="modelsource", method=Method.PUT, body={}),
        ConfigCommand(name="capabilities", method=Method.PATCH, body={"available": None}),
    ],
)
def test_other_writes_are_rejected(followed: ServedFolder, command: Command | ConfigCommand) -> None:
    """The error is ``not_available``: the capabilities declare nothing as mutable (R116)."""
    with pytest.raises(RegistryError) as caught, followed.engine.writing() as session:
        session.execute(command)
    assert caught.value.code == "not_available"


def test_documents_of_old_are_repaired(folder: ServedFolder) -> None:
    folder.write("old.cereg", '{"definitionGroups": {"m": {"definitions": {}}},}')
    folder.watch.load()
    assert folder.has("/messagegroups/m")
    assert folder.watch.status["repairs"] > 0


def test_capabilities_in_a_document_are_not_taken(folder: ServedFolder) -> None:
    folder.write("a.json", {"capabilities": {"pagination": False}, "messagegroups": {}})
    folder.watch.load()
    with folder.engine.reading() as view:
        assert view.capabilities["available"]["entities"] == {"mutable": False}


@pytest.fixture
def followed(folder: ServedFolder) -> ServedFolder:
    folder.write("a.json", {"messagegroups": {"m": {}}})
    folder.watch.look()
    return folder


def test_status_shows_the_served_revision(followed: ServedFolder) -> None:
    status = followed.watch.status
    assert (status["folder"], status["documents"], status["error"]) == (str(followed.path), 1, None)
    assert len(status["revision"]) == 64


@pytest.mark.parametrize("text", ['{"messagegroups": ', '{"messagegroups": {"x": {}', '{"a" = 1}'])
def test_broken_file_keeps_the_last_revision(
    followed: ServedFolder, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    before = followed.watch.status
    followed.write("b.json", text)
    followed.watch.look()
    status = followed.watch.status
    assert followed.has("/messagegroups/m")
    assert (status["revision"], status["since"]) == (before["revision"], before["since"])
    assert "b.json: line 1" in status["error"]
    assert "keeping what was there before" in caplog.text
    followed.write("b.json", {"messagegroups": {"n": {}}})
    followed.watch.look()
    assert followed.watch.status["error"] is None
    assert followed.has("/messagegroups/n")


def test_missing_or_empty_folder_keeps_the_registry(followed: ServedFolder) -> None:
    (followed.path / "a.json").unlink()
    followed.watch.look()
    assert "holds no registry document" in followed.watch.status["error"]
    assert followed.has("/messagegroups/m")


def test_a_file_named_by_a_document_counts(followed: ServedFolder) -> None:
    version = {"format": "JsonSchema/draft-07", "schemaurl": "s.txt"}
    followed.write("s.txt", '{"a": 1}')
    followed.write("b.json", {"schemagroups": {"g": {"schemas": {"s": {"versions": {"1": version}}}}}})
    followed.watch.look()
    followed.write("s.txt", '{"a": 22}')
    followed.watch.look()
    version = followed.get("/schemagroups/g/schemas/s/versions/1")
    assert version["schemabase64" if "schemabase64" in version else "schema"] in ('{"a": 22}', "eyJhIjogMjJ9")


def test_unchanged_folder_is_not_read_again(followed: ServedFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FolderWatch, "load", lambda _: pytest.fail("read again"))
    followed.watch.look()
    second_watch = FolderWatch(followed.engine, followed.path, builtin("default"))
    second_watch.look()
    assert second_watch.status == followed.watch.status


def test_touching_a_file_changes_nothing(followed: ServedFolder) -> None:
    before = followed.changes()
    os.utime(followed.path / "a.json", (1, 1))
    followed.watch.look()
    assert followed.changes() == before


def test_followed_by_a_thread(followed: ServedFolder) -> None:
    followed.watch.start(0.01)
    followed.write("b.json", {"messagegroups": {"n": {}}})
    while not followed.has("/messagegroups/n"):
        time.sleep(0.01)
    followed.watch.stop()
