"""Convert accepted messages to rows of the tables of their definitions.

``land_rows`` converts whole columns of messages that have routes. ``RowBuilder.build_rows`` converts messages that the
slow path accepted one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, structs

from signalbook.formats.base import format_pointer, shorten
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.messages import Accepted, CompiledDefinition, Message, format_attribute
from signalbook.messages.cloudevents import CORE, Attribute
from signalbook.messages.message import DUPLICATE, find_address
from signalbook.pipeline import arrays, columns, exact, rescue
from signalbook.pipeline.arrays import (
    MISFITS,
    Offsets,
    ValueForm,
    build_opaque_arrays,
    build_text_map,
    make_payload_builder,
    parse_timestamps,
)
from signalbook.pipeline.columns import ATTRIBUTES
from signalbook.pipeline.native import Decode, Decoded, PayloadSpans, decode_or_refuse, refuse_all
from signalbook.pipeline.processing import decoding
from signalbook.pipeline.processing.attributes import EnvelopeChecks
from signalbook.pipeline.processing.batch import EventBatch
from signalbook.pipeline.processing.keys import KeyDecoder
from signalbook.pipeline.processing.verdicts import PayloadReasons, Rejections, Verdicts
from signalbook.pipeline.sources.base import MessageBatch, MessageLocation
from signalbook.pipeline.table_names import build_table_name
from signalbook.pipeline.tables.evolution import rename_batch
from signalbook.pipeline.tables.layout import find_layout
from signalbook.values import JSON, Finding

_ENVELOPE: Final = len(columns.ENVELOPE)
_TIME: Final = ATTRIBUTES.index("time")
_TAG: Final = columns.TAGS.types[0]
_RESCUE: Final = columns.RESCUE.names[0]
_HUGE: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Bookkeeping:
    """The data about the run that each row repeats. ``batch`` and ``landed_at`` are None for rows outside tables."""

    fingerprint: str
    batch: str | None = None
    landed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRow:
    """An accepted message that waits to become a row. It keeps only the data that the row needs.

    ``data`` is the decoded payload. It is ``UNSET`` if the table can decode ``payload`` itself, because decoded JSON
    takes several times the memory. ``shared`` means that the message has several outcomes, for several definitions.
    ``duplicates`` means that an object in the payload has a name twice.
    """

    attributes: Mapping[str, Attribute]
    context: Mapping[str, str]
    message: Message
    payload: bytes | None
    data: JSON
    location: MessageLocation
    original: bytes
    shared: bool
    violations: Sequence[Finding]
    duplicates: bool = False


class RowBuilder:
    """A builder of rows for the table of one definition, from accepted messages."""

    def __init__(self, definition: CompiledDefinition, bookkeeping: Bookkeeping) -> None:
        xid = definition.xid
        self.name = build_table_name(xid)
        self.xid = xid
        self._definition = definition
        self._schema = definition.schema_use.schema
        self._typed = definition.policy.typed
        self._layout = find_layout(definition)
        self._shape = self._layout.shape
        values = (xid, definition.version, bookkeeping.fingerprint, bookkeeping.batch, bookkeeping.landed_at)
        self._bookkeeping = [
            pa.array([value], kind) for value, kind in zip(values, columns.BOOKKEEPING.types, strict=True)
        ]

    def build_row(self, accepted: Accepted, original: bytes, location: MessageLocation, *, shared: bool) -> AcceptedRow:
        """Return the parts of an accepted message that are kept until it has landed.

        ``original`` is the message as it was read at ``location``. ``shared`` means that the message has several
        outcomes.
        """
        message, event = accepted.message, accepted.event
        if message.body == original:  # keep one copy of equal bytes
            message = structs.replace(message, body=original)
        payload = accepted.payload()
        violations = [finding for finding in accepted.warnings if finding.severity == "error"]
        # JSON of the table's own schema is decoded again later, straight to columns. A huge message is not, because
        # its data is decoded already, and building columns from its bytes would take three times its size.
        again = self._decode is not None and accepted.schema is self._schema and len(original) < _HUGE
        decodes = payload is not None and not violations and again
        return AcceptedRow(
            attributes=event.attributes if event is not None else {},
            context=accepted.context,
            message=message,
            payload=payload if decodes or self._schema is None else None,
            data=UNSET if decodes else accepted.data,
            location=location,
            original=original,
            shared=shared,
            violations=violations,
            duplicates=any(finding.rule == DUPLICATE for finding in accepted.warnings),
        )

    def wrap_decoder(self, decode: Decode) -> Decode:
        """Return a decoder of payloads into the columns that ``build_batch`` takes: here ``decode`` itself."""
        return decode

    def build_rows(self, rows: Sequence[AcceptedRow]) -> pa.RecordBatch:
        """Return rows with all columns of the table. Raises one of ``arrays.MISFITS`` for a value that does not fit."""
        return self._complete_batch(
            [
                *_build_envelope([row.attributes for row in rows]),
                *self._with_rest(self._build_payloads(rows)),
                build_text_map([row.context.items() or None for row in rows]),
                *_build_transport(rows),
            ],
            pa.array([[build_violation_row(violation) for violation in row.violations] or None for row in rows], _TAG),
        )

    def find_column_violation(self, row: AcceptedRow, error: Exception) -> Finding:
        """Return the finding about the value of ``row`` that does not fit its column.

        ``error`` is the exception of ``build_rows`` for this row. It is quoted if the value cannot be found.
        """
        unfitting = None if self._shape is None else arrays.find_unfitting_value(self._shape, self._decode_payload(row))
        if unfitting is None:
            return Finding(path="", rule="column", message=shorten(f"a value does not fit its column: {error}"))
        path, shape, value = unfitting
        value_text, kind = shorten(exact.dump(value).decode()), columns.find_arrow_type(shape)
        conforms = "" if row.violations else " conforms, but"
        text = f"{value_text}{conforms} does not fit its column, which is {kind}"
        return Finding(path=format_pointer(path), rule="column", message=shorten(text))

    def build_decoded(self, rows: Sequence[AcceptedRow], arrays: list[pa.Array]) -> pa.RecordBatch:
        """Return ``rows`` as a batch, with ``arrays`` as the columns of their payloads. Raises one of ``MISFITS``."""
        contexts = build_text_map([row.context.items() or None for row in rows])
        return self.build_batch(
            _build_envelope([row.attributes for row in rows]), arrays, [contexts, *_build_transport(rows)]
        )

    def build_batch(
        self, envelope: list[pa.Array], payloads: list[pa.Array], transport: list[pa.Array]
    ) -> pa.RecordBatch:
        """Return rows made of columns: ``envelope`` as in ``columns.ENVELOPE``, ``payloads`` and ``transport``.

        The last of ``payloads``, which must conform, may be ``columns.RESCUE``. ``transport`` is ``columns.CONTEXT``
        followed by ``columns.TRANSPORT``.
        """
        return self._complete_batch(
            [*envelope, *self._with_rest(payloads), *transport], pa.nulls(len(envelope[0]), _TAG)
        )

    def count_rescued(self, rows: pa.RecordBatch) -> Counter[str]:
        """Count the rows that have a value without a column, by the path of the value.

        The path ``_key`` counts the rows whose key could not be decoded.
        """
        counts = self._layout.paths.count(rows.column(_RESCUE)) if self._layout.rescues else Counter()
        if self._layout.key is not None:
            undecoded = pc.and_(rows.column("_key").is_valid(), rows.column(columns.DECODED_KEY).is_null())
            counts += Counter({"_key": pc.sum(undecoded).as_py() or 0})
        return counts

    def _with_rest(self, payloads: list[pa.Array]) -> list[pa.Array]:
        """Return ``payloads`` with ``columns.RESCUE`` as the last column if the table has it, else without it.

        If ``payloads`` lack a column that the table has, it is null.
        """
        if not self._layout.rescues:
            return payloads[: self._layout.width]
        return payloads if len(payloads) > self._layout.width else [*payloads, pa.nulls(len(payloads[0]), pa.string())]

    def _complete_batch(self, arrays: list[pa.Array], tags: pa.Array) -> pa.RecordBatch:
        count = len(arrays[0])
        zeros = pa.array(np.zeros(count, np.int8))
        constants = [pa.DictionaryArray.from_arrays(zeros, value) for value in self._bookkeeping]
        keys = [] if self._layout.key is None else [self._keys.decode(arrays)]
        rows = pa.RecordBatch.from_arrays([*arrays, *constants, tags, *keys], schema=self._layout.built)
        return rows if self._layout.built is self._layout.columns else rename_batch(rows, self._layout.columns)

    def _build_payloads(self, rows: Sequence[AcceptedRow]) -> list[pa.Array]:
        if self._schema is None:
            return build_opaque_arrays([row.payload for row in rows])
        payloads = [row.payload for row in rows if row.payload is not None]
        if self._decode is None or len(payloads) < len(rows):
            return self._build([self._decode_payload(row) for row in rows])
        arrays, refused = decode_or_refuse(self._decode, PayloadSpans.of_list(payloads))
        if not refused:
            return arrays
        # These payloads conform, but the decoder refuses whatever is doubtful, such as an object with a name twice. The
        # slower builder may also keep a value that does not fit its column in ``columns.RESCUE``.
        rebuilt = self._build([self._decode_payload(rows[number]) for number in refused])
        if len(refused) == len(rows):
            return rebuilt
        order = pa.array(np.argsort(np.concatenate([np.delete(np.arange(len(rows)), refused), refused])))
        return [pa.concat_arrays([array, more]).take(order) for array, more in zip(arrays, rebuilt, strict=True)]

    def _decode_payload(self, row: AcceptedRow) -> JSON:
        """Return the decoded payload of ``row``. Decode it now if the row keeps only its bytes."""
        if row.payload is not None and self._schema is not None:
            return self._schema.decode(row.payload)
        return None if row.data is UNSET else row.data

    @cached_property
    def _keys(self) -> KeyDecoder:
        """The decoder of keys. The definition must have a schema for keys."""
        assert self._layout.key is not None
        return KeyDecoder(self._definition, self._layout.key, self._layout.columns)

    @cached_property
    def _decode(self) -> Decode | None:
        if not isinstance(self._schema, JsonSchema):
            return None
        return decoding.find_decoder(self._schema, typed=self._typed)

    @cached_property
    def _build(self) -> Callable[[Sequence[Any]], list[pa.Array]]:
        """The function from decoded payloads to their columns. The definition must have a schema."""
        shape = self._shape
        assert shape is not None
        assert self._schema is not None
        build = make_payload_builder(shape, ValueForm.of(self._schema))
        return lambda values: [*build(values), rescue.build_rescue_array(shape, values)]


def _build_envelope(attributes: Sequence[Mapping[str, Attribute]]) -> list[pa.Array]:
    texts = [{name: format_attribute(value) for name, value in values.items()} for values in attributes]
    arrays = [pa.array([event_texts.get(name) for event_texts in texts], pa.string()) for name in ATTRIBUTES]
    arrays[_TIME] = parse_timestamps(arrays[_TIME])
    extensions = [[pair for pair in event_texts.items() if pair[0] not in CORE] or None for event_texts in texts]
    return [*arrays, build_text_map(extensions)]


def _build_transport(rows: Sequence[AcceptedRow]) -> list[pa.Array]:
    messages, locations = [row.message for row in rows], [row.location for row in rows]
    return [
        pa.array([message.protocol or None for message in messages], pa.string()),
        pa.array([find_address(message) for message in messages], pa.string()),
        pa.array([read_key(message) for message in messages], pa.binary()),
        *arrays.build_header_columns([(message.protocol, arrays.list_headers(message)) for message in messages]),
        pa.array([message.received_at for message in messages], columns.TIMESTAMP),
        pa.array([location.path or None for location in locations], pa.string()),
        pa.array([location.position for location in locations], pa.int64()),
    ]


def read_key(message: Message) -> bytes | None:
    """Return the key of a Kafka record, or None for a record without a key and for messages of other protocols."""
    key: bytes | None = message.sections.get("key") if message.protocol == arrays.KAFKA else None
    return key


def build_violation_row(finding: Finding) -> dict[str, str]:
    """Return a finding as a value of the column of violations."""
    # a hostile payload may have put lone surrogates into the finding, which no column accepts
    texts = {name: getattr(finding, name) for name in ("path", "rule", "message")}
    return {name: text.encode("utf-8", "replace").decode() for name, text in texts.items()}


@dataclass(frozen=True, slots=True)
class LandedRows:
    """Rows that land in the table of ``target``."""

    target: RowBuilder
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class LeftOver:
    """Messages, by index, that go the slow path."""

    messages: MessageBatch
    indices: Sequence[int]


@dataclass(frozen=True, slots=True)
class Ignored:
    """A number of messages that no definition fits and that the policy drops or passes on."""

    messages: int


Result = LandedRows | LeftOver | Rejections | Ignored


@dataclass(frozen=True, slots=True)
class Route:
    """The route of messages of one kind: their definition, table and decoder.

    ``checks`` are the checks of their envelopes or protocol properties, ``None`` if nothing is to check. ``reasons``
    finds out why payloads are refused. If it is ``None``, messages with refused payloads go the slow path.
    """

    definition: CompiledDefinition
    target: RowBuilder
    decode: Decode
    checks: EnvelopeChecks | None
    reasons: PayloadReasons | None


def undecoded(payloads: PayloadSpans) -> Decoded:
    """Refuse all payloads. As the decoder of a route, this function marks that nothing can decode its payloads."""
    return refuse_all(payloads)


def list_unlanded(
    batch: EventBatch, verdicts: Verdicts, left_over: npt.NDArray[np.bool_]
) -> Iterator[Rejections | LeftOver]:
    """Yield the messages that have a verdict, and then those that are left over for the slow path."""
    left_over[verdicts.events] = False
    yield from verdicts.group_rejections(batch)
    for messages, indices, _ in batch.find_messages(np.flatnonzero(left_over)):
        yield LeftOver(messages, indices)


def land_rows(
    batch: EventBatch, matched: Sequence[tuple[Route, Offsets]], contexts: pa.Array, left_over: npt.NDArray[np.bool_]
) -> Iterator[LandedRows]:
    """Yield rows of messages whose payloads conform. Other messages are marked in ``left_over``.

    ``matched`` are routes with their messages, ``contexts`` are the contexts of these messages in the same order.
    """
    if not matched:
        return
    order = np.concatenate([events for _, events in matched])
    try:
        # The columns of all routes are built at once, and each route takes a slice: every array that Arrow makes costs
        # time.
        envelope, transport = batch.build_envelope(order), batch.build_transport(order)
    except MISFITS:
        left_over[order] = True
        return
    first = 0
    for route, events in matched:
        for part in batch.split(events):
            arrays = [array.slice(first, len(part)) for array in (*envelope, contexts, *transport)]
            first += len(part)
            rows, refused = _build_rows(route, batch.take_payloads(part), arrays)
            left_over[part[refused]] = True
            if rows is not None:
                yield LandedRows(route.target, rows)


def _build_rows(
    route: Route, payloads: PayloadSpans, arrays: list[pa.Array]
) -> tuple[pa.RecordBatch | None, list[int]]:
    """Return the rows of accepted payloads (None without any), and the numbers of refused payloads.

    ``arrays`` are the other columns of the rows, for all payloads.
    """
    decoded, refused = decode_or_refuse(route.decode, payloads)
    if len(refused) == len(payloads):
        return None, refused
    if refused:
        accepted = pa.array(np.delete(np.arange(len(payloads)), refused))
        arrays = [array.take(accepted) for array in arrays]
    return route.target.build_batch(arrays[:_ENVELOPE], decoded, arrays[_ENVELOPE:]), refused
