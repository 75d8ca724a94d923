"""A registry with the default model behind both APIs."""

import pytest
from tests.api.conftest import Client, Serve

from signalbook.storage.store import Store


@pytest.fixture
def book(store: Store, serve: Serve) -> Client:
    """A client of a registry with the default model, on each database in turn."""
    return serve(store, model="default")
