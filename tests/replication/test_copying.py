"""Copies between real servers: what arrives, what is left alone, what goes again."""

from collections.abc import Callable
from typing import Any

import pytest

from signalbook.replication.link import Scope
from signalbook.replication.report import CopyOutcome
from signalbook.xid import Kind

from .servers import FORMAT, Server, copy, schemas, version

AWAY, ORDER = "/schemagroups/shop/schemas/away", "/schemagroups/shop/schemas/order"


def shop(**more: Any) -> dict[str, Any]:
    versions = {
        "1": version(ancestorid="1", createdat="2024-01-01T00:00:00Z"),
        "2": version('{"type": "object" }', ancestorid="1", description="two", labels={"a": "b"}),
        "10": version('{"type":"object"}', ancestorid="2"),
    }
    meta = {"defaultversionid": "2", "defaultversionsticky": True, "compatibility": "backward"}
    schemas = {
        "order": {"meta": meta, "versions": versions},
        "away": {"versions": {"1": {"format": FORMAT, "schemaurl": "https://schemas.example/1"}}},
        "same": {"meta": {"xref": "/schemagroups/shop/schemas/order"}},
    }
    return {
        "schemagroups": {"shop": {"name": "Shop", "labels": {"team": "orders"}, "schemas": schemas, **more}},
        "messagegroups": {"m": {"messages": {"placed": {"envelope": "CloudEvents/1.0", "description": "é"}}}},
        "endpoints": {"e": {"usage": ["producer"], "messagegroups": ["/messagegroups/m"]}},
    }


def test_copy_differs_only_in_its_origin(trio: list[Server]) -> None:
    """Bytes, content types, ids, ancestors, default Versions, meta and labels are equal; the authority is that of the
    source (D-3, D-4, D-7).
    """
    source, two, _ = trio
    source.patch(shop())
    report = copy(source, two)
    assert (report.refused, report.skipped) == ([], [])
    assert two.content() == source.content()
    sent = two.send("GET", "/schemagroups/shop/schemas/order/versions/1")
    assert (sent.content, sent.headers["Content-Type"]) == (b'{"type": "object"}', "application/schema+json; x=1")
    copied_version = two.send("GET", "/schemagroups/shop/schemas/order/versions/1$details").json()
    assert copied_version["authority"].startswith(source.url)
    assert copied_version["globaluri"] == f"{copied_version['authority']}/schemagroups/shop/schemas/order/versions/1"
    assert copied_version["createdat"] == "2024-01-01T00:00:00Z"


def test_existing_entities_are_not_written_again(trio: list[Server]) -> None:
    """The second run changes nothing, not even an epoch (D-6, D-15)."""
    source, two, _ = trio
    source.patch(shop())
    copy(source, two)
    before = two.send("GET", "/?inline=*").text
    report = copy(source, two)
    assert report.moved == 0
    assert report.counts[CopyOutcome.UNCHANGED, Kind.VERSION] == 5
    assert two.send("GET", "/?inline=*").text == before


def test_copy_does_not_get_the_default_rule_of_the_target(trio: list[Server], serve: Callable[..., Server]) -> None:
    """The target's default rule is for schemas that are created there, not for copies."""
    source, target = trio[0], serve(default_compatibility="full")
    source.patch({"schemagroups": {"g": {"schemas": {"s": {"versions": {
        "1": version('{"type": "object"}'), "2": version('{"type": "string"}', ancestorid="1")}}}}}})  # fmt: skip
    assert copy(source, target).refused == []
    assert target.content() == source.content()
    target.patch({"schemagroups": {"own": {"schemas": schemas("s")}}})
    assert target.send("GET", "/schemagroups/own/schemas/s/meta").json()["compatibility"] == "full"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/schemagroups/shop/schemas/order/versions/10", None),
        ("DELETE", "/schemagroups/shop/schemas/same", None),
        ("DELETE", "/schemagroups/shop/schemas/order", None),
        ("DELETE", "/schemagroups/shop", None),
        ("DELETE", "/endpoints/e", None),
        ("PATCH", "/schemagroups/shop", {"name": None, "description": "new"}),
        ("PATCH", "/schemagroups/shop/schemas/order/versions/2$details", {"description": None, "labels": None}),
        ("PATCH", "/schemagroups/shop/schemas/order/versions/2$details", {"contenttype": None, "name": "two"}),
        ("PATCH", "/schemagroups/shop/schemas/order/versions/10$details", version('{"type" : "object"}')),
        ("PATCH", "/schemagroups/shop/schemas/away/versions/1$details", version()),
        ("PATCH", "/schemagroups/shop/schemas/order/meta", {"defaultversionsticky": False, "compatibility": None}),
        ("PATCH", "/schemagroups/shop/schemas/order/meta", {"defaultversionid": "1"}),
        ("PATCH", "/schemagroups/shop/schemas", {"same": {"meta": {"xref": None}, "versions": {"1": version()}}}),
        ("PUT", "/schemagroups/shop/schemas/away/meta", {"xref": "/schemagroups/shop/schemas/order"}),
        ("PATCH", "/schemagroups/shop/schemas", schemas("new", "newer")),
        ("PATCH", "/messagegroups/m/messages/placed", {"description": "other"}),
    ],
)
def test_every_difference_is_copied(trio: list[Server], method: str, path: str, body: Any) -> None:
    """The target follows any change of the source in the next run (D-9, D-15)."""
    source, two, _ = trio
    source.patch(shop())
    copy(source, two)
    source.send(method, path, **({} if body is None else {"json": body}))
    report = copy(source, two)
    assert (report.refused, report.skipped) == ([], [])
    assert two.content() == source.content()


def test_a_resource_with_more_versions_than_fit_into_a_write(trio: list[Server]) -> None:
    """Ancestors that come later by id are given when they are there; what is gone goes."""
    source, two, _ = trio
    chain = {
        str(n): version(ancestorid=str(max(1, n - 1)), createdat=f"2024-01-01T00:{n // 60:02}:{n % 60:02}Z")
        for n in range(1, 1200)
    }
    source.patch({"schemagroups": {"g": {"schemas": {"s": {"versions": chain}}}}})
    assert copy(source, two).refused == []
    assert two.content() == source.content()
    source.send("DELETE", "/schemagroups/g/schemas/s/versions", json={str(n): {} for n in range(100, 700)})
    assert copy(source, two).refused == []
    assert two.content() == source.content()


def test_a_group_under_another_name(trio: list[Server]) -> None:
    """The same names of two registries exist next to each other; references to the group are renamed too (D-2)."""
    first, two, three = trio
    first.patch(shop())
    two.patch(shop(schemas=schemas("order", description="two's")))
    copy(first, three)
    renamed = Scope.parse(renames=["schemagroups/shop=shop2", "messagegroups/m=m2", "endpoints/e=e2"])
    assert copy(two, three, scope=renamed).refused == []
    assert three.content()["schemagroups"]["shop"] == first.content()["schemagroups"]["shop"]
    other = three.content()["schemagroups"]["shop2"]["schemas"]["order"]
    assert other["versions"]["1"]["description"] == "two's"
    assert three.content()["endpoints"]["e2"]["messagegroups"] == ["/messagegroups/m2"]
    two.send("DELETE", "/schemagroups/shop")
    copy(two, three, scope=renamed)
    assert (three.status("/schemagroups/shop2"), three.status("/schemagroups/shop/schemas/order")) == (404, 200)


@pytest.mark.parametrize(
    ("xid", "copied"),
    [
        ("/", ["/endpoints/e", "/messagegroups/m", AWAY, ORDER]),
        ("/schemagroups", [AWAY, ORDER]),
        ("/messagegroups/m", ["/messagegroups/m"]),
        (AWAY, [AWAY]),
    ],
)
def test_a_part_of_a_registry(trio: list[Server], xid: str, copied: list[str]) -> None:
    """The part is a registry, a group or a resource; nothing else is changed or deleted (D-14, D-15)."""
    source, two, _ = trio
    source.patch(shop())
    scope = Scope.parse(xid)
    copy(source, two, scope=scope)
    places = ["/endpoints/e", "/messagegroups/m", AWAY, ORDER]
    assert [place for place in places if two.status(place) != 404] == copied
    for place in places:
        source.send("DELETE", place)
    copy(source, two, scope=scope)
    assert [place for place in places if two.status(place) != 404] == []


def test_entities_of_the_target_remain(trio: list[Server]) -> None:
    """The entities are neither overwritten nor deleted by those of the same name; both are reported (D-9)."""
    source, two, _ = trio
    source.patch({"schemagroups": {"shop": {"name": "Shop", "schemas": schemas("order", "away")}}})
    two.patch({"schemagroups": {"shop": {"name": "Mine", "schemas": schemas("order", "mine", description="mine")}}})
    report = copy(source, two)
    assert [str(passed.xid) for passed in report.refused] == ["/schemagroups/shop/schemas/order"]
    assert "rename" in report.refused[0].reason
    assert [str(passed.xid) for passed in report.skipped] == ["/schemagroups/shop"]
    source.send("DELETE", "/schemagroups/shop/schemas")
    copy(source, two)
    remaining = two.content()["schemagroups"]["shop"]
    assert (remaining["name"], sorted(remaining["schemas"])) == ("Mine", ["mine", "order"])


def test_deletion_at_the_source_keeps_own_versions(trio: list[Server]) -> None:
    """Only the Versions of the source are deleted (D-9)."""
    source, two, _ = trio
    source.patch({"schemagroups": {"g": {"schemas": schemas("s")}}})
    copy(source, two)
    two.send("PATCH", "/schemagroups/g/schemas/s/versions", json={"mine": version()})
    source.send("DELETE", "/schemagroups/g")
    copy(source, two)
    assert list(two.content()["schemagroups"]["g"]["schemas"]["s"]["versions"]) == ["mine"]


def test_refused_entities_are_reported(trio: list[Server]) -> None:
    """An entity that the model or the rules of the target reject is reported; all others of the same write are
    copied.
    """
    source, two, _ = trio
    names = [f"s{n}" for n in range(40)]
    source.patch({"schemagroups": {"g": {"schemas": schemas(*names)}, "bad": {"schemas": schemas("ok")}}})
    two.patch({"schemagroups": {"g": {"format": "Avro/1.11"}}})
    report = copy(source, two)
    assert (
        len([passed for passed in report.refused if "constraint" in passed.reason or "format" in passed.reason]) == 40
    )
    assert two.status("/schemagroups/bad/schemas/ok") == 200


def test_an_authority_that_may_not_come_this_way(trio: list[Server]) -> None:
    """A source that claims another authority can only copy what it is trusted with (D-13)."""
    source, two, _ = trio
    lies = {"authority": "https://bank.example", "globaluri": "https://bank.example/1"}
    source.patch({"schemagroups": {"g": {"schemas": schemas("own") | schemas("lie", **lies)}}})
    report = copy(source, two, authorities=(source.url,))
    assert [(str(passed.xid), "bank.example" in passed.reason) for passed in report.refused] == [
        ("/schemagroups/g/schemas/lie", True)
    ]
    assert (two.status("/schemagroups/g/schemas/own"), two.status("/schemagroups/g/schemas/lie")) == (200, 404)
    assert copy(source, two, authorities=(source.url, "https://bank.example")).refused == []
    assert two.status("/schemagroups/g/schemas/lie") == 200


def test_authority_of_the_target_is_not_copied_back(trio: list[Server]) -> None:
    """The target already is the authority of the Version (D-8)."""
    source, two, _ = trio
    source.patch({"schemagroups": {"g": {"schemas": schemas("s", authority=f"{two.url}/x")}}})
    report = copy(source, two)
    assert [str(passed.xid) for passed in report.skipped] == ["/schemagroups/g/schemas/s"]
    assert two.status("/schemagroups/g/schemas/s") == 404
