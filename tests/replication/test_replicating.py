"""Following: through cut links, killed servers and histories that are gone, nothing is lost, and nothing done twice."""

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


def same(first: Server, other: Server) -> Callable[[], bool]:
    return lambda: first.content() == other.content()


def test_every_change_follows(trio: list[Server]) -> None:
    """The changes are existing entities, additions, updates and deletions (D-1, D-15)."""
    source, two, _ = trio
    source.patch(batch("g", 0, 30))
    with Following(source, two, StateInMemory()) as following:
        wait_until(same(source, two))
        source.patch(batch("g", 30, 200))
        source.patch(batch("h", 0, 5))
        source.send("PATCH", "/schemagroups/g", json={"name": "G"})
        source.send("PATCH", "/schemagroups/g/schemas/s3/versions", json={"2": version(ancestorid="1")})
        wait_until(same(source, two))
        source.send("DELETE", "/schemagroups/g/schemas/s3/versions/1")
        source.send("DELETE", "/schemagroups/g/schemas/s4")
        source.send("DELETE", "/schemagroups/h")
        wait_until(same(source, two))
    assert (following.errors, following.report.refused) == ([], [])


def test_mutual_followers_become_idle(trio: list[Server]) -> None:
    """Each server gets events of its own copies, and ignores them (D-8, D-10)."""
    first, two, _ = trio
    with Following(first, two, StateInMemory()) as there, Following(two, first, StateInMemory()) as back:
        first.patch(batch("one", 0, 20))
        two.patch(batch("two", 0, 20))
        wait_until(lambda: first.content() == two.content() and len(first.content()["schemagroups"]) == 2)
        first.send("DELETE", "/schemagroups/one/schemas/s1")
        wait_until(lambda: two.status("/schemagroups/one/schemas/s1") == 404)
        last = first.send("GET", "/events?limit=1").links["last"]["url"]
        wait_until(same(first, two))
    assert (there.errors, back.errors) == ([], [])
    assert [
        event for event in first.send("GET", last.removeprefix(first.url)).json() if "deleted" in event["type"]
    ] == []


@pytest.mark.merge
@pytest.mark.parametrize("after", [3_000, 40_000])
def test_a_link_cut_at_any_point(trio: list[Server], cable: Callable[[Server], Cable], after: int) -> None:
    """Reading or writing: what was on the way is fetched again, and is there once."""
    source, two, _ = trio
    source.patch(batch("g", 0, 150))
    near, far = cable(source), cable(two)
    for line in (near, far):
        line.cut(after=after)
    with Following(source, two, StateInMemory(), ours=near.url, theirs=far.url) as following:
        wait_until(lambda: bool(following.errors))
        source.patch(batch("g", 150, 20))
        for line in (near, far):
            line.mend()
        wait_until(same(source, two))
        met = len(following.errors)
        far.cut()
        source.patch(batch("g", 170, 20))
        wait_until(lambda: len(following.errors) > met)
        far.mend()
        wait_until(same(source, two))
    assert all(schema["versions"]["1"]["epoch"] == 1 for schema in shown(two).values())


def shown(server: Server) -> dict[str, Any]:
    schemas: dict[str, Any] = server.send("GET", "/schemagroups/g/schemas?inline=*&doc").json()
    return schemas


@pytest.mark.merge
def test_servers_killed_in_the_middle(serve_process: Callable[[], ServerProcess]) -> None:
    """The servers are restarted, and the copying continues; nothing is written twice."""
    source, two = serve_process(), serve_process()
    for begin in range(0, 1000, 250):
        source.patch(batch("g", begin, 250))
    with Following(source, two, StateInMemory()) as following:
        wait_until(lambda: two.status("/schemagroups/g") == 200)
        two.kill()
        source.patch(batch("g", 1000, 250))
        wait_until(lambda: bool(following.errors))
        two.start()
        source.kill()
        met = len(following.errors)
        wait_until(lambda: len(following.errors) > met)
        source.start()
        source.patch(batch("g", 1250, 50))
        wait_until(same(source, two))
    assert all(schema["versions"]["1"]["epoch"] == 1 for schema in shown(two).values())


def test_follower_continues_where_it_stopped(trio: list[Server], tmp_path: Path) -> None:
    """The state outlives it: what came meanwhile is copied, and nothing else is looked at."""
    source, two, _ = trio
    source.patch(batch("g", 0, 20))
    state = StateFile(tmp_path / "state.json")
    with Following(source, two, state):
        wait_until(same(source, two))
    source.patch(batch("g", 20, 10))
    source.send("DELETE", "/schemagroups/g/schemas/s0")
    with Following(source, two, state) as following:
        wait_until(same(source, two))
    assert following.report.to_json()["created"] == {"resources": 10, "versions": 10}
    assert following.report.to_json()["unchanged"] == {}


@pytest.mark.merge
@pytest.mark.parametrize("changes", [1, 8])
def test_recreated_source_is_compared_completely(
    serve: Callable[[], Server], trio: list[Server], tmp_path: Path, changes: int
) -> None:
    """The history of the new source says nothing about earlier copies, however long it is; entities that it lacks
    are deleted.
    """
    source, two = serve(), trio[1]
    source.patch(batch("g", 0, 5))
    source.patch(batch("h", 0, 5))
    state = StateFile(tmp_path / "state.json")
    with Following(source, two, state):
        wait_until(same(source, two))
    source.stop()
    for file in source.folder.glob("registry.db*"):
        file.unlink()
    source.start()
    for number in range(changes):
        source.patch(batch("k", number, 5))
    with Following(source, two, state):
        wait_until(same(source, two))


def test_hints_in_any_order_lead_to_the_same_copy(trio: list[Server], tmp_path: Path) -> None:
    """A hint may be outdated; the current state is read (D-21)."""
    source, two, _ = trio
    source.patch(batch("g", 0, 20))
    state = StateFile(tmp_path / "state.json")
    with Following(source, two, state):
        wait_until(same(source, two))
        source.send("DELETE", "/schemagroups/g/schemas/s5")
        wait_until(same(source, two))
        source.patch(batch("g", 5, 1))
        wait_until(same(source, two))
    shutil.copy(tmp_path / "state.json", tmp_path / "late.json")
    note = (tmp_path / "late.json").read_text()
    (tmp_path / "late.json").write_text(json.dumps({**json.loads(note), "position": 1, "mark": ""}))
    before = two.send("GET", "/schemagroups?inline=*").text
    with Following(source, two, StateFile(tmp_path / "late.json")) as following:
        wait_until(lambda: position((tmp_path / "late.json").read_text()) >= position(note))
    assert following.report.moved == 0
    assert two.send("GET", "/schemagroups?inline=*").text == before


def position(note: str) -> int:
    return int(note.partition('"position":')[2].partition(",")[0].rstrip("}"))


def test_hints_of_events() -> None:
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
