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
    """Each change is sent once it is committed, as a CloudEvent in structured mode (D-22, D-33)."""
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


def test_filtered_events_are_not_sent(place: Place) -> None:
    """The subscription has types and filters (D-28, D-29)."""
    hook = place.hook()
    place.subscribe(hook, types=("io.xregistry.group.created",), filters=({"suffix": {"subject": "2"}},))
    place.dispatcher()
    place.write(*dirs(30))
    hook.until(lambda: len(hook.subjects) >= 3)
    assert hook.subjects == ["/dirs/d2", "/dirs/d12", "/dirs/d22"]


def test_each_api_has_its_own_events(place: Place) -> None:
    """The source selects the dialect; an API that does not show a change sends no event (D-25)."""
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


def test_dead_sink_does_not_delay_others(place: Place) -> None:
    """The missed events are sent in order when the dead sink is back (D-33)."""
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


def test_slow_sinks_do_not_delay_a_quick_one(place: Place) -> None:
    """The threads for new sinks are all occupied by sinks that never answer."""
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


def test_gone_sink_ends_its_subscription(place: Place) -> None:
    """The status 410 ends the subscription visibly until it is updated; then it continues where it stopped (D-33)."""
    hook = place.hook(Hook(Says(), Says(410)))
    subscription_id = place.subscribe(hook)
    place.dispatcher()
    place.write("d0")
    hook.until(lambda: len(hook.posts) == 1)
    place.write("d1", "d2")
    place.until(lambda: place.state(subscription_id).state == GONE)
    assert "410" in place.state(subscription_id).lasterror
    place.write("d3")
    place.update(subscription_id)
    hook.until(lambda: len(hook.subjects) >= 5)
    assert hook.subjects == ["/dirs/d0", "/dirs/d1", "/dirs/d1", "/dirs/d2", "/dirs/d3"]


def test_permanently_failing_sink_is_suspended(place: Place) -> None:
    """Visibly; nothing is lost, and an update begins anew, but no change of another subscription."""
    hook, other = place.hook(Hook(always=Says(500))), place.hook()
    subscription_id = place.subscribe(hook)
    place.dispatcher(retries=Backoff(first=0.01, longest=0.02, give_up=0.0, attempts=4))
    place.write(*dirs(3))
    place.until(lambda: place.state(subscription_id).state == SUSPENDED)
    expected = (4, "the sink answered 500", "")
    assert (
        place.state(subscription_id).failures,
        place.state(subscription_id).lasterror,
        place.state(subscription_id).next,
    ) == expected
    assert len(hook.posts) == 4
    place.subscribe(other, after=0)
    other.until(lambda: len(other.subjects) == 3)
    assert place.state(subscription_id).state == SUSPENDED
    assert len(hook.posts) == 4
    hook.always = Says()
    place.update(subscription_id)
    hook.until(lambda: len(hook.subjects) >= 7)
    assert hook.subjects[4:] == subjects(3)


@pytest.mark.parametrize("is_notified", [False, True])
def test_subscriptions_can_be_added_and_removed(place: Place, is_notified: bool) -> None:
    """The changes happen while the relay runs, in another process or in the same one (D-32)."""
    first_hook, other = place.hook(), place.hook()
    running = place.dispatcher()
    subscription_id = place.subscribe(first_hook)
    if is_notified:
        running.changed(subscription_id)
    place.write("d0")
    first_hook.until(lambda: first_hook.subjects == subjects(1))
    place.update(subscription_id, sink=other.url)
    if is_notified:
        running.changed(subscription_id)

    def arrives() -> bool:
        place.write("e")
        return bool(other.subjects)

    place.until(arrives)
    assert not set(first_hook.ids) & set(other.ids)
    place.remove(subscription_id)
    place.until(lambda: running.status() == {"delivers": False, "subscriptions": {}})
    place.until(lambda: not place.states())


def test_no_attempt_begins_while_a_subscription_is_exchanged(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that the old sink receives during the update would be sent to the new sink too."""
    old_hook, other = place.hook(Hook(Says(500))), place.hook()
    subscription_id = place.subscribe(old_hook)
    running = place.dispatcher(retries=Backoff(first=3600))
    place.write("d0")
    place.until(lambda: place.state(subscription_id).state == RETRYING)

    def begins(subscription: Subscription) -> int | None:
        running.hurry(subscription_id)
        with suppress(AssertionError):
            old_hook.until(lambda: len(old_hook.posts) > 1, 0.2)
        return start(subscription)

    monkeypatch.setattr(dispatcher, "start", begins)
    place.update(subscription_id, sink=other.url)
    other.until(lambda: other.subjects == subjects(1))
    assert old_hook.subjects == subjects(1)


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


def test_attempts_begin_while_subscriptions_cannot_be_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = place.hook(Hook(Says(500)))
    subscription_id = place.subscribe(hook)
    running = place.dispatcher(retries=Backoff(first=3600))
    place.write("d0")
    place.until(lambda: place.state(subscription_id).state == RETRYING)

    def fail() -> Mapping[str, Subscription]:
        raise StorageBusy("another writer held the database")

    monkeypatch.setattr(place.book, "all", fail)
    running.changed("another subscription")
    running.hurry(subscription_id)
    hook.until(lambda: len(hook.posts) == 2)


@pytest.mark.merge
def test_a_queue_that_is_full_is_read_again(place: Place) -> None:
    """The queue overflows and a sink fails, but no event is lost or out of order."""
    script = [Says()] * 5 + [Says(500)] + [Says()] * 200 + [Says(500)]
    hook, other = place.hook(Hook(*script)), place.hook()
    with place.engine.batch() as batch:
        for name in dirs(1100):
            with batch.writing() as session:
                session.execute(Command(method=Method.PUT, target=Xid.parse(f"/dirs/{name}"), body={}))
    for target in (hook, other):
        place.subscribe(target, after=0)
    place.dispatcher()
    for target, count in ((hook, 1102), (other, 1100)):
        target.until(lambda target=target, count=count: len(target.subjects) >= count)  # type: ignore[misc]
        assert list(dict.fromkeys(target.subjects)) == subjects(1100)
        assert target.ids == sorted(target.ids)


def test_next_dispatcher_continues_at_the_checkpoint(place: Place) -> None:
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
    """Tests of the consent of webhooks (D-34)."""

    def test_nothing_is_sent_before_consent(self, place: Place) -> None:
        hook = place.hook(Hook(agrees=Says(200)))
        subscription_id = place.subscribe(hook)
        place.dispatcher()
        place.write("d0")
        place.until(lambda: "has not agreed" in place.state(subscription_id).lasterror)
        assert hook.posts == []
        hook.agrees = Says(200, (("WebHook-Allowed-Origin", "*"),))
        hook.until(lambda: hook.subjects == subjects(1))

    def test_a_rate_is_kept_without_failures(self, place: Place) -> None:
        hook = place.hook(Hook(agrees=Says(200, (("WebHook-Allowed-Origin", "*"), ("WebHook-Allowed-Rate", "600")))))
        subscription_id = place.subscribe(hook)
        place.dispatcher()
        place.write(*dirs(20))
        hook.until(lambda: len(hook.subjects) >= 20)
        assert hook.subjects == subjects(20)
        place.until(lambda: place.state(subscription_id).delivered == 20)
        assert (place.state(subscription_id).failures, place.state(subscription_id).state) == (0, ACTIVE)

    def test_consent_by_callback(self, place: Place) -> None:
        hook = place.hook(Hook(agrees=Says(405)))
        subscription_id = place.subscribe(hook)
        running = place.dispatcher(retries=Backoff(first=3600))
        place.write("d0")
        place.until(lambda: "has not agreed" in place.state(subscription_id).lasterror)
        key = hook.got[0].headers["webhook-request-callback"].partition("?key=")[2]
        entry = place.book.get(subscription_id)
        assert entry is not None
        with place.engine.writing() as session:
            assert not place.opener.agree(session, entry.subscription, "0" * 64, Consent())
            assert place.opener.agree(session, entry.subscription, key, Consent())
        running.hurry(subscription_id)
        hook.until(lambda: hook.subjects == subjects(1))
