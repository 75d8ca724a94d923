"""Avro object container files whose records are CloudEvents in the Avro event format."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final

import numpy as np

from signalbook.formats import SchemaError
from signalbook.formats.avro import BROKEN, FORMAT, AvroSchema
from signalbook.messages import Message
from signalbook.messages.eventformats.avro import SCHEMA, read_datum
from signalbook.messages.eventformats.registry import AVRO_FORMAT
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources import containers, lines
from signalbook.pipeline.sources.base import Frame, Split, one_message
from signalbook.pipeline.sources.cloudevents import structured
from signalbook.values import dump_json

_EXPECTED: Final = FORMAT.parse(dump_json(SCHEMA), "Avro")


class AvroEvents:
    """The records of containers; a position is the number of a record in its file, from 0."""

    name = "cloudevents-avro"
    divisible = True
    cloudevents_json = False

    def frames(self, split: Split) -> Iterator[Frame]:
        """The records of the blocks that begin in the split. What follows a damaged one in its block is unreadable.

        Raises ``PipelineError`` for a file that is no container, or one of other records.
        """
        with lines.reading(split.path) as file:
            window = containers.Window(file)
            if not window.at(0, 1):
                return  # of a packed file the size does not say that it is empty
            header = containers.read_header(split.path, window)
            _check(split.path, header.schema)
            end = lines.ENDLESS if lines.is_packed(split.path) else split.end
            for number, block in containers.blocks(split.path, window, header, split.start, end):
                yield from _frames(split.path, header.codec, number, block)

    def message(self, frame: Frame, index: int) -> Message:
        """The record as a structured CloudEvent of a file. Raises ``Unreadable``."""
        return structured(frame, index, AVRO_FORMAT)


CONTAINER: Final = AvroEvents()


def _frames(path: str, codec: str, number: int, block: containers.Block) -> Iterator[Frame]:
    where = f"the block at byte {block.offset}"
    if block.fault:
        yield one_message(path, block.content, number, fault=f"{where}: {block.fault}")
        return
    try:
        content = containers.unpack(codec, block.content)
    except containers.Damage as error:
        yield one_message(path, block.content, number, fault=f"{where}: {error}")
        return
    yield from _records(path, content, block.count, number, where)


def _records(path: str, content: bytes, count: int, number: int, where: str) -> Iterator[Frame]:
    """The records of an unpacked block in frames of about ``BLOCK`` bytes, and what follows them as one message."""
    stream = BytesIO(content)
    bounds, fault = [0], ""
    for _ in range(count):
        try:
            read_datum(stream)
        except BROKEN as error:
            fault = f"not a CloudEvent in Avro: {str(error) or type(error).__name__}"
            break
        bounds.append(stream.tell())
        if bounds[-1] - bounds[0] >= lines.BLOCK:
            yield _frame(path, content, bounds, number)
            number += len(bounds) - 1
            bounds = bounds[-1:]
    if len(bounds) > 1:
        yield _frame(path, content, bounds, number)
    rest = content[bounds[-1] :]
    if fault or rest:
        text = fault or f"{len(rest)} bytes follow the last record"
        yield one_message(path, rest, number + len(bounds) - 1, fault=f"{where}: {text}")


def _frame(path: str, content: bytes, bounds: list[int], number: int) -> Frame:
    """The records between ``bounds``."""
    places = np.array(bounds, np.int64) - bounds[0]
    positions = np.arange(number, number + len(bounds) - 1, dtype=np.int64)
    block = content[bounds[0] : bounds[-1]]
    return Frame(path=path, block=block, starts=places[:-1], ends=places[1:], positions=positions)


def _check(path: str, document: bytes) -> None:
    """Raise ``PipelineError`` if records of the schema are not, byte for byte, those of the event format."""
    try:
        found = FORMAT.parse(document, "Avro")
    except SchemaError as error:
        raise PipelineError(f"{path}: the schema in the Avro container cannot be used: {error}") from None
    if not _alike(found.type, found, _EXPECTED.type, _EXPECTED, frozenset()):
        name = found.type["name"] if isinstance(found.type, dict) and "name" in found.type else found.type
        raise PipelineError(
            f"{path} holds {str(name)[:100]}, whose schema is not that of the CloudEvents Avro event format; "
            "nothing in the file was read"
        )


def _alike(node: Any, of: AvroSchema, other: Any, of_other: AvroSchema, above: frozenset[tuple[str, str]]) -> bool:
    """Whether two types have the same encoding; names and documentation do not matter."""
    node, other = _resolved(node, of), _resolved(other, of_other)
    if isinstance(node, list) and isinstance(other, list):
        pairs = list(zip(node, other, strict=False))
        return len(node) == len(other) and all(_alike(a, of, b, of_other, above) for a, b in pairs)
    if not (isinstance(node, dict) and isinstance(other, dict)):
        return bool(node == other)
    if node["type"] != other["type"]:
        return False
    if node["type"] != "record":
        inner = "values" if node["type"] == "map" else "items"
        return _alike(node[inner], of, other[inner], of_other, above)
    pair = node["name"], other["name"]
    fields = list(zip(node["fields"], other["fields"], strict=False))
    return pair in above or (
        [field["name"] for field in node["fields"]] == [field["name"] for field in other["fields"]]
        and all(_alike(a["type"], of, b["type"], of_other, above | {pair}) for a, b in fields)
    )


def _resolved(node: Any, of: AvroSchema) -> Any:
    """A named type as its definition, a primitive as its name."""
    node = of.names.types.get(node, node) if isinstance(node, str) else node
    if isinstance(node, dict) and node["type"] not in ("record", "map", "array", "enum", "fixed"):
        return node["type"]
    return node
