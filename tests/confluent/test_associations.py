"""Associations as they are stored and as other registries send them."""

from typing import Any

import pytest

from signalbook.confluent.associations import Association

SENT: dict[str, Any] = {
    "resourceName": "orders",
    "resourceNamespace": "lkc-1",
    "resourceId": "topic-1",
    "resourceType": "topic",
    "associationType": "value",
    "subject": "s",
    "lifecycle": "WEAK",
    "guid": "g",
}


@pytest.mark.parametrize(
    ("times", "read"),
    [
        ({"createTs": 1, "updateTs": 2}, (1, 2)),
        ({"createTimestamp": 1, "updateTimestamp": 2}, (1, 2)),
        ({"createTs": 0, "updateTs": None}, (0, 0)),
        ({}, (0, 0)),
    ],
)
def test_times_may_be_missing(times: dict[str, Any], read: tuple[int, int]) -> None:
    association = Association.from_json(SENT | times)
    assert (association.created, association.updated) == read
    assert Association.from_json(association.to_json()) == association
