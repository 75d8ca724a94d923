"""Detect the format of input files from the beginning of the first file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

import msgspec

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Storage
from signalbook.pipeline.sources.avro import CONTAINER, MAGIC
from signalbook.pipeline.sources.base import DamagedFile, Split
from signalbook.pipeline.sources.capture_records import read_capture_columns, read_records
from signalbook.pipeline.sources.captures import CLOUDEVENTS, KAFKA
from signalbook.pipeline.sources.files import BATCH, HTTP_JSONL, JSONL
from signalbook.pipeline.sources.input_file import open_input, read_text_head
from signalbook.pipeline.sources.inputs import find_files
from signalbook.pipeline.sources.plain import PLAIN_JSON
from signalbook.values import JSON

_HEAD_BYTES: Final = 256 * 1024
# The first line that begins like JSON decides, so that a broken line before it is ignored.
_JSON_LINE: Final = re.compile(rb"^[{[]", re.MULTILINE)
_PARQUET: Final = b"PAR1"


@dataclass(frozen=True, slots=True)
class _Messages:
    """The endings of files that may contain messages. A folder may have other files, such as a README."""

    endings: tuple[str, ...] = (*HTTP_JSONL.endings, *CONTAINER.endings, ".parquet")


def detect_format(inputs: Sequence[str], storage: Storage) -> str:
    """Return the input format of ``inputs``, which is the format of the first file that is not empty.

    Raises ``PipelineError`` if the file is in no format that can be detected, or cannot be read.
    """
    files = find_files(inputs, _Messages(), storage).files
    path = next((path for path, size in files if size), None)
    if path is None:
        raise PipelineError(f"the input {', '.join(inputs)} is empty: there is nothing to detect its format by")
    head = _read_head(path, storage)
    if head in (MAGIC, _PARQUET):
        return _detect_record_format(Split(path=path, start=0, end=0, storage=storage), is_avro=head == MAGIC)
    return _detect_json_format(path, head)


def _read_head(path: str, storage: Storage) -> bytes:
    try:
        with open_input(Split(path=path, start=0, end=0, storage=storage)) as file:
            head = file.read(len(MAGIC))
            return head if head in (MAGIC, _PARQUET) else read_text_head(path, file, _HEAD_BYTES)
    except DamagedFile as damage:
        raise PipelineError(str(damage)) from damage


def _detect_record_format(split: Split, *, is_avro: bool) -> str:
    """Return the format of a file of records: captured messages, or for Avro CloudEvents in their Avro format.

    A capture that has nothing but values, which are CloudEvents in JSON, is a capture of CloudEvents.
    """
    columns = read_capture_columns(split)
    if is_avro and (columns is None or "value" not in map(str.lower, columns.names)):
        return CONTAINER.name
    if columns is None:
        raise PipelineError(f"{split.path} begins as Parquet and cannot be read: it is damaged or incomplete")
    first = next((rows for rows in read_records(split, KAFKA.protocol, KAFKA.roles) if len(rows)), None)
    is_bare = len(columns) == 1
    if is_bare and first is not None and "specversion" in _read_first_members(first.column("value")[0].as_py() or b""):
        return CLOUDEVENTS.name
    return KAFKA.name


def _detect_json_format(path: str, head: bytes) -> str:
    is_array = head.startswith(b"[")
    start = next((line.start() for line in _JSON_LINE.finditer(head)), None)
    if start is None:
        ending = PurePosixPath(path).suffix or "no ending"
        raise PipelineError(
            f"cannot detect the format of {path} ({ending}): no line begins with a JSON object or array; "
            "say by --input-format what it holds"
        )
    members = _read_first_members(head[start:])
    if "specversion" in members:
        return BATCH.name if is_array else JSONL.name
    if not is_array and {"method", "path"} <= members and members & {"headers", "body", "body_base64"}:
        return HTTP_JSONL.name
    return PLAIN_JSON.name


def _read_first_members(head: bytes) -> set[str]:
    """Return the names of the first object's members, as far as they are in ``head``."""
    line = head.partition(b"\n")[0]
    for text in (line, head, head.removeprefix(b"[").partition(b"},")[0] + b"}"):
        try:
            value: JSON = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        first = value[0] if isinstance(value, list) and value else value
        return set(first) if isinstance(first, dict) else set()
    # ``head`` has only the beginning of a long object, which cannot be parsed.
    return {name for name in ("specversion",) if f'"{name}"'.encode() in head}
