from typing import Any

import pytest
import yaml

from signalbook.cncf.messagecatalog import definitions

GROUP = {"envelope": "CloudEvents/1.0"}
STAMPS = {"createdat": "2026-01-01T00:00:00Z", "modifiedat": "2026-01-02T00:00:00Z"}


@pytest.mark.parametrize(
    ("document", "wrong"),
    [
        pytest.param({"id": "events@example.com", "format": "MQTT"}, [], id="C-2 A-2"),
        pytest.param({"id": "", "format": "MQTT"}, ["id"], id="A-2 not empty"),
        pytest.param({"id": "a:b", "format": "MQTT"}, ["id"], id="A-2 no colon"),
        pytest.param({"id": "my group", "format": "MQTT"}, ["id"], id="L-4"),
        pytest.param({}, ["format"], id="B-1"),
        pytest.param({"format": "x", "specversion": "1.0"}, ["specversion"], id="C-2"),
        pytest.param(
            {"format": "x", "description": 1, "groupProperties": {"a": 1}}, ["description", "groupProperties"], id="A-7"
        ),
    ],
)
def test_faults_of_groups(document: Any, wrong: list[str]) -> None:
    assert [fault.path for fault in definitions.validate_group(document)] == wrong


def test_groups_round_trip() -> None:
    """C-2, J-11, J-16; B-1 has fewer members."""
    document = yaml.safe_load("""
    {id: "g!", specversion: "0.1", format: CloudEvents, description: d, documentation: "# T", tags: "x,y",
      groupProperties: {team: us}, owner: we}
    """)
    stored = {"messagegroupid": "g~21", **STAMPS, **definitions.group_attributes(document, {})}
    times = {"createdtimeutc": STAMPS["createdat"], "updatedtimeutc": STAMPS["modifiedat"]}
    assert definitions.render_group(stored) == document | times
    first = {name: document[name] for name in ("id", "format", "description")}
    assert definitions.render_first_group(stored) == first | times
    expected = {**GROUP, "protocol": None, "format": None, "description": "d"}
    assert definitions.first_group_attributes(document) == expected


def test_documentation_that_xregistry_has_as_a_url_stays_one() -> None:
    """A documentation URL of xRegistry is not moved to documentationtext (J-16)."""
    stored = {"messagegroupid": "g", **STAMPS, "documentation": "https://x.example/doc"}
    rendered = definitions.render_group(stored)
    assert rendered["documentation"] == "https://x.example/doc"
    assert definitions.group_attributes(rendered, stored)["documentationtext"] is None
