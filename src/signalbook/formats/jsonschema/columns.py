"""The columns of a JSON Schema, from its normal form."""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from typing import Final

from signalbook.formats.jsonschema.document import JsonSchemaDocument
from signalbook.formats.jsonschema.normal import ANY, NormalForm, Numbers, Objects, find_closed_values
from signalbook.formats.shape import Anything, Field, Kind, ListOf, MapOf, Scalar, Shape, Struct, limit_columns
from signalbook.values import JSON

_INT64: Final = 2**63
# The maximum number of digits in decimal columns.
_MAX_DECIMAL_DIGITS: Final = 38
# The maximum number of decimal places that a float can represent meaningfully.
_MAX_SCALE: Final = 16
_TIME_FORMATS: Final[dict[str, Kind]] = {"date-time": "timestamp", "date": "date"}
# The maximum number of closed members inside other members.
_MAX_CLOSED_MEMBERS: Final = 1_000
_ANYTHING: Final = Anything(nullable=True)


def make_shape(document: JsonSchemaDocument, node: NormalForm) -> Shape:
    """Return the shape that fits every value of ``node``; cached per node, because definitions are shared."""
    key = ("shape", node)
    if key not in document.cache:
        document.cache[key] = _build_shape(document, node)
    shape: Shape = document.cache[key]
    return shape


def _build_shape(document: JsonSchemaDocument, node: NormalForm) -> Shape:
    if node.kinds == 0 and node.null:
        return Scalar(kind="string", nullable=True)
    # Only a text column can hold values of several types.
    if node.kinds != 1:
        return Anything(nullable=node.null)
    if node.booleans:
        return Scalar(kind="bool", nullable=node.null)
    if node.numbers:
        return _build_number(node.numbers, nullable=node.null)
    if node.strings:
        # ``format`` is an annotation: any text conforms.
        kind = _TIME_FORMATS.get(node.strings.format) if node.strings.values is None else None
        return Scalar(kind=kind or "string", sent="string" if kind else None, nullable=node.null)
    if node.arrays:
        return ListOf(item=make_shape(document, node.arrays.item), nullable=node.null)
    return _build_object(document, node) if node.objects else _ANYTHING


def _build_object(document: JsonSchemaDocument, node: NormalForm) -> Shape:
    part = node.objects
    assert part is not None
    if part.properties:
        return limit_columns(
            Struct(fields=_build_fields(document, part), nullable=node.null, open=part.extra is not None)
        )
    if part.extra is None or part.extra is ANY or not part.extra.here_exact:
        return Anything(nullable=node.null)
    return MapOf(value=make_shape(document, part.extra), nullable=node.null)


def _build_fields(document: JsonSchemaDocument, part: Objects) -> tuple[Field, ...]:
    return tuple(
        Field(
            name=name,
            attribute=attribute,
            shape=make_shape(document, part.properties[name]),
            required=name in part.required,
            description=part.properties[name].description,
        )
        for name, attribute in _choose_attributes(part.properties)
    )


def _choose_attributes(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of a JSON name and its Python attribute: the name itself if possible, else ``field_<index>``."""
    names = list(names)
    # The attributes become attributes of guard classes, so keywords and names with a leading underscore are excluded.
    plain = {name for name in names if name.isidentifier() and not keyword.iskeyword(name) and name[0] != "_"}
    attributes, used = [], set(plain)
    for index, name in enumerate(names):
        attribute = name if name in plain else f"field_{index}"
        while name not in plain and attribute in used:
            attribute += "_"
        used.add(attribute)
        attributes.append((name, attribute))
    return attributes


def _build_number(numbers: Numbers, *, nullable: bool) -> Scalar:
    if not numbers.integer and 0 < numbers.scale <= _MAX_SCALE:
        return Scalar(
            kind="decimal", sent="float64", nullable=nullable, precision=_MAX_DECIMAL_DIGITS, scale=numbers.scale
        )
    if not numbers.integer:
        return Scalar(kind="float64", sent="float64", nullable=nullable)
    low, high = _find_limits(numbers)
    if high < _INT64 and low >= -_INT64:
        return Scalar(kind="int64", nullable=nullable)
    if low >= 0 and high < 2 * _INT64:
        return Scalar(kind="uint64", nullable=nullable)
    return Scalar(kind="decimal", nullable=nullable, precision=_MAX_DECIMAL_DIGITS)


def _find_limits(numbers: Numbers) -> tuple[int | float, int | float]:
    """Return the smallest and the largest integer; the 64-bit limits if no bound is declared."""
    values = numbers.values or ()
    low = min(values) if values else numbers.low
    high = max(values) if values else numbers.high
    return (-_INT64 if low is None else low), (_INT64 - 1 if high is None else high)


def find_constants(node: NormalForm) -> dict[str, frozenset[JSON]]:
    """Return the required members of an object that have a closed set of scalar values, by name (K-30)."""
    return {path[0]: values for path, values in find_closed_members(node, 1).items()}


_ClosedMembers = dict[tuple[str, ...], frozenset[JSON]]


def find_closed_members(node: NormalForm, depth: int) -> _ClosedMembers:
    """Return the closed sets of scalar values of required members, by path of at most ``depth`` names.

    An object without such a member, or with another value in it, does not conform. If there are very many closed
    members inside other members, some of them are left out.
    """
    return {} if node.objects is None else _find_closed_members(node.objects, depth, {})


def _find_closed_members(part: Objects, depth: int, cache: dict[tuple[int, int], _ClosedMembers]) -> _ClosedMembers:
    """Return the closed members of ``part``. ``cache`` contains the results for shared definitions,
    by identity and depth.
    """
    key = id(part), depth
    if key not in cache:
        cache[key] = _collect_closed_members(part, depth, cache)
    return cache[key]


def _collect_closed_members(part: Objects, depth: int, cache: dict[tuple[int, int], _ClosedMembers]) -> _ClosedMembers:
    # A path is closed only if it is closed in all alternatives. Each alternative may allow other values.
    first, *alternatives = [_find_closed_members(branch, depth, cache) for branch in part.alternatives] or [{}]
    shared = [path for path in first if all(path in other for other in alternatives)]
    closed_sets = {path: first[path].union(*(other[path] for other in alternatives)) for path in shared}
    for name, member in part.properties.items():
        if name not in part.required:
            continue
        if values := find_closed_values(member):
            closed_sets[name,] = values
        elif depth > 1 and member.objects and member.kinds == 1 and not member.null:
            inner_sets = _find_closed_members(member.objects, depth - 1, cache)
            # Even a small schema may have very many paths, because its definitions are shared.
            if len(closed_sets) + len(inner_sets) <= _MAX_CLOSED_MEMBERS:
                closed_sets |= {(name, *path): inner for path, inner in inner_sets.items()}
    return closed_sets
