"""What a definition has beside its metaschema."""

from __future__ import annotations

from typing import Any

import pytest

from signalbook.cncf.messagecatalog import definitions


@pytest.mark.parametrize(
    ("tags", "labels"),
    [
        ("a,b", {"a": "", "b": ""}),
        ("b, a", {"a": "", "b": "", "tags": "b, a"}),
        ("Not a key", {"tags": "Not a key"}),
        ("", {"tags": ""}),
        ("team", {"tags": "team"}),
    ],
)
def test_tags_are_labels_without_value(tags: str, labels: Any) -> None:
    """J-16: as they were written, where the labels do not tell that."""
    found = definitions.labelled({"team": "x", "old": ""}, tags)
    assert found == {"team": "x", **labels}
    assert definitions.tagged(found) == tags
