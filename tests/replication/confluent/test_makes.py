"""Registries of other makes as sources, by what was seen of them: a real one behind each, shown as they do."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.replication.confluent.conftest import NOT_FOUND, Change
from tests.replication.confluent.registries import ask, content, copy, fill, mounts, record, register
from tests.replication.servers import Server

from signalbook.replication.replicating import StateInMemory

Serve = Callable[..., Server]
Changing = Callable[[str, Change], str]


def plain(value: Any, *names: str) -> Any:
    """JSON without members of these names, and without the type of Avro schemas."""
    if isinstance(value, list):
        return [plain(element, *names) for element in value]
    if not isinstance(value, dict):
        return value
    members = {name: plain(element, *names) for name, element in value.items() if name not in names}
    return (
        members
        if members.get("schemaType") != "AVRO"
        else {name: members[name] for name in members.keys() - {"schemaType"}}
    )


def confluent_7(path: str, status: int, value: Any) -> tuple[int, Any]:
    """Lists do not say what is deleted, and nothing is associated."""
    if path.startswith("/associations"):
        return 404, NOT_FOUND
    if path == "/v1/metadata/version":
        return 200, {"version": "7.9.0", "commitId": "0"}
    return status, plain(value, "deleted", "guid")


def confluent_5(path: str, status: int, value: Any) -> tuple[int, Any]:
    """There are no lists of schemas, no pages, and no associations."""
    if path.startswith(("/schemas?", "/v1/", "/contexts", "/associations")):
        return 404, NOT_FOUND
    return status, plain(value, "deleted", "guid")


def karapace(path: str, status: int, value: Any) -> tuple[int, Any]:
    """Answer as Karapace of 2026: the parameter ``deleted`` of the list of schemas has the opposite meaning, and
    all subjects have the mode of the registry.
    """
    if path.startswith(("/v1/", "/contexts", "/associations")):
        return 404, "Not Found"
    if path.startswith("/schemas?"):
        return 200, [schema for schema in plain(value, "guid") if not schema.get("deleted")]
    if path.startswith("/mode/"):
        return 200, {"mode": "READWRITE"}
    return status, plain(value, "deleted", "guid")


def apicurio(path: str, status: int, value: Any) -> tuple[int, Any]:
    """Answer as Apicurio 3.3.3: schemas are listed without versions, subjects have the config of the registry, and
    deleted versions are hidden.
    """
    mount = "/apis/ccompat/v7"
    if not path.startswith(mount) or path.startswith(
        tuple(f"{mount}/{other}" for other in ("v1/", "mode", "associations"))
    ):
        return 404, NOT_FOUND
    if path.startswith(f"{mount}/schemas?"):
        return 200, [{"schema": schema["schema"]} for schema in value]
    if path == f"{mount}/contexts":
        return 200, [":.:"]
    if status == 404 and path.startswith(f"{mount}/config/"):
        missing = path.endswith("nobody-has")
        return (404, {**value, "error_code": 40401}) if missing else (200, {"compatibilityLevel": "FULL"})
    if isinstance(value, dict) and value.get("deleted") and "/versions/" in path:
        return 404, {"error_code": 40401, "message": "No artifact"}
    return status, plain(value, "deleted", "guid")


@pytest.mark.merge
@pytest.mark.parametrize("change", [confluent_7, confluent_5, karapace])
def test_everything_is_copied_from_other_servers(serve: Serve, changing: Changing, change: Change) -> None:
    real, target = mounts([serve(), serve()])
    fill(real)
    ask(real, "DELETE", "/config/same")  # an alias, which has no versions of its own where there is no list
    source = changing(real, change)
    state = StateInMemory()
    assert not copy(source, target, state).refused
    there, here = content(target), content(real)
    for kind in ("versions", "config", *(("mode",) if change is not karapace else ())):
        assert there[kind] == here[kind]
    assert copy(source, target, state).moved == 0
    ask(real, "DELETE", "/subjects/a-paid")
    ask(real, "DELETE", "/subjects/a-paid?permanent=true")
    register(real, "new", record("New", "id"))
    ask(real, "DELETE", "/subjects/same")
    assert not copy(source, target, state).refused
    assert content(target)["versions"] == content(real)["versions"]


@pytest.mark.merge
def test_copy_from_apicurio(serve: Serve, changing: Changing) -> None:
    """The API is found at its mount. Deleted versions are listed if they were not copied before, and deleted if
    they were.
    """
    server, other = serve(), serve()
    real, target = mounts([server, other])
    fill(real)
    ask(real, "DELETE", "/config/same")
    source, state = changing(server.url, apicurio), StateInMemory()
    report = copy(source, target, state)
    gone = [("a-using", 1), ("gone", 1), ("orders/value", 2)]
    assert [str(row.xid) for row in report.skipped] == [f"{subject} version {number}" for subject, number in gone]
    assert not report.refused
    here = content(real)
    assert content(target)["versions"] == {key: here["versions"][key] for key in here["versions"].keys() - set(gone)}
    assert content(target)["config"] == {scope: here["config"][scope] for scope in content(target)["config"]}
    ask(real, "DELETE", "/subjects/same")
    assert copy(source, target, state).summary()["deleted"] == {"versions": 1}
    assert ask(target, "GET", "/subjects/same/versions/1?deleted=true")["deleted"]


@pytest.mark.merge
def test_list_is_read_again_if_its_pages_move(
    serve: Serve, changing: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A permanent deletion during the reading of a list moves the following pages: the list is read again."""
    monkeypatch.setattr("signalbook.client.confluent._PAGE_ITEMS", 100)
    real, target = mounts([serve(), serve()])
    for number in range(150):
        register(real, f"s{number // 5:02}", record("R", "f"), metadata={"properties": {"n": str(number)}})
    register(real, "a", record("A", "id"))
    ask(real, "DELETE", "/subjects/a")
    pages: list[int] = []

    def between(path: str, status: int, value: Any) -> tuple[int, Any]:
        offset = parse_qs(urlsplit(path).query).get("offset")
        if path.startswith("/schemas?") and offset is not None:
            pages.append(int(offset[0]))
            if len(pages) == 1:
                ask(real, "DELETE", "/subjects/s00/versions/1")
                ask(real, "DELETE", "/subjects/s00/versions/1?permanent=true")
        return status, value

    assert not copy(changing(real, between), target).refused
    assert pages[:3] == [0, 99, 0]
    there = content(target)["versions"].keys()
    assert there - content(real)["versions"].keys() == {("s00", 1)}  # it was there when it was listed
    assert not content(real)["versions"].keys() - there
