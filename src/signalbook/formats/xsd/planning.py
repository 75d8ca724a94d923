"""Which plan elements of a type have: members where nothing is lost by it, else the XML itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from xmlschema.validators import XsdElement, XsdGroup

from signalbook.formats.shape import Field, Shape, Struct, bounded
from signalbook.formats.xsd.content import Attribute, Child, Kept, Members, Plan, Value
from signalbook.formats.xsd.scalars import XsdType, simple

_MAX_NESTING: Final = 32


class _Opaque(Exception):
    """Content that has no form as members."""


class Planner:
    """Makes plans for the types of one schema."""

    def __init__(self) -> None:
        self._plans: dict[int, Plan] = {}
        self._above: list[int] = []

    def top(self, element: XsdElement) -> Child:
        """The plan of a payload's root."""
        return self._child(element, repeated=False, required=True)

    def root_of(self, xsd: XsdType) -> Child:
        """The plan of a payload's root that is of a type, whatever its name."""
        name = xsd.local_name or ""
        return Child(tag="", plan=self.type(xsd), repeated=False, required=True, nillable=False, type_name=name)

    def type(self, xsd: XsdType, default: str | None = None) -> Plan:
        """The plan of an element of a type."""
        if xsd.is_simple():
            return Value(simple=simple(xsd), default=default)
        if id(xsd) in self._above or len(self._above) > _MAX_NESTING:
            return Kept()
        if default is not None:
            return self._complex(xsd, default)
        if id(xsd) not in self._plans:
            self._plans[id(xsd)] = self._complex(xsd, None)
        return self._plans[id(xsd)]

    def _complex(self, xsd: XsdType, default: str | None) -> Plan:
        self._above.append(id(xsd))
        try:
            return self._members(xsd, default)
        except _Opaque:
            return Kept()
        finally:
            self._above.pop()

    def _members(self, xsd: XsdType, default: str | None) -> Plan:
        if xsd.mixed or xsd.open_content is not None or None in xsd.attributes:
            raise _Opaque
        attributes = tuple(_attribute(part) for part in xsd.attributes.values() if part.use != "prohibited")
        value: Value | None = None
        children: tuple[Child, ...] = ()
        if xsd.has_simple_content():
            value = Value(simple=simple(xsd.content), default=default)
            if not attributes:
                return value
        else:
            children = tuple(self._children(xsd.content, repeated=False, required=True))
        names = [*(part.name for part in attributes), *(part.name for part in children)]
        if len(set(names)) < len(names) or not (names or value):
            raise _Opaque
        return Members(
            attributes=attributes, children=children, value=value, shape=_struct(attributes, children, value)
        )

    def _children(self, group: XsdGroup, *, repeated: bool, required: bool) -> Iterator[Child]:
        """Children in order; what is repeated together has an order that lists would not keep."""
        repeated = repeated or group.max_occurs != 1
        if repeated and _size(group) > 1:
            raise _Opaque
        required = required and group.min_occurs > 0 and (group.model != "choice" or len(group) == 1)
        for part in group:
            if part.max_occurs == 0:
                continue
            if isinstance(part, XsdGroup):
                yield from self._children(part, repeated=repeated, required=required)
            elif isinstance(part, XsdElement) and not part.abstract and not any(True for _ in part.iter_substitutes()):
                several = repeated or part.max_occurs != 1
                yield self._child(part, repeated=several, required=required and part.min_occurs > 0)
            else:
                raise _Opaque

    def _child(self, element: XsdElement, *, repeated: bool, required: bool) -> Child:
        default = element.fixed if element.fixed is not None else element.default
        return Child(
            tag=element.name,
            plan=Kept() if element.alternatives else self.type(element.type, default),
            repeated=repeated,
            required=required,
            nillable=element.nillable,
            type_name=element.type.local_name or "",
        )


def _size(group: XsdGroup) -> int:
    return sum(_size(part) if isinstance(part, XsdGroup) else 1 for part in group)


def _attribute(part: Any) -> Attribute:
    default = part.fixed if part.fixed is not None else part.default
    required = part.use == "required" or default is not None
    return Attribute(tag=part.name, simple=simple(part.type), required=required, default=default)


def _struct(attributes: tuple[Attribute, ...], children: tuple[Child, ...], value: Value | None) -> Shape:
    fields = [
        *(_field(part.name, part.simple.shape(), required=part.required) for part in attributes),
        *([_field("$", value.shape, required=True)] if value else []),
        *(_field(part.name, part.shape, required=part.required or part.repeated) for part in children),
    ]
    return bounded(Struct(fields=tuple(fields)))


def _field(name: str, shape: Shape, *, required: bool) -> Field:
    return Field(name=name, attribute=name, shape=shape, required=required)
