"""JSON Schemas as trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from signalbook.formats.jsonschema.document import JsonSchemaDocument, find_fragment, lookup, resolve_uri
from signalbook.formats.tree import Kind, Room, SchemaNode, format_text, list_json_constraints, take_first
from signalbook.values import JSON, JSONObject

_BOUNDS: Final = (
    "const", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
    "contentEncoding", "contentMediaType", "default",
)  # fmt: skip
_NODE_KINDS: Final[dict[str, Kind]] = {
    "object": "object",
    "array": "array",
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}
_IMPLIED: Final = {"properties": "object", "additionalProperties": "object", "items": "array", "pattern": "string"}
_PARTS: Final = ("oneOf", "anyOf")


def make_tree(document: JsonSchemaDocument, uri: str) -> SchemaNode:
    """Return the tree of the schema at ``uri``, with references replaced by their targets."""
    base, _, fragment = uri.partition("#")
    return _Tree(document).node(lookup(document.documents.get(base, True), find_fragment(f"#{fragment}")), base, "", ())


class _Tree:
    """Builds one tree. A reference to a schema that contains it is not expanded."""

    def __init__(self, document: JsonSchemaDocument) -> None:
        self._document = document
        self._room = Room()

    def node(self, schema: JSON, base: str, name: str, above: tuple[str, ...], *, required: bool = False) -> SchemaNode:
        """Return the node of ``schema`` in the document ``base``; ``above`` are the references that
        were followed to it.
        """
        merged, base, above, whole = self._merge(schema, base, above)
        kinds = _list_types(merged)
        kind: Kind = next(
            (_NODE_KINDS[type_name] for type_name in kinds if type_name != "null" and type_name in _NODE_KINDS), "any"
        )
        if kinds == ["null"]:
            kind = "null"
        members: tuple[SchemaNode, ...] = ()
        cut = not whole or not self._room.take(len(above))
        if not cut:
            kind, members, cut = self._build_members(merged, kind, base, above)
        return SchemaNode(
            kind=kind,
            type=_describe_type(merged, kinds, kind),
            name=name,
            required=required,
            nullable="null" in kinds and kind != "null",
            description=format_text(merged.get("description") or merged.get("title") or ""),
            constraints=list_json_constraints(merged, _BOUNDS),
            values=_list_values(merged),
            members=members,
            cut=cut,
        )

    def _merge(self, schema: JSON, base: str, above: tuple[str, ...]) -> tuple[JSONObject, str, tuple[str, ...], bool]:
        """Return ``schema`` merged with its reference's target and all parts of its ``allOf``.

        The other results are its base, the followed references, and False if a reference leads back to itself.
        """
        result: JSONObject = dict(schema) if isinstance(schema, dict) else {}
        whole = True
        reference = result.pop("$ref", None)
        if isinstance(reference, str):
            target = f"{resolve_uri(base, reference)}#{find_fragment(reference)}"
            if target in above:
                return result, base, above, False
            above = (*above, target)
            there, fragment = resolve_uri(base, reference), find_fragment(reference)
            referred = self._look_up(there, fragment)
            more, base, above, whole = self._merge(referred, there, above)
            result = _join_schemas(more, result)
        for part in result.pop("allOf", ()) if isinstance(result.get("allOf"), list) else ():
            more, _, above, complete = self._merge(part, base, above)
            result, whole = _join_schemas(result, more), whole and complete
        return result, base, above, whole

    def _look_up(self, document: str, fragment: str) -> JSON:
        root = self._document.documents.get(document, {})
        if fragment and not fragment.startswith("/"):  # an anchor, which only the validator can resolve
            return {"description": f"as {fragment} says"}
        return lookup(root, fragment)

    def _build_members(
        self, schema: JSONObject, kind: Kind, base: str, above: tuple[str, ...]
    ) -> tuple[Kind, tuple[SchemaNode, ...], bool]:
        """Return the kind of a schema, its members, and True if there was no room for some of the members."""
        for part in _PARTS:
            branches = schema.get(part)
            if isinstance(branches, list) and kind in ("any", "object") and not schema.get("properties"):
                return "choice", *self._build_parts(branches, base, above)
        if kind == "object":
            return self._build_object(schema, base, above)
        if kind == "array":
            return kind, *self._build_parts(_list_items(schema), base, above)
        return kind, (), False

    def _build_parts(
        self, schemas: list[JSON], base: str, above: tuple[str, ...]
    ) -> tuple[tuple[SchemaNode, ...], bool]:
        nodes = tuple(self.node(schema, base, "", (*above, "")) for schema in self._room.share(schemas))
        return nodes, len(nodes) < len(schemas)

    def _build_object(
        self, schema: JSONObject, base: str, above: tuple[str, ...]
    ) -> tuple[Kind, tuple[SchemaNode, ...], bool]:
        properties = schema.get("properties")
        needed = schema.get("required")
        required = (
            set(needed) if isinstance(needed, list) and all(isinstance(member, str) for member in needed) else set()
        )
        if isinstance(properties, dict) and properties:
            members = tuple(
                self.node(member, base, name, (*above, ""), required=name in required)
                for name, member in self._room.share(list(properties.items()))
            )
            return "object", members, len(members) < len(properties)
        value = schema.get("additionalProperties")
        if isinstance(value, dict):
            return "map", (self.node(value, base, "", (*above, "")),), False
        return (
            "object",
            tuple(SchemaNode(kind="any", type="any", name=name, required=True) for name in sorted(required)),
            False,
        )


def _join_schemas(a: JSONObject, b: JSONObject) -> JSONObject:
    """Merge two schemas that both apply. The second one takes precedence where both have a keyword."""
    result = {**a, **b}
    if isinstance(a.get("properties"), dict) and isinstance(b.get("properties"), dict):
        result["properties"] = {**a["properties"], **b["properties"]}
    if isinstance(a.get("required"), list) and isinstance(b.get("required"), list):
        result["required"] = [*a["required"], *b["required"]]
    return result


def _list_types(schema: JSONObject) -> list[str]:
    kind = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list):
        return [type_name for type_name in kind if isinstance(type_name, str)]
    return next(([kind] for name, kind in _IMPLIED.items() if name in schema), [])


def _describe_type(schema: JSONObject, kinds: list[str], kind: Kind) -> str:
    if kind == "choice":
        return "one of" if "oneOf" in schema else "any of"
    if "enum" in schema and not kinds:
        return "enum"
    if "const" in schema and not kinds:
        return "constant"
    # Null is left out, because ``nullable`` of the node states it.
    return " or ".join(name for name in kinds if name != "null" or kind == "null") or "any"


def _list_items(schema: JSONObject) -> list[JSON]:
    items = schema.get("items")
    several = schema.get("prefixItems", items)
    if isinstance(several, list):
        return several
    return [items] if isinstance(items, (dict, bool)) else []


def _list_values(schema: Mapping[str, JSON]) -> tuple[JSON, ...]:
    for name in ("const", "default", "example"):
        if name in schema:
            return (schema[name],)
    return take_first(schema.get("examples")) or take_first(schema.get("enum"))
