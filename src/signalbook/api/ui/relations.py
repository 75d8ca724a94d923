"""The relations around an entity, as a graph and as a table with the same content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from signalbook.api.kernel.requests import parse_whole_number
from signalbook.api.ui.entities import build_title
from signalbook.api.ui.graphs import GraphNode, LayeredGraph, build_layered_graph, cut_middle
from signalbook.api.ui.names import find_names
from signalbook.api.ui.pages import Page, UIRequest, build_crumbs, escape_hidden
from signalbook.api.xregistry.requests import check_path, explain_missing_entity, parse_path
from signalbook.engine.read.relations import (
    MAX_STEPS,
    RelatedEntity,
    Relation,
    Relations,
    UnshownEntities,
    find_relations,
)
from signalbook.engine.read.view import View
from signalbook.errors import RegistryError
from signalbook.model import Model
from signalbook.values import format_count
from signalbook.xid import Kind, Xid

RELATIONS: Final = "/-/relations"
_STEPS: Final = 4
_MAX_MARKUP_CHARS: Final = 150_000
"""The maximum characters that the graph and the table may have together."""
_OF_ENTITY: Final = 900
_OF_LINK: Final = 350
_LABEL: Final = 22
_MAX_CELL_CHARS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedLink:
    """A relation of a line: its kind and its target. ``href`` is the target's page if there is one."""

    kind: str
    text: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedLine:
    """An entity with its place, its type, and its relations."""

    text: str
    href: str
    kind: str
    place: str
    links: tuple[RelatedLink, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationsContent:
    """The content of the page. ``group`` is the Group of the entity, if the graph does not show it.

    ``notes`` say what is left out. ``fewer`` and ``more`` are links to the page with fewer and with more ``steps``.
    """

    xid: str
    name: str
    kind: str
    group: str
    graph: LayeredGraph
    lines: tuple[RelatedLine, ...]
    alone: bool
    notes: tuple[str, ...]
    steps: int
    fewer: str
    more: str


def find_entity(view: View, text: str) -> Xid:
    """Return the Group, Resource or Version at a path. Raises ``not_found`` and ``malformed_id``."""
    path = parse_path(text)
    check_path(path, view.model)
    xid = path.target
    if path.name or path.short is not None or xid.kind not in (Kind.GROUP, Kind.RESOURCE, Kind.VERSION):
        detail = "groups, resources and versions have such a page"
        raise RegistryError("not_found", subject=path.text, detail=detail)
    if detail := explain_missing_entity(xid, view):
        raise RegistryError("not_found", subject=path.text, detail=detail)
    return xid


def page(view: View, request: UIRequest) -> Page:
    """Return the page of the relations around an entity. Raises ``bad_request`` and ``not_found``."""
    xid = find_entity(view, request.path.removeprefix(RELATIONS))
    steps = _read_steps(request)
    entity_relations = find_relations(view, xid, request.base_url, steps)
    name = build_title(xid, find_names(view, {xid}).get(xid, ""))
    content = _build_relations_content(view.model, entity_relations, steps, name)
    return Page(
        template="relations.html",
        title=f"Relations of {name}",
        content=content,
        crumbs=build_crumbs(xid, "relations"),
    )


def _read_steps(request: UIRequest) -> int:
    text = request.query.get("steps", str(_STEPS))
    number = parse_whole_number(text)
    if number is None:
        detail = f'"steps" takes a whole number from 1, not "{text[:40]}"'
        raise RegistryError("bad_request", subject=request.subject, error_detail=detail)
    return min(number, MAX_STEPS)


def _build_relations_content(model: Model, entity_relations: Relations, steps: int, name: str) -> RelationsContent:
    entities = _take_fitting(entity_relations)
    by_id = {entity.id: entity for entity in entities}
    relations = [
        relation for relation in entity_relations.relations if relation.source in by_id and relation.target in by_id
    ]
    here, owner = f"{RELATIONS}{entity_relations.xid}", str(entity_relations.xid.resource.owner)
    links = [(relation.source, relation.target, relation.kind) for relation in relations]
    return RelationsContent(
        xid=str(entity_relations.xid),
        name=name,
        kind=_find_kind(model, entity_relations.entities[0]),
        group="" if owner in by_id or entity_relations.xid.kind is Kind.GROUP else owner,
        graph=build_layered_graph([_build_node(model, entity) for entity in entities], links),
        lines=tuple(
            _build_line(model, entity, relations, by_id) for entity in sorted(entities, key=lambda entity: entity.steps)
        ),
        alone=len(entity_relations.entities) == 1,
        notes=tuple(_list_notes(entity_relations, len(entity_relations.entities) - len(entities))),
        steps=steps,
        fewer=f"{here}?steps={steps - 1}" if steps > 1 else "",
        more=f"{here}?steps={steps + 1}" if entity_relations.farther and steps < MAX_STEPS else "",
    )


def _take_fitting(entity_relations: Relations) -> list[RelatedEntity]:
    """Return the nearest entities, as many as a page has room for."""
    targets = {entity.id: 0 for entity in entity_relations.entities}
    for relation in entity_relations.relations:
        targets[relation.source] += _OF_LINK + 2 * min(len(relation.target), _MAX_CELL_CHARS)
    room = _MAX_MARKUP_CHARS
    fitting: list[RelatedEntity] = []
    for entity in sorted(entity_relations.entities, key=lambda entity: abs(entity.steps)):
        room -= _OF_ENTITY + 6 * min(len(entity.id), _MAX_CELL_CHARS) + targets[entity.id]
        if fitting and room < 0:
            break
        fitting.append(entity)
    return fitting


def _build_node(model: Model, entity: RelatedEntity) -> GraphNode:
    kind = _find_kind(model, entity)
    label = str(escape_hidden(_build_label(entity)))
    mark = "middle" if entity.steps == 0 else "" if entity.readable else "missing"
    return GraphNode(
        id=entity.id,
        column=entity.steps,
        kind=kind,
        label=cut_middle(label, _LABEL),
        title=entity.id[:_MAX_CELL_CHARS],
        href=f"{RELATIONS}{entity.xid}" if entity.readable and entity.steps else "",
        mark=mark,
    )


def _build_label(entity: RelatedEntity) -> str:
    xid = entity.xid
    if xid is None:
        return entity.id.rpartition("/")[2] or entity.id
    return f"{xid.resource_id} {xid.id}" if xid.kind is Kind.VERSION else xid.id


def _find_kind(model: Model, entity: RelatedEntity) -> str:
    if entity.xid is None:
        return "not here"
    kind = model.resource_type(entity.xid) or model.group_type(entity.xid)
    singular = kind.singular if kind is not None else "entity"
    return f"{singular} version" if entity.xid.kind is Kind.VERSION else singular


def _build_line(
    model: Model, entity: RelatedEntity, relations: Sequence[Relation], by_id: dict[str, RelatedEntity]
) -> RelatedLine:
    links = (
        RelatedLink(
            kind=relation.kind,
            text=_build_label(target)[:_MAX_CELL_CHARS],
            href=str(target.xid) if target.readable else "",
        )
        for relation in relations
        if relation.source == entity.id and (target := by_id[relation.target])
    )
    return RelatedLine(
        text=entity.id[:_MAX_CELL_CHARS],
        href=str(entity.xid) if entity.readable else "",
        kind=_find_kind(model, entity),
        place=_describe_place(entity.steps),
        links=tuple(links),
    )


def _describe_place(steps: int) -> str:
    if steps == 0:
        return "this one"
    number = format_count(abs(steps), "step")
    return f"{number} before it" if steps < 0 else f"{number} behind it"


def _list_notes(entity_relations: Relations, cut: int) -> list[str]:
    notes = [_describe_left_out(part) for part in entity_relations.left_out]
    notes += [f"{format_count(cut, 'more has', 'more have')} no room on this page."] * (cut > 0)
    return notes


def _describe_left_out(part: UnshownEntities) -> str:
    least = "at least " if part.more else ""
    count = format_count(part.entities, "more is", "more are")
    return f"{_describe_place(part.steps).capitalize()}: {least}{count} not shown."
