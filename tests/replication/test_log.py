"""What a server that follows others says of that in its log."""

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from signalbook.engine.engine import Engine
from signalbook.logs import begin_log
from signalbook.replication import report
from signalbook.replication.following import Following
from signalbook.settings import Settings
from signalbook.storage import open_store

from .servers import Server, schemas, wait_until


@pytest.mark.parametrize(("level", "least"), [("INFO", logging.WARNING), ("DEBUG", logging.NOTSET)])
def test_requests_to_others_are_logged_at_debug_level(level: str, least: int) -> None:
    """A server that follows another one asks it something every second."""
    log = logging.getLogger("httpx")
    begin_log(level)
    try:
        assert log.level == least
    finally:
        log.setLevel(logging.NOTSET)


@contextmanager
def followed(source_server: Server, *authorities: str) -> Iterator[tuple[str, Following]]:
    """Follow a source that is compared repeatedly. Yield its address and the follower, whose log is the only report
    for the operator.
    """
    source = f"{source_server.url}/compat/schemaregistry/v0.2"
    settings = Settings(follow=(source,), follow_seconds=0.1, follow_authorities=authorities)
    with closing(open_store("sqlite://")) as store:
        following = Following(Engine(store, settings=settings), settings)
        following.start()
        try:
            yield source, following
        finally:
            following.stop()


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "is refused" in record.getMessage()]


def test_refusal_is_logged_once(trio: list[Server], caplog: pytest.LogCaptureFixture) -> None:
    source_server, two, _ = trio
    source_server.patch({"schemagroups": {"g": {"schemas": schemas("s")}}})
    with followed(source_server, two.url) as (source, following):
        wait_until(lambda: _refused(following) > 2)
    (line,) = told(caplog)
    assert line.startswith(f"following {source}: /schemagroups/g/schemas/s is refused: claims")


def test_later_refusal_is_logged_too(
    trio: list[Server], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the same was refused before: a report names so many, and no more."""
    monkeypatch.setattr(report, "_MAX_LISTED", 2)
    source_server, two, _ = trio
    source_server.patch({"schemagroups": {"g": {"schemas": schemas("s")}}})
    with followed(source_server, two.url) as (_, following):
        wait_until(lambda: _refused(following) > 2)
        source_server.patch({"schemagroups": {"g": {"schemas": schemas("t")}}})
        wait_until(lambda: any("/schemas/t is refused" in line for line in told(caplog)))


def _refused(following: Following) -> int:
    sources: Any = following.status()["sources"]
    return sum(source_status["refusedcount"] for source_status in sources.values())
