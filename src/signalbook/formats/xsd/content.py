"""XML elements as JSON-like values, converted by a plan that is made once from the schema.

An element with a simple value becomes that value. An element with attributes or children becomes an object: attributes
as ``@name``, children by name (as a list if there may be several), and ``$`` for a value next to attributes. Content
that would lose its order or parts (mixed content, wildcards, repeated choices, substitutes, recursive types) stays XML
text.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, Protocol
from xml.etree.ElementTree import Element, tostring

from xmlschema import names
from xmlschema.validators import XsdElement, XsdGroup, XsdList, XsdUnion

from signalbook.formats.base import Path
from signalbook.formats.shape import Anything, Field, Kind, ListOf, Scalar, Shape, Struct, limit_columns
from signalbook.formats.xsd import limits
from signalbook.formats.xsd.limits import XSI, local_name
from signalbook.values import JSON, NONFINITE

XsdType = Any
_MAX_DIGITS: Final = 38
# The built-in types with their own kind of column. All other types are text.
_BUILTIN_KINDS: Final[dict[str, Kind]] = {
    names.XSD_BOOLEAN: "bool",
    names.XSD_FLOAT: "float32",
    names.XSD_DOUBLE: "float64",
    names.XSD_INT: "int32",
    names.XSD_UNSIGNED_SHORT: "int32",
    names.XSD_UNSIGNED_LONG: "uint64",
    names.XSD_INTEGER: "int64",
    names.XSD_BASE64_BINARY: "bytes",
    names.XSD_HEX_BINARY: "bytes",
    names.XSD_DECIMAL: "decimal",
    names.XSD_DATETIME: "timestamp",
    names.XSD_DATE: "date",
}
# The values of these kinds stay text, because they may lack a time zone or have years of five digits.
_TIME_KINDS: Final = frozenset({"timestamp", "date"})
_READ: Final[dict[str, Callable[[str], JSON]]] = {
    "bool": lambda text: text in ("true", "1"),
    "int32": int,
    "int64": int,
    "uint64": int,
    "float32": lambda text: float(text.replace("INF", "inf")),
    "float64": lambda text: float(text.replace("INF", "inf")),
    "decimal": Decimal,
    "base64": lambda text: base64.b64decode("".join(text.split())),
    "hex": bytes.fromhex,
    "string": str,
}
_WRITE: Final[dict[str, Callable[[Any], str]]] = {
    "bool": lambda value: "true" if value else "false",
    "float32": lambda value: repr(float(value)).replace("inf", "INF").replace("nan", "NaN"),
    "float64": lambda value: repr(float(value)).replace("inf", "INF").replace("nan", "NaN"),
    "decimal": lambda value: f"{value:f}",
    "base64": lambda value: base64.b64encode(value).decode(),
    "hex": lambda value: value.hex().upper(),
}
_TAKEN: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,), "int32": (int,), "int64": (int,), "uint64": (int,), "float32": (int, float),
    "float64": (int, float), "decimal": (Decimal, int), "base64": (bytes,), "hex": (bytes,), "string": (str,),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Simple:
    """The conversion of values of a simple type; ``is_list`` is True for a list type."""

    kind: Kind
    coding: str
    is_list: bool
    type: XsdType
    precision: int = 0
    scale: int = 0
    sent: Kind | None = None

    def shape(self, *, nullable: bool = False) -> Scalar | ListOf:
        """Return the shape of the column for these values."""
        if self.is_list:
            return ListOf(item=self._build_scalar(nullable=False), nullable=nullable)
        return self._build_scalar(nullable=nullable)

    def _build_scalar(self, *, nullable: bool) -> Scalar:
        digits = {"precision": self.precision, "scale": self.scale}
        return Scalar(kind=self.kind, sent=self.sent, nullable=nullable, zoned=self.kind == "date", **digits)

    def read(self, text: str) -> JSON:
        """Return the value of ``text``, which the schema has already accepted."""
        normal = self.type.normalize(text)
        convert = _READ[self.coding]
        return [convert(part) for part in normal.split()] if self.is_list else convert(normal)

    def write(self, value: JSON) -> str:
        """Return the text for ``value``. Raises ``TypeError`` if ``value`` is of another kind."""
        if not self.is_list:
            return self._write(value)
        if not isinstance(value, list):
            raise TypeError("a list")
        return " ".join(map(self._write, value))

    def _write(self, value: JSON) -> str:
        types = _TAKEN[self.coding]
        if float in types and isinstance(value, str):  # JSON represents NaN and infinities by these names
            value = NONFINITE.get(value, value)
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise TypeError(f"a value of the kind {self.kind}")
        return _WRITE.get(self.coding, str)(value)


def make_simple(xsd: XsdType) -> Simple:
    """Return the conversion of values of the simple type ``xsd``. Values of a union stay text, because types vary."""
    items = _find_items(xsd)
    if items is not None:
        inner = make_simple(items) if _find_items(items) is None else _read_as_text(items)
        return replace(inner, is_list=True, type=xsd)
    builtin = _find_builtin(xsd)
    kind: Kind = _BUILTIN_KINDS.get(builtin, "string")
    if kind == "decimal":
        return _read_decimal(xsd)
    if kind in _TIME_KINDS:
        return replace(_read_as_text(xsd), kind=kind, sent="string")
    coding = {names.XSD_BASE64_BINARY: "base64", names.XSD_HEX_BINARY: "hex"}.get(builtin, kind)
    return Simple(kind=kind, coding=coding, is_list=False, type=xsd)


def _read_as_text(xsd: XsdType) -> Simple:
    return Simple(kind="string", coding="string", is_list=False, type=xsd)


def _read_decimal(xsd: XsdType) -> Simple:
    """Return the conversion to exact decimals if the number of digits is bounded, otherwise to text."""
    total, fraction = _find_digits(xsd, names.XSD_TOTAL_DIGITS), _find_digits(xsd, names.XSD_FRACTION_DIGITS)
    if total is None or fraction is None or total > _MAX_DIGITS:
        return _read_as_text(xsd)
    return Simple(kind="decimal", coding="decimal", is_list=False, type=xsd, precision=total, scale=fraction)


def _find_digits(xsd: XsdType, facet: str) -> int | None:
    limit = xsd.get_facet(facet)
    return None if limit is None else int(limit.value)


def _find_items(xsd: XsdType) -> XsdType | None:
    """Return the item type of a list type or of a restriction of a list type; None for other types."""
    while xsd is not None and not isinstance(xsd, XsdUnion):
        if isinstance(xsd, XsdList):
            return xsd.item_type
        xsd = xsd.base_type
    return None


def _find_builtin(xsd: XsdType) -> str:
    """Return the nearest built-in base type that has its own kind of column."""
    while xsd is not None and not isinstance(xsd, XsdUnion):
        if xsd.name in _BUILTIN_KINDS:
            return str(xsd.name)
        if xsd.name in _INT64:
            return names.XSD_INTEGER
        if xsd.name in _INT32:
            return names.XSD_INT
        xsd = xsd.base_type
    return names.XSD_STRING


_INT32: Final = frozenset({names.XSD_SHORT, names.XSD_BYTE, names.XSD_UNSIGNED_BYTE})
_INT64: Final = frozenset({names.XSD_LONG, names.XSD_UNSIGNED_INT})
BAD_TEXT: Final = (ValueError, ArithmeticError, binascii.Error)


class Unfit(Exception):
    """Raised for an element or a value that does not fit its plan."""

    def __init__(self, path: Path, rule: str, message: str) -> None:
        self.path, self.rule, self.message = path, rule, message
        super().__init__(message)


class ElementPlan(Protocol):
    """A plan that converts a valid element to a value and back."""

    @property
    def shape(self) -> Shape: ...

    def read(self, element: Element, path: Path) -> JSON: ...

    def write(self, value: JSON, tag: str, path: Path) -> Element: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlElement:
    """The plan for an element that is kept as XML text."""

    @property
    def shape(self) -> Shape:
        return Scalar(kind="string")

    def read(self, element: Element, path: Path) -> JSON:  # noqa: ARG002
        # The tree stores the text after the element with the element, although that text belongs to the parent.
        tail, element.tail = element.tail, None
        text = tostring(element, encoding="unicode")
        element.tail = tail
        return text

    def write(self, value: JSON, tag: str, path: Path) -> Element:
        if not isinstance(value, str):
            raise Unfit(path, "type", "expected XML as text")
        try:
            root = limits.read(value.encode()).root
        except ValueError as error:
            raise Unfit(path, "xml", str(error)) from None
        if root.tag != tag:
            raise Unfit(path, "type", f"expected the element {tag}")
        return root


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """The plan for an element with one simple value and no members."""

    simple: Simple
    default: str | None

    @property
    def shape(self) -> Shape:
        return self.simple.shape()

    def read(self, element: Element, path: Path) -> JSON:  # noqa: ARG002
        return self.simple.read(element.text or self.default or "")

    def write(self, value: JSON, tag: str, path: Path) -> Element:
        written = Element(tag)
        written.text = _write_value(self.simple, value, path)
        return written


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributePlan:
    """The plan for an attribute of an element."""

    tag: str
    simple: Simple
    required: bool
    default: str | None

    @property
    def name(self) -> str:
        """The name of the member for this attribute."""
        return f"@{local_name(self.tag)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """The plan for children of one name: at most one child, or a list if ``repeated``."""

    tag: str
    plan: ElementPlan
    repeated: bool
    required: bool
    nillable: bool
    type_name: str

    @property
    def name(self) -> str:
        """The name of the member for these children."""
        return local_name(self.tag)

    @property
    def shape(self) -> Shape:
        """The shape of the column. An ``xsi:nil`` child becomes null."""
        item_shape = _make_nullable(self.plan.shape) if self.nillable else self.plan.shape
        return ListOf(item=item_shape) if self.repeated else item_shape

    def read(self, element: Element, path: Path) -> JSON:
        _check_same_type(element, self.type_name, path)
        if element.get(f"{XSI}nil", "").strip() in ("true", "1"):
            return None
        return self.plan.read(element, path)

    def write(self, value: JSON, path: Path) -> Element:
        if value is None and self.nillable:
            return Element(self.tag, {f"{XSI}nil": "true"})
        return self.plan.write(value, self.tag, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenPlan:
    """The plan for an element with attributes or children."""

    attributes: tuple[AttributePlan, ...]
    children: tuple[Child, ...]
    value: Value | None
    shape: Shape

    def read(self, element: Element, path: Path) -> JSON:
        members: dict[str, JSON] = {}
        for attribute in self.attributes:
            text = element.get(attribute.tag, attribute.default)
            if text is not None:
                members[attribute.name] = attribute.simple.read(text)
        if self.value is not None:
            members["$"] = self.value.read(element, path)
        for child in self.children:
            items = element.findall(child.tag)
            if child.repeated:
                # Always write a list, because a column of lists does not distinguish a missing list from an empty list.
                members[child.name] = [child.read(item, (*path, child.name, i)) for i, item in enumerate(items)]
            elif items:
                members[child.name] = child.read(items[0], (*path, child.name))
        return members

    def write(self, value: JSON, tag: str, path: Path) -> Element:
        if not isinstance(value, dict):
            raise Unfit(path, "type", f"expected an object for the element {local_name(tag)}")
        names = {*(part.name for part in self.attributes), *(part.name for part in self.children)}
        names |= {"$"} if self.value else set()
        for name in value.keys() - names:
            raise Unfit((*path, name), "unknown", f"the element {local_name(tag)} has no such member")
        written = self.value.write(value.get("$"), tag, (*path, "$")) if self.value else Element(tag)
        for attribute in self.attributes:
            if value.get(attribute.name) is not None:
                written.set(
                    attribute.tag, _write_value(attribute.simple, value[attribute.name], (*path, attribute.name))
                )
        written.extend([part for child in self.children for part in _write_parts(child, value, (*path, child.name))])
        return written


def _write_parts(child: Child, value: dict[str, JSON], path: Path) -> Iterator[Element]:
    member = value.get(child.name)
    if not child.repeated:
        if member is not None or (child.nillable and child.name in value):
            yield child.write(member, path)
    elif member is not None:
        if not isinstance(member, list):
            raise Unfit(path, "type", "expected an array")
        yield from (child.write(item, (*path, index)) for index, item in enumerate(member))


def _write_value(kind: Simple, value: JSON, path: Path) -> str:
    try:
        return kind.write(value)
    except TypeError as error:
        raise Unfit(path, "type", f"expected {error}") from None


def _check_same_type(element: Element, name: str, path: Path) -> None:
    """Raise ``Unfit`` if ``element`` names a type other than ``name`` with ``xsi:type``, which
    would have other columns.
    """
    stated = element.get(f"{XSI}type")
    if stated is not None and stated.strip().rpartition(":")[2] != name:
        raise Unfit(path, "xsi_type", f"the type {stated!r} in place of the declared one has no columns")


def _make_nullable(shape: Shape) -> Shape:
    if isinstance(shape, (Scalar, ListOf, Struct)):
        return replace(shape, nullable=True)
    return Anything(nullable=True)


_MAX_NESTING: Final = 32


class _Opaque(Exception):
    """Raised for content that cannot be represented as members."""


class Planner:
    """Makes and caches the plans for the types of one schema."""

    def __init__(self) -> None:
        self._plans: dict[int, ElementPlan] = {}
        self._above: list[int] = []

    def top(self, element: XsdElement) -> Child:
        """Return the plan for ``element`` as the root of a payload."""
        return self._plan_child(element, repeated=False, required=True)

    def root_of(self, xsd: XsdType) -> Child:
        """Return the plan for a root of any name whose type is ``xsd``."""
        name = xsd.local_name or ""
        return Child(tag="", plan=self.type(xsd), repeated=False, required=True, nillable=False, type_name=name)

    def type(self, xsd: XsdType, default: str | None = None) -> ElementPlan:
        """Return the plan for an element of the type ``xsd``; ``default`` is the text of an empty element."""
        if xsd.is_simple():
            return Value(simple=make_simple(xsd), default=default)
        # A recursive type has no columns. Compare identities, because anonymous types have no names.
        if id(xsd) in self._above or len(self._above) > _MAX_NESTING:
            return XmlElement()
        if default is not None:
            return self._plan_complex(xsd, default)
        if id(xsd) not in self._plans:
            self._plans[id(xsd)] = self._plan_complex(xsd, None)
        return self._plans[id(xsd)]

    def _plan_complex(self, xsd: XsdType, default: str | None) -> ElementPlan:
        self._above.append(id(xsd))
        try:
            return self._plan_members(xsd, default)
        except _Opaque:
            return XmlElement()
        finally:
            self._above.pop()

    def _plan_members(self, xsd: XsdType, default: str | None) -> ElementPlan:
        if xsd.mixed or xsd.open_content is not None or None in xsd.attributes:
            raise _Opaque
        attributes = tuple(_plan_attribute(part) for part in xsd.attributes.values() if part.use != "prohibited")
        value: Value | None = None
        children: tuple[Child, ...] = ()
        if xsd.has_simple_content():
            value = Value(simple=make_simple(xsd.content), default=default)
            if not attributes:
                return value
        else:
            children = tuple(self._plan_children(xsd.content, repeated=False, required=True))
        # Two children with the same name, or the same local name in two namespaces, would become the same member.
        names = [*(part.name for part in attributes), *(part.name for part in children)]
        if len(set(names)) < len(names) or not (names or value):
            raise _Opaque
        return ChildrenPlan(
            attributes=attributes, children=children, value=value, shape=_build_struct(attributes, children, value)
        )

    def _plan_children(self, group: XsdGroup, *, repeated: bool, required: bool) -> Iterator[Child]:
        """Yield the plans for the children in ``group``, in order. Raises ``_Opaque`` if lists
        would lose their order.
        """
        repeated = repeated or group.max_occurs != 1
        # Lists by name would lose the order in which different children alternate.
        if repeated and _count_elements(group) > 1:
            raise _Opaque
        required = required and group.min_occurs > 0 and (group.model != "choice" or len(group) == 1)
        for part in group:
            if part.max_occurs == 0:
                continue
            if isinstance(part, XsdGroup):
                yield from self._plan_children(part, repeated=repeated, required=required)
            # An element with substitutes may appear under other names than its own.
            elif isinstance(part, XsdElement) and not part.abstract and not any(True for _ in part.iter_substitutes()):
                several = repeated or part.max_occurs != 1
                yield self._plan_child(part, repeated=several, required=required and part.min_occurs > 0)
            else:
                raise _Opaque

    def _plan_child(self, element: XsdElement, *, repeated: bool, required: bool) -> Child:
        default = element.fixed if element.fixed is not None else element.default
        return Child(
            tag=element.name,
            plan=XmlElement() if element.alternatives else self.type(element.type, default),
            repeated=repeated,
            required=required,
            nillable=element.nillable,
            type_name=element.type.local_name or "",
        )


def _count_elements(group: XsdGroup) -> int:
    return sum(_count_elements(part) if isinstance(part, XsdGroup) else 1 for part in group)


def _plan_attribute(part: Any) -> AttributePlan:
    default = part.fixed if part.fixed is not None else part.default
    required = part.use == "required" or default is not None
    return AttributePlan(tag=part.name, simple=make_simple(part.type), required=required, default=default)


def _build_struct(attributes: tuple[AttributePlan, ...], children: tuple[Child, ...], value: Value | None) -> Shape:
    fields = [
        *(_build_field(part.name, part.simple.shape(), required=part.required) for part in attributes),
        *([_build_field("$", value.shape, required=True)] if value else []),
        *(_build_field(part.name, part.shape, required=part.required or part.repeated) for part in children),
    ]
    return limit_columns(Struct(fields=tuple(fields)))


def _build_field(name: str, shape: Shape, *, required: bool) -> Field:
    return Field(name=name, attribute=name, shape=shape, required=required)
