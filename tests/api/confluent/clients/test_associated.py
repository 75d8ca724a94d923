"""confluent-kafka for Python, as it was published, finds subjects by their associations with topics."""

from pathlib import Path

import pytest
from tests.api.confluent.clients.test_clients import PYTHON, printed
from tests.serving import serving


def test_a_serializer_finds_the_subject_of_its_topic(tmp_path: Path) -> None:
    """The default strategy finds the subject through the association, since no subject has the name of the topic."""
    if not (PYTHON / "ready").exists():
        pytest.skip("the clients are not installed beside the tests: tools/setup test")
    with serving(tmp_path) as root:
        result = printed(PYTHON / "bin" / "python", "associated.py", f"{root}/compat/confluent")
    subject = ":.lkc-1:orders-value"
    assert result == {
        "without a version": 40907,
        "weak": [["shop", "WEAK"]],
        "weakly written": True,
        "listed": ["shop"],
        "deleted": [],
        "strong": [[subject, "STRONG"]],
        "again": [subject],
    }
