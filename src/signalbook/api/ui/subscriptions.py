"""The page of subscriptions: their deliveries, and the registries that are copied from. It shows no secrets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlencode, urlsplit

from starlette.routing import Route

from signalbook.access.base import Action
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.requests import HTTPRequest
from signalbook.api.kernel.responses import Response
from signalbook.api.kernel.routing import Kernel
from signalbook.api.ui.attributes import Shown, moment
from signalbook.api.ui.charts import format_number
from signalbook.api.ui.pages import PATH, Crumb, FormPage, Page, Pages
from signalbook.errors import RegistryError
from signalbook.events.subscriptions.store import ShownSubscription, SubscriptionStore, is_id
from signalbook.values import JSONObject, dump_json
from signalbook.xid import ROOT

SUBSCRIPTIONS: Final = "/-/subscriptions"
_PAGE_LINES: Final = 50
_MAX_CELL_CHARS: Final = 300
_PEERS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLine:
    """A subscription: its filter, its sink, and the state of its deliveries. ``href`` is its JSON."""

    id: str
    href: str
    sink: str
    wants: tuple[str, ...]
    state: str
    delivered: str
    rejected: str
    last: Shown | None
    trouble: str
    next: Shown | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLine:
    """A registry that is copied from or to: its progress, or its error."""

    url: str
    direction: str
    done: str
    error: str
    since: Shown | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionsContent:
    """Subscriptions in order of creation, and ``peers`` for callers that may list everything."""

    lines: tuple[SubscriptionLine, ...]
    peers: tuple[PeerLine, ...]
    next: str


class SubscriptionPages:
    """``/ui/-/subscriptions``, for callers that may subscribe. They see their own subscriptions, administrators all."""

    def __init__(
        self, kernel: Kernel, pages: Pages, stored: SubscriptionStore, replication: Callable[[], JSONObject]
    ) -> None:
        self._kernel = kernel
        self._pages = pages
        self._stored = stored
        self._replication = replication

    def routes(self) -> list[Route]:
        handlers = {"GET": self._list}
        endpoint = FormPage(handlers, self._kernel, self._pages, needs=Action.SUBSCRIBE)
        return [Route(f"{PATH}{SUBSCRIPTIONS}", endpoint)]

    async def _list(self, request: HTTPRequest) -> Response:
        after = request.query.get("after", "")
        if after and not is_id(after):
            raise RegistryError(
                "bad_request", subject=request.path, error_detail='"after" is from no link of this page'
            )
        ask = partial(self._stored.page, after, _PAGE_LINES + 1, by=request.access)
        entries = await self._kernel.workers.read(ask)
        content = SubscriptionsContent(
            lines=tuple(map(_build_line, entries[:_PAGE_LINES])),
            peers=_list_peers(self._replication()) if request.access.allows_everything_below(Action.LIST, ROOT) else (),
            next=f"{SUBSCRIPTIONS}?{urlencode({'after': entries[_PAGE_LINES - 1].subscription.id})}"
            if len(entries) > _PAGE_LINES
            else "",
        )
        way = (Crumb(text="Registry", href=""), Crumb(text="subscriptions"))
        page = Page(template="subscriptions.html", title="Subscriptions", content=content, crumbs=way)
        return self._pages.build_response(page, request.root, NO_STORE)


def _build_line(entry: ShownSubscription) -> SubscriptionLine:
    subscription, state = entry.subscription, entry.state
    wants = [*subscription.types, *(dump_json(expression).decode() for expression in subscription.filters)]
    return SubscriptionLine(
        id=subscription.id,
        href=f"/subscriptions/{subscription.id}",
        sink=_hide_secrets(subscription.sink),
        wants=tuple(text[:_MAX_CELL_CHARS] for text in wants[:5]),
        state=state.state,
        delivered=format_number(state.delivered),
        rejected=format_number(state.rejected),
        last=moment(state.lastdelivery) if state.lastdelivery else None,
        trouble=state.lasterror[:_MAX_CELL_CHARS],
        next=moment(state.next) if state.next else None,
    )


def _hide_secrets(sink: str) -> str:
    """Return a sink without parts that may be secret: credentials and query."""
    try:
        parts = urlsplit(sink)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return ""
    return (
        f"{parts.scheme}://{host}{parts.path}"[:_MAX_CELL_CHARS]
        if host
        else f"{parts.scheme}:{parts.path}"[:_MAX_CELL_CHARS]
    )


def _list_peers(status: JSONObject) -> tuple[PeerLine, ...]:
    lines = []
    for direction in ("sources", "targets"):
        for url, state in list(status.get(direction, {}).items())[:_PEERS]:
            outcomes = [
                f"{outcome} {format_number(sum(kinds.values()))}"
                for outcome, kinds in state.items()
                if isinstance(kinds, dict) and kinds
            ]
            since = str(state.get("since", ""))
            lines.append(
                PeerLine(
                    url=_hide_secrets(url),
                    direction=direction.removesuffix("s"),
                    done=", ".join(outcomes),
                    error=str(state.get("error", ""))[:_MAX_CELL_CHARS],
                    since=moment(since) if since else None,
                )
            )
    return tuple(lines)
