"""Who gets what of the outbox."""

from __future__ import annotations

from datetime import UTC, datetime

from .conftest import Place


def test_what_is_kept_no_longer_is_passed_over(place: Place) -> None:
    """A sink that was away for too long goes on with what is left."""
    hook = place.hook()
    late = place.subscribe(hook)
    place.write("d0", "d1", "d2")
    place.engine.prune(before=datetime.max.replace(tzinfo=UTC), upto=place.engine.position())
    place.dispatcher()
    hook.until(lambda: hook.subjects == ["/dirs/d2"])
    place.until(lambda: place.state(late).position == place.engine.position())
