"""Show XML Schema elements as trees: attributes as ``@name``, the text of an element with attributes as ``$``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from xmlschema.validators import XsdAtomicBuiltin

from signalbook.formats.tree import Kind, Room, SchemaNode, format_text
from signalbook.formats.xsd.content import Child, ChildrenPlan, ElementPlan, Simple, Value
from signalbook.formats.xsd.limits import local_name

_NODE_KINDS: Final[dict[str, Kind]] = {
    "bool": "boolean",
    "int32": "integer",
    "int64": "integer",
    "uint64": "integer",
    "float32": "number",
    "float64": "number",
    "decimal": "decimal",
    "base64": "bytes",
    "hex": "bytes",
}
_EXAMPLE_TEXTS: Final = {
    "decimal": "1",
    "date": "2030-01-31",
    "time": "12:00:00Z",
    "timestamp": "2030-01-31T12:00:00Z",
    "duration": "PT1H",
}
_FACETS: Final = (
    ("minLength", "min_length"),
    ("maxLength", "max_length"),
    ("minimum", "min_value"),
    ("maximum", "max_value"),
)


def make_tree(plans: Mapping[str, Child], components: Mapping[str, Any]) -> SchemaNode:
    """Return the tree of the root of a payload; if several roots are possible, a choice between them."""
    tree = _Tree()
    roots = tuple(tree.child(plan, components.get(tag), 0) for tag, plan in plans.items())
    if len(roots) == 1:
        return roots[0]
    # Decoded values have the same form: an object whose only member is the root.
    branches = tuple(SchemaNode(kind="object", type="element", members=(root,)) for root in roots)
    return SchemaNode(kind="choice", type="one of these elements", members=branches)


class _Tree:
    """Builds one tree. Recursive types are XML text in decoded values, so their content is not part of the tree."""

    def __init__(self) -> None:
        self._room = Room()

    def child(self, child: Child, component: Any, depth: int) -> SchemaNode:
        """Return the node of the element ``child``; ``component`` is its declaration."""
        xsd = getattr(component, "type", component)
        if not child.repeated:
            return self._build_plan(child.plan, child.name, xsd, component, depth, child)
        item = self._build_plan(child.plan, "", xsd, component, depth + 1, child)
        return SchemaNode(
            kind="array",
            type=f"several {item.type}",
            name=child.name,
            required=child.required,
            description=item.description,
            members=(item,),
        )

    def _build_plan(
        self, plan: ElementPlan, name: str, xsd: Any, component: Any, depth: int, child: Child
    ) -> SchemaNode:
        about = _find_description(component) or _find_description(xsd)
        required = child.required and name != ""
        if isinstance(plan, Value):
            leaf = _build_simple(plan.simple, name=name, required=required, about=about, default=plan.default)
            return replace(leaf, nullable=child.nillable)
        kind = child.type_name or "element"
        node = SchemaNode(
            kind="object", type=kind, name=name, required=required, nullable=child.nillable, description=about
        )
        if not isinstance(plan, ChildrenPlan):
            # Decoded values contain this element as XML text.
            return replace(node, kind="string", type=f"{kind}, as XML", values=(f"<{local_name(child.tag)}/>",))
        if not self._room.take(depth):
            return replace(node, cut=True)
        members = tuple(self._build_members(plan, xsd, depth + 1))
        whole = len(plan.attributes) + (plan.value is not None) + len(plan.children)
        return replace(node, members=members, cut=len(members) < whole)

    def _build_members(self, plan: ChildrenPlan, xsd: Any, depth: int) -> list[SchemaNode]:
        content: Any = getattr(xsd, "content", None)
        elements = {part.name: part for part in content.iter_elements()} if hasattr(content, "iter_elements") else {}
        declared = getattr(xsd, "attributes", {})
        members = [
            _build_simple(
                part.simple,
                about=_find_description(declared.get(part.tag)),
                name=part.name,
                required=part.required,
                default=part.default,
            )
            for part in plan.attributes
        ]
        if plan.value is not None:
            members.append(_build_simple(plan.value.simple, name="$", required=True, default=plan.value.default))
        children = self._room.share(plan.children)
        return members + [self.child(part, elements.get(part.tag), depth) for part in children]


def _build_simple(
    simple: Simple,
    *,
    name: str,
    required: bool,
    about: str = "",
    default: str | None = None,
) -> SchemaNode:
    xsd = simple.type
    kind = _NODE_KINDS.get(simple.coding, "string")
    listed = [str(text) for text in xsd.enumeration or ()][:20]
    values: tuple[Any, ...] = tuple(simple.read(text) for text in listed)
    # In decoded values, decimals with unlimited digits are text, like times.
    value_kind = "decimal" if getattr(xsd.root_type, "local_name", "") == "decimal" else simple.kind
    if not values and kind == "string" and value_kind in _EXAMPLE_TEXTS:
        values = (_EXAMPLE_TEXTS[value_kind],)
    node = SchemaNode(
        kind=kind,
        type=xsd.local_name or xsd.root_type.local_name or simple.kind,
        name="" if simple.is_list else name,
        required=required,
        description=about or _find_description(xsd),
        constraints=tuple(_list_constraints(xsd, listed, default)),
        values=() if simple.is_list else values,
    )
    if not simple.is_list:
        return node
    return SchemaNode(kind="array", type=f"list of {node.type}", name=name, required=required, members=(node,))


def _list_constraints(xsd: Any, listed: list[str], default: str | None) -> list[tuple[str, str]]:
    limits = [("one of", ", ".join(listed))] if listed else []
    for name, attribute in _FACETS:
        value = getattr(xsd, attribute, None)
        # The bounds of a built-in type are implied by its name.
        if value is not None and not isinstance(xsd, XsdAtomicBuiltin):
            limits.append((name, format_text(str(value))))
    patterns = getattr(xsd, "patterns", None)
    if patterns is not None and not isinstance(xsd, XsdAtomicBuiltin):
        limits += [("pattern", format_text(pattern)) for pattern in patterns.regexps]
    return [*limits, ("default", format_text(default))] if default is not None else limits


def _find_description(component: Any) -> str:
    annotation = getattr(component, "annotation", None)
    return "" if annotation is None else format_text(" ".join(str(annotation).split()))
