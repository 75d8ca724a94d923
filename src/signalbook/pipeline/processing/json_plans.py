"""Plan how the native module reads JSON payloads into columns, and checks them.

A plan states columns and rules. It is made from the normal form of a JSON Schema. Members whose rules no plan can state
are read as text, and each distinct value is checked in Python (``formats.jsonschema.guards``). The whole payload is
checked like this if necessary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from signalbook.formats import Anything, MapOf, Scalar, Shape, Struct, is_lossy
from signalbook.formats.jsonschema.columns import make_shape
from signalbook.formats.jsonschema.document import JsonSchemaDocument
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.formats.jsonschema.guards import EXACT_FLOAT, guard, has_member_limits, is_unconstrained
from signalbook.formats.jsonschema.normal import Arrays, NormalForm, Numbers, Objects, Strings, find_ends
from signalbook.formats.jsonschema.pattern import translate
from signalbook.pipeline import columns, native, rescue
from signalbook.pipeline.arrays import ValueForm, make_builder
from signalbook.pipeline.native import (
    Decode,
    NoPlan,
    Reading,
    build_guarded_reading,
    build_list_reading,
    build_map_reading,
    build_struct_reading,
    check_json_name,
)

# A part of a translated pattern (``formats.jsonschema.pattern``). Groups are not supported.
_PART: Final = re.compile(
    r"(?:\\(?P<escaped>.)|\[(?P<negated>\^?)(?P<members>(?:\\.|[^\\\]])+)\]|(?P<plain>[^\\\[\](){}.*+?|^$]))"
    r"(?P<times>[?*+]|\{(?P<least>\d+)(?P<open>,(?P<most>\d*))?\})?",
    re.DOTALL | re.ASCII,
)
_MEMBER: Final = re.compile(r"\\.|[^\\]", re.DOTALL)
_QUANTIFIERS: Final = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_END: Final = r"\Z"

Ranges = list[tuple[int, int]]


def build_pattern_program(pattern: str) -> tuple[bool, bool, list[tuple[bool, Ranges, int, int | None]]]:
    """Return a translated pattern for the native module: if it is anchored at the start and at the end, and its parts.

    A part has a flag (True: the ranges are excluded), ranges of characters, and the least and greatest number of
    repetitions (None: no limit). Raises ``NoPlan`` for a pattern with anything else.
    """
    anchored, ended = pattern.startswith("^"), pattern.endswith(_END)
    text = pattern[anchored : len(pattern) - len(_END) if ended else None]
    return anchored, ended, list(_parse_parts(text))


def _parse_parts(text: str) -> Iterator[tuple[bool, Ranges, int, int | None]]:
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise NoPlan
        at = match.end()
        if match["members"]:
            yield bool(match["negated"]), list(_parse_ranges(_MEMBER.findall(match["members"]))), *_parse_times(match)
        else:
            code = ord(match["escaped"] or match["plain"])
            yield False, [(code, code)], *_parse_times(match)


def _parse_times(match: re.Match[str]) -> tuple[int, int | None]:
    if match["times"] is None:
        return 1, 1
    if match["least"] is None:
        return _QUANTIFIERS[match["times"]]
    least = int(match["least"])
    if match["open"] is None:
        return least, least
    return least, int(match["most"]) if match["most"] else None


def _parse_ranges(members: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a character set. Raises ``NoPlan`` for a hyphen that is neither at an end nor in a range."""
    at = 0
    while at < len(members):
        low = high = _parse_character(members[at])
        if members[at] == "-" and 0 < at < len(members) - 1:
            raise NoPlan
        if at + 2 < len(members) and members[at + 1] == "-":
            high = _parse_character(members[at + 2])
            at += 2
        yield low, high
        at += 1


def _parse_character(member: str) -> int:
    return ord("\n") if member == r"\n" else ord(member[-1])


_INT64: Final = 2**63
# The name in native/src/program.rs of texts that are checked in Python.
GUARDED: Final = "guarded"
# The name in native/src/program.rs of values that may have one of several types.
CHOICE: Final = "choice"
# A program in the form that native/src/program.rs reads.
Program = tuple[Any, ...]
# The program of a column, and its reading.
_Column = tuple[Program, Reading]


def build_json_decoder(schema: JsonSchema, shape: Shape) -> Decode:
    """Return the decoder of payloads to ``columns.build_payload(shape)`` and ``columns.RESCUE``. Raises ``NoPlan``."""
    members, program, whole = _plan_payload(schema, shape)
    read = native.load_module().JsonDecoder(program, rescue.plan(shape)).read
    return native.build_decoder(read, whole, members=members, with_rescue=True)


def build_json_program(schema: JsonSchema) -> Program:
    """Return the program by which the native module checks payloads. Raises ``NoPlan``.

    ``GUARDED`` marks values that the native module cannot check completely.
    """
    return _plan_payload(schema, schema.shape())[1]


def _plan_payload(schema: JsonSchema, shape: Shape) -> tuple[bool, Program, Reading]:
    """Plan how the native module decodes payloads. Raises ``NoPlan``.

    Returns True if each member of a payload has its own column, the program that the module runs, and the ``Reading``
    of whole payloads.
    """
    fields = columns.build_payload(shape)
    members = isinstance(shape, Struct) and bool(shape.fields)
    program, whole = _plan_member(schema.document, schema.node, pa.struct(fields) if members else fields[0].type)
    # A table has no row for a payload that is null.
    return members, (program[0], False, *program[2:]), whole


def _plan_node(document: JsonSchemaDocument, node: NormalForm, kind: pa.DataType, *, guards: bool = True) -> _Column:
    """Return the program and reading of the column for a node. Raises ``NoPlan``.

    ``kind`` is the type of the column. With ``guards``, some members may be checked in Python.
    """
    shape = make_shape(document, node)
    if isinstance(shape, Anything):
        if is_unconstrained(node):
            return ("raw", False, False), Reading(kind)
        return (CHOICE, False, _plan_choices(document, node)), Reading(kind)
    if not node.here_exact:
        raise NoPlan
    null = shape.nullable
    if isinstance(shape, Struct) and node.objects:
        return _plan_object(document, shape, node.objects, kind, guards=guards)
    if isinstance(shape, MapOf) and node.objects and node.objects.extra:
        program, value = _plan_node(document, node.objects.extra, kind.item_type, guards=guards)
        return ("map", null, *_limit_sizes(node.objects), program), build_map_reading(kind, value)
    if node.arrays:
        program, item = _plan_node(document, node.arrays.item, kind.value_type, guards=guards)
        return ("list", null, *_limit_sizes(node.arrays), program), build_list_reading(kind, item)
    name, *rules = _plan_scalar(node, shape, kind)
    return (name, null, *rules), Reading(kind)


def _plan_choices(document: JsonSchemaDocument, node: NormalForm) -> list[Program]:
    """Return the programs for a node of several types, or of several kinds of objects. Raises ``NoPlan``."""
    # The shape is text also if an object has more members than a table may have columns.
    wide = node.kinds == 1 and node.objects is not None and bool(node.objects.properties)
    if wide or not node.exact:
        raise NoPlan
    programs: list[Program] = [("null", True)] if node.null else []
    parts = [NormalForm(booleans=node.booleans)] if node.booleans else []
    parts += [NormalForm(numbers=node.numbers)] if node.numbers else []
    parts += [NormalForm(arrays=node.arrays)] if node.arrays else []
    if node.strings:
        if not node.strings.exact:
            raise NoPlan
        programs.append(("string", False, *_plan_string(node.strings)))
    if node.objects:
        several = node.objects.alternatives if node.objects.complete else (node.objects,)
        if not several:
            raise NoPlan
        bare = [part for part in several if not part.properties]
        programs += [_plan_bare_object(part) for part in bare]
        parts += [NormalForm(objects=part) for part in several if part.properties]
    # The text of such a value is not checked in Python, so that the programs must state all rules.
    return programs + [_plan_node(document, part, _find_arrow_type(document, part), guards=False)[0] for part in parts]


def _find_arrow_type(document: JsonSchemaDocument, node: NormalForm) -> pa.DataType:
    """Return the type of a column for values of a node."""
    return columns.find_arrow_type(make_shape(document, node))


def _plan_bare_object(part: Objects) -> Program:
    """Return the program for objects without declared members."""
    if not part.exact or has_member_limits(part) or not (part.extra is None or is_unconstrained(part.extra)):
        raise NoPlan
    return "object", False, part.extra is None, []


def _plan_object(
    document: JsonSchemaDocument, shape: Struct, part: Objects, kind: pa.DataType, *, guards: bool
) -> _Column:
    if has_member_limits(part) or not (part.extra is None or is_unconstrained(part.extra)):
        raise NoPlan
    if any(field.shape is not make_shape(document, part.properties[field.name]) for field in shape.fields):
        raise NoPlan  # for members that are text only because there are too many columns
    planned = [
        _plan_member(document, part.properties[field.name], inner.type, guards=guards)
        for field, inner in zip(shape.fields, kind, strict=True)
    ]
    members = [
        (check_json_name(field.name), field.required, program)
        for field, (program, _) in zip(shape.fields, planned, strict=True)
    ]
    return ("object", shape.nullable, part.extra is None, members), build_struct_reading(
        kind, [member for _, member in planned]
    )


def _plan_member(document: JsonSchemaDocument, node: NormalForm, kind: pa.DataType, *, guards: bool = True) -> _Column:
    """Return the program and reading of the column for a member or for whole payloads. Raises ``NoPlan``.

    With ``guards``, Python checks the values for which no program states all rules.
    """
    try:
        return _plan_node(document, node, kind, guards=guards)
    except NoPlan:
        if not guards:
            raise
    check = guard(document, node)
    if check is None:
        raise NoPlan
    shape = make_shape(document, node)
    return (GUARDED, False, is_lossy(shape)), build_guarded_reading(
        check, None if isinstance(shape, Anything) else make_builder(shape, kind, ValueForm.TYPED)
    )


def _plan_scalar(node: NormalForm, shape: Any, kind: pa.DataType) -> Program:
    if node.numbers and isinstance(shape, Scalar):
        return _plan_number(node.numbers, shape)
    if node.strings:
        return _STRING_PROGRAMS.get(kind, "string"), *_plan_string(node.strings)
    return ("bool", False in node.booleans, True in node.booleans) if node.booleans else ("null",)


def _limit_sizes(part: Arrays | Objects) -> tuple[int, int | None]:
    return _limit(part.low), None if part.high is None else _limit(part.high)


def _limit(limit: int) -> int:
    if limit >= _INT64:
        raise NoPlan
    return limit


def _plan_number(numbers: Numbers, shape: Scalar) -> Program:
    if shape.kind == "float64":
        return _plan_float(numbers)
    low, high = find_ends(numbers)
    limits = [*(numbers.values or ()), *(limit for limit in (low, high, numbers.step) if limit is not None)]
    if shape.kind != "int64" or any(not -_INT64 <= limit < _INT64 for limit in limits):
        raise NoPlan
    return "int", low, high, numbers.step or None, None if numbers.values is None else list(numbers.values)


def _plan_float(numbers: Numbers) -> Program:
    low, high = (None if limit is None else float(limit) for limit in (numbers.low, numbers.high))
    if numbers.step or any(limit is not None and not abs(limit) <= EXACT_FLOAT for limit in (low, high)):
        raise NoPlan
    return "float", low, numbers.low_open, high, numbers.high_open


def _plan_string(strings: Strings) -> Program:
    if len(strings.patterns) > 1:
        raise NoPlan
    pattern = None
    if strings.patterns and strings.values is None:
        translated = translate(strings.patterns[0])
        if translated is None:
            raise NoPlan
        pattern = build_pattern_program(translated)
    values = None if strings.values is None else list(strings.values)
    high = None if strings.high is None else _limit(strings.high)
    return _limit(strings.low), high, values, pattern


# The names in native/src/program.rs of values that are strings in JSON and have a column of another type.
_STRING_PROGRAMS: Final = {columns.TIMESTAMP: "timestamp", pa.date32(): "date"}
