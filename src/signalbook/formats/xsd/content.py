"""XML elements as JSON-like values, by a plan made once from the schema.

An element with a simple value is that value. One with members is an object: attributes by ``@name``, children by name,
a list where there may be several, and ``$`` for the value beside attributes. What has no such form without losing order
or content (mixed content, wildcards, repeated choices, substitutes, types inside themselves) stays XML, as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol
from xml.etree.ElementTree import Element, tostring

from signalbook.formats.shape import Anything, ListOf, Scalar, Shape, Struct
from signalbook.formats.xsd import xml
from signalbook.formats.xsd.scalars import Simple
from signalbook.formats.xsd.xml import XSI, local
from signalbook.values import JSON

Path = tuple[str | int, ...]


class Unfit(Exception):
    """An element or a value that a plan has no place for."""

    def __init__(self, path: Path, rule: str, message: str) -> None:
        self.path, self.rule, self.message = path, rule, message
        super().__init__(message)


class Plan(Protocol):
    """From an element that the schema accepted to a value, and back."""

    @property
    def shape(self) -> Shape: ...

    def read(self, element: Element, path: Path) -> JSON: ...

    def write(self, value: JSON, tag: str, path: Path) -> Element: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """XML that stays XML."""

    @property
    def shape(self) -> Shape:
        return Scalar(kind="string")

    def read(self, element: Element, path: Path) -> JSON:  # noqa: ARG002
        tail, element.tail = element.tail, None
        text = tostring(element, encoding="unicode")
        element.tail = tail
        return text

    def write(self, value: JSON, tag: str, path: Path) -> Element:
        if not isinstance(value, str):
            raise Unfit(path, "type", "expected XML as text")
        try:
            root = xml.read(value.encode()).root
        except ValueError as error:
            raise Unfit(path, "xml", str(error)) from None
        if root.tag != tag:
            raise Unfit(path, "type", f"expected the element {tag}")
        return root


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An element that is one simple value."""

    simple: Simple
    default: str | None

    @property
    def shape(self) -> Shape:
        return self.simple.shape()

    def read(self, element: Element, path: Path) -> JSON:  # noqa: ARG002
        return self.simple.read(element.text or self.default or "")

    def write(self, value: JSON, tag: str, path: Path) -> Element:
        made = Element(tag)
        made.text = _written(self.simple, value, path)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One attribute of an element."""

    tag: str
    simple: Simple
    required: bool
    default: str | None

    @property
    def name(self) -> str:
        """The member it becomes."""
        return f"@{local(self.tag)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One kind of child: at most one of it, or a list."""

    tag: str
    plan: Plan
    repeated: bool
    required: bool
    nillable: bool
    type_name: str

    @property
    def name(self) -> str:
        """The member it becomes."""
        return local(self.tag)

    @property
    def shape(self) -> Shape:
        """The column: nothing in it may be lost, so a nil is null."""
        own = _nullable(self.plan.shape) if self.nillable else self.plan.shape
        return ListOf(item=own) if self.repeated else own

    def read(self, element: Element, path: Path) -> JSON:
        _same_type(element, self.type_name, path)
        if element.get(f"{XSI}nil", "").strip() in ("true", "1"):
            return None
        return self.plan.read(element, path)

    def write(self, value: JSON, path: Path) -> Element:
        if value is None and self.nillable:
            return Element(self.tag, {f"{XSI}nil": "true"})
        return self.plan.write(value, self.tag, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """An element with attributes or children."""

    attributes: tuple[Attribute, ...]
    children: tuple[Child, ...]
    value: Value | None
    shape: Shape

    def read(self, element: Element, path: Path) -> JSON:
        found: dict[str, JSON] = {}
        for attribute in self.attributes:
            text = element.get(attribute.tag, attribute.default)
            if text is not None:
                found[attribute.name] = attribute.simple.read(text)
        if self.value is not None:
            found["$"] = self.value.read(element, path)
        for child in self.children:
            items = element.findall(child.tag)
            if child.repeated:
                found[child.name] = [child.read(item, (*path, child.name, i)) for i, item in enumerate(items)]
            elif items:
                found[child.name] = child.read(items[0], (*path, child.name))
        return found

    def write(self, value: JSON, tag: str, path: Path) -> Element:
        if not isinstance(value, dict):
            raise Unfit(path, "type", f"expected an object for the element {local(tag)}")
        known = {*(part.name for part in self.attributes), *(part.name for part in self.children)}
        known |= {"$"} if self.value else set()
        for name in value.keys() - known:
            raise Unfit((*path, name), "unknown", f"the element {local(tag)} has no such member")
        made = self.value.write(value.get("$"), tag, (*path, "$")) if self.value else Element(tag)
        for attribute in self.attributes:
            if value.get(attribute.name) is not None:
                made.set(attribute.tag, _written(attribute.simple, value[attribute.name], (*path, attribute.name)))
        made.extend([part for child in self.children for part in _parts(child, value, (*path, child.name))])
        return made


def _parts(child: Child, value: dict[str, JSON], path: Path) -> Iterator[Element]:
    given = value.get(child.name)
    if not child.repeated:
        if given is not None or (child.nillable and child.name in value):
            yield child.write(given, path)
    elif given is not None:
        if not isinstance(given, list):
            raise Unfit(path, "type", "expected an array")
        yield from (child.write(item, (*path, index)) for index, item in enumerate(given))


def _written(kind: Simple, value: JSON, path: Path) -> str:
    try:
        return kind.write(value)
    except TypeError as error:
        raise Unfit(path, "type", f"expected {error}") from None


def _same_type(element: Element, name: str, path: Path) -> None:
    """A payload may name another type than its place in the schema has; then the columns are of another one, too."""
    given = element.get(f"{XSI}type")
    if given is not None and given.strip().rpartition(":")[2] != name:
        raise Unfit(path, "xsi_type", f"the type {given!r} in place of the declared one has no columns")


def _nullable(shape: Shape) -> Shape:
    if isinstance(shape, Scalar):
        return Scalar(kind=shape.kind, nullable=True, precision=shape.precision, scale=shape.scale)
    if isinstance(shape, ListOf):
        return ListOf(item=shape.item, nullable=True)
    return Struct(fields=shape.fields, nullable=True) if isinstance(shape, Struct) else Anything(nullable=True)
