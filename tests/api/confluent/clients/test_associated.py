"""confluent-kafka for Python, as it was published, finds subjects by their associations with topics."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.confluent.clients.test_clients import PYTHON, printed
from tests.serving import serving


def test_a_serializer_finds_the_subject_of_its_topic(tmp_path: Path) -> None:
    """With its default strategy, and that alone: there is no subject of the topic's name."""
    if not (PYTHON / "ready").exists():
        pytest.skip("the clients are not installed beside the tests: tools/setup test")
    with serving(tmp_path) as root:
        found = printed(PYTHON / "bin" / "python", "associated.py", f"{root}/compat/confluent")
    own = ":.lkc-1:orders-value"
    assert found == {
        "without a version": 40907,
        "weak": [["shop", "WEAK"]],
        "weakly written": True,
        "listed": ["shop"],
        "deleted": [],
        "strong": [[own, "STRONG"]],
        "again": [own],
    }
