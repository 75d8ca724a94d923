"""The types of XML elements, as ``XsdSchema`` decodes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from signalbook.codegen.datatypes import (
    NULL,
    ClosedSet,
    DataRecord,
    DataType,
    ListType,
    PlainKind,
    PlainType,
    RecordMember,
    RecordTable,
    union,
)
from signalbook.formats.xsd.content import Child, ChildrenPlan, ElementPlan, Simple, Value
from signalbook.formats.xsd.schema import XsdSchema

_PLAIN_KINDS: Final[dict[str, PlainKind]] = {
    "bool": "boolean", "int32": "integer", "int64": "integer", "uint64": "integer", "float32": "number",
    "float64": "number", "decimal": "decimal", "base64": "bytes", "hex": "bytes",
}  # fmt: skip
_INTEGERS: Final = frozenset({"int32", "int64", "uint64"})


class XsdTypes:
    """The types of the elements of one schema, in ``table``."""

    def __init__(self, table: RecordTable) -> None:
        self._table = table
        # Elements of one type have one plan between them.
        self._keys: dict[int, str] = {}

    def root(self, schema: XsdSchema) -> DataType:
        """The type of a payload: of its root, or of an object with the root as its only member."""
        children = list(schema.plans.values())
        if len(children) == 1:
            return self._build_child(children[0], schema.link)
        return union(self._build_document(child, schema.link) for child in children)

    def _build_document(self, child: Child, path: str) -> DataType:
        def fill(record: DataRecord) -> None:
            record.members = (RecordMember(name=child.name, type=self._build_child(child, path), required=True),)

        return self._table.refer(f"{path}#{child.tag}", f"{child.name} document", fill)

    def _build_child(self, child: Child, path: str) -> DataType:
        child_type = self._plan(child.plan, f"{path}/{child.tag}", child.type_name or child.name)
        child_type = union((child_type, NULL)) if child.nillable else child_type
        return ListType(child_type) if child.repeated else child_type

    def _plan(self, plan: ElementPlan, path: str, hint: str) -> DataType:
        if isinstance(plan, Value):
            return _build_simple(plan.simple)
        if not isinstance(plan, ChildrenPlan):
            return PlainType("text")  # XML that stays XML
        key = self._keys.setdefault(id(plan), path)

        def fill(record: DataRecord) -> None:
            record.members = tuple(self._build_members(plan, key))

        return self._table.refer(key, hint, fill)

    def _build_members(self, plan: ChildrenPlan, path: str) -> Iterator[RecordMember]:
        for attribute in plan.attributes:
            needed = attribute.required and attribute.default is None
            yield RecordMember(name=attribute.name, type=_build_simple(attribute.simple), required=needed)
        if plan.value is not None:
            yield RecordMember(name="$", type=_build_simple(plan.value.simple), required=True)
        for child in plan.children:
            yield RecordMember(name=child.name, type=self._build_child(child, path), required=child.required)


def _build_simple(simple: Simple) -> DataType:
    plain: DataType = PlainType(_PLAIN_KINDS.get(simple.coding, "text"))
    if simple.is_list:
        return ListType(plain)
    values = tuple(_list_values(simple))
    return ClosedSet(values) if values else plain


def _list_values(simple: Simple) -> Iterator[str | int]:
    """Yield the values that a type has, where it lists them and they are text or whole numbers."""
    listed: Any = simple.type.enumeration or ()
    if simple.coding in _INTEGERS and all(isinstance(value, int) for value in listed):
        yield from dict.fromkeys(int(value) for value in listed)
    elif simple.kind == "string" and all(isinstance(value, str) for value in listed):
        yield from dict.fromkeys(str(value) for value in listed)
