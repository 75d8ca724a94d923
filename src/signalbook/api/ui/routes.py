"""The explorer's pages and their paths. Pages of entities have the API's paths below ``/ui``; all other paths begin
with ``-``.

No Group type begins with a dash, so these paths never collide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.routing import Route

from signalbook.api.impact import ImpactAPI
from signalbook.api.kernel.routing import Kernel
from signalbook.api.ui import (
    assets,
    changes,
    comparison,
    entities,
    home,
    listing,
    messages,
    pipelines,
    relations,
    schemas,
    searching,
    subscriptions,
)
from signalbook.api.ui.definitions import is_message
from signalbook.api.ui.editing import Editing
from signalbook.api.ui.formtokens import FormTokens
from signalbook.api.ui.impact import ImpactPages
from signalbook.api.ui.login import LoginPages
from signalbook.api.ui.pages import PATH, Page, PageFunction, Pages, ReadPage, UIRequest
from signalbook.api.ui.trying import Trying
from signalbook.api.xregistry.requests import check_path, explain_missing_entity, parse_path
from signalbook.engine.read.view import View
from signalbook.errors import RegistryError
from signalbook.events.subscriptions.store import SubscriptionStore
from signalbook.pipeline_reports import PipelineReports
from signalbook.settings import SettingError
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Kind, Xid

OTHERS: Final[dict[str, PageFunction]] = {
    f"{PATH}{comparison.PATH}": comparison.page,
    changes.CHANGES: changes.page,
    searching.SEARCH: searching.page,
}
"""The pages that read the registry but belong to no single entity, by their paths."""


def routes(
    kernel: Kernel, reports: PipelineReports, stored: SubscriptionStore, replication: Callable[[], JSONObject]
) -> list[Route]:
    """Return all routes, none if the setting ``ui`` is off. Raises ``SettingError`` for other values."""
    if kernel.settings.ui not in ("on", "off"):
        raise SettingError(f"ui is on or off, not {kernel.settings.ui!r}")
    if kernel.settings.ui == "off":
        return []
    pages, tokens = Pages(kernel.settings), FormTokens(kernel)
    entity = ReadPage(kernel, pages, registry_page)
    return [
        *assets.routes(kernel),
        *(Route(path, ReadPage(kernel, pages, page)) for path, page in OTHERS.items()),
        Route(f"{PATH}{relations.RELATIONS}/{{path:any}}", ReadPage(kernel, pages, relations.page)),
        *Trying(kernel, pages, tokens).routes(),
        *Editing(kernel, pages, tokens).routes(),
        *LoginPages(kernel, pages, tokens).routes(),
        *ImpactPages(kernel, pages, tokens, ImpactAPI(kernel, reports, stored)).routes(),
        *pipelines.PipelinePages(kernel, pages, reports).routes(),
        *subscriptions.SubscriptionPages(kernel, pages, stored, replication).routes(),
        Route(PATH, entity),
        Route(f"{PATH}/{{path:any}}", entity),
    ]


def page_of(view: View, target: Xid) -> Callable[[View, UIRequest, Xid], Page]:
    """Return the function that makes the page of an entity or a collection."""
    if target.is_collection:
        return listing.page
    if is_message(view, target) and view.find_dangling_xref(target) is None:
        return messages.page
    documented = target.kind in (Kind.RESOURCE, Kind.VERSION) and view.model.documented_type(target) is not None
    return schemas.page if documented else entities.page


def registry_page(view: View, request: UIRequest) -> Page:
    """Return the page of the Registry, of an entity or of a collection. Raises ``not_found`` and ``malformed_id``."""
    path = parse_path(request.path)
    check_path(path, view.model)
    target = path.target
    if path.name or path.short is not None:
        raise RegistryError("not_found", subject=path.text)
    if target == ROOT:
        return home.page(view, request)
    try:
        return page_of(view, target)(view, request, target)
    except RegistryError as error:
        if error.code == "not_found" and not error.detail:
            error.detail = explain_missing_entity(target, view)
        raise
