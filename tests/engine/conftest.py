"""A registry to write to, and short words for doing it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from signalbook.engine.engine import Engine
from signalbook.engine.write.apply import Change, WriteResult
from signalbook.engine.write.commands import Command, ConfigCommand, DocumentBody, Flags, Method
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.base import Row
from signalbook.storage.store import Store
from signalbook.values import JSON, JSONObject
from signalbook.xid import ROOT, Xid


def model_of(group: JSONObject | None = None, **resource: JSON) -> JSONObject:
    """A model with ``/dirs/files``; ``resource`` are aspects of files, ``group`` of dirs."""
    files = {"singular": "file", **resource}
    return {"groups": {"dirs": {"singular": "dir", "resources": {"files": files}, **(group or {})}}}


@dataclass
class Registry:
    """A registry with one engine and one store, driven by path and body."""

    engine: Engine
    store: Store

    def do(self, command: Command | ConfigCommand) -> WriteResult:
        """Execute one command in its own session."""
        with self.engine.writing() as session:
            return session.execute(command)

    def send(self, method: str, path: str, body: JSON = None, **flags: JSON) -> WriteResult:
        """Execute one command given by method and path."""
        return self.do(Command(method=Method(method), target=Xid.parse(path), body=body, flags=Flags(**flags)))

    def put(self, path: str, body: JSON = None, **flags: JSON) -> WriteResult:
        """PUT of a metadata body."""
        return self.send("PUT", path, body, **flags)

    def patch(self, path: str, body: JSON = None, **flags: JSON) -> WriteResult:
        """PATCH of a metadata body."""
        return self.send("PATCH", path, body, **flags)

    def post(self, path: str, body: JSON = None, **flags: JSON) -> WriteResult:
        """POST of a metadata body."""
        return self.send("POST", path, body, **flags)

    def delete(self, path: str, body: JSON = None, **flags: JSON) -> WriteResult:
        return self.send("DELETE", path, body, **flags)

    def put_document(
        self, path: str, content: bytes, contenttype: str | None = None, **attributes: JSON
    ) -> WriteResult:
        """PUT in document form."""
        document = DocumentBody(content=content, contenttype=contenttype, attributes=attributes)
        return self.do(Command(method=Method.PUT, target=Xid.parse(path), document=document))

    def configure(self, name: str, body: JSON, method: str = "PUT") -> WriteResult:
        """A write of ``capabilities`` or ``modelsource``."""
        return self.do(ConfigCommand(name=name, method=Method(method), body=body))

    def find(self, path: str) -> Row | None:
        """The row at ``path``, if any."""
        with self.store.read() as reader:
            return reader.entities.get(Xid.parse(path))

    def row(self, path: str) -> Row:
        """The row at ``path``."""
        stored = self.find(path)
        assert stored is not None, f"nothing at {path}"
        return stored

    def versions(self, path: str = "/dirs/d1/files/f1") -> dict[str, Row]:
        """The Versions of a Resource."""
        with self.store.read() as reader:
            resource = reader.entities.get(Xid.parse(path))
            return {row.xid.id: row for row in reader.entities.children([resource.key])} if resource else {}

    def ancestors(self, path: str = "/dirs/d1/files/f1") -> dict[str, str | None]:
        """The ``ancestorid`` of each Version."""
        return {versionid: row.ancestorid for versionid, row in self.versions(path).items()}

    def content(self, path: str) -> bytes:
        """The stored document of a Version."""
        digest = self.row(path).document
        with self.store.read() as reader:
            return b"" if digest is None else reader.entities.documents([digest])[digest]

    def everything(self) -> list[Row]:
        """Every row there is, in a stable order."""
        with self.store.read() as reader:
            root = reader.entities.get(ROOT)
            assert root is not None
            rows, level = [root], [root]
            while level:
                level = list(reader.entities.children([row.key for row in level]))
                rows += level
            return rows

    def outbox(self) -> list[Change]:
        """Every committed change."""
        with self.store.read() as reader:
            return [Change.from_json(record.change) for record in reader.outbox.records(limit=10_000)]

    def refused_configuration(self, name: str, body: JSON, method: str = "PUT") -> RegistryError:
        """The error of a write of ``capabilities`` or ``modelsource`` that must fail."""
        with pytest.raises(RegistryError) as caught:
            self.configure(name, body, method)
        return caught.value

    def refused(self, method: str, path: str, body: JSON = None, **flags: JSON) -> RegistryError:
        """The error of a command that must fail, and change nothing (R22)."""
        before, events = self.everything(), self.outbox()
        with pytest.raises(RegistryError) as caught:
            self.send(method, path, body, **flags)
        assert self.everything() == before
        assert self.outbox() == events
        return caught.value


def registry_of(store: Store, **settings: Any) -> Registry:
    """A registry with the default model and these settings."""
    return Registry(Engine(store, settings=Settings(registry_id="test", **settings)), store)


Make = Callable[..., Registry]


@pytest.fixture
def make(sqlite_store: Callable[[], Store]) -> Make:
    """Makes registries with ``/dirs/files``: ``make(group={...}, hasdocument=False, ...)``."""

    def made(group: JSONObject | None = None, **resource: JSON) -> Registry:
        store = sqlite_store()
        registry = Registry(Engine(store, settings=Settings(model="empty", registry_id="test")), store)
        registry.configure("modelsource", model_of(group, **resource))
        return registry

    return made


@pytest.fixture
def registry(make: Make) -> Registry:
    """A registry whose files have documents and extensions of any kind."""
    return make(attributes={"*": {"type": "any"}})
