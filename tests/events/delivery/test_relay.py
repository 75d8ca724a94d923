"""Deliveries from commit to sink: in order, at least once, nobody stopped by another."""

from __future__ import annotations

from ..hooks import Hook, Says
from .conftest import Place


def test_changes_come_in_order(place: Place) -> None:
    """D-22, D-33: each change once it is committed, as a CloudEvent in structured mode"""
    hook = place.hook()
    place.subscribe("a", hook)
    place.relay()
    place.write(*(f"d{n}" for n in range(20)))
    hook.until(lambda: len(hook.subjects) == 20)
    assert hook.subjects == [f"/dirs/d{n}" for n in range(20)]
    assert hook.ids == sorted(set(hook.ids))
    first = hook.posts[0]
    assert first.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert first.events[0]["source"] == "https://registry.example.com/"
