"""Files of plain JSON come apart into their values, whatever their layout."""

import gzip
import json
from pathlib import Path

import pytest

from signalbook.pipeline.sources.base import Split, UnreadableMessage, read_split
from signalbook.pipeline.sources.plain import PLAIN_JSON

VALUES = [{"event": "a", "n": n, "text": "x" * 40} for n in range(500)]
LINES = "".join(json.dumps(value) + "\n" for value in VALUES)


def read(path: Path, splits: int = 1) -> list[object]:
    """Return the values that all splits of a file yield, with the error in place of a damaged one."""
    size = path.stat().st_size
    bodies: list[object] = []
    for number in range(splits):
        split = Split(path=str(path), start=size * number // splits, end=size * (number + 1) // splits)
        for batch in read_split(PLAIN_JSON, split):
            for index in range(len(batch)):
                if not batch.is_blank(index):
                    try:
                        message = PLAIN_JSON.message(batch, index)
                        bodies.append(json.loads(message.body or b""))
                        assert (message.protocol, message.content_type) == ("", "application/json")
                    except UnreadableMessage as error:
                        bodies.append(str(error))
    return bodies


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize(
    "text",
    [LINES, "\n\n" + LINES, "\ufeff" + LINES, json.dumps(VALUES), json.dumps(VALUES, indent=2), " \n" * 3000 + LINES],
    ids=["lines", "blank lines", "byte order mark", "array", "indented array", "blanks"],
)
def test_all_layouts_have_the_same_values(text: str, splits: int, tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text(text)
    assert read(path, splits) == VALUES


def test_compressed_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "events.bin"
    path.write_bytes(gzip.compress(LINES.encode()))
    assert read(path) == VALUES


def test_a_document_of_several_lines_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(VALUES[0], indent=2))
    assert read(path) == VALUES[:1]


def test_values_before_damage_are_read(tmp_path: Path) -> None:
    path = tmp_path / "events.json.gz"
    whole = gzip.compress(LINES.encode())
    path.write_bytes(whole[: len(whole) // 2])
    *values, damage = read(path)
    assert values == VALUES[: len(values)]
    assert "damaged gzip" in str(damage)


def test_an_empty_file_has_no_messages(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text(" \n")
    assert read(path) == []
