"""Build Arrow arrays from the values of messages, column by column: payloads, times, and headers as text.

For each schema, a function per column is built once that converts a list of values to an array. One list comprehension
per column is several times faster than a conversion per message. Values have one of the forms of ``ValueForm``: they
are results of ``Schema.decode``, or objects of a guard (``formats.jsonschema.guards``).
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
Offsets = npt.NDArray[np.int64]
# A function that builds an array. Its arguments are the values, and True if some of them may be None.
Build = Callable[[Values, bool], pa.Array]
_UNSET: Final = msgspec.UNSET
_MAX_SINGLE: Final = float(np.finfo(np.float32).max)
# The errors that Arrow and the conversions below raise for a value that does not fit its column. A policy may let
# payloads land that break their schema, so that any value can occur anywhere.
MISFITS: Final = (pa.ArrowException, AttributeError, OverflowError, TypeError, ValueError)


class ValueForm(Enum):
    """The form of the values from which arrays are built."""

    TYPED = "objects of a guard"
    JSON = "JSON, with all digits of its numbers"
    DECODED = "dicts, lists and Python scalars, as other formats decode to"

    @classmethod
    def of(cls, schema: Schema) -> ValueForm:
        """Return the form of the values that ``schema.decode`` returns."""
        return cls.JSON if isinstance(schema, JsonValues) else cls.DECODED


def make_payload_builder(shape: Shape, form: ValueForm) -> Callable[[Values], list[pa.Array]]:
    """Return a function that builds the arrays of the columns ``build_payload(shape)`` from a list of payload values.

    A value of ``None`` means that the message has no payload. The function raises one of ``MISFITS`` if a value does
    not fit its column.
    """
    types = [field.type for field in columns.build_payload(shape)]
    if isinstance(shape, Struct) and shape.fields:
        members = _Members(shape, types, form)
        return lambda values: members.build_arrays(values, gaps=_mask(values) is not None)
    whole = make_builder(shape, types[0], form)
    missing = _UNSET if isinstance(shape, Anything) else None
    return lambda values: [whole([missing if value is None else value for value in values], True)]


def find_unfitting_value(shape: Shape, value: JSON) -> tuple[Path, Shape, JSON] | None:
    """Return the innermost part of ``value`` that does not fit its column: its path, its shape and the part itself.

    Return ``None`` if all parts fit.
    """
    if _is_fitting(shape, [value]):
        return None
    parts: Sequence[tuple[str | int, Shape, JSON]] = ()
    match shape, value:
        case Struct(), dict():
            parts = [(field.name, field.shape, value[field.name]) for field in shape.fields if field.name in value]
        case ListOf(), list():
            parts = _find_unfitting_part(shape.item, list(enumerate(value)))
        case MapOf(), dict():
            parts = _find_unfitting_part(shape.value, list(value.items()))
    for step, inner, part in parts:
        unfitting = find_unfitting_value(inner, part)
        if unfitting is not None:
            path, *remainder = unfitting
            return (step, *path), *remainder
    return (), shape, value


def _find_unfitting_part(
    shape: Shape, values: Sequence[tuple[str | int, JSON]]
) -> Sequence[tuple[str | int, Shape, JSON]]:
    """Return the first of ``values`` that does not fit, found by a binary search. At least one must not fit."""
    while len(values) > 1:
        half = values[: len(values) // 2]
        values = values[len(half) :] if _is_fitting(shape, [value for _, value in half]) else half
    return [(step, shape, value) for step, value in values]


def _is_fitting(shape: Shape, values: Values) -> bool:
    try:
        make_builder(shape, columns.find_arrow_type(shape), ValueForm.DECODED)(values, True)
    except MISFITS:
        return False
    return True


def build_opaque_arrays(payloads: Sequence[bytes | None]) -> list[pa.Array]:
    """Return the arrays of the two columns ``columns.OPAQUE``: text for payloads in UTF-8, bytes for others."""
    with suppress(pa.ArrowInvalid):  # usually all payloads are text, and this cast does not copy them
        return [pa.array(payloads, pa.binary()).cast(pa.string()), pa.nulls(len(payloads), pa.binary())]
    texts = [decode_utf8(payload) for payload in payloads]
    binaries = [payload if text is None else None for payload, text in zip(payloads, texts, strict=True)]
    return [pa.array(texts, pa.string()), pa.array(binaries, pa.binary())]


def build_text_map(maps: Sequence[Iterable[tuple[str, str]] | None]) -> pa.Array:
    """Return a ``columns.TEXT_MAP`` array of ``maps``, each with pairs of name and text. ``None`` becomes null."""
    if not any(maps):
        return pa.nulls(len(maps), columns.TEXT_MAP)
    return pa.array([None if entries is None else list(entries) for entries in maps], columns.TEXT_MAP)


def build_text_maps(members: Mapping[str, pa.StringArray]) -> pa.Array:
    """Return a ``columns.TEXT_MAP`` array from ``members``: an array of texts for each name.

    A null text leaves the name out of the map of its row. A row without any text is null.
    """
    count = len(next(iter(members.values())))
    existing = np.stack([texts.is_valid().to_numpy(zero_copy_only=False) for texts in members.values()], axis=1)
    rows, places = np.nonzero(existing)
    names = pa.array(list(members), pa.string()).take(pa.array(places))
    # In the concatenated columns, the text of column ``p`` and row ``r`` is at ``p * count + r``.
    texts = pa.concat_arrays(members.values()).take(pa.array(places * count + rows))
    sizes = existing.sum(axis=1)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    return pa.MapArray.from_arrays(offsets, names, texts, type=columns.TEXT_MAP, mask=pa.array(sizes == 0))


def parse_timestamps(texts: pa.Array) -> pa.Array:
    """Parse RFC 3339 ``texts`` to ``columns.TIMESTAMP``, cut to microseconds. Raises one of ``MISFITS``."""
    times = read_timestamps(texts)
    if times is not None:
        return times
    return pa.array([None if text is None else parse_timestamp(text) for text in texts.to_pylist()], columns.TIMESTAMP)


def read_timestamps(texts: pa.Array) -> pa.Array | None:
    """Parse ``texts`` like ``parse_timestamps``, but with Arrow alone.

    Return ``None`` if Arrow cannot parse them all.
    """
    for unit in ("us", "ns"):
        try:
            return texts.cast(pa.timestamp(unit, "UTC")).cast(columns.TIMESTAMP, safe=False)
        except pa.ArrowException:
            continue
    return None


def decode_utf8(payload: bytes | None) -> str | None:
    """Return ``payload`` as text; ``None`` if it is ``None`` or not UTF-8."""
    try:
        return None if payload is None else payload.decode()
    except UnicodeDecodeError:
        return None


def make_builder(shape: Shape, type: pa.DataType, form: ValueForm) -> Build:
    """Return a function that builds an array of ``type`` from values of ``shape`` in this ``form``.

    The value ``None`` becomes null. For the shape ``Anything``, null values are ``UNSET`` and ``None`` is JSON's null.
    """
    match shape:
        case Scalar():
            return _make_scalar_builder(shape, type, form)
        case ListOf():
            return _make_list_builder(shape, type, form)
        case MapOf():
            return _make_map_builder(shape, type, form)
        case Struct() if shape.fields:
            return _make_struct_builder(shape, type, form)
        case Struct():
            return lambda values, _: pa.array([None if value is None else "{}" for value in values], type)
        case Anything():
            return _TEXTS[form]


def _convert_raw(values: Values, _: bool) -> pa.Array:
    return pa.array([None if value is _UNSET else bytes(value) for value in values], pa.string())


def _convert_json(values: Values, _: bool) -> pa.Array:
    return pa.array([None if value is _UNSET else exact.dump(value) for value in values], pa.string())


def _convert_decoded(values: Values, _: bool) -> pa.Array:
    return pa.array([None if value is _UNSET else exact.dump_decoded(value) for value in values], pa.string())


_TEXTS: Final[Mapping[ValueForm, Build]] = {
    ValueForm.TYPED: _convert_raw,
    ValueForm.JSON: _convert_json,
    ValueForm.DECODED: _convert_decoded,
}


def _make_struct_builder(shape: Struct, type: pa.DataType, form: ValueForm) -> Build:
    members = _Members(shape, [field.type for field in type], form)
    fields = list(type)

    def build(values: Values, gaps: bool) -> pa.Array:
        mask = _mask(values) if gaps else None
        return pa.StructArray.from_arrays(members.build_arrays(values, gaps=mask is not None), fields=fields, mask=mask)

    return build


def _mask(values: Values) -> pa.Array | None:
    """Return an array that is true where ``values`` has ``None``, or ``None`` if it has no such value."""
    missing = [value is None for value in values]
    return pa.array(missing, pa.bool_()) if True in missing else None


class _Members:
    """A builder of arrays for the members of objects, one array per member of ``shape``."""

    def __init__(self, shape: Struct, types: Sequence[pa.DataType], form: ValueForm) -> None:
        self._fields = shape.fields
        self._builds = [
            make_builder(field.shape, column, form) for field, column in zip(shape.fields, types, strict=True)
        ]
        self._decodes = form is not ValueForm.TYPED
        self._columns = self._read_decoded if self._decodes else self._read_typed

    def build_arrays(self, objects: Values, *, gaps: bool) -> list[pa.Array]:
        """Return an array for each member of ``objects``. With ``gaps``, some of the objects may be ``None``."""
        arrays = []
        for field, build, column in zip(self._fields, self._builds, self._columns(objects, gaps), strict=True):
            # A required member may be missing if another version of the schema wrote the payload, or if a policy lets
            # invalid payloads land.
            values, loose = column, gaps or self._decodes or not field.required or field.shape.nullable
            if loose and not isinstance(field.shape, Anything):
                values = [None if value is _UNSET else value for value in column]
            arrays.append(build(values, loose))
        return arrays

    def _read_typed(self, objects: Values, gaps: bool) -> Iterable[Values]:
        for field in self._fields:
            get = attrgetter(field.attribute)
            yield [_UNSET if value is None else get(value) for value in objects] if gaps else list(map(get, objects))

    def _read_decoded(self, objects: Values, _: bool) -> Iterable[Values]:
        for field in self._fields:
            name = field.name
            yield [_UNSET if value is None else value.get(name, _UNSET) for value in objects]


def _make_list_builder(shape: ListOf, type: pa.DataType, form: ValueForm) -> Build:
    item = make_builder(shape.item, type.value_type, form)
    inner_gaps = _is_nullable(shape.item)

    def build(values: Values, gaps: bool) -> pa.Array:
        mask = _mask(values) if gaps else None
        present = values if mask is None else [value for value in values if value is not None]
        if form is not ValueForm.TYPED and not all(isinstance(value, list) for value in present):
            raise TypeError("a value is no list")
        # The items of all lists are converted as one column, so that even lists of lists need one pass per level.
        items = item(list(chain.from_iterable(present)), inner_gaps)
        return pa.ListArray.from_arrays(_build_offsets(values, mask), items, type=type, mask=mask)

    return build


def _make_map_builder(shape: MapOf, type: pa.DataType, form: ValueForm) -> Build:
    item = make_builder(shape.value, type.item_type, form)
    inner_gaps = _is_nullable(shape.value)

    def build(values: Values, gaps: bool) -> pa.Array:
        mask = _mask(values) if gaps else None
        present = values if mask is None else [value for value in values if value is not None]
        keys = pa.array(list(chain.from_iterable(present)), pa.string())
        items = item(list(chain.from_iterable(value.values() for value in present)), inner_gaps)
        return pa.MapArray.from_arrays(_build_offsets(values, mask), keys, items, type=type, mask=mask)

    return build


def _is_nullable(shape: Shape) -> bool:
    return shape.nullable and not isinstance(shape, Anything)


def _build_offsets(values: Values, mask: pa.Array | None) -> pa.Array:
    lengths = map(len, values) if mask is None else (0 if value is None else len(value) for value in values)
    return pa.array(list(accumulate(lengths, initial=0)), pa.int32())


def _make_scalar_builder(shape: Scalar, type: pa.DataType, form: ValueForm) -> Build:
    # Guards return floats, and the native module finds the floats that lack digits of the original text.
    if shape.sent is not None and not (shape.kind == "float64" and form is ValueForm.TYPED):
        if type == columns.find_arrow_type(shape):
            return _make_held_builder(shape, type, form)
        shape = Scalar(kind=shape.sent)
    if form is ValueForm.TYPED and shape.kind == "timestamp":
        return lambda values, _: parse_timestamps(pa.array(values, pa.string()))
    convert = _as_text if pa.types.is_string(type) else _CONVERSIONS.get(shape.kind)
    build: Build = _make_converting_builder(type, convert) if convert else lambda values, _: pa.array(values, type)
    if form is not ValueForm.TYPED and shape.kind in _ARRIVING:
        return _of_types(_ARRIVING[shape.kind], build)
    return build


def _of_types(allowed: tuple[type, ...], build: Build) -> Build:
    """Return ``build`` with a check: it raises ``TypeError`` for values of types other than ``allowed`` and ``None``.

    Arrow alone would convert some of these values, such as ``True`` to 1.
    """

    def checked(values: Values, gaps: bool) -> pa.Array:
        for value_type in set(map(type, values)):
            if not issubclass(value_type, (*allowed, NoneType)) or (value_type is bool and bool not in allowed):
                raise TypeError(f"a value is of another type: {value_type.__name__}")
        return build(values, gaps)

    return checked


def _make_held_builder(shape: Scalar, type: pa.DataType, form: ValueForm) -> Build:
    """Return a builder for values that the column may hold only in part.

    ``rescue.py`` keeps the whole value then.
    """

    def build(values: Values, _: bool) -> pa.Array:
        pairs = [(None, True) if value is None else exact.find_held_part(shape, value) for value in values]
        # The native module cannot tell which numbers are rescued. In payloads that it has processed, a number that its
        # column does not hold exactly is therefore an error.
        if form is ValueForm.TYPED and shape.sent != "string" and not all(whole for _, whole in pairs):
            raise ValueError("a value has more digits than its column")
        return pa.array([value for value, _ in pairs], type)

    return build


def _make_converting_builder(type: pa.DataType, convert: Callable[[Any], Any]) -> Build:
    """Return a builder that lets Arrow convert all values, and calls ``convert`` for each value only if Arrow fails.

    For example, Arrow does not accept 1.0 as an integer.
    """

    def build(values: Values, _: bool) -> pa.Array:
        # Arrow would cut the fraction off a float, and turn some small decimals into 0.
        if not (convert in _EXACT and _has_fractions(values)):
            with suppress(*MISFITS):
                return pa.array(values, type)
        return pa.array([None if value is None else convert(value) for value in values], type)

    return build


def _has_fractions(values: Values) -> bool:
    return any(issubclass(kind, (float, Decimal)) for kind in set(map(type, values)))


def _convert_unsigned(value: Any) -> Decimal:
    return Decimal(exact.to_integer(value))


def _convert_fraction(value: Any) -> float:
    if isinstance(value, str) and value not in NONFINITE:
        raise TypeError(f"{value!r} is no number")
    number = float(value)
    if math.isinf(number) and isinstance(value, (int, Decimal)):
        raise ValueError(f"{value!r} is beyond all floats")
    return number


def _convert_single(value: Any) -> float:
    number = _convert_fraction(value)
    if _MAX_SINGLE < abs(number) < math.inf:
        raise ValueError(f"{value!r} is beyond all floats of 32 bits")
    return number


def _convert_decimal(value: Any) -> Decimal:
    if not isinstance(value, Decimal):
        return Decimal(exact.to_integer(value))
    if value and value.adjusted() < -columns.MAX_PRECISION:
        raise ValueError(f"{value!r} has more digits than its column")  # Arrow takes some of them for 0
    return value


def _convert_timestamp(value: Any) -> Any:
    return parse_timestamp(value) if isinstance(value, str) else value


def _convert_date(value: Any) -> Any:
    return date.fromisoformat(value) if isinstance(value, str) else value


def _time(value: Any) -> Any:
    return time.fromisoformat(value) if isinstance(value, str) else value


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


_CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "int32": exact.to_integer,
    "int64": exact.to_integer,
    "uint64": _convert_unsigned,
    "float32": _convert_single,
    "float64": _convert_fraction,
    "timestamp": _convert_timestamp,
    "date": _convert_date,
    "time": _time,
    "decimal": _convert_decimal,
}
# Conversions that are left to Arrow only if no value is a float or a ``Decimal``.
_EXACT: Final = (exact.to_integer, _convert_unsigned, _convert_single, _convert_decimal)


_NUMBERS: Final = (int, float, Decimal)
# The Python types of decoded values, by kind. Values of other types occur only in payloads that break their schema. A
# string may also be an ``int``, because Protobuf enums have numbers for values without a name.
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


# Protocols that ignore the case of header names: the names land in lower case.
LOWERED: Final = frozenset({"HTTP"})
_CONTENT_TYPE: Final = "content-type"
_AMQP: Final = "AMQP/1.0"
KAFKA: Final = "KAFKA"


# The name and value of a header. Values are bytes in Kafka and AMQP, and only Kafka has null values.
Header = tuple[str, str | bytes | None]


def build_header_columns(messages: Iterable[tuple[str, Sequence[Header]]]) -> list[pa.Array]:
    """Return the columns ``_headers`` and ``_raw_headers`` of ``messages``, which are pairs of protocol and headers.

    In ``_headers``, names are in lower case if the protocol ignores case. Several values of a name are joined as RFC
    9110 5.2 says, bytes that are not UTF-8 are escaped as ``\\xff``, and null is empty. ``_raw_headers`` has the
    headers of messages in which values were joined, escaped or null, and is null for others.
    """
    maps, lists = [], []
    for protocol, headers in messages:
        texts, is_exact = _build_header_texts(headers, folded=protocol in LOWERED)
        maps.append(texts.items() or None)
        lists.append(None if is_exact else encode_headers(headers))
    return [build_text_map(maps), pa.array(lists, columns.HEADER_LIST)]


def _build_header_texts(headers: Iterable[Header], *, folded: bool) -> tuple[dict[str, str], bool]:
    """Return the texts of ``headers`` by name, and True if the texts represent the headers exactly.

    With ``folded``, names are in lower case.
    """
    texts: dict[str, str] = {}
    is_exact = True
    for name, value in headers:
        key = name.lower() if folded else name
        text = value if isinstance(value, str) else decode_escaped(value or b"")
        is_exact &= key not in texts and value is not None and (isinstance(value, str) or text.encode() == value)
        texts[key] = f"{texts[key]}, {text}" if key in texts else text
    return texts, is_exact


def decode_escaped(value: bytes) -> str:
    """Return bytes as text, with invalid UTF-8 escaped as ``\\xff``."""
    return value.decode(errors="backslashreplace")


def list_headers(message: Message) -> Sequence[Header]:
    """Return the parts of a message other than its payload as headers.

    For MQTT and AMQP these are the payload's type and the properties that applications choose.
    """
    sections = message.sections
    if message.protocol == V5:
        return _list_named_headers({_CONTENT_TYPE: sections.get("content_type")}, sections.get("user_properties", ()))
    if message.protocol == _AMQP:
        stated = sections.get("properties", {})
        return _list_named_headers(
            {name: stated.get(name) for name in MEDIA}, sections.get("application-properties", {}).items()
        )
    headers: Sequence[Header] = sections.get("headers", ())
    return headers


def encode_headers(headers: Iterable[Header]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in headers)


def _list_named_headers(stated: Mapping[str, Any], chosen: Iterable[tuple[Any, Any]]) -> list[Header]:
    """Return the headers ``stated`` by the protocol and those ``chosen`` by applications, in this order.

    A stated header without a value is listed, with an empty value, only if a chosen header has the same name.
    """
    chosen_headers: list[Header] = [(str(name), _format_header_value(value)) for name, value in chosen]
    names = {name for name, _ in chosen_headers}
    stated = {name: value for name, value in stated.items() if value is not None or name in names}
    return [*((name, _format_header_value(value)) for name, value in stated.items()), *chosen_headers]


def _format_header_value(value: Any) -> str | bytes:
    if value is None or isinstance(value, (str, bytes)):
        return value or ""
    if isinstance(value, bool):
        return str(value).lower()
    return format_timestamp(value) if isinstance(value, datetime) else str(value)


def build_header_arrays(protocol: str, headers: pa.ListArray, names: HeaderNames) -> list[pa.Array]:
    """Return the columns of ``build_header_columns`` for messages of one protocol.

    ``headers`` has for each message a list of structs with ``name`` and ``value``, and ``names`` indexes their names.
    """
    texts = _build_header_maps(headers, names, folded=protocol in LOWERED)
    if texts is not None:
        return [texts, pa.nulls(len(headers), columns.HEADER_LIST)]
    return build_header_columns(
        (protocol, read_headers(protocol, message_headers)) for message_headers in headers.to_pylist()
    )


def read_headers(protocol: str, headers: Iterable[Mapping[str, Any]] | None) -> Sequence[Header]:
    """Return the headers of one message from Arrow. Values have the type of its protocol: text, bytes or null."""
    return _HEADER_PAIRS.get(protocol, list_text_pairs)(headers)


def list_header_pairs(headers: Iterable[Mapping[str, Any]] | None) -> list[tuple[str, bytes | None]]:
    """Return the headers of one message from Arrow as pairs of name and bytes. A null name becomes empty."""
    return [(header["name"] or "", header["value"]) for header in headers or ()]


def list_text_pairs(headers: Iterable[Mapping[str, Any]] | None) -> list[tuple[str, str]]:
    """Return the headers of one message from Arrow as pairs of name and text. Null becomes empty."""
    return [(name, decode_escaped(value or b"")) for name, value in list_header_pairs(headers)]


def list_property_pairs(headers: Iterable[Mapping[str, Any]] | None) -> list[tuple[str, str | bytes]]:
    """Return the headers of one AMQP message from Arrow. Application properties that are not UTF-8 stay bytes."""
    pairs = [(name, value or b"", decode_escaped(value or b"")) for name, value in list_header_pairs(headers)]
    return [(name, text if name in MEDIA or text.encode() == value else value) for name, value, text in pairs]


_HEADER_PAIRS: Final[Mapping[str, Callable[[Iterable[Mapping[str, Any]] | None], Sequence[Header]]]] = {
    KAFKA: list_header_pairs,
    _AMQP: list_property_pairs,
}


@dataclass(frozen=True, slots=True)
class HeaderNames:
    """An index of the header names of several messages.

    ``numbers`` has the number of each distinct name, and ``codes`` for each header of all messages the number of its
    name. ``alike`` is True if all messages have the same names in the same order, and no message has a name twice.
    """

    numbers: Mapping[str, int]
    codes: npt.NDArray[np.int32]
    alike: bool

    @classmethod
    def of(cls, headers: pa.ListArray, *, folded: bool) -> HeaderNames:
        """Return the index of ``headers``, which are lists of structs with a ``name``. A null name becomes empty.

        With ``folded``, names are in lower case.
        """
        flat = headers.flatten()
        if not len(flat):
            return cls({}, np.zeros(0, np.int32), False)
        texts = pc.fill_null(flat.field("name"), "")
        width = _find_period(headers.offsets.to_numpy(), texts)
        if width:  # the usual case: comparing bytes with those of the first message is ten times faster than lookups
            distinct_names: list[str] = texts[:width].to_pylist()
            codes = np.tile(np.arange(width, dtype=np.int32), len(headers))
        else:
            encoded = texts.dictionary_encode()
            distinct_names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        names = [name.lower() for name in distinct_names] if folded else distinct_names
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        if len(numbers) < len(names):
            codes = np.array([numbers[name] for name in names], np.int32)[codes]
        return cls(numbers, codes, width > 0 and len(numbers) == width)

    def find_places(self, names: Iterable[str]) -> Offsets:
        """Return the positions in ``codes`` of all headers with one of these names, in ascending order."""
        numbers = np.array(sorted({self.numbers[name] for name in names if name in self.numbers}), np.int64)
        if self.alike:
            return (np.arange(0, len(self.codes), len(self.numbers))[:, None] + numbers).reshape(-1)
        return np.flatnonzero(np.isin(self.codes, numbers))


def _find_period(offsets: npt.NDArray[np.int32], texts: pa.StringArray) -> int:
    """Return the number of texts in each list if all lists have the same texts in the same order, else 0.

    ``texts`` are the items of all lists, and ``offsets`` the positions where lists begin and end.
    """
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
    first, remaining_size = int(sizes[0].sum()), int(sizes[1:].sum())
    # The lists are alike if the bytes of each list equal those of the list before it.
    alike = content.slice(bounds[0] + first, remaining_size).equals(content.slice(bounds[0], remaining_size))
    return width if alike else 0


def take_elements(array: pa.Array, places: Offsets) -> pa.Array:
    """Return the elements of ``array`` at ``places``, which are distinct indices.

    Maps that all have the same names are handled here, because Arrow would copy their entries one by one.
    """
    width = 0
    if pa.types.is_map(array.type) and not array.null_count:
        offsets = array.offsets.to_numpy()
        names = array.keys[offsets[0] : offsets[-1]]
        width = _find_period(offsets, names)
    if not width:
        return array.take(pa.array(places))
    entries = (offsets[0] + places[:, None] * width + np.arange(width)).reshape(-1)
    ends = pa.array(np.arange(0, len(entries) + 1, width, dtype=np.int32))
    return pa.MapArray.from_arrays(ends, names[: len(entries)], array.items.take(pa.array(entries)), array.type)


def _build_header_maps(headers: pa.ListArray, names: HeaderNames, *, folded: bool) -> pa.Array | None:
    """Return a ``columns.TEXT_MAP`` array of all messages; None if one has a name twice or a value that is not text."""
    if not names.numbers:
        return pa.nulls(len(headers), columns.TEXT_MAP)
    flat = headers.flatten()
    keys, values = flat.field("name"), flat.field("value")
    if keys.null_count or values.null_count:
        return None
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy()
    if not names.alike:
        # If one message has a name twice, its pair of row and name occurs twice.
        rows = pc.list_parent_indices(headers).to_numpy()
        pairs = np.sort(rows * (len(names.numbers) + 1) + names.codes)
        if (pairs[1:] == pairs[:-1]).any():
            return None
    if folded:
        keys = pa.array(list(names.numbers), pa.string()).take(pa.array(names.codes))
    try:
        values = values.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    none = pa.array(np.concatenate([lengths == 0, [False]]))
    return pa.MapArray.from_arrays(pc.if_else(none, None, offsets), keys, values, columns.TEXT_MAP)
