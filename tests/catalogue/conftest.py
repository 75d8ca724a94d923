"""A folder, and a registry that follows it, on each database."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from signalbook.catalogue import Watch
from signalbook.engine.engine import Engine
from signalbook.engine.read.inlining import ALL
from signalbook.engine.read.view import ViewOptions
from signalbook.model import builtin
from signalbook.settings import Settings
from signalbook.storage.base import Store
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Xid


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The folder at ``path``, the registry in ``engine`` and the ``watch`` between them."""

    path: Path
    engine: Engine
    watch: Watch

    def write(self, name: str, document: object) -> None:
        """A file of the folder."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(document if isinstance(document, str) else json.dumps(document))

    def get(self, xid: str = "/") -> JSONObject:
        """An entity with all beneath it."""
        with self.engine.reading() as view:
            return view.entity(Xid.parse(xid), ViewOptions(inline=ALL))

    def has(self, xid: str) -> bool:
        """Whether there is such an entity."""
        with self.engine.reading() as view:
            return view.exists(Xid.parse(xid))

    def changes(self) -> list[tuple[str, str]]:
        """What was told to the change feed, subject and action."""
        found: list[Any] = self.engine.outbox(0, 1000)
        return [(record.change["xid"], record.change["action"]) for record in found]


Make = Callable[[], Catalogue]


@pytest.fixture
def catalogue(store: Store, tmp_path: Path) -> Catalogue:
    folder = tmp_path / "book"
    folder.mkdir()
    engine = Engine(store, settings=Settings())
    return Catalogue(path=folder, engine=engine, watch=Watch(engine, folder, builtin("default")))


__all__ = ["ROOT", "Catalogue"]
