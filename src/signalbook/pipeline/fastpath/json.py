"""JSON payloads: what the native module has to know of a JSON Schema to decode them into columns.

A plan says columns and rules, out of the schema's normal form. Members that no plan can say come as text and are held
to a check of their own (``formats.jsonschema.typed``), once for each value that occurs; so is the payload as a whole
where it can be judged no other way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from signalbook.formats import Anything, MapOf, Scalar, Struct
from signalbook.formats.jsonschema.columns import shape_of
from signalbook.formats.jsonschema.document import JsonSchemaDocument
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.formats.jsonschema.guards import EXACT_FLOAT, counted, guard, unconstrained
from signalbook.formats.jsonschema.normal import Arrays, NormalForm, Numbers, Objects, Strings, ends
from signalbook.formats.jsonschema.pattern import translate
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import ValueForm, builder
from signalbook.pipeline.fastpath import native
from signalbook.pipeline.fastpath.native import Decode, Make, NoPlan, guarded, lists, maps, plain, structs

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
    at most. Raises ``NoPlan``.
    """
    anchored, ended = pattern.startswith("^"), pattern.endswith(_END)
    text = pattern[anchored : len(pattern) - len(_END) if ended else None]
    return anchored, ended, list(_parts(text))


def _parts(text: str) -> Iterator[tuple[bool, Ranges, int, int | None]]:
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            raise NoPlan
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
            raise NoPlan
        if at + 2 < len(members) and members[at + 1] == "-":
            high = _code(members[at + 2])
            at += 2
        yield low, high
        at += 1


def _code(member: str) -> int:
    return ord("\n") if member == r"\n" else ord(member[-1])


_INT64: Final = 2**63
# As native/src/program.rs reads them.
Program = tuple[Any, ...]
# The plan of a column, and what makes an array of it.
_Column = tuple[Program, Make]


def decoder(schema: JsonSchema) -> Decode:
    """From payloads to the arrays of ``columns.payload(schema.shape())``. Raises ``NoPlan``."""
    shape, fields = schema.shape(), columns.payload(schema.shape())
    members = isinstance(shape, Struct) and bool(shape.fields)
    kind = pa.struct(fields) if members else fields[0].type
    program, make = _member(schema.document, schema.node, kind)
    # A table has no row for a payload that is null.
    return native.decoder(native.module().JsonDecoder((program[0], False, *program[2:])).read, make, members=members)


def _node(document: JsonSchemaDocument, node: NormalForm, kind: pa.DataType) -> _Column:
    """The column of a node."""
    shape = shape_of(document, node)
    if isinstance(shape, Anything):
        if not unconstrained(node):
            raise NoPlan
        return ("raw", False), plain(kind)
    if not node.here_exact:
        raise NoPlan
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


def _object(document: JsonSchemaDocument, shape: Struct, part: Objects, kind: pa.DataType) -> _Column:
    if counted(part) or not (part.extra is None or unconstrained(part.extra)):
        raise NoPlan
    found = [
        _member(document, part.properties[field.name], inner.type)
        for field, inner in zip(shape.fields, kind, strict=True)
    ]
    members = [
        (_name(field.name), field.required, program) for field, (program, _) in zip(shape.fields, found, strict=True)
    ]
    return ("object", shape.nullable, part.extra is None, members), structs(kind, [make for _, make in found])


def _member(document: JsonSchemaDocument, node: NormalForm, kind: pa.DataType) -> _Column:
    """The column of a member, or of all; what no plan can say of it is checked afterwards. Raises ``NoPlan``."""
    try:
        return _node(document, node, kind)
    except NoPlan:
        pass
    check = guard(document, node)
    if check is None:
        raise NoPlan
    shape = shape_of(document, node)
    return ("raw", False), guarded(
        check, None if isinstance(shape, Anything) else builder(shape, kind, ValueForm.TYPED)
    )


def _name(name: str) -> str:
    """A name that stands in JSON as it is, without escapes."""
    if not name.isprintable() or '"' in name or "\\" in name:
        raise NoPlan
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
        raise NoPlan
    return limit


def _number(numbers: Numbers, shape: Scalar) -> Program:
    if shape.kind == "float64":
        return _float(numbers)
    low, high = ends(numbers)
    given = [*(numbers.values or ()), *(limit for limit in (low, high, numbers.step) if limit is not None)]
    if shape.kind != "int64" or any(not -_INT64 <= limit < _INT64 for limit in given):
        raise NoPlan
    return "int", low, high, numbers.step or None, None if numbers.values is None else list(numbers.values)


def _float(numbers: Numbers) -> Program:
    low, high = (None if limit is None else float(limit) for limit in (numbers.low, numbers.high))
    if numbers.step or any(limit is not None and not abs(limit) <= EXACT_FLOAT for limit in (low, high)):
        raise NoPlan
    return "float", low, numbers.low_open, high, numbers.high_open


def _string(strings: Strings) -> Program:
    if len(strings.patterns) > 1:
        raise NoPlan
    pattern = None
    if strings.patterns and strings.values is None:
        translated = translate(strings.patterns[0])
        if translated is None:
            raise NoPlan
        pattern = program(translated)
    values = None if strings.values is None else list(strings.values)
    high = None if strings.high is None else _limit(strings.high)
    return "string", _limit(strings.low), high, values, pattern
