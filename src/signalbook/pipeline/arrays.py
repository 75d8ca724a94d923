"""Values of messages as Arrow arrays, column by column: payloads, times, and headers as text.

A payload's columns are built by functions that are compiled once per schema, from a list of values to an array: one
list comprehension per column beats a conversion per message several times. Values come in one of two forms: what
``Schema.decode`` returns, or objects of a guard (``formats.jsonschema.guards``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from itertools import accumulate, chain
from operator import attrgetter
from types import NoneType
from typing import Any, Final
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.formats import Anything, ListOf, MapOf, Scalar, Schema, Shape, Struct
from signalbook.formats.base import JsonValues, Path
from signalbook.messages import Message
from signalbook.messages.bindings.amqp import MEDIA
from signalbook.messages.bindings.mqtt import V5
from signalbook.pipeline import columns, exact
from signalbook.values import JSON, NONFINITE, format_timestamp, parse_timestamp

Values = Sequence[Any]
# Takes values and whether there may be a None among them.
Build = Callable[[Values, bool], pa.Array]
_UNSET: Final = msgspec.UNSET
_MAX_SINGLE: Final = float(np.finfo(np.float32).max)
# What Arrow and the conversions below raise for a value that does not fit its column; payloads that are let through
# against their schema may have any value anywhere.
MISFITS: Final = (pa.ArrowException, AttributeError, OverflowError, TypeError, ValueError)


class ValueForm(Enum):
    """The form in which values arrive."""

    TYPED = "objects of a guard"
    JSON = "JSON, with all digits of its numbers"
    DECODED = "dicts, lists and Python scalars, as other formats decode to"

    @classmethod
    def of(cls, schema: Schema) -> ValueForm:
        """Return the form of the values that ``schema.decode`` returns."""
        return cls.JSON if isinstance(schema, JsonValues) else cls.DECODED


def payload_builder(shape: Shape, form: ValueForm) -> Callable[[Values], list[pa.Array]]:
    """A function from payload values (``None``: no payload) to the arrays of ``columns.payload(shape)``.

    The function raises one of ``MISFITS`` if a value does not fit its column.
    """
    types = [field.type for field in columns.payload(shape)]
    if isinstance(shape, Struct) and shape.fields:
        members = _Members(shape, types, form)
        return lambda values: members.arrays(values, gaps=_mask(values) is not None)
    whole = builder(shape, types[0], form)
    missing = _UNSET if isinstance(shape, Anything) else None
    return lambda values: [whole([missing if value is None else value for value in values], True)]


def unfitting_value(shape: Shape, value: JSON) -> tuple[Path, Shape, JSON] | None:
    """The innermost of a decoded value's parts that does not fit its column, and where it is; ``None`` if all fit."""
    if _fits(shape, [value]):
        return None
    parts: Sequence[tuple[str | int, Shape, JSON]] = ()
    match shape, value:
        case Struct(), dict():
            parts = [(each.name, each.shape, value[each.name]) for each in shape.fields if each.name in value]
        case ListOf(), list():
            parts = _unfitting_part(shape.item, list(enumerate(value)))
        case MapOf(), dict():
            parts = _unfitting_part(shape.value, list(value.items()))
    for step, inner, part in parts:
        found = unfitting_value(inner, part)
        if found is not None:
            path, *rest = found
            return (step, *path), *rest
    return (), shape, value


def _unfitting_part(shape: Shape, values: Sequence[tuple[str | int, JSON]]) -> Sequence[tuple[str | int, Shape, JSON]]:
    """The first of values of one shape that does not fit; halving finds it in about as long as all of them take."""
    while len(values) > 1:
        half = values[: len(values) // 2]
        values = values[len(half) :] if _fits(shape, [value for _, value in half]) else half
    return [(step, shape, value) for step, value in values]


def _fits(shape: Shape, values: Values) -> bool:
    try:
        builder(shape, columns.arrow_type(shape), ValueForm.DECODED)(values, True)
    except MISFITS:
        return False
    return True


def opaque_arrays(payloads: Sequence[bytes | None]) -> list[pa.Array]:
    """The arrays of ``columns.OPAQUE``: text where a payload is UTF-8, else bytes."""
    with suppress(pa.ArrowInvalid):  # by far most are all text, and are not copied for it
        return [pa.array(payloads, pa.binary()).cast(pa.string()), pa.nulls(len(payloads), pa.binary())]
    texts = [utf8_text(payload) for payload in payloads]
    rest = [payload if text is None else None for payload, text in zip(payloads, texts, strict=True)]
    return [pa.array(texts, pa.string()), pa.array(rest, pa.binary())]


def text_map(maps: Sequence[Iterable[tuple[str, str]] | None]) -> pa.Array:
    """A ``columns.TEXT_MAP`` array; ``None`` is null."""
    if not any(maps):
        return pa.nulls(len(maps), columns.TEXT_MAP)
    return pa.array([None if entries is None else list(entries) for entries in maps], columns.TEXT_MAP)


def text_maps(members: Mapping[str, pa.StringArray]) -> pa.Array:
    """A ``columns.TEXT_MAP`` array of columns by name: what is null there is no member, and a row of none is null."""
    count = len(next(iter(members.values())))
    there = np.stack([texts.is_valid().to_numpy(zero_copy_only=False) for texts in members.values()], axis=1)
    rows, places = np.nonzero(there)
    names = pa.array(list(members), pa.string()).take(pa.array(places))
    # Column ``p`` of row ``r`` lies at ``p * count + r`` of the columns one behind the other.
    texts = pa.concat_arrays(members.values()).take(pa.array(places * count + rows))
    sizes = there.sum(axis=1)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    return pa.MapArray.from_arrays(offsets, names, texts, type=columns.TEXT_MAP, mask=pa.array(sizes == 0))


def timestamps(texts: pa.Array) -> pa.Array:
    """RFC3339 texts as ``columns.TIMESTAMP``, digits beyond microseconds cut. Raises one of ``MISFITS``."""
    times = read_timestamps(texts)
    if times is not None:
        return times
    return pa.array([None if text is None else parse_timestamp(text) for text in texts.to_pylist()], columns.TIMESTAMP)


def read_timestamps(texts: pa.Array) -> pa.Array | None:
    """The same, unless Arrow itself does not read one of the texts."""
    for unit in ("us", "ns"):
        try:
            return texts.cast(pa.timestamp(unit, "UTC")).cast(columns.TIMESTAMP, safe=False)
        except pa.ArrowException:
            continue
    return None


def utf8_text(payload: bytes | None) -> str | None:
    """Bytes as text, ``None`` where they are none."""
    try:
        return None if payload is None else payload.decode()
    except UnicodeDecodeError:
        return None


def builder(shape: Shape, type: pa.DataType, form: ValueForm) -> Build:
    """Return the function from values to an array.

    ``None`` is null; an absent ``Anything`` is ``UNSET``, else ``None``.
    """
    match shape:
        case Scalar():
            return _scalar(shape, type, form)
        case ListOf():
            return _list(shape, type, form)
        case MapOf():
            return _map(shape, type, form)
        case Struct() if shape.fields:
            return _struct(shape, type, form)
        case Struct():
            return lambda values, _: pa.array([None if value is None else "{}" for value in values], type)
        case Anything():
            return _TEXTS[form]


def _raw_text(values: Values, _: bool) -> pa.Array:
    return pa.array([None if value is _UNSET else bytes(value) for value in values], pa.string())


def _json_text(values: Values, _: bool) -> pa.Array:
    return pa.array([None if value is _UNSET else exact.dump(value) for value in values], pa.string())


def _decoded_text(values: Values, _: bool) -> pa.Array:
    return pa.array([None if value is _UNSET else exact.dump_decoded(value) for value in values], pa.string())


_TEXTS: Final[Mapping[ValueForm, Build]] = {
    ValueForm.TYPED: _raw_text,
    ValueForm.JSON: _json_text,
    ValueForm.DECODED: _decoded_text,
}


def _struct(shape: Struct, type: pa.DataType, form: ValueForm) -> Build:
    members = _Members(shape, [field.type for field in type], form)
    fields = list(type)

    def build(values: Values, gaps: bool) -> pa.Array:
        mask = _mask(values) if gaps else None
        return pa.StructArray.from_arrays(members.arrays(values, gaps=mask is not None), fields=fields, mask=mask)

    return build


def _mask(values: Values) -> pa.Array | None:
    """Return the mask of ``None`` among ``values``, if there is any."""
    missing = [value is None for value in values]
    return pa.array(missing, pa.bool_()) if True in missing else None


class _Members:
    """The function from objects to the arrays of their members."""

    def __init__(self, shape: Struct, types: Sequence[pa.DataType], form: ValueForm) -> None:
        self._fields = shape.fields
        self._builds = [builder(field.shape, column, form) for field, column in zip(shape.fields, types, strict=True)]
        self._decodes = form is not ValueForm.TYPED
        self._columns = self._decoded if self._decodes else self._typed

    def arrays(self, objects: Values, *, gaps: bool) -> list[pa.Array]:
        """An array for each member; with ``gaps`` some of the objects may be ``None``."""
        arrays = []
        for field, build, column in zip(self._fields, self._builds, self._columns(objects, gaps), strict=True):
            # A required member may be absent of what another version of the schema wrote, or a policy lets through.
            values, loose = column, gaps or self._decodes or not field.required or field.shape.nullable
            if loose and not isinstance(field.shape, Anything):
                values = [None if value is _UNSET else value for value in column]
            arrays.append(build(values, loose))
        return arrays

    def _typed(self, objects: Values, gaps: bool) -> Iterable[Values]:
        for field in self._fields:
            get = attrgetter(field.attribute)
            yield [_UNSET if value is None else get(value) for value in objects] if gaps else list(map(get, objects))

    def _decoded(self, objects: Values, _: bool) -> Iterable[Values]:
        for field in self._fields:
            name = field.name
            yield [_UNSET if value is None else value.get(name, _UNSET) for value in objects]


def _list(shape: ListOf, type: pa.DataType, form: ValueForm) -> Build:
    item = builder(shape.item, type.value_type, form)
    inner_gaps = _may_be_null(shape.item)

    def build(values: Values, gaps: bool) -> pa.Array:
        mask = _mask(values) if gaps else None
        present = values if mask is None else [value for value in values if value is not None]
        if form is not ValueForm.TYPED and not all(isinstance(value, list) for value in present):
            raise TypeError("a value is no list")
        # All items of all lists as one column, so that even lists of lists take one pass per level.
        items = item(list(chain.from_iterable(present)), inner_gaps)
        return pa.ListArray.from_arrays(_offsets(values, mask), items, type=type, mask=mask)

    return build


def _map(shape: MapOf, type: pa.DataType, form: ValueForm) -> Build:
    item = builder(shape.value, type.item_type, form)
    inner_gaps = _may_be_null(shape.value)

    def build(values: Values, gaps: bool) -> pa.Array:
        mask = _mask(values) if gaps else None
        present = values if mask is None else [value for value in values if value is not None]
        keys = pa.array(list(chain.from_iterable(present)), pa.string())
        items = item(list(chain.from_iterable(value.values() for value in present)), inner_gaps)
        return pa.MapArray.from_arrays(_offsets(values, mask), keys, items, type=type, mask=mask)

    return build


def _may_be_null(shape: Shape) -> bool:
    return shape.nullable and not isinstance(shape, Anything)


def _offsets(values: Values, mask: pa.Array | None) -> pa.Array:
    lengths = map(len, values) if mask is None else (0 if value is None else len(value) for value in values)
    return pa.array(list(accumulate(lengths, initial=0)), pa.int32())


def _scalar(shape: Scalar, type: pa.DataType, form: ValueForm) -> Build:
    # Guards give floats, and the native module finds those that lack digits in the text.
    if shape.sent is not None and not (shape.kind == "float64" and form is ValueForm.TYPED):
        if type == columns.arrow_type(shape):
            return _held(shape, type, form)
        shape = Scalar(kind=shape.sent)
    if form is ValueForm.TYPED and shape.kind == "timestamp":
        return lambda values, _: timestamps(pa.array(values, pa.string()))
    convert = _as_text if pa.types.is_string(type) else _CONVERSIONS.get(shape.kind)
    build: Build = _converted(type, convert) if convert else lambda values, _: pa.array(values, type)
    if form is not ValueForm.TYPED and shape.kind in _ARRIVING:
        return _of_types(_ARRIVING[shape.kind], build)
    return build


def _of_types(known: tuple[type, ...], build: Build) -> Build:
    """Values of these types alone: Arrow, and conversions, take others for what they are not (``True`` for 1)."""

    def checked(values: Values, gaps: bool) -> pa.Array:
        for found in set(map(type, values)):
            if not issubclass(found, (*known, NoneType)) or (found is bool and bool not in known):
                raise TypeError(f"a value is of another type: {found.__name__}")
        return build(values, gaps)

    return checked


def _held(shape: Scalar, type: pa.DataType, form: ValueForm) -> Build:
    """Return the function for values whose column holds a part; ``rescue.py`` keeps the rest."""

    def build(values: Values, _: bool) -> pa.Array:
        found = [(None, True) if value is None else exact.held(shape, value) for value in values]
        # Of numbers the native module does not know which are kept, so that none may be that was taken by it.
        if form is ValueForm.TYPED and shape.sent != "string" and not all(whole for _, whole in found):
            raise ValueError("a value has more digits than its column")
        return pa.array([value for value, _ in found], type)

    return build


def _converted(type: pa.DataType, convert: Callable[[Any], Any]) -> Build:
    """Values taken as they are, and one by one only where Arrow does not take one of them (1.0 as an integer)."""

    def build(values: Values, _: bool) -> pa.Array:
        # Of fractions Arrow would take what is before the point, and of some decimals nothing at all.
        if not (convert in _EXACT and _has_fractions(values)):
            with suppress(*MISFITS):
                return pa.array(values, type)
        return pa.array([None if value is None else convert(value) for value in values], type)

    return build


def _has_fractions(values: Values) -> bool:
    return any(issubclass(kind, (float, Decimal)) for kind in set(map(type, values)))


def _unsigned(value: Any) -> Decimal:
    return Decimal(exact.to_integer(value))


def _fraction(value: Any) -> float:
    if isinstance(value, str) and value not in NONFINITE:
        raise TypeError(f"{value!r} is no number")
    number = float(value)
    if math.isinf(number) and isinstance(value, (int, Decimal)):
        raise ValueError(f"{value!r} is beyond all floats")
    return number


def _single(value: Any) -> float:
    number = _fraction(value)
    if _MAX_SINGLE < abs(number) < math.inf:
        raise ValueError(f"{value!r} is beyond all floats of 32 bits")
    return number


def _decimal(value: Any) -> Decimal:
    if not isinstance(value, Decimal):
        return Decimal(exact.to_integer(value))
    if value and value.adjusted() < -columns.MAX_PRECISION:
        raise ValueError(f"{value!r} has more digits than its column")  # Arrow takes some of them for 0
    return value


def _timestamp(value: Any) -> Any:
    return parse_timestamp(value) if isinstance(value, str) else value


def _date(value: Any) -> Any:
    return date.fromisoformat(value) if isinstance(value, str) else value


def _time(value: Any) -> Any:
    return time.fromisoformat(value) if isinstance(value, str) else value


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


_CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "int32": exact.to_integer,
    "int64": exact.to_integer,
    "uint64": _unsigned,
    "float32": _single,
    "float64": _fraction,
    "timestamp": _timestamp,
    "date": _date,
    "time": _time,
    "decimal": _decimal,
}
# Conversions that Arrow makes itself of integers alone.
_EXACT: Final = (exact.to_integer, _unsigned, _single, _decimal)


_NUMBERS: Final = (int, float, Decimal)
# What decoded values of some kinds are. Others are of another type, which only payloads have that do not conform; but
# enums of Protobuf have numbers for values without a name.
_ARRIVING: Final[Mapping[str, tuple[type, ...]]] = {
    "bool": (bool,),
    **dict.fromkeys(("int32", "int64", "uint64"), _NUMBERS),
    **dict.fromkeys(("float32", "float64"), (*_NUMBERS, str)),
    "decimal": _NUMBERS,
    "string": (str, int),
    "uuid": (str, UUID),
    "bytes": (bytes,),
    "timestamp": (str, datetime),
    "date": (str, date),
    "time": (str, time),
}


# Protocols whose header names land in lower case.
LOWERED: Final = frozenset({"HTTP"})
_CONTENT_TYPE: Final = "content-type"
_AMQP: Final = "AMQP/1.0"
KAFKA: Final = "KAFKA"


# The name and value of a header; Kafka and AMQP have bytes, and only Kafka null.
Header = tuple[str, str | bytes | None]


def header_columns(messages: Iterable[tuple[str, Sequence[Header]]]) -> list[pa.Array]:
    """Return the columns ``_headers`` and ``_raw_headers`` of messages with these protocols and headers.

    In the first, names are in lower case where the protocol does not tell cases apart. Several values of a name are
    joined as RFC 9110 5.2 says, bytes that are no UTF-8 are escaped as ``\\xff``, and null is empty. The second has the
    headers of messages in which values were joined, escaped or null.
    """
    maps, lists = [], []
    for protocol, headers in messages:
        texts, is_exact = _header_texts(headers, folded=protocol in LOWERED)
        maps.append(texts.items() or None)
        lists.append(None if is_exact else encoded_headers(headers))
    return [text_map(maps), pa.array(lists, columns.HEADER_LIST)]


def _header_texts(headers: Iterable[Header], *, folded: bool) -> tuple[dict[str, str], bool]:
    """Return the texts of headers by name, and whether the texts hold the headers exactly."""
    texts: dict[str, str] = {}
    is_exact = True
    for name, value in headers:
        key = name.lower() if folded else name
        text = value if isinstance(value, str) else escaped(value or b"")
        is_exact &= key not in texts and value is not None and (isinstance(value, str) or text.encode() == value)
        texts[key] = f"{texts[key]}, {text}" if key in texts else text
    return texts, is_exact


def escaped(value: bytes) -> str:
    """Bytes as text; what is no UTF-8 as ``\\xff``."""
    return value.decode(errors="backslashreplace")


def message_headers(message: Message) -> Sequence[Header]:
    """Return the parts of a message other than its payload as headers.

    For MQTT and AMQP these are the payload's type and the properties that applications choose.
    """
    sections = message.sections
    if message.protocol == V5:
        return _named({_CONTENT_TYPE: sections.get("content_type")}, sections.get("user_properties", ()))
    if message.protocol == _AMQP:
        stated = sections.get("properties", {})
        return _named({name: stated.get(name) for name in MEDIA}, sections.get("application-properties", {}).items())
    found: Sequence[Header] = sections.get("headers", ())
    return found


def encoded_headers(headers: Iterable[Header]) -> tuple[tuple[str, bytes | None], ...]:
    """Headers as bytes."""
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in headers)


def _named(stated: Mapping[str, Any], chosen: Iterable[tuple[Any, Any]]) -> list[Header]:
    """Return stated and chosen headers. A stated name is also listed without value if a chosen one equals it."""
    others: list[Header] = [(str(name), _header_value(value)) for name, value in chosen]
    names = {name for name, _ in others}
    stated = {name: value for name, value in stated.items() if value is not None or name in names}
    return [*((name, _header_value(value)) for name, value in stated.items()), *others]


def _header_value(value: Any) -> str | bytes:
    if value is None or isinstance(value, (str, bytes)):
        return value or ""
    if isinstance(value, bool):
        return str(value).lower()
    return format_timestamp(value) if isinstance(value, datetime) else str(value)


def header_arrays(protocol: str, headers: pa.ListArray, names: HeaderNames) -> list[pa.Array]:
    """Return ``header_columns`` of the headers of many messages, which are structs of ``name`` and ``value``."""
    found = _headers_at_once(headers, names, folded=protocol in LOWERED)
    if found is not None:
        return [found, pa.nulls(len(headers), columns.HEADER_LIST)]
    return header_columns((protocol, read_headers(protocol, each)) for each in headers.to_pylist())


def read_headers(protocol: str, headers: Iterable[Mapping[str, Any]] | None) -> Sequence[Header]:
    """Return the headers of one message from Arrow, with values as its protocol has them: text, bytes or null."""
    return _HEADER_PAIRS.get(protocol, text_pairs)(headers)


def header_pairs(headers: Iterable[Mapping[str, Any]] | None) -> list[tuple[str, bytes | None]]:
    """Return the headers of one message from Arrow."""
    return [(header["name"] or "", header["value"]) for header in headers or ()]


def text_pairs(headers: Iterable[Mapping[str, Any]] | None) -> list[tuple[str, str]]:
    """Return the headers of one message out of Arrow as texts; null is empty."""
    return [(name, escaped(value or b"")) for name, value in header_pairs(headers)]


def property_pairs(headers: Iterable[Mapping[str, Any]] | None) -> list[tuple[str, str | bytes]]:
    """Return the headers of one message of AMQP from Arrow: application properties that are not UTF-8 stay bytes."""
    pairs = [(name, value or b"", escaped(value or b"")) for name, value in header_pairs(headers)]
    return [(name, text if name in MEDIA or text.encode() == value else value) for name, value, text in pairs]


_HEADER_PAIRS: Final[Mapping[str, Callable[[Iterable[Mapping[str, Any]] | None], Sequence[Header]]]] = {
    KAFKA: header_pairs,
    _AMQP: property_pairs,
}


@dataclass(frozen=True, slots=True)
class HeaderNames:
    """The names of the headers of some messages, each with its number, and of each header the number of its name.

    ``alike``: all messages have the same ones in the same order, and none twice.
    """

    numbers: Mapping[str, int]
    codes: npt.NDArray[np.int32]
    alike: bool

    @classmethod
    def of(cls, headers: pa.ListArray, *, folded: bool) -> HeaderNames:
        """Return the names in lists of structs with a ``name``, in lower case if ``folded``. Null counts as empty."""
        flat = headers.flatten()
        if not len(flat):
            return cls({}, np.zeros(0, np.int32), False)
        texts = pc.fill_null(flat.field("name"), "")
        width = _period(headers.offsets.to_numpy(), texts)
        if width:  # as mostly, and to compare all bytes with those of the first takes a tenth of looking names up
            found: list[str] = texts[:width].to_pylist()
            codes = np.tile(np.arange(width, dtype=np.int32), len(headers))
        else:
            encoded = texts.dictionary_encode()
            found, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        names = [name.lower() for name in found] if folded else found
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        if len(numbers) < len(names):
            codes = np.array([numbers[name] for name in names], np.int32)[codes]
        return cls(numbers, codes, width > 0 and len(numbers) == width)

    def places(self, names: Iterable[str]) -> npt.NDArray[np.int64]:
        """The numbers of the headers with these names, in order."""
        wanted = np.array(sorted({self.numbers[name] for name in names if name in self.numbers}), np.int64)
        if self.alike:
            return (np.arange(0, len(self.codes), len(self.numbers))[:, None] + wanted).reshape(-1)
        return np.flatnonzero(np.isin(self.codes, wanted))


def _period(offsets: npt.NDArray[np.int32], texts: pa.StringArray) -> int:
    """Return the number of texts in each list if all lists have the same texts in the same order, else 0."""
    count = len(offsets) - 1
    width = len(texts) // count if count > 0 else 0
    if not width or width * count != len(texts) or (np.diff(offsets) != width).any():
        return 0
    bounds = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    sizes = np.diff(bounds).reshape(count, width)
    if (sizes != sizes[0]).any():
        return 0
    content = texts.buffers()[2]
    if content is None:
        return width
    first, rest = int(sizes[0].sum()), int(sizes[1:].sum())
    # Each list's bytes are those of the one before.
    alike = content.slice(bounds[0] + first, rest).equals(content.slice(bounds[0], rest))
    return width if alike else 0


def taken(array: pa.Array, places: npt.NDArray[np.int64]) -> pa.Array:
    """Return the elements at distinct ``places``.

    Maps with the same names everywhere are handled here: Arrow would gather their entries one by one.
    """
    width = 0
    if pa.types.is_map(array.type) and not array.null_count:
        offsets = array.offsets.to_numpy()
        names = array.keys[offsets[0] : offsets[-1]]
        width = _period(offsets, names)
    if not width:
        return array.take(pa.array(places))
    entries = (offsets[0] + places[:, None] * width + np.arange(width)).reshape(-1)
    ends = pa.array(np.arange(0, len(entries) + 1, width, dtype=np.int32))
    return pa.MapArray.from_arrays(ends, names[: len(entries)], array.items.take(pa.array(entries)), array.type)


def _headers_at_once(headers: pa.ListArray, found: HeaderNames, *, folded: bool) -> pa.Array | None:
    """Return all maps at once, or None if a message has a name twice or a value that is not text."""
    if not found.numbers:
        return pa.nulls(len(headers), columns.TEXT_MAP)
    flat = headers.flatten()
    keys, values = flat.field("name"), flat.field("value")
    if keys.null_count or values.null_count:
        return None
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy()
    if not found.alike:
        # a name that one message has twice is a pair of row and name that occurs twice
        rows = pc.list_parent_indices(headers).to_numpy()
        pairs = np.sort(rows * (len(found.numbers) + 1) + found.codes)
        if (pairs[1:] == pairs[:-1]).any():
            return None
    if folded:
        keys = pa.array(list(found.numbers), pa.string()).take(pa.array(found.codes))
    try:
        values = values.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    none = pa.array(np.concatenate([lengths == 0, [False]]))
    return pa.MapArray.from_arrays(pc.if_else(none, None, offsets), keys, values, columns.TEXT_MAP)
