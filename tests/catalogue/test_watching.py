"""Following a folder."""

from __future__ import annotations

import os
import time

import pytest

from signalbook.catalogue import Watch
from signalbook.model import builtin

from .conftest import Catalogue


@pytest.fixture
def followed(catalogue: Catalogue) -> Catalogue:
    catalogue.write("a.json", {"messagegroups": {"m": {}}})
    catalogue.watch.look()
    return catalogue


def test_a_look_tells_what_is_served(followed: Catalogue) -> None:
    status = followed.watch.status
    assert (status["folder"], status["documents"], status["error"]) == (str(followed.path), 1, None)
    assert len(status["revision"]) == 64


@pytest.mark.parametrize("text", ['{"messagegroups": ', '{"messagegroups": {"x": {}', '{"a" = 1}'])
def test_a_broken_file_keeps_what_was_there(followed: Catalogue, caplog: pytest.LogCaptureFixture, text: str) -> None:
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


def test_a_folder_that_is_gone_or_empty(followed: Catalogue) -> None:
    (followed.path / "a.json").unlink()
    followed.watch.look()
    assert "holds no registry document" in followed.watch.status["error"]
    assert followed.has("/messagegroups/m")


def test_a_file_named_by_a_document_counts(followed: Catalogue) -> None:
    version = {"format": "JsonSchema/draft-07", "schemaurl": "s.txt"}
    followed.write("s.txt", '{"a": 1}')
    followed.write("b.json", {"schemagroups": {"g": {"schemas": {"s": {"versions": {"1": version}}}}}})
    followed.watch.look()
    followed.write("s.txt", '{"a": 22}')
    followed.watch.look()
    version = followed.get("/schemagroups/g/schemas/s/versions/1")
    assert version["schemabase64" if "schemabase64" in version else "schema"] in ('{"a": 22}', "eyJhIjogMjJ9")


def test_nothing_is_read_while_nothing_is_different(followed: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "load", lambda _: pytest.fail("read again"))
    followed.watch.look()
    another = Watch(followed.engine, followed.path, builtin("default"))
    another.look()
    assert another.status == followed.watch.status


def test_touching_a_file_changes_nothing(followed: Catalogue) -> None:
    before = followed.changes()
    os.utime(followed.path / "a.json", (1, 1))
    followed.watch.look()
    assert followed.changes() == before


def test_followed_by_a_thread(followed: Catalogue) -> None:
    followed.watch.start(0.01)
    followed.write("b.json", {"messagegroups": {"n": {}}})
    while not followed.has("/messagegroups/n"):
        time.sleep(0.01)
    followed.watch.stop()
