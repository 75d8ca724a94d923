"""Peers, hubs, stars and rings of real servers: they come to the same and then rest."""

from __future__ import annotations

from typing import Any

import pytest

from .servers import Server, copy, version


def schemas(**descriptions: str) -> dict[str, Any]:
    return {name: {"versions": {"1": version(description=text)}} for name, text in descriptions.items()}


def rounds(*ways: tuple[Server, Server]) -> int:
    """Copy all ways again and again until nothing moves; how many rounds that took."""
    for number in range(1, 10):
        if sum(copy(one, other).moved for one, other in ways) == 0:
            return number
    pytest.fail("it does not come to rest")


def state(server: Server) -> str:
    return server.send("GET", "/?inline=*").text


def test_two_peers_come_to_the_same_and_rest(trio: list[Server]) -> None:
    """D-8, D-10: no ping-pong; each keeps what is its own, changes and deletions go from there to the other."""
    one, two, _ = trio
    one.patch({"schemagroups": {"g": {"schemas": schemas(a="one")}, "one": {"schemas": schemas(x="one")}}})
    two.patch({"schemagroups": {"g": {"schemas": schemas(b="two")}, "two": {"schemas": schemas(x="two")}}})
    ways = (one, two), (two, one)
    assert rounds(*ways) == 2
    assert one.content() == two.content()
    assert sorted(one.content()["schemagroups"]["g"]["schemas"]) == ["a", "b"]
    before = state(one), state(two)
    assert rounds(*ways) == 1
    assert (state(one), state(two)) == before
    one.send("PATCH", "/schemagroups/g/schemas/a/versions", json={"2": version(description="more")})
    two.send("DELETE", "/schemagroups/g/schemas/b")
    two.send("DELETE", "/schemagroups/two")
    assert rounds(*ways) == 2
    assert one.content() == two.content()
    assert sorted(one.content()["schemagroups"]) == ["g", "one"]


def test_a_copy_deleted_at_one_peer_is_not_deleted_where_it_is_from(trio: list[Server]) -> None:
    """D-9, D-13: the producer has authority; its schema comes back."""
    one, two, _ = trio
    one.patch({"schemagroups": {"g": {"schemas": schemas(a="one")}}})
    ways = (one, two), (two, one)
    rounds(*ways)
    two.send("DELETE", "/schemagroups/g/schemas/a")
    rounds(*reversed(ways))
    assert "a" in one.content()["schemagroups"]["g"]["schemas"]
    assert one.content() == two.content()


def test_authority_and_version_uri_survive_a_hub(trio: list[Server]) -> None:
    """D-11: after two hops they are the producer's; and so a deletion comes through."""
    one, hub, three = trio
    one.patch({"schemagroups": {"g": {"schemas": schemas(a="one")}}, "endpoints": {"e": {"usage": ["consumer"]}}})
    ways = (one, hub), (hub, three)
    assert rounds(*ways) == 2
    shown = three.send("GET", "/schemagroups/g/schemas/a/versions/1$details").json()
    assert shown["authority"].startswith(one.url)
    assert shown["globaluri"].startswith(one.url)
    assert shown["labels"]["replicatedfrom"] == f"{hub.url} {one.url}"
    assert three.content() == one.content()
    one.send("DELETE", "/schemagroups/g")
    one.send("DELETE", "/endpoints/e")
    rounds(*ways)
    assert three.content() == one.content()


def test_a_star_collects_from_all_and_serves_all(trio: list[Server]) -> None:
    """D-12: all contribute to the hub, all have everything from there."""
    one, hub, three = trio
    one.patch({"schemagroups": {"g": {"schemas": schemas(a="one")}}})
    three.patch({"schemagroups": {"g": {"schemas": schemas(c="three")}}})
    rounds((one, hub), (three, hub), (hub, one), (hub, three))
    assert one.content() == hub.content() == three.content()
    assert sorted(hub.content()["schemagroups"]["g"]["schemas"]) == ["a", "c"]


def test_a_ring_of_three_ends(trio: list[Server]) -> None:
    """D-8: what has gone round does not come in again, not even when it is deleted meanwhile."""
    one, two, three = trio
    one.patch({"schemagroups": {"g": {"schemas": schemas(a="one")}}, "endpoints": {"e": {"usage": ["consumer"]}}})
    two.patch({"schemagroups": {"g": {"schemas": schemas(b="two")}}})
    ways = (one, two), (two, three), (three, one)
    assert rounds(*ways) == 2
    assert one.content() == two.content() == three.content()
    one.send("DELETE", "/endpoints/e")
    one.send("DELETE", "/schemagroups/g/schemas/a")
    rounds(*reversed(ways))
    assert one.content() == two.content() == three.content()
    assert list(one.content()["schemagroups"]["g"]["schemas"]) == ["b"]
    assert one.content()["endpoints"] == {}


def test_who_is_nearer_to_the_origin_wins(trio: list[Server]) -> None:
    """D-9: what came by a hub and comes from its origin too is no longer the hub's to delete."""
    one, hub, three = trio
    one.patch({"schemagroups": {"g": {"schemas": schemas(a="one")}}})
    rounds((one, hub), (hub, three))
    assert rounds((one, three), (hub, three)) == 2
    hub.send("DELETE", "/schemagroups/g/schemas/a")
    copy(hub, three)
    assert three.status("/schemagroups/g/schemas/a") == 200
