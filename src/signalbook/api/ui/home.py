"""The first page: a description of the registry, its contents, the latest changes, and links to other pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from signalbook.api.ui.attributes import AttributeValues, Shown, moment
from signalbook.api.ui.pages import Page, UIRequest
from signalbook.engine.read.view import View, ViewOptions
from signalbook.storage.base import Row
from signalbook.storage.outbox import Record
from signalbook.xid import ROOT, Kind, Xid

_CHANGES: Final = 15
_MAX_DESCRIPTION_CHARS: Final = 2000
_MAX_NAME_CHARS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTypeCount:
    """A Group type with its number of Groups, and the numbers of their members."""

    plural: str
    singular: str
    description: str
    count: int
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLine:
    """A change: its time, action, entity, and author; the author is empty for callers that cannot read the audit log.

    ``position`` is its position in the change feed. ``name`` is the entity's name, if any. ``href`` is empty if the
    entity does not exist any more.
    """

    position: int
    when: Shown
    verb: str
    entity: str
    xid: str
    name: str
    href: str
    who: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeContent:
    """The registry itself, its Group types and its latest changes."""

    name: str
    id: str
    description: str
    documentation: Shown | None
    epoch: int
    kinds: tuple[GroupTypeCount, ...]
    changes: tuple[ChangeLine, ...]


def page(view: View, request: UIRequest) -> Page:
    """Return the page of the Registry."""
    registry = view.render_entity(ROOT, ViewOptions(base_url=request.base_url))
    values = AttributeValues(model=view.model, root=request.base_url)
    name = str(registry.get("name") or registry["registryid"])[:200]
    documentation = registry.get("documentation")
    content = HomeContent(
        name=name,
        id=str(registry["registryid"]),
        description=str(registry.get("description", ""))[:_MAX_DESCRIPTION_CHARS],
        documentation=values.render(documentation, view.model.attributes["documentation"]) if documentation else None,
        epoch=registry["epoch"],
        kinds=tuple(_list_kinds(view, registry)),
        changes=build_change_lines(view, view.list_latest(_CHANGES)),
    )
    return Page(template="home.html", title=name, content=content)


def _list_kinds(view: View, registry: dict[str, object]) -> Iterator[GroupTypeCount]:
    for plural, kind in view.model.groups.items():
        count = registry.get(f"{plural}count", 0)
        yield GroupTypeCount(
            plural=plural,
            singular=kind.singular,
            description=str(kind.document.get("description", "")),
            count=count if isinstance(count, int) else 0,
            resources=tuple(kind.resources),
        )


def build_change_lines(view: View, records: Sequence[Record]) -> tuple[ChangeLine, ...]:
    """Return the lines of the change feed. Only existing entities are links."""
    xids = [Xid.parse(record.change["xid"]) for record in records]
    there = view.reader.get_many({_find_stored_xid(xid) for xid in xids})
    # A Resource has the name of its default Version.
    default_versions = {
        xid: xid / "versions" / row.defaultversionid for xid, row in there.items() if row.defaultversionid
    }
    rows = {**there, **view.reader.get_many(set(default_versions.values()) - set(there))}
    who = view.find_authors(records)
    return tuple(
        ChangeLine(
            position=record.position,
            when=moment(record.time.strftime("%Y-%m-%dT%H:%M:%SZ")),
            verb=str(record.change["action"]),
            entity=str(record.change["entity"]),
            xid=str(xid),
            name=_read_name(rows.get(default_versions.get(_find_stored_xid(xid), _find_stored_xid(xid)))),
            href=str(xid) if _find_stored_xid(xid) in there and xid.parts else "",
            who=who.get(record.correlationid, "")[:_MAX_NAME_CHARS],
        )
        for record, xid in zip(records, xids, strict=True)
    )


def _find_stored_xid(xid: Xid) -> Xid:
    """Return the xid of the stored entity: for a meta, the xid of its Resource."""
    return xid.resource if xid.kind is Kind.META else xid


def _read_name(row: Row | None) -> str:
    return "" if row is None else str(row.attributes.get("name") or "")[:_MAX_NAME_CHARS]
