"""JSON straight into columns, by the native module.

The decoder of a schema is made once, from a description of its columns and rules. It refuses whatever is doubtful,
such as 1.0 as an integer, a member given twice or a lone surrogate. Members that no description can say come as text,
to be checked as typed decoders do it. There is no decoder without the module, and none for payloads that can only be
validated as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from signalbook.formats import Anything, MapOf, Scalar, Struct
from signalbook.formats.jsonschema.columns import shape_of
from signalbook.formats.jsonschema.document import Document
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.formats.jsonschema.normal import Arrays, Node, Numbers, Objects, Strings, ends
from signalbook.formats.jsonschema.pattern import translate
from signalbook.formats.jsonschema.typed import EXACT_FLOAT, counted, guard, unconstrained
from signalbook.pipeline import columns, native
from signalbook.pipeline.arrays import Form, builder
from signalbook.pipeline.columnar import jsonpatterns
from signalbook.pipeline.columnar.inexpressible import Inexpressible
from signalbook.pipeline.columnar.jsonarrays import Make, Owners, guarded, lists, maps, plain, structs

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


def _node(document: Document, node: Node, kind: pa.DataType) -> _Column:
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


def _object(document: Document, shape: Struct, part: Objects, kind: pa.DataType) -> _Column:
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


def _member(document: Document, node: Node, kind: pa.DataType) -> _Column:
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


def _scalar(node: Node, shape: Any) -> Program:
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
        pattern = jsonpatterns.program(translated)
    values = None if strings.values is None else list(strings.values)
    high = None if strings.high is None else _limit(strings.high)
    return "string", _limit(strings.low), high, values, pattern
