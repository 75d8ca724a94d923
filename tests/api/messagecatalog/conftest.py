"""A registry with the default model behind both APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from signalbook.storage.store import Store

if TYPE_CHECKING:
    from tests.api.conftest import Client, Serve


@pytest.fixture
def book(store: Store, serve: Serve) -> Client:
    """A client of a registry with the default model, on each database in turn."""
    return serve(store, model="default")
