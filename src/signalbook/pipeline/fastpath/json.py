"""JSON straight into columns, by the native module.

The decoder of a schema is made once, from a description of its columns and rules. It refuses whatever is doubtful,
such as 1.0 as an integer, a member given twice or a lone surrogate. Members that no description can say come as text,
to be checked as typed decoders do it. There is no decoder without the module, and none for payloads that can only be
validated as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signalbook.formats import Anything, MapOf, Scalar, Struct
from signalbook.formats.base import REFUSALS
from signalbook.formats.jsonschema.columns import shape_of
from signalbook.formats.jsonschema.document import SchemaDocument
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.formats.jsonschema.normal import Arrays, NormalForm, Numbers, Objects, Strings, ends
from signalbook.formats.jsonschema.pattern import translate
from signalbook.formats.jsonschema.typed import EXACT_FLOAT, counted, guard, unconstrained
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import Build, Form, builder
from signalbook.pipeline.fastpath import native
from signalbook.pipeline.fastpath.native import Inexpressible

# What translated patterns (``formats.jsonschema.pattern``) are made of, groups left out.
_PART: Final = re.compile(
    r"(?:\\(?P<escaped>.)|\[(?P<negated>\^?)(?P<members>(?:\\.|[^\\\]])+)\]|(?P<plain>[^\\\[\](){}.*+?|^$]))"
    r"(?P<times>[?*+]|\{(?P<least>\d+)(?P<open>,(?P<most>\d*))?\})?",
    re.DOTALL | re.ASCII,
)
_MEMBER: Final = re.compile(r"\\.|[^\\]", re.DOTALL)
_TIMES: Final = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_END: Final = r"\Z"

Ranges = list[tuple[int, int]]


def program(pattern: str) -> tuple[bool, bool, list[tuple[bool, Ranges, int, int | None]]]:
    """What the native module wants of a translated pattern: whether it is bound to start and end, and its parts.

    A part has whether its ranges of characters are those it is not of, the ranges, and how often it comes at least and
    at most. Raises ``Inexpressible``.
    """
    anchored, ended = pattern.startswith("^"), pattern.endswith(_END)
    text = pattern[anchored : len(pattern) - len(_END) if ended else None]
    return anchored, ended, list(_parts(text))


def _parts(text: str) -> Iterator[tuple[bool, Ranges, int, int | None]]:
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            raise Inexpressible
        at = found.end()
        if found["members"]:
            yield bool(found["negated"]), list(_ranges(_MEMBER.findall(found["members"]))), *_times(found)
        else:
            code = ord(found["escaped"] or found["plain"])
            yield False, [(code, code)], *_times(found)


def _times(found: re.Match[str]) -> tuple[int, int | None]:
    if found["times"] is None:
        return 1, 1
    if found["least"] is None:
        return _TIMES[found["times"]]
    least = int(found["least"])
    if found["open"] is None:
        return least, least
    return least, int(found["most"]) if found["most"] else None


def _ranges(members: list[str]) -> Iterator[tuple[int, int]]:
    """The ranges of a set. A hyphen that is not between two characters is one only at either end."""
    at = 0
    while at < len(members):
        low = high = _code(members[at])
        if members[at] == "-" and 0 < at < len(members) - 1:
            raise Inexpressible
        if at + 2 < len(members) and members[at + 1] == "-":
            high = _code(members[at + 2])
            at += 2
        yield low, high
        at += 1


def _code(member: str) -> int:
    return ord("\n") if member == r"\n" else ord(member[-1])


# Rows, nulls, buffers and children of an array.
Found = tuple[int, int, list[bytes | None], list[Any]]


class Owners:
    """Which payload each row of a column is of, and which payloads have a value that was refused."""

    def __init__(self, numbers: npt.NDArray[np.int64], bad: npt.NDArray[np.bool_]) -> None:
        self.numbers = numbers
        self.bad = bad

    @classmethod
    def of(cls, rows: int) -> Owners:
        """Of a column with a row for each payload."""
        return cls(np.arange(rows), np.zeros(rows, np.bool_))

    def of_items(self, offsets: bytes | None) -> Owners:
        """Of the items of lists, or the values of maps."""
        assert offsets is not None
        ends = np.frombuffer(offsets, np.int32)
        return Owners(np.repeat(self.numbers, ends[1:] - ends[:-1]), self.bad)


Make = Callable[[Found, Owners], pa.Array]


def plain(kind: pa.DataType) -> Make:
    """A column of scalars."""

    def make(found: Found, _: Owners) -> pa.Array:
        return _of_buffers(kind, found) if found[2] else pa.nulls(found[0], kind)

    return make


def structs(kind: pa.DataType, members: Sequence[Make]) -> Make:
    """A column of objects."""

    def make(found: Found, owners: Owners) -> pa.Array:
        parts = [member(part, owners) for member, part in zip(members, found[3], strict=True)]
        return _of_buffers(kind, found, parts)

    return make


def lists(kind: pa.DataType, item: Make) -> Make:
    """A column of lists."""

    def make(found: Found, owners: Owners) -> pa.Array:
        return _of_buffers(kind, found, [item(found[3][0], owners.of_items(found[2][1]))])

    return make


def maps(kind: pa.DataType, value: Make) -> Make:
    """A column of maps."""
    entries = pa.struct([kind.key_field, kind.item_field])

    def make(found: Found, owners: Owners) -> pa.Array:
        names, values = found[3]
        parts = [_of_buffers(kind.key_type, names), value(values, owners.of_items(found[2][1]))]
        return _of_buffers(kind, found, [pa.Array.from_buffers(entries, names[0], [None], 0, children=parts)])

    return make


def guarded(check: Callable[[bytes], Any], build: Build | None) -> Make:
    """A column of JSON text whose values have to pass ``check``, once for each that occurs.

    The column is made of what that gives by ``build``; without, it stays text.
    """

    def make(found: Found, owners: Owners) -> pa.Array:
        texts = _of_buffers(pa.string(), found)
        encoded = texts.dictionary_encode()
        values, sound = _checked(check, encoded.dictionary)
        if not sound.all():
            # The last is for rows without a value, which nothing can be wrong with.
            places = encoded.indices.fill_null(len(sound)).to_numpy()
            owners.bad[owners.numbers[~np.append(sound, True)[places]]] = True
        return texts if build is None else build(values, True).take(encoded.indices)

    return make


def _checked(check: Callable[[bytes], Any], texts: pa.Array) -> tuple[list[Any], npt.NDArray[np.bool_]]:
    values: list[Any] = []
    sound = np.ones(len(texts), np.bool_)
    for number, text in enumerate(texts.cast(pa.binary()).to_pylist()):
        try:
            values.append(check(text))
        except REFUSALS:
            values.append(None)
            sound[number] = False
    return values, sound


def _of_buffers(kind: pa.DataType, found: Found, children: list[pa.Array] | None = None) -> pa.Array:
    rows, nulls, buffers, _ = found
    held = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(kind, rows, held, nulls, children=children)


_INT64: Final = 2**63
# As native/src/program.rs reads them.
Program = tuple[Any, ...]
# The description of a column, and what makes an array of it.
_Column = tuple[Program, Make]


def decoder(schema: JsonSchema) -> Callable[[pa.BinaryArray], tuple[list[pa.Array], list[int]]] | None:
    """From payloads to the arrays of ``columns.payload(schema.shape())`` for those that are taken, and the numbers of
    the others; ``None`` where there is no such thing."""
    module = native.module()
    if module is None:
        return None
    shape, kinds = schema.shape(), [field.type for field in columns.payload(schema.shape())]
    members = isinstance(shape, Struct)
    try:
        program, make = _node(schema.document, schema.node, pa.struct(columns.payload(shape)) if members else kinds[0])
    except Inexpressible:
        return None
    # A table has no row for a payload that is null.
    read = module.Decoder((program[0], False, *program[2:])).read

    def decode(payloads: pa.BinaryArray) -> tuple[list[pa.Array], list[int]]:
        found, refused = read(*_bytes(payloads))
        owners = Owners.of(found[0])
        whole = make(found, owners)
        arrays = whole.flatten() if members else [whole]
        if not owners.bad.any():
            return arrays, refused
        taken = np.delete(np.arange(len(payloads)), refused)
        kept = pa.array(np.flatnonzero(~owners.bad))
        return [array.take(kept) for array in arrays], sorted([*refused, *taken[owners.bad].tolist()])

    return decode


def _bytes(payloads: pa.BinaryArray) -> tuple[bytes, bytes]:
    """The payloads one behind the other, and where each begins and the last ends."""
    offsets = np.frombuffer(payloads.buffers()[1], np.int32, len(payloads) + 1, payloads.offset * 4)
    block, first = payloads.buffers()[2], int(offsets[0])
    data = b"" if block is None else block.slice(first, int(offsets[-1]) - first).to_pybytes()
    return data, (offsets - offsets[0]).tobytes()


def _node(document: SchemaDocument, node: NormalForm, kind: pa.DataType) -> _Column:
    """The column of a node."""
    shape = shape_of(document, node)
    if isinstance(shape, Anything):
        if not unconstrained(node):
            raise Inexpressible
        return ("raw", False), plain(kind)
    if not node.here_exact:
        raise Inexpressible
    null = shape.nullable
    if isinstance(shape, Struct) and node.objects:
        return _object(document, shape, node.objects, kind)
    if isinstance(shape, MapOf) and node.objects and node.objects.extra:
        program, value = _node(document, node.objects.extra, kind.item_type)
        return ("map", null, *_sizes(node.objects), program), maps(kind, value)
    if node.arrays:
        program, item = _node(document, node.arrays.item, kind.value_type)
        return ("list", null, *_sizes(node.arrays), program), lists(kind, item)
    name, *rules = _scalar(node, shape)
    return (name, null, *rules), plain(kind)


def _object(document: SchemaDocument, shape: Struct, part: Objects, kind: pa.DataType) -> _Column:
    if counted(part) or not (part.extra is None or unconstrained(part.extra)):
        raise Inexpressible
    found = [
        _member(document, part.properties[field.name], inner.type)
        for field, inner in zip(shape.fields, kind, strict=True)
    ]
    members = [
        (_name(field.name), field.required, program) for field, (program, _) in zip(shape.fields, found, strict=True)
    ]
    return ("object", shape.nullable, part.extra is None, members), structs(kind, [make for _, make in found])


def _member(document: SchemaDocument, node: NormalForm, kind: pa.DataType) -> _Column:
    """The column of a member; what no description can say of it is checked afterwards."""
    try:
        return _node(document, node, kind)
    except Inexpressible:
        pass
    check = guard(document, node)
    if check is None:
        raise Inexpressible
    shape = shape_of(document, node)
    return ("raw", False), guarded(check, None if isinstance(shape, Anything) else builder(shape, kind, Form.TYPED))


def _name(name: str) -> str:
    """A name that stands in JSON as it is, without escapes."""
    if not name.isprintable() or '"' in name or "\\" in name:
        raise Inexpressible
    return name


def _scalar(node: NormalForm, shape: Any) -> Program:
    if node.numbers and isinstance(shape, Scalar):
        return _number(node.numbers, shape)
    if node.strings:
        return _string(node.strings)
    return ("bool", False in node.booleans, True in node.booleans) if node.booleans else ("null",)


def _sizes(part: Arrays | Objects) -> tuple[int, int | None]:
    return _limit(part.low), None if part.high is None else _limit(part.high)


def _limit(limit: int) -> int:
    if limit >= _INT64:
        raise Inexpressible
    return limit


def _number(numbers: Numbers, shape: Scalar) -> Program:
    if shape.kind == "float64":
        return _float(numbers)
    low, high = ends(numbers)
    given = [*(numbers.values or ()), *(limit for limit in (low, high, numbers.step) if limit is not None)]
    if shape.kind != "int64" or any(not -_INT64 <= limit < _INT64 for limit in given):
        raise Inexpressible
    return "int", low, high, numbers.step or None, None if numbers.values is None else list(numbers.values)


def _float(numbers: Numbers) -> Program:
    low, high = (None if limit is None else float(limit) for limit in (numbers.low, numbers.high))
    if numbers.step or any(limit is not None and not abs(limit) <= EXACT_FLOAT for limit in (low, high)):
        raise Inexpressible
    return "float", low, numbers.low_open, high, numbers.high_open


def _string(strings: Strings) -> Program:
    if len(strings.patterns) > 1:
        raise Inexpressible
    pattern = None
    if strings.patterns and strings.values is None:
        translated = translate(strings.patterns[0])
        if translated is None:
            raise Inexpressible
        pattern = program(translated)
    values = None if strings.values is None else list(strings.values)
    high = None if strings.high is None else _limit(strings.high)
    return "string", _limit(strings.low), high, values, pattern
