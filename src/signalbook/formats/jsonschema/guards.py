"""Checks of JSON values by msgspec types, for parts of payloads that the pipeline's native module leaves as text.

A check takes well-formed JSON text and returns its value in the form of its shape: objects with attributes
(``Field.attribute``), ``msgspec.UNSET`` for absent members, ``msgspec.Raw`` for ``Anything``. If a check cannot prove
that a value conforms, it raises one of ``REFUSALS``. It never accepts a value that the validator refuses, but may
refuse a value that the validator accepts (1.0 as an integer, a duplicate member).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, Union

import msgspec

from signalbook.formats.jsonschema.columns import make_shape
from signalbook.formats.jsonschema.dialects import UNUSABLE
from signalbook.formats.jsonschema.document import JsonSchemaDocument
from signalbook.formats.jsonschema.normal import BOTH, Arrays, NormalForm, Numbers, Objects, Strings, find_ends
from signalbook.formats.jsonschema.pattern import translate
from signalbook.formats.shape import Anything, ListOf, MapOf, Scalar, Struct
from signalbook.values import JSON, parse_json

_INT64: Final = 2**63
EXACT_FLOAT: Final = 2**53
_ESCAPED: Final = frozenset('"\\')
# The exceptions that checks raise.
REFUSALS: Final = (msgspec.MsgspecError, ValueError, RecursionError)
# A function that takes a value as JSON text and returns the value to keep; it raises one of REFUSALS.
Check = Callable[[Any], Any]


class _Inexpressible(Exception):
    """Raised if msgspec types cannot express a schema."""


def guard(document: JsonSchemaDocument, node: NormalForm) -> Check | None:
    """Return a check that takes a value as JSON text and returns it in its shape, or raises one of ``REFUSALS``.

    None means that the value cannot be checked by itself.
    """
    types = _Types(document)
    try:
        return msgspec.json.Decoder(types.exact(node)).decode
    except _Inexpressible:
        pass
    try:
        return types.guard(node)
    except _Inexpressible:
        return None


class _Types:
    """Builds msgspec types for the nodes of one document."""

    def __init__(self, document: JsonSchemaDocument) -> None:
        self.document = document
        self._loose: dict[NormalForm, Any] = {}
        self._exact: dict[NormalForm, Any] = {}

    # These types have no constraints. They decode values that are already known to conform.

    def loose(self, node: NormalForm) -> Any:
        """Return the type that decodes every conforming value into the form of its shape."""
        if node not in self._loose:
            self._loose[node] = self._build_loose(node)
        return self._loose[node]

    def _build_loose(self, node: NormalForm) -> Any:
        shape = make_shape(self.document, node)
        if isinstance(shape, Anything):
            return msgspec.Raw
        if isinstance(shape, Struct):
            assert node.objects is not None
            self._check_widths(shape, node.objects)
            loose = _define_struct(shape, [self.loose(node.objects.properties[field.name]) for field in shape.fields])
        elif isinstance(shape, ListOf):
            assert node.arrays is not None
            loose = GenericAlias(list, (self.loose(node.arrays.item),))
        elif isinstance(shape, MapOf):
            assert node.objects is not None
            assert node.objects.extra is not None
            loose = GenericAlias(dict, (str, self.loose(node.objects.extra)))
        else:
            loose = _choose_sent_type(shape) if node.kinds else type(None)
        return loose | None if shape.nullable else loose

    # These types have all constraints. They accept the values that the schema accepts, or fewer.

    def exact(self, node: NormalForm) -> Any:
        """Return a type that decodes only conforming values. Raises ``_Inexpressible``."""
        if node not in self._exact:
            try:
                self._exact[node] = self._build_exact(node)
            except _Inexpressible:
                self._exact[node] = None
        if self._exact[node] is None:
            raise _Inexpressible
        return self._exact[node]

    def _build_exact(self, node: NormalForm) -> Any:
        shape = make_shape(self.document, node)
        if isinstance(shape, Anything) and is_unconstrained(node):
            return msgspec.Raw
        if isinstance(shape, Anything) or not node.here_exact:
            raise _Inexpressible
        if node.booleans and node.booleans != BOTH:
            raise _Inexpressible
        exact = self._build_single(node, shape)
        return exact | None if shape.nullable else exact

    def _build_single(self, node: NormalForm, shape: Scalar | ListOf | MapOf | Struct) -> Any:
        if isinstance(shape, Struct) and node.objects:
            return self._build_members(shape, node.objects)
        if isinstance(shape, MapOf) and node.objects and node.objects.extra:
            mapping = GenericAlias(dict, (str, self.exact(node.objects.extra)))
            return _limit_size(mapping, node.objects)
        if node.arrays:
            return _limit_size(GenericAlias(list, (self.exact(node.arrays.item),)), node.arrays)
        if node.numbers:
            return _build_number(node.numbers)
        if node.strings:
            return _build_string(node.strings)
        return bool if node.booleans else type(None)

    def _build_members(self, shape: Struct, part: Objects) -> Any:
        if has_member_limits(part) or not (part.extra is None or is_unconstrained(part.extra)):
            raise _Inexpressible
        self._check_widths(shape, part)
        types = [self.exact(part.properties[field.name]) for field in shape.fields]
        return _define_struct(shape, types, closed=part.extra is None)

    def _check_widths(self, shape: Struct, part: Objects) -> None:
        """Raise ``_Inexpressible`` if members are JSON text only because of the limit of columns
        (``limit_columns``).
        """
        if any(field.shape is not make_shape(self.document, part.properties[field.name]) for field in shape.fields):
            raise _Inexpressible

    def guard(self, node: NormalForm) -> Check:
        """Return the check for a raw JSON value, which returns the value to keep. Raises ``_Inexpressible``."""
        shape = make_shape(self.document, node)
        if not isinstance(shape, Anything):
            return _make_valid_check(self._build_validator(node), msgspec.json.Decoder(self.loose(node)).decode)
        try:
            return _make_read_check(msgspec.json.Decoder(self._build_union(node)).decode)
        except _Inexpressible:
            return _make_valid_check(self._build_validator(node), lambda raw: raw)

    def _build_validator(self, node: NormalForm) -> Callable[[JSON], bool]:
        try:
            valid: Callable[[JSON], bool] = self.document.validator(*node.uris).is_valid
        except UNUSABLE:
            raise _Inexpressible from None
        return valid

    def _build_union(self, node: NormalForm) -> Any:
        """Return the union of the types of ``node``. Raises ``_Inexpressible``."""
        if not node.here_exact or (node.booleans and node.booleans != BOTH):
            raise _Inexpressible
        if node.strings and node.strings.patterns and (node.arrays or node.objects):
            # msgspec (0.22) frees the pattern of such a union once too often, and the interpreter crashes later
            raise _Inexpressible
        parts: list[Any] = [None] if node.null else []
        parts += [bool] if node.booleans else []
        parts += [_build_number(node.numbers)] if node.numbers else []
        parts += [_build_string(node.strings)] if node.strings else []
        parts += [_limit_size(GenericAlias(list, (self.exact(node.arrays.item),)), node.arrays)] if node.arrays else []
        parts += [self._open_object(node.objects)] if node.objects else []
        if not parts:
            raise _Inexpressible
        return Union[tuple(parts)]  # noqa: UP007 - made at run time

    def _open_object(self, part: Objects) -> Any:
        if part.properties or part.extra is None:
            raise _Inexpressible
        return _limit_size(GenericAlias(dict, (str, self.exact(part.extra))), part)


def _define_struct(shape: Struct, types: list[Any], *, closed: bool = False) -> Any:
    if any(not field.name.isprintable() or not _ESCAPED.isdisjoint(field.name) for field in shape.fields):
        raise _Inexpressible  # msgspec refuses names that JSON escapes
    fields = [
        (field.attribute, member_type)
        if field.required
        else (field.attribute, member_type | msgspec.UnsetType, msgspec.UNSET)
        for field, member_type in zip(shape.fields, types, strict=True)
    ]
    return msgspec.defstruct(
        "Payload",
        fields,
        rename={field.attribute: field.name for field in shape.fields if field.attribute != field.name} or None,
        forbid_unknown_fields=closed,
        kw_only=True,
        eq=False,
        gc=False,
    )


def _make_valid_check(valid: Callable[[JSON], bool], keep: Check) -> Check:
    def check(raw: msgspec.Raw) -> Any:
        if not valid(parse_json(bytes(raw), exact=True)):
            raise ValueError("refused by the schema")
        return keep(raw)

    return check


def _make_read_check(read: Callable[[msgspec.Raw], Any]) -> Check:
    def check(raw: msgspec.Raw) -> msgspec.Raw:
        read(raw)
        return raw

    return check


def is_unconstrained(node: NormalForm) -> bool:
    """Return True if ``node`` allows every JSON value."""
    if not node.null or node.booleans != BOTH or not node.here_exact or not (node.arrays and node.objects):
        return False
    return (
        node.numbers == Numbers()
        and node.strings is not None
        and node.strings.free
        and _is_open(node.arrays)
        and _is_open(node.objects)
    )


def _is_open(part: Arrays | Objects) -> bool:
    """Return True if ``part`` allows every array or every object."""
    if not part.exact or part.low or part.high is not None:
        return False
    if isinstance(part, Arrays):
        return _is_any(part.item)
    return not part.properties and part.extra is not None and _is_any(part.extra)


def _is_any(node: NormalForm) -> bool:
    return node.arrays is not None and node.arrays.item is node


_SCALARS: Final[dict[str, Any]] = {
    "bool": bool,
    "int64": int,
    "uint64": int,
    "decimal": int,
    "float64": float,
    "string": str,
}


def _choose_sent_type(shape: Scalar) -> Any:
    if shape.sent == "string":
        return str
    # Decimals are read with all their digits, which floats would lose.
    return Decimal if shape.kind == "decimal" and shape.sent else _SCALARS[shape.kind]


def has_member_limits(part: Objects) -> bool:
    """Return True if ``part`` limits the number of members more than its required and declared members do."""
    most = part.high is not None and (part.extra is not None or part.high < len(part.properties))
    return part.low > len(part.required) or most


def _limit_type(base: Any, limits: dict[str, Any]) -> Any:
    """Return ``base`` annotated with ``limits``, or ``base`` itself if there are none."""
    meta: Any = msgspec.Meta
    return Annotated[base, meta(**limits)] if limits else base


def _limit_size(base: Any, part: Arrays | Objects) -> Any:
    limits = {"min_length": part.low or None, "max_length": part.high}
    set_limits = {name: limit for name, limit in limits.items() if limit is not None}
    if any(limit >= _INT64 for limit in set_limits.values()):
        raise _Inexpressible
    return _limit_type(base, set_limits)


def _build_string(strings: Strings) -> Any:
    if strings.values is not None:
        return Literal[tuple(strings.values)]
    if len(strings.patterns) > 1:
        raise _Inexpressible
    limits: dict[str, Any] = {"min_length": strings.low or None, "max_length": strings.high}
    if strings.patterns:
        limits["pattern"] = translate(strings.patterns[0])
        if limits["pattern"] is None:
            raise _Inexpressible
    set_limits = {name: limit for name, limit in limits.items() if limit is not None}
    if any(isinstance(limit, int) and limit >= _INT64 for limit in set_limits.values()):
        raise _Inexpressible
    return _limit_type(str, set_limits)


def _build_number(numbers: Numbers) -> Any:
    if numbers.values is not None:
        if any(not -_INT64 <= value < _INT64 for value in numbers.values):
            raise _Inexpressible
        return Literal[tuple(numbers.values)]
    return _build_integer(numbers) if numbers.integer else _build_float(numbers)


def _build_integer(numbers: Numbers) -> Any:
    low, high = find_ends(numbers)
    limits = {"ge": low, "le": high, "multiple_of": numbers.step or None}
    set_limits = {name: limit for name, limit in limits.items() if limit is not None}
    if any(not -_INT64 <= limit < _INT64 for limit in set_limits.values()):
        raise _Inexpressible
    return _limit_type(int, set_limits)


def _build_float(numbers: Numbers) -> Any:
    if numbers.step:
        raise _Inexpressible
    limits: dict[str, Any] = {}
    if numbers.low is not None:
        limits["gt" if numbers.low_open else "ge"] = float(numbers.low)
    if numbers.high is not None:
        limits["lt" if numbers.high_open else "le"] = float(numbers.high)
    # msgspec rounds integers to a float before it compares them: below 2^53 that does not change the result.
    if any(not abs(limit) <= EXACT_FLOAT for limit in limits.values()):
        raise _Inexpressible
    return _limit_type(float, limits)
