"""The first page: what the registry contains, what needs attention, its pipelines, and the changes of a week."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlencode

from signalbook.access.base import Action
from signalbook.api.pipelines import can_read_reports
from signalbook.api.ui.attributes import AttributeValues, Shown
from signalbook.api.ui.changes import RequestLine, list_week
from signalbook.api.ui.flow import Flow, build_flow
from signalbook.api.ui.listing import ENDPOINTS
from signalbook.api.ui.pages import Page, UIRequest
from signalbook.api.ui.pipelinestatus import PipelineLine, build_line
from signalbook.engine.read.overview import MAX_GROUPS, Definition, Overview, Owner, read_overview
from signalbook.engine.read.view import View, ViewOptions
from signalbook.pipeline_reports import list_visible_pipelines
from signalbook.values import format_count, now
from signalbook.xid import ROOT

_MAX_DESCRIPTION_CHARS: Final = 2000
_MAX_NAME_CHARS: Final = 200
_PIPELINES: Final = 100
"""The number of pipelines whose status is counted."""
_SHOWN_PIPELINES: Final = 8
_SHOWN_DEFINITIONS: Final = 6
_SHOWN_OWNERS: Final = 12
_STATUSES: Final = ("failing", "late", "ok")
"""All statuses of pipelines, those that need attention first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A number of entities, their ``name`` in the plural or singular, and where they are. ``more`` means at least."""

    number: int
    more: bool
    name: str
    href: str
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionList:
    """The first of some definitions, with the number of all of them."""

    lines: tuple[tuple[str, str], ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerLine:
    """An owner with the numbers of Groups, each with a link to them."""

    name: str
    groups: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeContent:
    """The registry itself and all parts of its page.

    ``guide`` is True if there is nothing yet and the caller may change that. If ``statuses_cut``, there are more
    pipelines than ``statuses`` count. If not ``complete``, not all definitions were read for ``deprecated`` and
    ``unused``. If ``owners_cut``, not all Groups were read for ``owners``.
    """

    name: str
    description: str
    documentation: Shown | None
    tiles: tuple[Tile, ...]
    guide: bool
    pipelines: tuple[PipelineLine, ...]
    statuses: tuple[tuple[str, int], ...]
    statuses_cut: bool
    more_pipelines: bool
    requests: tuple[RequestLine, ...]
    more_requests: bool
    deprecated: DefinitionList
    unused: DefinitionList
    complete: bool
    owners: tuple[OwnerLine, ...]
    more_owners: int
    owners_cut: bool
    flow: Flow | None


def page(view: View, request: UIRequest) -> Page:
    """Return the page of the Registry."""
    registry = view.render_entity(ROOT, ViewOptions(base_url=request.base_url))
    values = AttributeValues(model=view.model, root=request.base_url)
    name = str(registry.get("name") or registry["registryid"])[:_MAX_NAME_CHARS]
    documentation = registry.get("documentation")
    overview, at = read_overview(view), now()
    pipelines = list_visible_pipelines(view.reports, "", _PIPELINES + 1, partial(can_read_reports, view.access))
    lines = [build_line(pipeline, request.settings, at) for pipeline in pipelines[:_PIPELINES]]
    statuses = Counter(line.status for line in lines)
    requests, more_requests = list_week(view, at)
    content = HomeContent(
        name=name,
        description=str(registry.get("description", ""))[:_MAX_DESCRIPTION_CHARS],
        documentation=values.render(documentation, view.model.attributes["documentation"]) if documentation else None,
        tiles=tuple(_list_tiles(view, overview)),
        guide=not any(overview.groups.values()) and view.access.allows_somewhere(Action.CREATE),
        pipelines=tuple(sorted(lines, key=lambda line: _STATUSES.index(line.status))[:_SHOWN_PIPELINES]),
        statuses=tuple((status, statuses[status]) for status in _STATUSES if statuses[status]),
        statuses_cut=len(pipelines) > _PIPELINES,
        more_pipelines=len(pipelines) > _SHOWN_PIPELINES,
        requests=requests,
        more_requests=more_requests,
        deprecated=_list_definitions(overview.deprecated),
        unused=_list_definitions(overview.unused),
        complete=overview.complete,
        owners=tuple(_build_owner(view, owner) for owner in overview.owners[:_SHOWN_OWNERS]),
        more_owners=len(overview.owners[_SHOWN_OWNERS:]),
        owners_cut=any(number > MAX_GROUPS for number in overview.groups.values()),
        flow=build_flow(view, request, at),
    )
    return Page(template="home.html", title=name, content=content, live=True)


def _list_tiles(view: View, overview: Overview) -> Iterator[Tile]:
    """Yield the numbers of Resources by type, and of Groups that are of interest themselves."""
    group_types: dict[str, list[str]] = {}
    for group_type, kind in view.model.groups.items():
        for plural in kind.resources:
            group_types.setdefault(plural, []).append(group_type)
    for plural, owners in group_types.items():
        numbers = {owner: overview.resources.get((owner, plural), 0) for owner in owners}
        # Endpoints may have messages, too, but most messages are in groups of messages.
        main_type = max(owners, key=lambda owner: (owner != ENDPOINTS, overview.groups.get(owner, 0)))
        singular = view.model.groups[main_type].resources[plural].singular
        groups = _count_groups(view, main_type, overview.groups.get(main_type, 0))
        total = sum(numbers.values())
        name = singular if total == 1 else plural
        yield Tile(number=total, more=not overview.counted, name=name, href=f"/{main_type}", about=f"in {groups}")
    for plural, kind in view.model.groups.items():
        if plural == ENDPOINTS or not kind.resources:
            number = overview.groups.get(plural, 0)
            name = kind.singular if number == 1 else plural
            yield Tile(number=number, more=False, name=name, href=f"/{plural}", about="")


def _count_groups(view: View, plural: str, number: int) -> str:
    return format_count(number, view.model.groups[plural].singular, plural)


def _list_definitions(definitions: Sequence[Definition]) -> DefinitionList:
    lines = ((str(item.xid), (item.name or item.xid.id)[:_MAX_NAME_CHARS]) for item in definitions[:_SHOWN_DEFINITIONS])
    return DefinitionList(lines=tuple(lines), total=len(definitions))


def _build_owner(view: View, owner: Owner) -> OwnerLine:
    query = urlencode({"label": f"{owner.label}={owner.value}"})
    return OwnerLine(
        name=owner.value,
        groups=tuple((_count_groups(view, plural, number), f"/{plural}?{query}") for plural, number in owner.groups),
    )
