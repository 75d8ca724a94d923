"""JSON Structure types as trees."""

from __future__ import annotations

from typing import Final

from signalbook.formats.jsonstructure.types import Structure, list_required, resolve_type
from signalbook.formats.tree import Kind, Room, SchemaNode, format_text, list_json_constraints, take_first
from signalbook.values import JSON, JSONObject

_INTEGERS: Final = ("int8", "int16", "int32", "uint8", "uint16", "uint32", "integer")
_NUMBERS: Final = ("number", "float", "double", "float8")
_NODE_KINDS: Final[dict[str, Kind]] = {
    "object": "object",
    "array": "array",
    "set": "array",
    "tuple": "array",
    "map": "map",
    "choice": "choice",
    "null": "null",
    "boolean": "boolean",
    "any": "any",
    **dict.fromkeys(_INTEGERS, "integer"),
    **dict.fromkeys(_NUMBERS, "number"),
}
_EXAMPLE_TEXTS: Final = {
    **dict.fromkeys(("int64", "uint64", "int128", "uint128", "decimal"), "1"),
    "uuid": "00000000-0000-4000-8000-000000000000",
    "date": "2030-01-31",
    "datetime": "2030-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "uri": "https://example.com/",
    "binary": "YWJj",
    "jsonpointer": "/a",
}
"""Example texts for types that JSON represents as strings."""
_BOUNDS: Final = (
    "const", "precision", "scale", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "contentEncoding", "contentMediaType", "unit", "default",
)  # fmt: skip

_Part = tuple[JSON, str, bool]
"""The schema of a member, its name, and True if it is required."""


def make_tree(structure: Structure, schema: JSON) -> SchemaNode:
    """Return the tree of a type, with references replaced by their targets and inherited properties included."""
    return _Tree(structure).node(schema, "", ())


class _Tree:
    """Builds one tree; a type inside itself is not expanded again."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._room = Room()

    def node(self, declaration: JSON, name: str, above: tuple[int, ...], *, required: bool = False) -> SchemaNode:
        """Return the node of the type ``declaration``; ``above`` are the types that contain it."""
        stated = declaration if isinstance(declaration, dict) else {}
        kinds = stated.get("type")
        nullable = isinstance(kinds, list) and "null" in kinds
        types = [kind_name for kind_name in kinds if kind_name != "null"] if isinstance(kinds, list) else []
        if len(types) == 1:
            stated = {**stated, "type": types[0]}
        schema = resolve_type(self._structure, stated)
        kind = schema.get("type", "any")
        cut = id(schema) in above or not self._room.take(len(above))
        inside = (*above, id(schema))
        if isinstance(kind, list):
            node_kind: Kind = "choice"
            parts: list[_Part] = [({"type": kind_name}, "", False) for kind_name in types]
        else:
            node_kind = _NODE_KINDS.get(str(kind), "string")
            parts = self._list_parts(schema, str(kind))
        shares = () if cut else self._room.share(parts)
        members = tuple(self.node(part, name, inside, required=needed) for part, name, needed in shares)
        return SchemaNode(
            kind=node_kind,
            type="union" if isinstance(kind, list) else str(kind),
            name=name,
            required=required,
            nullable=nullable,
            description=format_text(stated.get("description") or schema.get("description") or ""),
            constraints=list_json_constraints(schema, _BOUNDS),
            values=_list_values(schema, str(kind)),
            members=members,
            cut=cut or len(members) < len(parts),
        )

    def _list_parts(self, schema: JSONObject, kind: str) -> list[_Part]:
        match kind:
            case "object":
                names = {name for names_set in list_required(self._structure, schema)[:1] for name in names_set}
                properties = self._structure.list_properties(schema)
                return [(part, name, name in names) for name, part in properties.items()]
            case "array" | "set":
                return [(schema.get("items"), "", False)]
            case "map":
                return [(schema.get("values"), "", False)]
            case "tuple":
                properties = self._structure.list_properties(schema)
                return [(properties.get(name), name, False) for name in take_first(schema.get("tuple"))]
            case "choice":
                choices = schema.get("choices")
                return [(part, name, False) for name, part in choices.items()] if isinstance(choices, dict) else []
        return []


def _list_values(schema: JSONObject, kind: str) -> tuple[JSON, ...]:
    if "const" in schema:
        return (schema["const"],)
    examples = take_first(schema.get("examples")) or take_first(schema.get("enum"))
    return examples or ((_EXAMPLE_TEXTS[kind],) if kind in _EXAMPLE_TEXTS else ())
