"""Who is notified of changes and how that goes, and where copies come from. Never a secret."""

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
from signalbook.api.ui.charts import number
from signalbook.api.ui.pages import PATH, Crumb, FormPage, Page, Pages
from signalbook.errors import RegistryError
from signalbook.events.subscriptions.store import ShownSubscription, SubscriptionStore, is_id
from signalbook.values import JSONObject, dump_json
from signalbook.xid import ROOT

SUBSCRIPTIONS: Final = "/-/subscriptions"
_PAGE: Final = 50
_TEXT: Final = 300
_PEERS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLine:
    """A subscription: what it wants, where that goes, and how the deliveries are. ``href`` is it as JSON."""

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
    """A registry that is copied from or to: how much was done, or what keeps it from going on."""

    url: str
    direction: str
    done: str
    error: str
    since: Shown | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionsContent:
    """Subscriptions in the order they were made in, and ``peers``, for who may list everything."""

    lines: tuple[SubscriptionLine, ...]
    peers: tuple[PeerLine, ...]
    next: str


class SubscriptionPages:
    """``/ui/-/subscriptions``; for who may subscribe, who sees his own alone unless he administers the registry."""

    def __init__(
        self, kernel: Kernel, pages: Pages, stored: SubscriptionStore, replication: Callable[[], JSONObject]
    ) -> None:
        self._kernel = kernel
        self._pages = pages
        self._stored = stored
        self._replication = replication

    def routes(self) -> list[Route]:
        """The one path."""
        handlers = {"GET": self._list}
        endpoint = FormPage(handlers, self._kernel, self._pages, needs=Action.SUBSCRIBE)
        return [Route(f"{PATH}{SUBSCRIPTIONS}", endpoint)]

    async def _list(self, request: HTTPRequest) -> Response:
        after = request.query.get("after", "")
        if after and not is_id(after):
            raise RegistryError(
                "bad_request", subject=request.path, error_detail='"after" is from no link of this page'
            )
        ask = partial(self._stored.page, after, _PAGE + 1, by=request.access)
        found = await self._kernel.workers.read(ask)
        content = SubscriptionsContent(
            lines=tuple(map(_line, found[:_PAGE])),
            peers=_peers(self._replication()) if request.access.allows_everything_below(Action.LIST, ROOT) else (),
            next=f"{SUBSCRIPTIONS}?{urlencode({'after': found[_PAGE - 1].subscription.id})}"
            if len(found) > _PAGE
            else "",
        )
        way = (Crumb(text="Registry", href=""), Crumb(text="subscriptions"))
        page = Page(template="subscriptions.html", title="Subscriptions", content=content, crumbs=way)
        return self._pages.response(page, request.root, NO_STORE)


def _line(entry: ShownSubscription) -> SubscriptionLine:
    wanted, state = entry.subscription, entry.state
    wants = [*wanted.types, *(dump_json(expression).decode() for expression in wanted.filters)]
    return SubscriptionLine(
        id=wanted.id,
        href=f"/subscriptions/{wanted.id}",
        sink=_address(wanted.sink),
        wants=tuple(each[:_TEXT] for each in wants[:5]),
        state=state.state,
        delivered=number(state.delivered),
        rejected=number(state.rejected),
        last=moment(state.lastdelivery) if state.lastdelivery else None,
        trouble=state.lasterror[:_TEXT],
        next=moment(state.next) if state.next else None,
    )


def _address(sink: str) -> str:
    """A sink without what may be a secret: who logs in there, and what is asked for."""
    try:
        parts = urlsplit(sink)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return ""
    return f"{parts.scheme}://{host}{parts.path}"[:_TEXT] if host else f"{parts.scheme}:{parts.path}"[:_TEXT]


def _peers(status: JSONObject) -> tuple[PeerLine, ...]:
    lines = []
    for direction in ("sources", "targets"):
        for url, known in list(status.get(direction, {}).items())[:_PEERS]:
            done = [
                f"{outcome} {number(sum(kinds.values()))}"
                for outcome, kinds in known.items()
                if isinstance(kinds, dict) and kinds
            ]
            since = str(known.get("since", ""))
            lines.append(
                PeerLine(
                    url=_address(url),
                    direction=direction.removesuffix("s"),
                    done=", ".join(done),
                    error=str(known.get("error", ""))[:_TEXT],
                    since=moment(since) if since else None,
                )
            )
    return tuple(lines)
