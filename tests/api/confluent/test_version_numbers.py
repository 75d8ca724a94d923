"""Numbers of versions that a client states: in ``version``, or as ``confluent:version`` in metadata."""

from typing import Any

import pytest
from tests.api.confluent.conftest import ONE, TWO, Api

NUMBER = "confluent:version"


def with_number(value: str) -> dict[str, Any]:
    """Return the part of a request that asks for a version of this number."""
    return {"metadata": {"properties": {NUMBER: value}}}


def test_the_sequence_of_confluents_own_test(api: Api) -> None:
    """``testConfluentVersion`` of Confluent's RestApiTest, for one schema."""

    def shown(path: str, **more: Any) -> tuple[int, str | None] | int:
        response = api.send("POST", path, {"schema": ONE, **more}).json()
        if "error_code" in response:
            return int(response["error_code"])
        return response["version"], response.get("metadata", {}).get("properties", {}).get(NUMBER)

    def register(**more: Any) -> tuple[int, str | None] | int:
        return shown("/subjects/t/versions", **more)

    def look_up(**more: Any) -> tuple[int, str | None] | int:
        return shown("/subjects/t", **more)

    assert register() == (1, None)
    assert register(version=-1) == (1, None)
    assert register(version=2) == (2, "2")
    assert register(version=-1) == (2, "2")
    assert api.get("/subjects/t/versions/latest")["metadata"] == with_number("2")["metadata"]
    assert look_up() == (1, None)
    assert look_up(**with_number("1")) == (1, None)
    assert look_up(**with_number("2")) == (2, "2")
    api.ask("DELETE", "/subjects/t/versions/1")
    assert look_up() == (2, "2")
    assert register() == (2, "2")
    assert register(version=3) == (3, "3")
    assert register(version=-1) == (3, "3")
    assert register(version=3) == 42201
    assert register(version=4) == (4, "4")
    assert look_up() == (4, "4")
    assert register(**with_number("-1")) == (5, "5")
    assert register(**with_number("2")) == (2, "2")
    assert register(metadata={"properties": {"owner": "ada"}}) == (6, None)
    assert register(version=-1) == (7, "7"), "the latest one has other metadata"
    assert register(schema=TWO) == (8, None)
    assert register(version=-1) == (9, "9"), "only an earlier version has this schema"


@pytest.mark.parametrize("stated", ["0", "-1", "7", "abc"])
def test_the_number_in_metadata_is_the_servers(api: Api, stated: str) -> None:
    for number in (1, 2):
        registered = api.register("s", **with_number(stated))
        assert (registered["version"], registered["metadata"]) == (number, with_number(str(number))["metadata"])
    registered = api.register("s", TWO)
    assert (registered["version"], "metadata" in registered) == (3, False), "the next schema has no number of its own"


def test_imported_number_is_kept(api: Api) -> None:
    api.ask("PUT", "/mode/s", {"mode": "IMPORT"})
    registered = api.register("s", id=7, version=3, **with_number("9"))
    assert (registered["version"], registered["metadata"]) == (3, with_number("9")["metadata"])
    assert api.register("s", id=7, version=3, **with_number("9")) == registered


def test_imported_version_replaces_a_softly_deleted_one(api: Api) -> None:
    """The deleted version does not come back when the imported one is deleted."""
    api.ask("PUT", "/mode/s", {"mode": "IMPORT"})
    api.register("s", ONE, id=7, version=3)
    assert api.ask("DELETE", "/subjects/s/versions/3") == 3
    for number in (3, 4):
        api.register("s", TWO, id=5 + number, version=number)
    assert api.client.send("DELETE", "/schemagroups/default/schemas/s/versions/3").is_success
    assert api.get("/subjects/s/versions?deleted=true") == [4]
    assert api.code("GET", "/schemas/ids/7") == 40403
