from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from tests.engine.conftest import Registry

from signalbook.engine.read import rendering
from signalbook.engine.read.nodes import parse_inline
from signalbook.engine.read.view import View, ViewOptions
from signalbook.errors import RegistryError
from signalbook.values import dump_json
from signalbook.xid import ROOT, Xid

PATHS = (
    *("/", "/dirs", "/dirs/d1", "/dirs/d1/files", "/dirs/d1/files/f1", "/dirs/d1/files/f1/meta"),
    *("/dirs/d1/files/f1/versions", "/dirs/d1/files/f1/versions/v1", "/dirs/d2/files/x", "/dirs/d2/files/x/versions"),
    *("/dirs/d2/files/dangling", "/dirs/empty", "/dirs/empty/files"),
)
CONFIGURED = ("/", ["capabilities", "model", "dirs.files"])


@pytest.fixture
def filled(registry: Registry) -> Registry:
    """Two Groups with files of up to five Versions, some far larger than others, and cross references to two."""
    versions = {f"v{n}": {"file": "x" * n * 100, "name": f"N{n}"} for n in range(5)}
    files: dict[str, Any] = {f"f{n}": {"versions": dict(list(versions.items())[: n % 5 + 1])} for n in range(12)}
    xrefs = {"x": {"meta": {"xref": "/dirs/d1/files/f4"}}, "dangling": {"meta": {"xref": "/dirs/d1/files/none"}}}
    registry.configure("capabilities", {"shortself": True}, "PATCH")
    registry.put("/dirs/d1", {"files": files})
    registry.put("/dirs/d2", {"files": {**files, **xrefs}})
    registry.put("/dirs/empty", {"name": "nothing in it"})
    return registry


def outcome(show: Callable[[], bytes]) -> bytes | str:
    """The bytes, or the code of the error."""
    try:
        return show()
    except RegistryError as error:
        return error.code


def render_both_ways(view: View, path: str, inline: list[str], *, doc: bool) -> tuple[bytes | str, bytes | str]:
    """Return what is at ``path`` as it is rendered at once, and in pieces."""
    xid = Xid.parse(path)
    options = ViewOptions(
        base_url="http://r.example", inline=parse_inline(inline, xid, view.model, subject=path), doc=doc
    )
    show = view.render_collection if xid.is_collection else view.render_entity
    return outcome(lambda: dump_json(show(xid, options))), outcome(lambda: b"".join(view.stream(xid, options)))


@pytest.mark.parametrize("size", [0, 1000, 3000, 600_000])
def test_the_same_bytes(filled: Registry, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test inlines nothing, everything, and the configuration too (R22, R272)."""
    monkeypatch.setattr(rendering, "_BATCH_BYTES", size)
    monkeypatch.setattr(rendering, "_NODES_AT_ONCE", 5)
    cases = [*product(PATHS, ([], ["*"])), CONFIGURED]
    with filled.engine.reading() as view:
        for (path, inline), doc in product(cases, (False, True)):
            at_once, in_pieces = render_both_ways(view, path, inline, doc=doc)
            assert in_pieces == at_once, (path, inline, doc)


@pytest.mark.parametrize("path", ["/", "/dirs/d1", "/dirs/empty"])
def test_collections_alone(filled: Registry, path: str) -> None:
    """The flag ``collections`` renders the same pieces as the whole (R177)."""
    with filled.engine.reading() as view:
        options = ViewOptions(collections=True)
        assert b"".join(view.stream(Xid.parse(path), options)) == dump_json(
            view.render_entity(Xid.parse(path), options)
        )


@pytest.mark.parametrize("path", ["/dirs/none", "/dirs/none/files", "/dirs/d2/files/dangling/versions"])
def test_missing_entity_is_reported_before_rendering(filled: Registry, path: str) -> None:
    with filled.engine.reading() as view, pytest.raises(RegistryError) as caught:
        view.stream(Xid.parse(path), ViewOptions())
    assert caught.value.code == "not_found"


def test_an_export_is_never_held_as_a_whole(filled: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """No piece is larger than the amount fetched at once."""
    monkeypatch.setattr(rendering, "_BATCH_BYTES", 3000)
    with filled.engine.reading() as view:
        options = view.export_options(ViewOptions())
        pieces = list(view.stream(ROOT, options))
        assert b"".join(pieces) == dump_json(view.render_entity(ROOT, options))
    assert max(map(len, pieces)) < sum(map(len, pieces)) / 5
