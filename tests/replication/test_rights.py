"""What a follower copies that may read only part of the source, and what becomes of copies when that changes."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import bearer

from signalbook.client.responses import ClientError
from signalbook.engine.engine import Engine
from signalbook.replication import replicating
from signalbook.replication.link import Scope
from signalbook.replication.local import LocalRegistry
from signalbook.replication.opening import copying, link, open_source
from signalbook.replication.replicating import Replication, StateInDatabase
from signalbook.replication.report import CopyReport
from signalbook.settings import Settings
from signalbook.storage import open_store

from .servers import HTTP, Server, version, wait_until


class Hub:
    """A registry that follows a server as ann, whose rights the test changes."""

    def __init__(self, folder: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self._policy = folder / "policy.json"
        self.may(["/schemagroups/a"])
        self.source = Server(folder=folder, settings={"access_file": str(self._policy), "reload_seconds": 0.01})
        stack.callback(self.source.end)
        self.source.start()
        self.stored = stack.enter_context(closing(open_store(f"sqlite:///{folder / 'registry.db'}")))
        self.root, self.ann = bearer(self.stored, "root"), bearer(self.stored, "ann")
        monkeypatch.setenv("ANN", self.ann["Authorization"].removeprefix("Bearer "))
        self._engine = Engine(stack.enter_context(closing(open_store("sqlite://"))), settings=Settings())
        self.report = CopyReport()
        target = LocalRegistry(self._engine, "http://hub.example")
        url = self.source.url.replace("://", f"://{'${ANN}'}@")
        source = stack.enter_context(open_source(url, timeout=60))
        between = link(source, target, Scope.parse("/"), reached=self.source.url)
        copies = copying(source, target, between, self.report)
        self.work = Replication(source, copies, between, StateInDatabase(self._engine, "x"))

    def may(self, on: list[str], *, deny: list[str] | None = None) -> None:
        """Set what ann may read from now on."""
        rules: list[dict[str, Any]] = [{"who": ["subject:root"], "role": "administrator"}]
        rules += [{"who": ["subject:ann"], "role": "reader", "on": on}] if on else []
        rules += [{"who": ["subject:ann"], "deny": ["read", "list"], "on": deny}] if deny else []
        new = self._policy.with_suffix(".new")
        new.write_text(json.dumps({"rules": rules}))
        new.replace(self._policy)

    def until(self, path: str, status: int) -> None:
        """Wait for the policy to be in force, by what it says of a path."""
        wait_until(lambda: HTTP.get(self.source.url + path, headers=self.ann).status_code == status)

    def follow(self) -> None:
        while self.work.advance():
            pass

    def copies(self) -> set[str]:
        with self._engine.store.read() as reader:
            groups = {row.key for row in reader.entities.children([1], "schemagroups")}
            return {str(row.xid).removeprefix("/schemagroups/") for row in reader.entities.children(groups, "schemas")}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(replicating, "RIGHTS_SECONDS", 0.0)
    with ExitStack() as stack:
        yield Hub(tmp_path, stack, monkeypatch)


def test_unreadable_entities_are_neither_copied_nor_deleted(hub: Hub) -> None:
    schemas = {name: {"versions": {"1": version()}} for name in "stu"}
    groups = {"a": {"schemas": schemas}, "b": {"schemas": schemas}}
    hub.source.send("PATCH", "/?ignore=epoch", json={"schemagroups": groups}, headers=hub.root)
    hub.follow()
    assert hub.copies() == {"a/schemas/s", "a/schemas/t", "a/schemas/u"}
    assert hub.report.passed == {}
    # What is lost stays, whether it is there still or not; what was gained comes, and what is deleted goes.
    hub.may(["/schemagroups/a", "/schemagroups/b/schemas/s"], deny=["/schemagroups/a/schemas/t"])
    hub.until("/schemagroups/b", 200)
    hub.source.send("DELETE", "/schemagroups/a/schemas/s", headers=hub.root)
    hub.source.send("DELETE", "/schemagroups/a/schemas/t", headers=hub.root)
    hub.follow()
    assert hub.copies() == {"a/schemas/t", "a/schemas/u", "b/schemas/s"}
    assert {
        (str(skipped_entity.xid), "does not show it" in skipped_entity.reason) for skipped_entity in hub.report.skipped
    } == {("/schemagroups/a/schemas/t", True)}
    # All of a group, and a comparison of everything.
    hub.may(["/schemagroups/b"])
    hub.until("/schemagroups/a", 404)
    hub.work.everything()
    assert hub.copies() == {"a/schemas/t", "a/schemas/u", "b/schemas/s", "b/schemas/t", "b/schemas/u"}
    # Who may read it again learns what is gone.
    hub.may(["/schemagroups"])
    hub.until("/schemagroups/a", 200)
    hub.follow()
    assert hub.copies() == {"a/schemas/u", "b/schemas/s", "b/schemas/t", "b/schemas/u"}
    # Without any right, and without an identity, nothing is copied and nothing deleted.
    hub.may([])
    hub.until("/schemagroups/a", 404)
    with pytest.raises(ClientError):
        hub.work.everything()
    with hub.stored.write() as writer:
        (ann,) = (token for token in writer.tokens.page("", 9) if token.subject == "ann")
        writer.tokens.remove(ann.id)
    hub.until("/schemagroups/a", 401)
    with pytest.raises(ClientError):
        hub.work.everything()
    assert hub.copies() == {"a/schemas/u", "b/schemas/s", "b/schemas/t", "b/schemas/u"}
