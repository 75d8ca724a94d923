from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler

import pytest

from signalbook.engine.write.commands import Command, Method
from signalbook.events.backoff import Backoff
from signalbook.events.delivery import dispatcher
from signalbook.events.sinks.base import Consent
from signalbook.events.subscription import Subscription
from signalbook.events.subscriptions.store import start
from signalbook.storage.base import StorageBusy
from signalbook.storage.subscriptions import ACTIVE, GONE, RETRYING, SUSPENDED
from signalbook.xid import Xid

from ..hooks import Hook, Says, reserved, serving
from .conftest import Place


def dirs(count: int, start: int = 0) -> list[str]:
    return [f"d{number}" for number in range(start, start + count)]


def subjects(count: int, start: int = 0) -> list[str]:
    return [f"/dirs/{name}" for name in dirs(count, start)]


def test_changes_come_in_order(place: Place) -> None:
    """D-22, D-33: each change once it is committed, as a CloudEvent in structured mode"""
    hook = place.hook()
    place.subscribe(hook)
    place.dispatcher()
    place.write(*dirs(20))
    hook.until(lambda: len(hook.subjects) >= 20)
    assert hook.subjects == subjects(20)
    assert hook.ids == sorted(set(hook.ids))
    first = hook.posts[0]
    assert first.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert first.events[0]["source"] == "https://registry.example.com/"


def test_what_is_not_wanted_is_not_sent(place: Place) -> None:
    """D-28, D-29: types and filters"""
    hook = place.hook()
    place.subscribe(hook, types=("io.xregistry.group.created",), filters=({"suffix": {"subject": "2"}},))
    place.dispatcher()
    place.write(*dirs(30))
    hook.until(lambda: len(hook.subjects) >= 3)
    assert hook.subjects == ["/dirs/d2", "/dirs/d12", "/dirs/d22"]


def test_each_api_has_its_own_events(place: Place) -> None:
    """D-25: the source chooses the dialect; an API that does not show a change says nothing of it"""
    hook = place.hook()
    place.subscribe(hook, source="https://registry.example.com/compat/schemaregistry/v0.2", filters=())
    whole = place.subscribe(hook, source="https://registry.example.com")
    place.dispatcher()
    place.write("d1")
    hook.until(lambda: bool(hook.posts))
    place.until(lambda: place.state(whole).delivered == 1)
    assert [event["type"] for got in hook.posts for event in got.events] == ["io.xregistry.group.created"]


def test_history_from_a_position_on(place: Place) -> None:
    hook = place.hook()
    place.write(*dirs(3))
    place.subscribe(hook, after=0)
    place.dispatcher()
    hook.until(lambda: len(hook.subjects) >= 3)
    assert hook.subjects == subjects(3)


def test_a_dead_sink_beside_a_live_one(place: Place) -> None:
    """D-33: nobody waits for another; what the dead one missed comes when it is back, in order"""
    live, dead = place.hook(), Hook()
    address = place.stack.enter_context(reserved(dead))
    place.allowed.append(dead.place)
    place.subscribe(live)
    late = place.subscribe(dead)
    place.dispatcher()
    place.write(*dirs(60))
    live.until(lambda: len(live.subjects) >= 60)
    place.until(lambda: place.state(late).state == RETRYING)
    assert "connection failed" in place.state(late).lasterror
    with serving(dead, at=address):
        dead.until(lambda: len(dead.subjects) >= 60)
        assert dead.subjects == live.subjects == subjects(60)
        place.until(lambda: place.state(late).delivered == 60)
        assert (place.state(late).state, place.state(late).failures, place.state(late).lasterror) == (ACTIVE, 0, "")


def test_slow_sinks_beside_a_quick_one(place: Place) -> None:
    """As many as there are threads for those that are new, and they never answer."""
    over = threading.Event()

    def hang(_: BaseHTTPRequestHandler) -> None:
        over.wait()

    stuck = place.hook(Hook(always=Says(act=hang)))
    quick = place.hook()
    place.subscribe(quick)
    place.dispatcher(ask=False)
    place.write("d0")
    quick.until(lambda: quick.subjects == subjects(1))
    for _ in range(20):
        place.subscribe(stuck)
    place.write(*dirs(5, 1))
    stuck.until(lambda: bool(stuck.posts))
    quick.until(lambda: len(quick.subjects) >= 6)
    assert quick.subjects == subjects(6)
    over.set()


def test_a_sink_that_asks_for_time_gets_it(place: Place) -> None:
    """D-33: 429 and 503 with Retry-After; nothing is skipped"""
    hook = place.hook(Hook(Says(429, (("Retry-After", "1"),)), Says(503, (("Retry-After", "1"),))))
    wanted = place.subscribe(hook)
    place.dispatcher()
    place.write(*dirs(3))
    hook.until(lambda: len(hook.subjects) >= 5)
    assert hook.subjects == ["/dirs/d0", "/dirs/d0", *subjects(3)]
    place.until(lambda: place.state(wanted).delivered == 3)


def test_a_sink_that_is_gone(place: Place) -> None:
    """D-33: 410 ends it, visibly, until the subscription is updated; then it goes on where it stopped"""
    hook = place.hook(Hook(Says(), Says(410)))
    wanted = place.subscribe(hook)
    place.dispatcher()
    place.write("d0")
    hook.until(lambda: len(hook.posts) == 1)
    place.write("d1", "d2")
    place.until(lambda: place.state(wanted).state == GONE)
    assert "410" in place.state(wanted).lasterror
    place.write("d3")
    place.update(wanted)
    hook.until(lambda: len(hook.subjects) >= 5)
    assert hook.subjects == ["/dirs/d0", "/dirs/d1", "/dirs/d1", "/dirs/d2", "/dirs/d3"]


def test_an_event_that_is_not_understood(place: Place) -> None:
    """D-33: 415 is about one event; it is counted, and the next one is sent"""
    hook = place.hook(Hook(Says(), Says(415)))
    wanted = place.subscribe(hook)
    place.dispatcher()
    place.write(*dirs(4))
    hook.until(lambda: len(hook.subjects) >= 4)
    assert hook.subjects == subjects(4)
    place.until(lambda: place.state(wanted).delivered == 3)
    assert (place.state(wanted).rejected, place.state(wanted).state) == (1, ACTIVE)


def test_a_sink_that_never_works_is_given_up(place: Place) -> None:
    """Visibly; nothing is lost, and an update begins anew"""
    hook = place.hook(Hook(always=Says(500)))
    wanted = place.subscribe(hook)
    place.dispatcher(retries=Backoff(first=0.01, longest=0.02, give_up=0.0, attempts=4))
    place.write(*dirs(3))
    place.until(lambda: place.state(wanted).state == SUSPENDED)
    expected = (4, "the sink answered 500", "")
    assert (place.state(wanted).failures, place.state(wanted).lasterror, place.state(wanted).next) == expected
    assert len(hook.posts) == 4
    hook.always = Says()
    place.update(wanted)
    hook.until(lambda: len(hook.subjects) >= 7)
    assert hook.subjects[4:] == subjects(3)


@pytest.mark.parametrize("told", [False, True])
def test_subscriptions_come_and_go(place: Place, told: bool) -> None:
    """D-32: while the relay runs, written by another process, or by this one that tells of it"""
    one, other = place.hook(), place.hook()
    running = place.dispatcher()
    wanted = place.subscribe(one)
    if told:
        running.changed(wanted)
    place.write("d0")
    one.until(lambda: one.subjects == subjects(1))
    place.update(wanted, sink=other.url)
    if told:
        running.changed(wanted)

    def arrives() -> bool:
        place.write("e")
        return bool(other.subjects)

    place.until(arrives)
    assert not set(one.ids) & set(other.ids)
    place.remove(wanted)
    place.until(lambda: running.status() == {"delivers": False, "subscriptions": {}})
    place.until(lambda: not place.states())


def test_no_attempt_begins_while_a_subscription_is_exchanged(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the old sink takes at that moment would come to the new one, too"""
    one, other = place.hook(Hook(Says(500))), place.hook()
    wanted = place.subscribe(one)
    running = place.dispatcher(retries=Backoff(first=3600))
    place.write("d0")
    place.until(lambda: place.state(wanted).state == RETRYING)

    def begins(subscription: Subscription) -> int | None:
        running.hurry(wanted)
        with suppress(AssertionError):
            one.until(lambda: len(one.posts) > 1, 0.2)
        return start(subscription)

    monkeypatch.setattr(dispatcher, "start", begins)
    place.update(wanted, sink=other.url)
    other.until(lambda: other.subjects == subjects(1))
    assert one.subjects == subjects(1)


def test_subscriptions_that_could_not_be_read_are_read_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    read, failures = place.book.all, [StorageBusy("another writer held the database")]

    def all_of_them() -> Mapping[str, Subscription]:
        if failures:
            raise failures.pop()
        return read()

    monkeypatch.setattr(place.book, "all", all_of_them)
    hook = place.hook()
    place.subscribe(hook)
    place.dispatcher()
    place.write("d0")
    hook.until(lambda: hook.subjects == subjects(1))
    assert not failures


@pytest.mark.merge
def test_a_queue_that_is_full_is_read_again(place: Place) -> None:
    """More changes than a queue holds, and a sink that stumbles: nothing is missed, and nothing out of order"""
    script = [Says()] * 5 + [Says(500)] + [Says()] * 200 + [Says(500)]
    hook, other = place.hook(Hook(*script)), place.hook()
    with place.engine.batch() as batch:
        for name in dirs(1100):
            with batch.writing() as session:
                session.execute(Command(method=Method.PUT, target=Xid.parse(f"/dirs/{name}"), body={}))
    for each in (hook, other):
        place.subscribe(each, after=0)
    place.dispatcher()
    for each, count in ((hook, 1102), (other, 1100)):
        each.until(lambda each=each, count=count: len(each.subjects) >= count)  # type: ignore[misc]
        assert list(dict.fromkeys(each.subjects)) == subjects(1100)
        assert each.ids == sorted(each.ids)


def test_what_was_kept_is_where_the_next_relay_goes_on(place: Place) -> None:
    hook = place.hook()
    place.subscribe(hook)
    running = place.dispatcher()
    place.write(*dirs(3))
    hook.until(lambda: len(hook.subjects) >= 3)
    running.stop()
    place.write(*dirs(3, 3))
    place.dispatcher()
    hook.until(lambda: len(hook.subjects) >= 6)
    assert hook.subjects == subjects(6)


class TestConsent:
    """D-34."""

    def test_nothing_is_sent_before(self, place: Place) -> None:
        hook = place.hook(Hook(agrees=Says(200)))
        wanted = place.subscribe(hook)
        place.dispatcher()
        place.write("d0")
        place.until(lambda: "has not agreed" in place.state(wanted).lasterror)
        assert hook.posts == []
        hook.agrees = Says(200, (("WebHook-Allowed-Origin", "*"),))
        hook.until(lambda: hook.subjects == subjects(1))

    def test_a_rate_is_kept_without_failures(self, place: Place) -> None:
        hook = place.hook(Hook(agrees=Says(200, (("WebHook-Allowed-Origin", "*"), ("WebHook-Allowed-Rate", "600")))))
        wanted = place.subscribe(hook)
        place.dispatcher()
        place.write(*dirs(20))
        hook.until(lambda: len(hook.subjects) >= 20)
        assert hook.subjects == subjects(20)
        place.until(lambda: place.state(wanted).delivered == 20)
        assert (place.state(wanted).failures, place.state(wanted).state) == (0, ACTIVE)

    def test_by_calling_back(self, place: Place) -> None:
        hook = place.hook(Hook(agrees=Says(405)))
        wanted = place.subscribe(hook)
        running = place.dispatcher(retries=Backoff(first=3600))
        place.write("d0")
        place.until(lambda: "has not agreed" in place.state(wanted).lasterror)
        key = hook.got[0].headers["webhook-request-callback"].partition("?key=")[2]
        entry = place.book.get(wanted)
        assert entry is not None
        with place.engine.writing() as session:
            assert not place.opener.agree(session, entry.subscription, "0" * 64, Consent())
            assert place.opener.agree(session, entry.subscription, key, Consent())
        running.hurry(wanted)
        hook.until(lambda: hook.subjects == subjects(1))
