"""Peers, hubs, stars and rings of real servers: they come to the same and then rest."""

from typing import Any

import pytest

from .servers import Server, copy, version


def schemas(**descriptions: str) -> dict[str, Any]:
    return {name: {"versions": {"1": version(description=text)}} for name, text in descriptions.items()}


def rounds(*ways: tuple[Server, Server]) -> int:
    """Copy all ways again and again until nothing moves; how many rounds that took."""
    for number in range(1, 10):
        if sum(copy(first, other).moved for first, other in ways) == 0:
            return number
    pytest.fail("it does not come to rest")


def state(server: Server) -> str:
    return server.send("GET", "/?inline=*").text


def test_two_peers_converge(trio: list[Server]) -> None:
    """Each peer keeps its own entities, and changes and deletions are copied without an echo (D-8, D-10)."""
    first, two, _ = trio
    first.patch({"schemagroups": {"g": {"schemas": schemas(a="one")}, "one": {"schemas": schemas(x="one")}}})
    two.patch({"schemagroups": {"g": {"schemas": schemas(b="two")}, "two": {"schemas": schemas(x="two")}}})
    ways = (first, two), (two, first)
    assert rounds(*ways) == 2
    assert first.content() == two.content()
    assert sorted(first.content()["schemagroups"]["g"]["schemas"]) == ["a", "b"]
    before = state(first), state(two)
    assert rounds(*ways) == 1
    assert (state(first), state(two)) == before
    first.send("PATCH", "/schemagroups/g/schemas/a/versions", json={"2": version(description="more")})
    two.send("DELETE", "/schemagroups/g/schemas/b")
    two.send("DELETE", "/schemagroups/two")
    assert rounds(*ways) == 2
    assert first.content() == two.content()
    assert sorted(first.content()["schemagroups"]) == ["g", "one"]


def test_copy_deleted_at_a_peer_is_not_deleted_at_its_origin(trio: list[Server]) -> None:
    """The producer has the authority, so the schema is copied again (D-9, D-13)."""
    origin, two, _ = trio
    origin.patch({"schemagroups": {"g": {"schemas": schemas(a="one")}}})
    ways = (origin, two), (two, origin)
    rounds(*ways)
    two.send("DELETE", "/schemagroups/g/schemas/a")
    rounds(*reversed(ways))
    assert "a" in origin.content()["schemagroups"]["g"]["schemas"]
    assert origin.content() == two.content()


def test_authority_and_version_uri_survive_a_hub(trio: list[Server]) -> None:
    """After two hops they are those of the producer, so deletions are copied too (D-11)."""
    origin, hub, three = trio
    origin.patch({"schemagroups": {"g": {"schemas": schemas(a="one")}}, "endpoints": {"e": {"usage": ["consumer"]}}})
    ways = (origin, hub), (hub, three)
    assert rounds(*ways) == 2
    copied_version = three.send("GET", "/schemagroups/g/schemas/a/versions/1$details").json()
    assert copied_version["authority"].startswith(origin.url)
    assert copied_version["globaluri"].startswith(origin.url)
    assert copied_version["labels"]["replicatedfrom"] == f"{hub.url} {origin.url}"
    assert three.content() == origin.content()
    origin.send("DELETE", "/schemagroups/g")
    origin.send("DELETE", "/endpoints/e")
    rounds(*ways)
    assert three.content() == origin.content()


def test_a_star_collects_from_all_and_serves_all(trio: list[Server]) -> None:
    """All registries contribute to the hub, and get everything from it (D-12)."""
    first, hub, three = trio
    first.patch({"schemagroups": {"g": {"schemas": schemas(a="one")}}})
    three.patch({"schemagroups": {"g": {"schemas": schemas(c="three")}}})
    rounds((first, hub), (three, hub), (hub, first), (hub, three))
    assert first.content() == hub.content() == three.content()
    assert sorted(hub.content()["schemagroups"]["g"]["schemas"]) == ["a", "c"]


def test_ring_of_three_becomes_idle(trio: list[Server]) -> None:
    """A schema does not return to its origin, not even if it is deleted meanwhile (D-8)."""
    first, two, three = trio
    first.patch({"schemagroups": {"g": {"schemas": schemas(a="one")}}, "endpoints": {"e": {"usage": ["consumer"]}}})
    two.patch({"schemagroups": {"g": {"schemas": schemas(b="two")}}})
    ways = (first, two), (two, three), (three, first)
    assert rounds(*ways) == 2
    assert first.content() == two.content() == three.content()
    first.send("DELETE", "/endpoints/e")
    first.send("DELETE", "/schemagroups/g/schemas/a")
    rounds(*reversed(ways))
    assert first.content() == two.content() == three.content()
    assert list(first.content()["schemagroups"]["g"]["schemas"]) == ["b"]
    assert first.content()["endpoints"] == {}


def test_nearer_source_takes_precedence(trio: list[Server]) -> None:
    """A copy that also comes from its origin is not deleted by the hub any more (D-9)."""
    origin, hub, three = trio
    origin.patch({"schemagroups": {"g": {"schemas": schemas(a="one")}}})
    rounds((origin, hub), (hub, three))
    assert rounds((origin, three), (hub, three)) == 2
    hub.send("DELETE", "/schemagroups/g/schemas/a")
    copy(hub, three)
    assert three.status("/schemagroups/g/schemas/a") == 200
