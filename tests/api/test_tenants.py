"""Crawl every route of two registries that differ only in what is hidden from the caller: all answers are the same.

The routes come from the application itself (``crawling``), so that a new route is crawled or the test fails. What
remains different is documented in ``DIFFERENCES``, ``NUMBERS`` and ``UNCOMPARED``, and in docs/access.md.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import httpx
import pytest
from starlette.routing import Route

from signalbook.api.app import create_app
from signalbook.engine.engine import Engine
from signalbook.model import Model
from signalbook.settings import Settings
from signalbook.storage.store import Store

from .conftest import ADMINISTRATOR, PROXIED, Client, put_policy
from .crawling import Binding, enumerate_paths, fill_path, normalise_path, read_parameters
from .tenants import (
    CALLERS,
    CONFLUENT,
    RULES,
    VISIBLE,
    Request,
    associate,
    bindings_of,
    own_deletions,
    own_writes,
    populate,
    reads,
    writes,
)

# All requests take minutes: CRAWL_SHARE=1 pytest -m merge tests/api/test_tenants.py
SHARE: Final = float(os.environ.get("CRAWL_SHARE", "0.25"))


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of answers that may differ, as a pattern of texts that are replaced before the answers are compared."""

    reason: str
    pattern: str
    replacement: str = ""


DIFFERENCES: Final = (
    Difference(
        "The epoch of a group and of the registry changes with what is hidden in it.",
        r'("xid":"/(?:\w+/[^/"]+)?","epoch":|name="made-from" value="'
        r'|>epoch<(?:(?!<dd>)[\s\S])*<dd>(?:<bdi class="text">)?)\d+',
        r"\1N",
    ),
    Difference(
        "Positions of changes count hidden changes: ids of events, links to them, and how far subscriptions are.",
        r'("specversion":"1.0","id":"|[?&](?:after|before)=|data-(?:after|at)="|"position":)\d+',
        r"\1N",
    ),
    Difference(
        "A group and the registry have an event for each change of what is hidden in them.",
        r'{"specversion":"1.0","id":"N","type":"io\.xregistry\.(?:registry|group)\.updated"[^{}]*(?:{[^{}]*})?[^{}]*},?'
        r'|<li data-at="N">(?:(?!</li>)[\s\S])*verb updated(?:(?!</li>)[\s\S])*>(?:group|registry)</span></li>\s*',
    ),
    Difference(
        "These events take room in the list of the week's changes on the home page.",
        r'(<h2 id="changes">[\s\S]*?<ol class="changes requests">)[\s\S]*?</ol>(?:\s*<p><a[^>]*>All changes</a></p>)?',
        r"\1</ol>",
    ),
)
"""What cannot be hidden, each with the reason. It is documented in docs/access.md."""
NUMBERS: Final = Difference(
    "Numbers of new schemas in the Confluent-compatible API count hidden ones, and a hidden schema's text has one.",
    r'"id":\d+',
    '"id":N',
)
"""What cannot be hidden either, once the caller has added schemas."""
UNCOMPARED: Final = (
    (r"/metrics", "It counts the requests of all callers."),
    (r"/~\d", "Short URLs are numbers of rows, which count hidden entities."),
    (r"/events\?.*limit=", "Events of groups about what is hidden in them take room on a page."),
)
"""Patterns of paths whose answers are not compared: they must not fail, and not name what is hidden."""
NOISE: Final = (
    Difference("the clock", r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?|\b1[6-9]\d{11}\b", "TIME"),
    Difference("minutes on pages", r"(?<=>)\d\d:\d\d(?=</time>)", "TIME"),
    Difference("relative times", r"just now|\d+ (?:s|min) ago", "TIME"),
    Difference("random ids", r"\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{28}|[0-9a-f]{32})\b", "ID"),
    Difference("form tokens", r'name="token" value="[^"]*"', "TOKEN"),
)
"""What differs between any two registries that were written at different times."""
_IGNORED_HEADERS: Final = frozenset({"date", "etag", "content-length", "set-cookie", "last-modified"})
_MAX_SHOWN: Final = 10
_MAX_PAGES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A registry that is served, with all its paths and values for their placeholders."""

    client: Client
    model: Model
    paths: list[str]
    bindings: list[Binding]


@contextmanager
def serve_registry(store: Store, *, with_hidden: bool) -> Iterator[Served]:
    """Serve a registry with everything, or with all but what is hidden from the callers."""
    settings = Settings(
        model="default", db="sqlite://", allow_hosts=("r.example",), registry_id="test", limits="off", **PROXIED
    )
    engine = Engine(store, settings=settings)
    with Client(create_app(engine, settings, direct=True, close=lambda: None)) as client:
        guids = populate(client, with_hidden=with_hidden)
        put_policy(store, *RULES)
        with engine.reading() as view:
            paths = enumerate_paths(client.app, view.model)
        yield Served(client=client, model=view.model, paths=paths, bindings=bindings_of(guids))


class Comparison:
    """Sends requests to both registries, and collects the differences between their answers.

    No answer may have one of the ``hidden`` names, unless the registry without hidden entities has it there, too.
    """

    def __init__(self, full: Client, bare: Client, hidden: Sequence[str]) -> None:
        self._clients = full, bare
        self._hidden = hidden
        self.allowed: tuple[Difference, ...] = (*NOISE, *DIFFERENCES)
        self.differences: list[str] = []
        self.requests = 0

    def compare(self, caller: str, request: Request) -> None:
        """Compare the answers to a request, and to those for the pages that follow."""
        paths = [request.path, request.path]
        for _ in range(_MAX_PAGES):
            full, bare = (
                client.send(request.method, path, headers=CALLERS[caller], **_body_of(request))
                for client, path in zip(self._clients, paths, strict=True)
            )
            self.requests += 1
            self._check(f"{caller} {request.method} {paths[0]} {request.body or ''}", paths[0], full, bare)
            paths = [_next_page(full), _next_page(bare)]
            if not all(paths):
                return

    def compare_for_some(self, random: Random, share: float, request: Request) -> None:
        """Compare the answers to a request for all callers if the ``share`` is 1, else for one of them."""
        for caller in CALLERS if share == 1 else [random.choice([*CALLERS, "tenant"])]:
            self.compare(caller, request)

    def _check(self, name: str, path: str, full: httpx.Response, bare: httpx.Response) -> None:
        if full.is_server_error or bare.is_server_error:
            self.differences.append(f"{name}: it fails: {full.status_code} {bare.status_code}")
        elif not any(re.match(pattern, path) for pattern, _ in UNCOMPARED):
            pairs = zip(self._parts(full), self._parts(bare), strict=True)
            self.differences += [f"{name}: {_show(*pair)}" for pair in pairs if pair[0] != pair[1]]
        full_text, bare_text = (f"{answer.headers}{answer.text}" for answer in (full, bare))
        leaks = [hidden for hidden in self._hidden if hidden in full_text and hidden not in bare_text]
        if leaks:
            self.differences.append(f"{name}: hidden names: {leaks}")

    def _parts(self, answer: httpx.Response) -> tuple[str, str, str]:
        """Return status, headers and body without what may differ."""
        headers = "\n".join(
            f"{name}: {value}" for name, value in sorted(answer.headers.multi_items()) if name not in _IGNORED_HEADERS
        )
        return str(answer.status_code), self.normalise(headers), self.normalise(answer.text)

    def normalise(self, text: str) -> str:
        """Return the text of an answer without what may differ."""
        for difference in self.allowed:
            text = re.sub(difference.pattern, difference.replacement, text)
        return text


def _body_of(request: Request) -> dict[str, Any]:
    return {} if request.body is None else {"json": request.body}


def _next_page(answer: httpx.Response) -> str:
    """Return the path of the next page, or "" if there is none."""
    url = answer.links.get("next", {}).get("url", "")
    return httpx.URL(url).raw_path.decode() if url else ""


def _show(full: str, bare: str) -> str:
    """Return where two texts begin to differ."""
    length = min(len(full), len(bare))
    start = max(0, next((at for at in range(length) if full[at] != bare[at]), length) - 60)
    return f"{full[start : start + 160]!r} instead of {bare[start : start + 160]!r}"


def crawl(full: Store, bare: Store, seed: int, share: float) -> Comparison:
    """Send a share of all requests to both registries, at least a read and a write of each path."""
    random = Random(seed)
    with serve_registry(full, with_hidden=True) as served, serve_registry(bare, with_hidden=False) as other:
        comparison = Comparison(served.client, other.client, ["hush"])
        parameters = read_parameters(served.client.get("/openapi.json", headers=ADMINISTRATOR).json())
        for request in reads(served.paths, parameters, served.bindings, random, share):
            comparison.compare_for_some(random, share, request)
        comparison.allowed += (NUMBERS,)
        for request in own_writes():
            comparison.compare("tenant", request)
        for request in writes(served.paths, random, share):
            comparison.compare_for_some(random, share, request)
        for request in own_deletions():
            comparison.compare("tenant", request)
    return comparison


def test_hidden_entities_change_no_response(sqlite_store: Callable[[], Store]) -> None:
    comparison = crawl(sqlite_store(), sqlite_store(), seed=1, share=0.05)
    assert not comparison.differences, "\n".join(comparison.differences[:_MAX_SHOWN])


@pytest.mark.merge
@pytest.mark.parametrize("store", ["postgres", pytest.param("sqlite", marks=pytest.mark.soak)], indirect=True)
def test_hidden_entities_change_no_response_to_any_request(store: Store, sqlite_store: Callable[[], Store]) -> None:
    comparison = crawl(store, sqlite_store(), seed=2, share=SHARE)
    assert not comparison.differences, "\n".join(comparison.differences[:_MAX_SHOWN])


def test_an_association_that_a_hidden_subject_has_is_taken(sqlite_store: Callable[[], Store]) -> None:
    """A resource has one association for keys and one for values. The error does not name the hidden subject."""
    with serve_registry(sqlite_store(), with_hidden=True) as served:
        body = associate("topic-both", "sale-value", kind="key")
        answer = served.client.send("POST", f"{CONFLUENT}/associations", json=body, headers=CALLERS["tenant"])
    assert (answer.status_code, "hush" in answer.text) == (409, False)


def test_all_documented_paths_are_crawled(sqlite_store: Callable[[], Store]) -> None:
    with serve_registry(sqlite_store(), with_hidden=False) as served:
        documented = set(map(normalise_path, served.client.get("/openapi.json", headers=ADMINISTRATOR).json()["paths"]))
    # The paths below /check are those of the registry, which one template stands for in the document.
    assert documented - set(map(normalise_path, served.paths)) == {"/check/{}"}


def test_a_new_route_is_crawled_or_fails_the_test(sqlite_store: Callable[[], Store]) -> None:
    with serve_registry(sqlite_store(), with_hidden=False) as served:
        app = served.client.app
        app.routes.append(Route("/new/{id}", app))
        assert "/new/{id}" in enumerate_paths(app, served.model)
        with pytest.raises(KeyError, match="new"):
            fill_path("/new/{id}", VISIBLE)
        app.routes.append(Route("/newer/{path:any}", app))
        with pytest.raises(KeyError, match="/newer"):
            enumerate_paths(app, served.model)
