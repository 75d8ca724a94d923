"""The page of a Resource or Version with a document: the fields that the document describes as a tree, and its text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

from markupsafe import escape

from signalbook.api.ui.definitions import RegistryDefinitions
from signalbook.api.ui.entities import EntityContent, build_entity_content
from signalbook.api.ui.pages import Page, UIRequest, build_crumbs
from signalbook.engine.read.view import View
from signalbook.formats.base import SchemaError, find, format_pointer
from signalbook.formats.compatibility import SchemaText
from signalbook.formats.tree import Described, Manifold, SchemaNode
from signalbook.messages.message import Reason
from signalbook.values import Finding
from signalbook.work import OutOfTime, TooComplex, Work
from signalbook.xid import Xid

STEPS: Final = 2 * 1024 * 1024
"""The bytes of schemas that may be read for one page."""
TREE_BYTES: Final = 80_000
"""The maximum bytes of a tree in a page."""
_MAX_NODE_CHARS: Final = 400
_MOST_FINDINGS: Final = 20
_MOST_TYPES: Final = 50
_WORK_SECONDS: Final = 3.0
_NODE_BYTES: Final = 150
_PAGE_BYTES: Final = 140_000
"""The size of a tree and a document together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldsContent:
    """The trees of a document's types, or in ``missing`` the reason why there are none."""

    trees: tuple[SchemaNode, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaContent:
    """The content of the page. ``entity`` is the content that all entities have; ``fields`` is None for unknown
    formats."""

    entity: EntityContent
    fields: FieldsContent | None


def page(view: View, request: UIRequest, xid: Xid) -> Page:
    """Return the page of a Resource or Version that may have a document."""
    entity = build_entity_content(view, request, xid)
    room = TREE_BYTES
    if entity.document is not None:
        room = min(room, _PAGE_BYTES - len(entity.document.markup.encode("utf-8", "replace")))
    fields = _build_fields(view, request, xid, room) if entity.document is not None and entity.document.size else None
    content = SchemaContent(entity=entity, fields=fields)
    return Page(template="fields.html", title=entity.heading.title, content=content, crumbs=build_crumbs(xid))


def limit_work() -> Work:
    """Return the work that the schemas of a page may take."""
    return Work(steps=STEPS, seconds=_WORK_SECONDS)


def describe_too_large(subject: str) -> str:
    """Return the text for too much work."""
    return f"{subject} more than {STEPS} bytes together: here they are not read."


def _build_fields(view: View, request: UIRequest, xid: Xid, room: int) -> FieldsContent | None:
    definitions = RegistryDefinitions(view=view, root=request.base_url)
    schemas = definitions.schemas()
    try:
        with limit_work().on_the_spot():
            use = schemas.of_definition({"dataschemaxid": str(xid)})
            several = _list_types(definitions, xid) if any(finding.rule == "link" for finding in use.findings) else ()
            uses = [schemas.of_definition({"dataschemaxid": f"{xid}#{name}"}) for name in several] or [use]
            trees = [tree for schema_use in uses if (tree := _build_tree(schema_use.schema)) is not None]
    except (TooComplex, OutOfTime):
        return FieldsContent(missing=(describe_too_large("It and the schemas that it uses have"),))
    if trees:
        remaining_room, taken = [room], {make_field_id("")}
        fitting = (take_fitting(tree, remaining_room, (), taken) for tree in trees if remaining_room[0] > 0)
        return FieldsContent(trees=tuple(fitting))
    if use.reason is Reason.CONTRACT_UNAVAILABLE:
        return FieldsContent(missing=tuple(format_finding(finding) for finding in use.findings[:_MOST_FINDINGS]))
    return None


def _list_types(definitions: RegistryDefinitions, xid: Xid) -> tuple[str, ...]:
    """Return the names of the types in a document that has several."""
    document = definitions.schema(str(xid))
    schema_format: object = None if document is None else find(document.format)
    if document is None or not isinstance(schema_format, Manifold):
        return ()
    text = SchemaText(
        document=document.content, format=document.format, resolve=lambda name: definitions.referred(name, document.xid)
    )
    try:
        return schema_format.message_types(text)[:_MOST_TYPES]
    except SchemaError:
        return ()


def _build_tree(schema: object) -> SchemaNode | None:
    return schema.tree() if isinstance(schema, Described) else None


def make_field_id(path: str) -> str:
    """Return the id of the field at a path such as ``/items/*/sku`` on the page of its message or schema."""
    return f"field{quote(path, safe='/*~')}"


def take_fitting(
    node: SchemaNode, room: list[int], path: tuple[str, ...] = (), taken: set[str] | None = None
) -> SchemaNode:
    """Return as much of a tree as fits into ``room`` (bytes of a page), and subtract its size from ``room``.

    ``path`` is the place of the node. Of several nodes at one place, such as the branches of a choice, the first gets
    the anchor. ``taken`` are the anchors of the page so far.
    """
    taken = {make_field_id("")} if taken is None else taken
    anchor = make_field_id(format_pointer(path))
    anchor = "" if anchor in taken else anchor
    taken.add(anchor)
    texts = (node.name, node.type, node.description, *(text for pair in node.constraints for text in pair))
    room[0] -= _NODE_BYTES + len(anchor) + sum(len(escape(text[:_MAX_NODE_CHARS])) for text in texts)
    members = []
    for member in node.members:
        if room[0] <= 0:
            break
        step = (member.name,) if member.name else ("*",) * (node.kind in ("array", "map"))
        members.append(take_fitting(member, room, (*path, *step), taken))
    bounds = tuple((name, text[:_MAX_NODE_CHARS]) for name, text in node.constraints)
    cut = node.cut or len(members) < len(node.members)
    name = node.name[:_MAX_NODE_CHARS]
    return replace(node, name=name, constraints=bounds, members=tuple(members), cut=cut, anchor=anchor)


def format_finding(finding: Finding) -> str:
    """Return a finding of a schema as a line."""
    return f"{finding.path}: {finding.message}" if finding.path else finding.message
