"""Protobuf message types as trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from signalbook.formats.protobuf.convert import map_value
from signalbook.formats.tree import ONLY_ONE, Kind, Room, SchemaNode, format_text

_GOOGLE: Final = "google.protobuf."
_TYPE_NAMES: Final = {
    number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptor.__dict__.items()
    if name.startswith("TYPE_")
}  # fmt: skip
_NODE_KINDS: Final[dict[str, Kind]] = {
    "double": "number",
    "float": "number",
    "bool": "boolean",
    "string": "string",
    "bytes": "bytes",
    "enum": "string",
}
_WELL_KNOWN_NODES: Final[dict[str, tuple[Kind, tuple[str, ...]]]] = {
    f"{_GOOGLE}Timestamp": ("string", ("2030-01-31T12:00:00Z",)),
    f"{_GOOGLE}Duration": ("string", ("3600s",)),
    f"{_GOOGLE}FieldMask": ("string", ("name",)),
    f"{_GOOGLE}Struct": ("any", ()),
    f"{_GOOGLE}Value": ("any", ()),
    f"{_GOOGLE}ListValue": ("array", ()),
    f"{_GOOGLE}Any": ("any", ()),
}
"""Google's types with their own JSON form, each with its kind and sample values."""


def make_tree(descriptor: Descriptor, comments: Mapping[str, str]) -> SchemaNode:
    """Return the tree of a message type; ``comments`` are the descriptions of fields by full name."""
    return _Tree(comments).message(descriptor, "", ())


class _Tree:
    """Builds one tree; a message type inside itself is not expanded again."""

    def __init__(self, comments: Mapping[str, str]) -> None:
        self._comments = comments
        self._room = Room()

    def message(
        self, descriptor: Descriptor, name: str, above: tuple[str, ...], *, required: bool = False, about: str = ""
    ) -> SchemaNode:
        """Return the node of a message type; ``about`` is its description, ``above`` are the types that contain it."""
        full = descriptor.full_name
        if full in _WELL_KNOWN_NODES:
            kind, values = _WELL_KNOWN_NODES[full]
            return SchemaNode(kind=kind, type=full, name=name, required=required, description=about, values=values)
        cut = full in above or not self._room.take(len(above))
        fields = [] if cut else list(descriptor.fields)
        members = tuple(self._build_field(field, (*above, full)) for field in self._room.share(fields))
        return SchemaNode(
            kind="object",
            type=full,
            name=name,
            required=required,
            description=about,
            members=members,
            cut=cut or len(members) < len(fields),
        )

    def _build_field(self, field: FieldDescriptor, above: tuple[str, ...]) -> SchemaNode:
        about = format_text(self._comments.get(field.full_name, ""))
        entry = map_value(field)
        if entry is not None:
            inner = self._build_single(entry, "", above)
            return SchemaNode(
                kind="map", type=f"map of {inner.type}", name=field.name, description=about, members=(inner,)
            )
        if field.is_repeated:
            inner = self._build_single(field, "", above)
            return SchemaNode(
                kind="array", type=f"repeated {inner.type}", name=field.name, description=about, members=(inner,)
            )
        return self._build_single(field, field.name, above, about)

    def _build_single(self, field: FieldDescriptor, name: str, above: tuple[str, ...], about: str = "") -> SchemaNode:
        if field.message_type is not None:
            return self.message(field.message_type, name, above, required=field.is_required, about=about)
        kind = _TYPE_NAMES[field.type]
        symbols = tuple(value.name for value in field.enum_type.values) if field.enum_type is not None else ()
        oneof = field.containing_oneof
        bounds = [("one of", ", ".join(symbols[:20]))] if symbols else []
        # An optional field in proto3 is in a oneof of its own, which does not need to be shown.
        if oneof is not None and len(oneof.fields) > 1:
            bounds.append((ONLY_ONE, ", ".join(member.name for member in oneof.fields)))
        return SchemaNode(
            kind=_NODE_KINDS.get(kind, "integer"),
            type=field.enum_type.full_name if field.enum_type is not None else kind,
            name=name,
            required=field.is_required,
            description=about,
            constraints=(("number", str(field.number)), *bounds) if name else tuple(bounds),
            values=symbols[:20],
        )
