"""The catalog that a store is by itself."""

from __future__ import annotations

import threading

import pytest

from signalbook.pipeline.places import StorePlace, place_of
from signalbook.pipeline.places.base import TOGETHER
from signalbook.pipeline.tables.iceberg_store import StoreCatalog


def test_tables_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each batch of a stream: one after the other they would take seconds."""
    names = [f"t{number:02}" for number in range(TOGETHER)]
    all_at_once = threading.Barrier(TOGETHER, timeout=30)

    def folders(place: StorePlace) -> list[str]:
        if place.name == "shop":
            return names
        all_at_once.wait()
        return ["data"] if place.name == "t03" else ["data", "metadata"]

    monkeypatch.setattr(StorePlace, "folders", folders)
    found = StoreCatalog("lake", place_of("s3://lake/tables")).list_tables("shop")
    assert found == [("shop", name) for name in names if name != "t03"]
