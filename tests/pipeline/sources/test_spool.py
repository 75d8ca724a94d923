"""Spools: what was written is there, once and whole, whoever dies; what was landed goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources.spool import MessageSpool, SpooledMessage, SpoolSession, is_full, read_messages


def message(number: int, size: int = 0) -> SpooledMessage:
    return SpooledMessage(
        address=f"a/{number}",
        value=b"x" * size,
        headers=(("n", b"\xff"),),
        key=None if number % 2 else b"k",
        received_at=number,
    )


def numbers(folder: Path, start: int, end: int) -> list[int]:
    found = list(read_messages(folder, start, end))
    assert all(each == message(number, len(each.value)) for number, each in found)
    return [number for number, _ in found]


@given(st.lists(st.lists(st.integers(0, 90), max_size=4), max_size=6), st.integers(0, 12), st.integers(0, 12))
@settings(max_examples=60)
def test_what_is_written_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[int]], start: int, length: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    with MessageSpool(folder, segment=150) as spool:
        for group in groups:
            spool.append([message(spool.end + place, size) for place, size in enumerate(group)])
        end = spool.end
    assert end == sum(map(len, groups))
    start = min(start, end)
    assert numbers(folder, start, min(start + length, end)) == list(range(start, min(start + length, end)))


@pytest.mark.parametrize("lost", [1, 5, 9, 30])
def test_what_was_cut_off_was_never_there(tmp_path: Path, lost: int) -> None:
    """A writer that dies had not confirmed what it was writing; the next one goes on behind what is whole."""
    with MessageSpool(tmp_path) as spool:
        spool.append([message(0), message(1), message(2)])
    (segment,) = tmp_path.glob("*.messages")
    os.truncate(segment, segment.stat().st_size - lost)
    with MessageSpool(tmp_path) as spool:
        end = spool.end
        assert end == (1 if lost > 25 else 2)
        spool.append([message(end), message(end + 1)])
    assert numbers(tmp_path, 0, end + 2) == list(range(end + 2))


def test_what_was_landed_goes(tmp_path: Path) -> None:
    with MessageSpool(tmp_path, segment=1) as spool:
        for number in range(5):
            spool.append([message(number)])
        spool.trim(3)
        assert (spool.begin, numbers(tmp_path, 3, 5)) == (3, [3, 4])
        spool.trim(5)
    with MessageSpool(tmp_path) as spool:
        assert spool.end == 5
        spool.trim(5)
        assert (spool.begin, len(list(tmp_path.glob("*.messages")))) == (5, 1)


def test_a_folder_takes_no_more_than_its_limit(tmp_path: Path) -> None:
    messages = [message(number, 30) for number in range(9)]
    with MessageSpool(tmp_path, limit=200) as spool:
        taken = spool.append(messages)
        assert 0 < taken < 9
        assert (spool.append(messages[taken:]), spool.end, is_full(tmp_path)) == (0, taken, True)
    with MessageSpool(tmp_path, limit=200) as spool:
        assert not is_full(tmp_path)
        assert spool.append(messages[taken:]) == 0
        spool.trim(taken)
        assert spool.append(messages[taken : 2 * taken]) == taken
        assert not is_full(tmp_path)
    assert numbers(tmp_path, taken, 2 * taken) == list(range(taken, 2 * taken))


def test_a_message_beyond_the_limit_goes_alone(tmp_path: Path) -> None:
    with MessageSpool(tmp_path, limit=10) as spool:
        for number in range(3):
            assert spool.append([message(number), message(number + 1)]) == 1
            assert spool.append([message(number + 1)]) == 0
            spool.trim(number + 1)
        assert spool.append([]) == 0


@pytest.mark.parametrize(("start", "end"), [(0, 2), (2, 9), (7, 8)])
def test_messages_that_are_not_there_are_reported(tmp_path: Path, start: int, end: int) -> None:
    with MessageSpool(tmp_path, segment=1) as spool:
        spool.append([message(0)])
        spool.append([message(1), message(2)])
        spool.trim(1)
    with pytest.raises(PipelineError, match="are not there or damaged"):
        list(read_messages(tmp_path, start, end))


def test_a_damaged_message_is_reported(tmp_path: Path) -> None:
    with MessageSpool(tmp_path, segment=1) as spool:
        spool.append([message(0)])
        spool.append([message(1)])
    first = min(tmp_path.glob("*.messages"))
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(content)
    with pytest.raises(PipelineError, match="the messages 0 to 1 of"):
        list(read_messages(tmp_path, 0, 2))


def test_one_writes(tmp_path: Path) -> None:
    with MessageSpool(tmp_path), pytest.raises(PipelineError, match="another process receives messages"):
        MessageSpool(tmp_path, patience=0)
    MessageSpool(tmp_path, patience=0).close()


def test_a_session_is_remembered(tmp_path: Path) -> None:
    with MessageSpool(tmp_path) as spool:
        assert spool.session() is None
        spool.remember(SpoolSession(name="me", receives=("a",)))
    with MessageSpool(tmp_path) as spool:
        assert spool.session() == SpoolSession(name="me", receives=("a",))
