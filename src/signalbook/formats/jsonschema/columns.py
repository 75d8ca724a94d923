"""The columns of a JSON Schema, from its normal form."""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from typing import Final

from signalbook.formats.jsonschema.document import JsonSchemaDocument
from signalbook.formats.jsonschema.normal import ANY, NormalForm, Numbers, Objects, closed
from signalbook.formats.shape import Anything, Field, Kind, ListOf, MapOf, Scalar, Shape, Struct, bounded
from signalbook.values import JSON

_INT64: Final = 2**63
# What decimal columns hold at most.
_MAX_DECIMAL_DIGITS: Final = 38
# A float has no more digits behind the point that mean anything.
_MAX_SCALE: Final = 16
_TIME_FORMATS: Final[dict[str, Kind]] = {"date-time": "timestamp", "date": "date"}
_ANYTHING: Final = Anything(nullable=True)


def shape_of(document: JsonSchemaDocument, node: NormalForm) -> Shape:
    """The shape that every value of ``node`` fits; made once per node, since definitions are shared."""
    key = ("shape", node)
    if key not in document.cache:
        document.cache[key] = _build_shape(document, node)
    shape: Shape = document.cache[key]
    return shape


def _build_shape(document: JsonSchemaDocument, node: NormalForm) -> Shape:
    if node.kinds == 0 and node.null:
        return Scalar(kind="string", nullable=True)
    # Several types have no column in common but text.
    if node.kinds != 1:
        return Anything(nullable=node.null)
    if node.booleans:
        return Scalar(kind="bool", nullable=node.null)
    if node.numbers:
        return _build_number(node.numbers, nullable=node.null)
    if node.strings:
        # ``format`` is an annotation: whatever text is there conforms.
        kind = _TIME_FORMATS.get(node.strings.format) if node.strings.values is None else None
        return Scalar(kind=kind or "string", sent="string" if kind else None, nullable=node.null)
    if node.arrays:
        return ListOf(item=shape_of(document, node.arrays.item), nullable=node.null)
    return _build_object(document, node) if node.objects else _ANYTHING


def _build_object(document: JsonSchemaDocument, node: NormalForm) -> Shape:
    part = node.objects
    assert part is not None
    if part.properties:
        return bounded(Struct(fields=_build_fields(document, part), nullable=node.null, open=part.extra is not None))
    if part.extra is None or part.extra is ANY or not part.extra.here_exact:
        return Anything(nullable=node.null)
    return MapOf(value=shape_of(document, part.extra), nullable=node.null)


def _build_fields(document: JsonSchemaDocument, part: Objects) -> tuple[Field, ...]:
    return tuple(
        Field(
            name=name,
            attribute=attribute,
            shape=shape_of(document, part.properties[name]),
            required=name in part.required,
            description=part.properties[name].description,
        )
        for name, attribute in _choose_attributes(part.properties)
    )


def _choose_attributes(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return a Python attribute for each JSON name: the name itself if possible, else one by position."""
    names = list(names)
    # Guards are classes whose attributes these are: names that Python or the class itself has a use for are none.
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
    """Least and greatest integer; where none is declared, 64 bits."""
    values = numbers.values or ()
    low = min(values) if values else numbers.low
    high = max(values) if values else numbers.high
    return (-_INT64 if low is None else low), (_INT64 - 1 if high is None else high)


def constants(node: NormalForm) -> dict[str, frozenset[JSON]]:
    """Required members of an object that have a closed set of scalar values, by name (K-30)."""
    return {} if node.objects is None else _find_constants(node.objects)


def _find_constants(part: Objects) -> dict[str, frozenset[JSON]]:
    """Return the constants of alternatives, if all have any."""
    first, *alternatives = map(_find_constants, part.alternatives) if part.alternatives else ({},)
    shared = [name for name in first if all(name in other for other in alternatives)]
    constants = {name: first[name].union(*(other[name] for other in alternatives)) for name in shared}
    closed_members = {name: closed(member) for name, member in part.properties.items() if name in part.required}
    return constants | {name: values for name, values in closed_members.items() if values}
