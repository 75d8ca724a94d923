"""Servers that copy from others by themselves, woken by their feeds, by notices, or by the clock."""

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.serving import kept_port

from signalbook.engine.engine import Engine
from signalbook.replication.following import Following, Peer, RecentlySeen
from signalbook.replication.replicating import Replication
from signalbook.server import run
from signalbook.settings import SettingError, Settings
from signalbook.storage import open_store
from signalbook.storage.store import KeyValueStore

from .servers import HTTP, PATIENCE, Server, ServerProcess, schemas, wait_until

Serve = Callable[..., Server]
ServeProcess = Callable[..., ServerProcess]


def test_a_server_follows_others(serve_process: ServeProcess, trio: list[Server]) -> None:
    """The hub follows two sources, one of them partly and renamed, and shows their status (D-12, D-15, D-16)."""
    source, two, _ = trio
    source.patch({"schemagroups": {"a": {"schemas": schemas("s")}}})
    two.patch({"schemagroups": {"a": {"schemas": schemas("t")}, "b": {"schemas": schemas("u")}}})
    hub = serve_process(follow=(source.url, f"{two.url}#/schemagroups/a=two.a"), workers=2)
    wait_until(lambda: hub.status("/schemagroups/a/schemas/s") == hub.status("/schemagroups/two.a/schemas/t") == 200)
    assert hub.status("/schemagroups/b") == 404
    source.send("DELETE", "/schemagroups/a/schemas/s")
    source.patch({"schemagroups": {"a": {"schemas": schemas("later")}}})
    wait_until(lambda: hub.status("/schemagroups/a/schemas/later") == 200)
    wait_until(lambda: hub.status("/schemagroups/a/schemas/s") == 404)

    def shown() -> Any:
        return hub.send("GET", "/health/ready", headers={"Connection": "close"}).json()["replication"]

    # Either process answers; only one of them follows.
    wait_until(lambda: shown()["follows"] is True)
    wait_until(lambda: shown()["follows"] is False)
    sources = {source.url, f"{two.url}#/schemagroups/a=two.a"}
    wait_until(lambda: (status := shown())["follows"] and status["sources"].keys() == sources)


@pytest.mark.merge
def test_unavailable_source_is_retried(serve: Serve, tmp_path: Path) -> None:
    source = Server(folder=tmp_path)
    hub = serve(follow=(source.url,))

    def shown() -> Any:
        return hub.send("GET", "/health/ready").json()["replication"]["sources"].get(source.url, {})

    wait_until(lambda: "cannot reach" in shown().get("error", ""))
    source.start()
    try:
        source.patch({"schemagroups": {"g": {"schemas": schemas("s")}}})
        wait_until(lambda: hub.status("/schemagroups/g/schemas/s") == 200)
        wait_until(lambda: "error" not in shown())
    finally:
        source.end()


@pytest.mark.merge
def test_a_server_pushes_to_others(serve_process: ServeProcess, trio: list[Server]) -> None:
    """One target gets everything, another one a group under another name. Deletions follow. The status lists both."""
    first, two, _ = trio
    source = serve_process(push=(first.url, f"{two.url}#/schemagroups/a=one.a"), workers=2)
    source.patch({"schemagroups": {"a": {"schemas": schemas("s")}, "b": {"schemas": schemas("t")}}})
    wait_until(lambda: first.content() == source.content())
    wait_until(lambda: two.status("/schemagroups/one.a/schemas/s") == 200)
    label = first.send("GET", "/schemagroups/a/schemas/s$details").json()["labels"]["replicatedfrom"]
    assert (label, two.status("/schemagroups/b")) == (source.url, 404)
    source.send("DELETE", "/schemagroups/a/schemas/s")
    source.patch({"schemagroups": {"a": {"schemas": schemas("later")}}})
    wait_until(lambda: first.content() == source.content())
    wait_until(lambda: two.status("/schemagroups/one.a/schemas/s") == 404)
    assert two.status("/schemagroups/one.a/schemas/later") == 200

    def shown() -> Any:
        return source.send("GET", "/health/ready", headers={"Connection": "close"}).json()["replication"]

    wait_until(
        lambda: (
            (status := shown())["follows"]
            and status["targets"].keys() == {first.url, f"{two.url}#/schemagroups/a=one.a"}
        )
    )
    wait_until(lambda: shown()["follows"] is False)


@pytest.mark.merge
def test_killed_push_continues_where_it_stopped(
    serve_process: ServeProcess, trio: list[Server], tmp_path: Path
) -> None:
    """The push does not compare the target again, and sends the changes that were made while it was down."""
    target = trio[0]
    source = serve_process(push=(target.url,))
    source.patch({"schemagroups": {"g": {"schemas": schemas("s", "t")}}})
    wait_until(lambda: target.content() == source.content())
    wait_until(lambda: _pushed(source) >= len(source.send("GET", "/events").json()))
    source.kill()
    # Comparing everything would bring it back.
    target.send("DELETE", "/schemagroups/g/schemas/t")
    source.start()
    source.patch({"schemagroups": {"g": {"schemas": schemas("later")}}})
    wait_until(lambda: target.status("/schemagroups/g/schemas/later") == 200)
    assert target.status("/schemagroups/g/schemas/t") == 404


def _pushed(source: Server) -> int:
    """The position up to which the only push of a server has come."""
    with closing(open_store(f"sqlite:///{source.folder}/registry.db")) as store:
        name = Peer.parse(source.settings["push"][0], target=True).name
        state = KeyValueStore(store).get(f"replications/{name}")
    return state["position"] or 0 if isinstance(state, dict) else 0


@pytest.mark.merge
def test_unavailable_or_new_target_is_caught_up(serve: Serve, tmp_path: Path) -> None:
    """The target is retried; a new target in the place of the old one gets everything."""
    target = ServerProcess(folder=tmp_path)
    source = serve(push=(target.url,))
    source.patch({"schemagroups": {"g": {"schemas": schemas("s")}}})

    def shown() -> Any:
        return source.send("GET", "/health/ready").json()["replication"].get("targets", {}).get(target.url, {})

    try:
        wait_until(lambda: "cannot reach" in shown().get("error", ""))
        target.start()
        wait_until(lambda: target.status("/schemagroups/g/schemas/s") == 200)
        wait_until(lambda: "error" not in shown())
        target.kill()
        for file in tmp_path.glob("registry.db*"):
            file.unlink()
        target.start()
        source.patch({"schemagroups": {"h": {}}})
        wait_until(lambda: target.content() == source.content())
    finally:
        target.end()


def test_a_push_names_its_registry() -> None:
    settings = Settings(push=("http://one.example",))
    with closing(open_store("sqlite://")) as store, pytest.raises(SettingError, match="push needs base_url"):
        Following(Engine(store, settings=settings), settings)


def test_a_push_and_a_pull_have_each_their_state() -> None:
    url = "http://me:secret@one.example"
    pushed, pulled = Peer.parse(url, target=True), Peer.parse(url)
    assert pushed.name != pulled.name
    assert (str(pushed), str(pulled)) == ("pushing to http://one.example", "following http://one.example")


def test_notification_during_a_comparison_is_kept(trio: list[Server], monkeypatch: pytest.MonkeyPatch) -> None:
    """The running comparison may not see the notified change (D-36)."""
    source = f"{trio[0].url}/compat/schemaregistry/v0.2"
    settings = Settings(follow=(source,), follow_seconds=100_000)
    looks = threading.Semaphore(0)
    look = Replication.everything
    with closing(open_store("sqlite://")) as store:
        following = Following(Engine(store, settings=settings), settings)

        def looked_and_told(self: Replication) -> None:
            look(self)
            if knocks.pop():
                assert following.notify([source])
            looks.release()

        knocks = [False, True]
        monkeypatch.setattr(Replication, "everything", looked_and_told)
        following.start()
        try:
            for _ in range(2):
                assert looks.acquire(timeout=PATIENCE)
        finally:
            following.stop()


def test_notified_sources_that_are_followed_are_returned() -> None:
    settings = Settings(follow=("http://one.example/",))
    with closing(open_store("sqlite://")) as store:
        following = Following(Engine(store, settings=settings), settings)
        sources = {"http://one.example/", "http://one.example/below"}
        assert following.notify(["urn:x", *sources, *sources, "http://["]) == sources
        assert following.notify([]) == set()


UNUSABLE = """source ftp://x http:// http://[ http://x:99999 http://x#nowhere http://x#/a/b=c/d
    http://x#/schemagroups=b http://me:secret@[ me:secret@x"""


@pytest.mark.parametrize("text", UNUSABLE.split())
def test_invalid_peer_is_rejected(text: str) -> None:
    for target, setting in ((False, "follow"), (True, "push")):
        with pytest.raises(SettingError, match=f"^{setting}: ") as refused:
            Peer.parse(text, target=target)
        assert "secret" not in str(refused.value)


def test_number_of_remembered_values_is_bounded() -> None:
    seen: RecentlySeen[str] = RecentlySeen(limit=2)
    for letter in "aabc":
        seen.add(letter)
    assert [letter in seen for letter in "abc"] == [False, True, True]


def test_source_of_an_event_is_recognised() -> None:
    """The source is the root or an API below it; a name with the same prefix is another source (D-20, D-36)."""
    source = Peer.parse("http://me:secret@one.example/#/schemagroups/a=b")
    assert source.shown == "http://one.example#/schemagroups/a=b"
    assert source.name == Peer.parse("http://me:other@one.example/#/schemagroups/a=b").name
    assert source.speaks("http://one.example/")
    assert source.speaks("http://one.example/compat/schemaregistry/v0.2")
    assert not source.speaks("http://one.example.evil/")


STRUCTURED = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
BATCH = {"Content-Type": "application/cloudevents-batch+json"}


def event(source: str, number: str = "1") -> dict[str, Any]:
    return {"specversion": "1.0", "id": number, "source": source, "type": "io.cloudevents.schemaregistry.updated.v1"}


@pytest.fixture(scope="module")
def followed() -> str:
    return "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory, followed: str) -> Any:
    """A server that follows a registry that never answers."""
    server = Server(folder=tmp_path_factory.mktemp("listener"), settings={"follow": (followed,)})
    server.start()
    yield f"{server.url}/notifications"
    server.end()


def test_the_handshake_of_web_hooks(listener: str) -> None:
    """Every origin is allowed (D-36)."""
    answer = HTTP.options(listener, headers={"WebHook-Request-Origin": "one.example"})
    assert (answer.status_code, answer.headers["WebHook-Allowed-Origin"]) == (200, "one.example")
    assert answer.headers["WebHook-Allowed-Rate"] == "*"
    assert answer.headers["Allow"] == "POST, OPTIONS"
    assert "WebHook-Allowed-Origin" not in HTTP.options(listener).headers
    other = HTTP.options(listener, headers={b"WebHook-Request-Origin": b"\xff"})
    assert (other.status_code, "WebHook-Allowed-Origin" in other.headers) == (200, False)


def test_events_in_every_mode(listener: str, followed: str) -> None:
    """The modes are structured, binary and batch, with repetitions (D-36)."""
    binary = {f"ce-{name}": value for name, value in event(followed, "b").items()}
    for _ in range(2):
        assert HTTP.post(listener, json=event(followed), headers=STRUCTURED).status_code == 204
        assert HTTP.post(listener, json=[event(followed, "2"), event(followed, "3")], headers=BATCH).status_code == 204
        assert HTTP.post(listener, headers=binary).status_code == 204
    assert HTTP.post(listener, json=[], headers=BATCH).status_code == 204


@pytest.mark.parametrize("source", ["http://elsewhere.example/", "http://127.0.0.1:99/", "urn:x"])
def test_events_from_elsewhere(listener: str, followed: str, source: str) -> None:
    """An event never causes a request to a server that is not configured (D-36)."""
    answer = HTTP.post(listener, json=event(source), headers=STRUCTURED)
    assert (answer.status_code, answer.headers["Content-Type"]) == (403, "application/problem+json")
    assert source in answer.json()["detail"]
    assert HTTP.post(listener, json=[event(followed), event(source)], headers=BATCH).status_code == 403


def test_a_long_source_is_not_reported_back(listener: str) -> None:
    answer = HTTP.post(listener, json=event(f"urn:{'x' * 100_000}"), headers=STRUCTURED)
    assert (answer.status_code, len(answer.content) < 1000) == (403, True)


def test_a_batch_of_many_sources(listener: str, followed: str) -> None:
    """The events are one write: with one write for each event, a batch of 4 MiB would block all other writes for
    minutes.
    """
    events = [event(f"{followed}/{number}") for number in range(20_000)]
    assert HTTP.post(listener, json=events, headers=BATCH).status_code == 204


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (415, {"Content-Type": "application/json"}, b"{}"),
        (415, {}, b""),
        (400, STRUCTURED, b"{"),
        (400, STRUCTURED, b"[]"),
        (400, STRUCTURED, b"{}"),
        (400, STRUCTURED, b'{"specversion": "0.3", "id": "1", "source": "s", "type": "t"}'),
        (400, STRUCTURED, b'{"specversion": "1.0", "id": 1, "source": "s", "type": "t"}'),
        (400, STRUCTURED, b'{"specversion": "1.0", "id": "1", "source": "", "type": "t"}'),
        (400, STRUCTURED, b"[" * 100),
        (400, BATCH, b"{}"),
        (400, BATCH, b"[1]"),
        (400, {"ce-specversion": "1.0", "ce-id": "1"}, b""),
        (400, {**STRUCTURED, "Content-Encoding": "gzip"}, b"{}"),
    ],
)
def test_invalid_event_is_rejected(listener: str, status: int, headers: dict[str, str], body: bytes) -> None:
    assert HTTP.post(listener, content=body, headers=headers).status_code == status


def test_other_methods(listener: str) -> None:
    answer = HTTP.get(listener)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST, OPTIONS")


@pytest.mark.parametrize(
    "options", [{"follow": ("nowhere",)}, {"push": ("nowhere",), "base_url": "http://me"}, {"copies": "some"}]
)
def test_invalid_settings_are_rejected(options: dict[str, Any]) -> None:
    """Told before the server starts."""
    with kept_port() as port, pytest.raises(SettingError, match=next(iter(options))):
        run(Settings(db="sqlite://", port=port, **options))
