"""What schema documents may refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from signalbook.engine.write.load import WriteLoader, load_entities, named
from signalbook.xid import Xid

if TYPE_CHECKING:
    from tests.engine.conftest import Registry

BASE = "https://r.example/registry"
F1 = "/dirs/d1/files/f1"


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (F1, F1),
        (F1.removeprefix("/"), F1),
        (f"#{F1}", F1),
        (f"{F1}#/definitions/x", F1),
        (f"{F1}/versions/v1", f"{F1}/versions/v1"),
        (f"{BASE}{F1}", F1),
        (f"{BASE}{F1}$details", F1),
        (f"{BASE}{F1.replace('f1', 'f%40')}", F1.replace("f1", "f@")),
        (f"https://other.example{F1}", None),
        (f"//r.example{F1}", None),
        (f"{BASE}.evil.example{F1}", None),
        ("file:///etc/passwd", None),
        ("/dirs/d1/files/../f1", None),
        ("/dirs/d1", None),
        ("#/definitions/x", None),
        ("", None),
    ],
)
def test_what_a_reference_names(uri: str, expected: str | None) -> None:
    """G-16: nothing outside of this registry is ever named."""
    assert named(uri, BASE) == (None if expected is None else Xid.parse(expected))


def test_documents_behind_references(registry: Registry) -> None:
    """G-16: the default Version's, a Version's, one behind an xref; none where there is none."""
    registry.put(F1, {"versions": {"v1": {"file": {"a": 1}}, "v2": {"file": {"a": 2}}}})
    registry.put("/dirs/d1/files/f2", {"meta": {"xref": F1}})
    with registry.store.read() as reader:
        resolve = WriteLoader(reader.entities, BASE).resolve
        assert resolve(F1) == resolve("/dirs/d1/files/f2") == b'{"a":2}'
        assert resolve(f"{F1}/versions/v1") == b'{"a":1}'
        assert resolve("/dirs/d1/files/f3") is None
        assert resolve(f"{F1}/versions/v3") is None


def test_what_is_being_written_comes_first(registry: Registry) -> None:
    registry.put(F1, {"file": {"a": 1}})
    with registry.store.read() as reader:
        loader = WriteLoader(reader.entities, BASE)
        tree = loader.tree = load_entities(reader.entities, [], [Xid.parse(F1)])
        tree.resources[Xid.parse(F1)].versions["1"].document = loader.content.keep(b"new")
        resolve = loader.resolve
        assert resolve(F1) == b"new"
        tree.resources[Xid.parse(F1)].versions.clear()
        assert resolve(F1) is None
