"""Content modes that the fast path supports: they read messages as columns of events.

A mode accepts messages that are certainly events in that mode. Messages that it refuses are not necessarily invalid,
or events at all. They go the slow path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar, Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from signalbook.messages import CompiledDefinition
from signalbook.messages.cloudevents import CORE
from signalbook.messages.content import unpack_body
from signalbook.pipeline import native
from signalbook.pipeline.columns import ATTRIBUTES
from signalbook.pipeline.native import PayloadSpans
from signalbook.pipeline.processing.batch import MOST_EXTENSIONS, EventColumns, ExtensionColumn, select_odd_versions
from signalbook.pipeline.processing.binary import ENCODING, BinaryMode, Headers, undo_encodings
from signalbook.pipeline.sources.base import ALONE, BLANK, CASELESS, MessageBatch, Source
from signalbook.pipeline.sources.plain import PlainJson

_EXTENSION: Final = re.compile(r"[a-z0-9]{1,64}", re.ASCII)
# The members of a JSON event that are not context attributes.
_OTHERS: Final = frozenset({"data", "data_base64"})
# The number and the size of refused events of a batch that are searched for new extension attributes.
_SAMPLES: Final = 3
_MAX_SAMPLE_BYTES: Final = 1 << 20
# Attributes by which events are recognized: JSON that is not an event rarely has two of them.
_TELLING: Final = frozenset({"specversion", "source", "type"})
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class ContentMode(Protocol):
    """A content mode.

    If ``all_events`` is True, messages that lack a required attribute are invalid events. If ``reads_plain`` is True,
    messages that lack a required attribute carry no event, and their content type is in the column of
    ``datacontenttype``.
    """

    all_events: ClassVar[bool]
    reads_plain: bool

    def read_events(self, messages: MessageBatch, /) -> tuple[EventColumns, list[int]]:
        """Return the events among messages as columns, and the indices of the refused messages."""
        ...

    def is_decided(self, definition: CompiledDefinition, /) -> bool:
        """Return True if a definition has no further demands on an event in this mode than attributes and payload."""
        ...


class StructuredMode:
    """Structured mode in JSON. Extension attributes are learned from events, up to ``MOST_EXTENSIONS``."""

    all_events: ClassVar[bool] = True
    reads_plain: bool = False

    def __init__(self) -> None:
        self._expect(())

    def read_events(self, messages: MessageBatch) -> tuple[EventColumns, list[int]]:
        """Return events as columns, and the indices of refused messages. Data stays as it was sent."""
        return self._read_encoded(messages) if messages.encoded else self._read_and_learn(messages)

    def _read_encoded(self, messages: MessageBatch) -> tuple[EventColumns, list[int]]:
        """Read messages after undoing their content encodings. The stored messages do not change."""
        headers = Headers.of(messages, folded=messages.protocol in CASELESS)
        stated = headers.read_texts(ENCODING)
        values = [messages.raw(index) for index in range(len(messages))]
        undo_encodings(values, stated, headers.refused)
        accepted = np.flatnonzero(~headers.refused)
        values = [values[index] for index in accepted.tolist()]
        ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
        clear = replace(
            messages,
            content=b"".join(values),
            starts=ends[:-1],
            ends=ends[1:],
            positions=messages.positions[accepted],
            records=None,
        )
        events, refused = self._read_and_learn(clear)
        # Copy the data of events, so that refused messages are freed: decoded, they may be a thousand times as large.
        data = events.data.copy() if refused else events.data

        def order(index: int) -> Iterable[str]:
            return _list_members(unpack_body(stated[index].as_py(), messages.raw(index), ALONE))

        events = replace(events, messages=messages, indices=accepted[events.indices], data=data, order=order)
        return events, np.setdiff1d(np.arange(len(messages)), events.indices, assume_unique=True).tolist()

    def _read_and_learn(self, messages: MessageBatch) -> tuple[EventColumns, list[int]]:
        events, refused = self._read(messages)
        # The native module only accepts events whose extension attributes are known. They are learned from refused
        # events, because a producer may send no valid event.
        return self._read(messages) if refused and self._learn(messages, refused) else (events, refused)

    def _read(self, messages: MessageBatch) -> tuple[EventColumns, list[int]]:
        bounds = map(np.ascontiguousarray, (messages.starts, messages.ends))
        try:
            refused, batch, kinds, data = self._envelopes.read(messages.content, *bounds)
        # The module refuses a whole batch only if its bounds make no sense; message by message each gets its own
        # verdict.
        except ValueError:  # an error of the module or of the bounds, not of the events
            return EventColumns.empty(messages, len(ATTRIBUTES)), list(range(len(messages)))
        count, last = len(messages) - len(refused), len(ATTRIBUTES)
        arrays = native.read_columns(batch, self._columns)
        starts, ends, block, forms = data
        versions = arrays.pop(0)
        extensions = zip(self._extensions, arrays[last:], kinds[1 + last :], strict=True)
        return EventColumns(
            messages,
            arrays[:last],
            {
                name: ExtensionColumn(texts, None if kinds is None else np.frombuffer(kinds, np.uint8))
                for name, texts, kinds in extensions
                if texts.null_count < count
            },
            PayloadSpans.within(
                messages.content if block is None else block,
                np.frombuffer(starts, np.int64),
                np.frombuffer(ends, np.int64),
            ),
            np.delete(np.arange(len(messages)), refused) if refused else np.arange(count),
            lambda index: _list_members(messages.raw(index)),
            None if forms is None else np.frombuffer(forms, np.uint8),
            select_odd_versions(versions),
        ), refused

    def _learn(self, messages: MessageBatch, refused: Sequence[int]) -> bool:
        """Learn new extension attributes from some refused messages. Return True if there are any."""
        before = self._extensions
        for raw in (messages.raw(index) for index in refused[:_SAMPLES]):
            try:
                members = _members.decode(raw) if len(raw) <= _MAX_SAMPLE_BYTES else {}
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            extensions = self._extensions
            new = [name for name in members if name not in CORE and name not in extensions and name not in _OTHERS]
            room = len(extensions) + len(new) <= MOST_EXTENSIONS
            if len(_TELLING & members.keys()) > 1 and room and all(map(_EXTENSION.fullmatch, new)):
                self._expect((*extensions, *new))
        return self._extensions != before

    def is_decided(self, definition: CompiledDefinition) -> bool:
        """Return True if a definition has no demands on mode or format."""
        return definition.simple

    def _expect(self, extensions: tuple[str, ...]) -> None:
        self._extensions = extensions
        attributes = ("specversion", *ATTRIBUTES)
        self._envelopes = native.load_module().Envelopes(attributes, extensions)
        self._columns = pa.schema([(name, pa.string()) for name in (*attributes, *extensions)])


class PlainMode:
    """The content mode of files of plain JSON, whose messages carry no events. Blank lines are not messages."""

    all_events: ClassVar[bool] = False
    reads_plain: bool = True

    def read_events(self, messages: MessageBatch) -> tuple[EventColumns, list[int]]:
        """Return the messages as JSON without attributes, and the indices of blank lines."""
        spans = PayloadSpans.within(messages.content, messages.starts, messages.ends)
        # Few lines begin with a blank character. The head of an empty line is a zero byte.
        doubtful = np.flatnonzero(np.isin(spans.read_heads(1)[:, 0], np.frombuffer(b"\0" + BLANK, np.uint8)))
        blank = [index for index in doubtful.tolist() if messages.is_blank(index)]
        arrays = [pa.nulls(len(messages), pa.string())] * len(ATTRIBUTES)
        arrays[ATTRIBUTES.index("datacontenttype")] = pa.repeat(pa.scalar("application/json"), len(messages))
        events = EventColumns(messages, arrays, {}, spans, np.arange(len(messages)), lambda _: ())
        return (events.take(np.delete(events.indices, blank)), blank) if blank else (events, blank)

    def is_decided(self, _definition: CompiledDefinition) -> bool:
        """Return False, because no message carries an event."""
        return False


def choose_mode(source: Source, protocol: str, *, binary: bool) -> ContentMode | None:
    """Return the mode of messages of ``source`` that came by ``protocol``, or None if the fast path reads no such mode.

    ``binary`` means that events are in binary content mode.
    """
    if binary:
        return BinaryMode(protocol) if BinaryMode.is_known(protocol) else None
    if isinstance(source, PlainJson):
        return PlainMode()
    return StructuredMode() if source.cloudevents_json else None


def _list_members(event: bytes) -> Iterable[str]:
    """Return the names of the members of an event in JSON."""
    return _members.decode(event)
