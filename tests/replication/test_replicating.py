"""Following: through cut links, killed servers and histories that are gone, nothing is lost, and nothing done twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from signalbook.replication.copying import of_events
from signalbook.replication.replicating import StateFile, StateInMemory

from .servers import Cable, Following, Server, ServerProcess, version, wait_until


def batch(group: str, begin: int, count: int) -> dict[str, Any]:
    names = [f"s{number}" for number in range(begin, begin + count)]
    return {"schemagroups": {group: {"schemas": {name: {"versions": {"1": version(name=name)}} for name in names}}}}


def same(one: Server, other: Server) -> Callable[[], bool]:
    return lambda: one.content() == other.content()


def test_every_change_follows(trio: list[Server]) -> None:
    """D-1, D-15: what was there, what comes, what changes, what goes."""
    one, two, _ = trio
    one.patch(batch("g", 0, 30))
    with Following(one, two, StateInMemory()) as following:
        wait_until(same(one, two))
        one.patch(batch("g", 30, 200))
        one.patch(batch("h", 0, 5))
        one.send("PATCH", "/schemagroups/g", json={"name": "G"})
        one.send("PATCH", "/schemagroups/g/schemas/s3/versions", json={"2": version(ancestorid="1")})
        wait_until(same(one, two))
        one.send("DELETE", "/schemagroups/g/schemas/s3/versions/1")
        one.send("DELETE", "/schemagroups/g/schemas/s4")
        one.send("DELETE", "/schemagroups/h")
        wait_until(same(one, two))
    assert (following.errors, following.report.refused) == ([], [])


def test_mutual_followers_come_to_rest(trio: list[Server]) -> None:
    """D-8, D-10: each hears of what it brought itself, and does nothing about it."""
    one, two, _ = trio
    with Following(one, two, StateInMemory()) as there, Following(two, one, StateInMemory()) as back:
        one.patch(batch("one", 0, 20))
        two.patch(batch("two", 0, 20))
        wait_until(lambda: one.content() == two.content() and len(one.content()["schemagroups"]) == 2)
        one.send("DELETE", "/schemagroups/one/schemas/s1")
        wait_until(lambda: two.status("/schemagroups/one/schemas/s1") == 404)
        last = one.send("GET", "/events?limit=1").links["last"]["url"]
        wait_until(same(one, two))
    assert (there.errors, back.errors) == ([], [])
    assert [event for event in one.send("GET", last.removeprefix(one.url)).json() if "deleted" in event["type"]] == []


@pytest.mark.merge
@pytest.mark.parametrize("after", [3_000, 40_000])
def test_a_link_cut_at_any_point(trio: list[Server], cable: Callable[[Server], Cable], after: int) -> None:
    """Reading or writing: what was on the way is fetched again, and is there once."""
    one, two, _ = trio
    one.patch(batch("g", 0, 150))
    near, far = cable(one), cable(two)
    for line in (near, far):
        line.cut(after=after)
    with Following(one, two, StateInMemory(), ours=near.url, theirs=far.url) as following:
        wait_until(lambda: bool(following.errors))
        one.patch(batch("g", 150, 20))
        for line in (near, far):
            line.mend()
        wait_until(same(one, two))
        met = len(following.errors)
        far.cut()
        one.patch(batch("g", 170, 20))
        wait_until(lambda: len(following.errors) > met)
        far.mend()
        wait_until(same(one, two))
    assert all(schema["versions"]["1"]["epoch"] == 1 for schema in shown(two).values())


def shown(server: Server) -> dict[str, Any]:
    schemas: dict[str, Any] = server.send("GET", "/schemagroups/g/schemas?inline=*&doc").json()
    return schemas


@pytest.mark.merge
def test_servers_killed_in_the_middle(serve_process: Callable[[], ServerProcess]) -> None:
    """They come back, and the copying goes on; nothing is written twice."""
    one, two = serve_process(), serve_process()
    for begin in range(0, 1000, 250):
        one.patch(batch("g", begin, 250))
    with Following(one, two, StateInMemory()) as following:
        wait_until(lambda: two.status("/schemagroups/g") == 200)
        two.kill()
        one.patch(batch("g", 1000, 250))
        wait_until(lambda: bool(following.errors))
        two.start()
        one.kill()
        met = len(following.errors)
        wait_until(lambda: len(following.errors) > met)
        one.start()
        one.patch(batch("g", 1250, 50))
        wait_until(same(one, two))
    assert all(schema["versions"]["1"]["epoch"] == 1 for schema in shown(two).values())


def test_a_follower_goes_on_where_it_was(trio: list[Server], tmp_path: Path) -> None:
    """The state outlives it: what came meanwhile is copied, and nothing else is looked at."""
    one, two, _ = trio
    one.patch(batch("g", 0, 20))
    state = StateFile(tmp_path / "state.json")
    with Following(one, two, state):
        wait_until(same(one, two))
    one.patch(batch("g", 20, 10))
    one.send("DELETE", "/schemagroups/g/schemas/s0")
    with Following(one, two, state) as following:
        wait_until(same(one, two))
    assert following.report.to_json()["created"] == {"resources": 10, "versions": 10}
    assert following.report.to_json()["unchanged"] == {}


@pytest.mark.merge
@pytest.mark.parametrize("changes", [1, 8])
def test_a_source_that_begins_anew_is_compared_as_a_whole(
    serve: Callable[[], Server], trio: list[Server], tmp_path: Path, changes: int
) -> None:
    """Its history says nothing about what was copied before, however long it is; what it has no longer goes."""
    one, two = serve(), trio[1]
    one.patch(batch("g", 0, 5))
    one.patch(batch("h", 0, 5))
    state = StateFile(tmp_path / "state.json")
    with Following(one, two, state):
        wait_until(same(one, two))
    one.stop()
    for file in one.folder.glob("registry.db*"):
        file.unlink()
    one.start()
    for number in range(changes):
        one.patch(batch("k", number, 5))
    with Following(one, two, state):
        wait_until(same(one, two))


def test_hints_in_any_order_and_again_lead_to_the_same(trio: list[Server], tmp_path: Path) -> None:
    """D-21: what is reported may be long over; it is looked at as it is now."""
    one, two, _ = trio
    one.patch(batch("g", 0, 20))
    state = StateFile(tmp_path / "state.json")
    with Following(one, two, state):
        wait_until(same(one, two))
        one.send("DELETE", "/schemagroups/g/schemas/s5")
        wait_until(same(one, two))
        one.patch(batch("g", 5, 1))
        wait_until(same(one, two))
    shutil.copy(tmp_path / "state.json", tmp_path / "late.json")
    note = (tmp_path / "late.json").read_text()
    (tmp_path / "late.json").write_text(json.dumps({**json.loads(note), "position": 1, "mark": ""}))
    before = two.send("GET", "/schemagroups?inline=*").text
    with Following(one, two, StateFile(tmp_path / "late.json")) as following:
        wait_until(lambda: position((tmp_path / "late.json").read_text()) >= position(note))
    assert following.report.moved == 0
    assert two.send("GET", "/schemagroups?inline=*").text == before


def position(note: str) -> int:
    return int(note.partition('"position":')[2].partition(",")[0].rstrip("}"))


def test_what_events_hint_at() -> None:
    """Versions one by one, unless all of a Resource may be different; nothing where nothing can be read."""

    def event(subject: object, kind: str = "version.updated", *changed: str) -> dict[str, Any]:
        return {"type": f"io.xregistry.{kind}", "subject": subject, "data": {"changed": list(changed)}}

    hints = of_events(
        [
            *(event(subject) for subject in ("/", "/model", 5, "no xid")),
            event("/schemagroups/only", "group.updated", "epoch", "schemas", "schemascount"),
            event("/schemagroups/g", "group.updated", "name", "epoch"),
            *(event(f"/schemagroups/g/schemas/s/versions/{number}") for number in (1, 2)),
            event("/schemagroups/g/schemas/t", "resource.created"),
            event("/schemagroups/g/schemas/t/versions/1"),
            event("/schemagroups/g/schemas/u", "resource.updated"),
        ]
    )
    assert [str(group) for group in hints.groups] == ["/schemagroups/g"]
    assert {str(place): members for place, members in hints.resources.items()} == {
        "/schemagroups/g/schemas": {"s": {"1", "2"}, "t": None, "u": set()}
    }
