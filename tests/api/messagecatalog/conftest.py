"""A registry with the default model behind both doors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from signalbook.storage.base import Store


@pytest.fixture
def book(store: Store, serve: Callable[..., Any]) -> Any:
    """A client (``Client`` in tests/api/conftest.py) of a registry with the default model, on each database in turn."""
    return serve(store, model="default")
