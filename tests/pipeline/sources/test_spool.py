"""Spools: what was written is there, once and whole, whoever dies; what was landed goes."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.pipeline.s3 import KINDS, SERVERS, place

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import LocalPlace, Place
from signalbook.pipeline.sources.spool import MessageSpool, SpooledMessage, SpoolSession, is_full, read_messages


@pytest.fixture(params=KINDS)
def spot(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(request.param, tmp_path, request) / "streams/s/received"


@pytest.fixture(params=SERVERS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(request.param, tmp_path, request) / "streams/s/received"


def message(number: int, size: int = 0) -> SpooledMessage:
    key = None if number % 2 else b"k"
    headers = (("n", b"\xff"),)
    return SpooledMessage(address=f"a/{number}", value=b"x" * size, headers=headers, key=key, received_at=number)


def names(spot: Place) -> list[str]:
    return sorted(entry.path for entry in spot.list_files() if entry.path.endswith(".messages"))


def numbers(spot: Place, start: int, end: int) -> list[int]:
    """Return the numbers that a task reads; a later writer finds the messages at the same places."""
    with MessageSpool(spot) as spool:
        segments = spool.find_segments(start, end)
    messages = list(read_messages(spot, segments, start, end))
    assert all(message_ == message(number, len(message_.value)) for number, message_ in messages)
    return [number for number, _ in messages]


@given(st.lists(st.lists(st.integers(0, 90), max_size=4), max_size=6), st.integers(0, 12), st.integers(0, 12))
@settings(max_examples=examples(60))
def test_written_messages_can_be_read(groups: list[list[int]], start: int, length: int) -> None:
    with TemporaryDirectory() as folder:
        check_read(LocalPlace(Path(folder)), groups, start, length)


@pytest.mark.parametrize(
    ("groups", "start", "length"),
    [([], 0, 3), ([[]], 0, 1), ([[0, 90, 9], [], [200], [3, 3, 3, 3]], 1, 6), ([[90, 90], [90], [90] * 4], 2, 9)],
)
def test_written_messages_can_be_read_everywhere(spot: Place, groups: list[list[int]], start: int, length: int) -> None:
    check_read(spot, groups, start, length)


def check_read(spot: Place, groups: list[list[int]], start: int, length: int) -> None:
    with MessageSpool(spot, segment=150) as spool:
        for group in groups:
            written = [message(spool.end + place, size) for place, size in enumerate(group)]
            assert spool.append(written) == len(written)
        end = spool.end
        start = min(start, end)
        stop = min(start + length, end)
        # What the writer knows is what the next one finds, but for a segment with nothing in it yet.
        segments = spool.find_segments(start, stop)
    assert [number for number, _ in read_messages(spot, segments, start, stop)] == list(range(start, stop))
    assert end == sum(map(len, groups))
    assert numbers(spot, start, stop) == list(range(start, stop))


@pytest.mark.parametrize("lost", [1, 5, 9, 30])
def test_truncated_messages_are_dropped(tmp_path: Path, lost: int) -> None:
    """A writer that died had not confirmed these messages. The next writer continues after the last whole one."""
    spot = LocalPlace(tmp_path)
    with MessageSpool(spot) as spool:
        spool.append([message(0), message(1), message(2)])
    (segment,) = tmp_path.glob("*.messages")
    os.truncate(segment, segment.stat().st_size - lost)
    with MessageSpool(spot) as spool:
        end = spool.end
        assert end == (1 if lost > 25 else 2)
        spool.append([message(end), message(end + 1)])
    assert numbers(spot, 0, end + 2) == list(range(end + 2))


def test_landed_messages_are_removed(spot: Place) -> None:
    with MessageSpool(spot, segment=1) as spool:
        for number in range(5):
            spool.append([message(number)])
        spool.trim(3)
        assert spool.begin == 3
        assert len(names(spot)) == 2
        spool.trim(5)
    assert len(names(spot)) == 1
    with MessageSpool(spot) as spool:
        assert spool.end == 5
        spool.trim(5)
        assert len(names(spot)) == 1
        spool.append([message(5)])
        assert (spool.begin, spool.end) == (4 if spool.costly else 5, 6)
    assert numbers(spot, 5, 6) == [5]


def test_a_spool_takes_no_more_than_its_limit(spot: Place) -> None:
    messages = [message(number, 30) for number in range(9)]
    with MessageSpool(spot, limit=200) as spool:
        accepted = spool.append(messages)
        assert 0 < accepted < 9
        assert (spool.append(messages[accepted:]), spool.end, is_full(spot)) == (0, accepted, True)
    with MessageSpool(spot, limit=200) as spool:
        assert not is_full(spot)
        assert spool.append(messages[accepted:]) == 0
        assert is_full(spot)
        spool.trim(accepted)
        assert spool.append(messages[accepted : 2 * accepted]) == accepted
        assert not is_full(spot)
    assert numbers(spot, accepted, 2 * accepted) == list(range(accepted, 2 * accepted))


def test_message_beyond_the_limit_is_written_alone(spot: Place) -> None:
    with MessageSpool(spot, limit=10) as spool:
        for number in range(3):
            assert spool.append([message(number), message(number + 1)]) == 1
            assert spool.append([message(number + 1)]) == 0
            spool.trim(number + 1)
        assert spool.append([]) == 0


def test_size_of_segments_is_bounded(spot: Place) -> None:
    with MessageSpool(spot, segment=500) as spool:
        assert spool.append([message(number, 100) for number in range(20)]) == 20
        segments = spool.find_segments(0, 20)
        assert max(segment.size for segment in segments) <= (500 if spool.costly else 1000)
        assert spool.append([message(20, 5000), message(21)]) == 2
    assert numbers(spot, 18, 22) == [18, 19, 20, 21]


@pytest.mark.parametrize(("start", "end"), [(0, 2), (2, 9), (7, 8)])
def test_missing_messages_are_an_error(spot: Place, start: int, end: int) -> None:
    with MessageSpool(spot, segment=1) as spool:
        spool.append([message(0)])
        spool.append([message(1), message(2)])
        segments = spool.find_segments(start, end)
        spool.trim(1)
        for known_segments in (segments, spool.find_segments(start, end)):
            with pytest.raises(PipelineError, match="are not there or damaged"):
                list(read_messages(spot, known_segments, start, end))


def test_a_damaged_message_is_reported(spot: Place) -> None:
    with MessageSpool(spot, segment=1) as spool:
        spool.append([message(0)])
        spool.append([message(1)])
        segments = spool.find_segments(0, 2)
    first = spot / names(spot)[0]
    content = bytearray(first.read())
    content[-1] ^= 1
    first.replace(bytes(content))
    with pytest.raises(PipelineError, match="the messages 0 to 1 of"):
        list(read_messages(spot, segments, 0, 2))


def test_one_writes(spot: Place) -> None:
    with MessageSpool(spot), pytest.raises(PipelineError, match="another process receives messages"):
        MessageSpool(spot, patience=0)
    MessageSpool(spot, patience=0).close()


def test_a_session_is_remembered(spot: Place) -> None:
    with MessageSpool(spot) as spool:
        assert spool.read_session() is None
        spool.remember(SpoolSession(name="me", receives=("a",)))
    with MessageSpool(spot) as spool:
        assert spool.read_session() == SpoolSession(name="me", receives=("a",))


def test_damaged_last_segment_is_an_error(stored: Place) -> None:
    """A segment is written completely or not at all; if it is damaged, the next number is unknown."""
    with MessageSpool(stored) as spool:
        spool.append([message(0), message(1)])
    (name,) = names(stored)
    (stored / name).replace((stored / name).read()[:-1])
    with pytest.raises(PipelineError, match=f"{name} is damaged"):
        MessageSpool(stored)


def test_spool_continues_after_a_late_write(stored: Place) -> None:
    """The write of a killed process counts like any other, and no number is used twice."""
    other = stored.parent / "other"
    with MessageSpool(other) as spool:
        spool.append([message(0)])
        spool.append([message(1), message(2)])
    first, second = names(other)
    with MessageSpool(stored) as spool:
        spool.append([message(0)])
        (stored / second).create((other / second).read())
        assert spool.append([message(3)]) == 1
        assert (first, spool.end) == ("0" * 20 + ".messages", 4)
    assert numbers(stored, 0, 4) == [0, 1, 2, 3]


def test_writer_without_the_lock_confirms_nothing(stored: Place) -> None:
    """The delayed writer has lost its lock, and what it writes nevertheless is found by the new owner."""
    with MessageSpool(stored) as held_up:
        held_up.append([message(0)])
        (stored / ".lock").replace(json.dumps({"token": "other", "count": 1}).encode())
        held_up._lock._renewed = -1e9  # type: ignore[attr-defined]
        with pytest.raises(PipelineError, match="another process receives messages"):
            held_up.append([message(1)])
    (stored / ".lock").delete()
    assert numbers(stored, 0, 2) == [0, 1]
