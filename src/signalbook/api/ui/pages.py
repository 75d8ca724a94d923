"""A page of the explorer as a value, the request for a page, and the rendering of pages as HTML.

A page is made by a function from the registry at one instant and a request. The result is a ``Page``: the name of a
template, and values for it. Templates have conditions and loops, but no other logic. ``ReadPage`` serves such a
function. ``FormPage`` has handlers, for pages that read or change more than the registry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from http import HTTPStatus
from typing import Any, ClassVar, Final, TypeAlias
from urllib.parse import urlencode, urlsplit

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.types import Receive, Scope

from signalbook.access.base import (
    ANONYMOUS,
    NOTHING,
    Action,
    CredentialsNeeded,
    Forbidden,
    Identity,
    Unauthenticated,
)
from signalbook.access.decisions import Access
from signalbook.access.sessions import SessionEnded
from signalbook.api.kernel.caching import RequestHeaders
from signalbook.api.kernel.cookies import PAGES
from signalbook.api.kernel.errors import NO_STORE, Denied, NotAllowed
from signalbook.api.kernel.requests import base_url, query_pairs, raw_path
from signalbook.api.kernel.responses import Header, Response, Sendable, build_options_response
from signalbook.api.kernel.routing import Endpoint, EntityAPI, Handler, Kernel, PathEndpoint
from signalbook.api.kernel.streaming import forbid_caching
from signalbook.api.ui.assets import PATH as STATIC
from signalbook.api.ui.assets import load_assets
from signalbook.api.ui.explanations import ATTRIBUTES, REASONS, RULES, WORDS
from signalbook.engine.engine import Session
from signalbook.engine.read.view import View
from signalbook.settings import Settings
from signalbook.values import JSONObject, format_count
from signalbook.version import __version__
from signalbook.xid import ROOT, Xid

PATH: Final = PAGES
LOGIN: Final = f"{PATH}/-/login"
IDENTITY: Final = f"{PATH}/-/identity"
_SCRIPTS: Final = ("htmx.min.js", "explorer.js")
# Scripts are allowed by hash, not by 'self', because this server also serves documents that anybody may have stored.
_HASHES: Final = " ".join(f"'{load_assets()[name].integrity}'" for name in _SCRIPTS)
SECURITY: Final[tuple[Header, ...]] = (
    (
        "Content-Security-Policy",
        f"default-src 'none'; script-src {_HASHES}; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)
"""Only the scripts of this package may run, so that stored attributes and documents cannot run any."""
_VARY: Final[Header] = ("Vary", "Cookie")
_WHO: Final = '<span class="who"></span>'
"""The place in the layout for the reader's name. Stored texts are escaped, so they never become this element."""
_MAX_NAME_CHARS: Final = 40
_BACK: Final = 1000
_MOST_PRINCIPALS: Final = 50
_NOBODY: Final[dict[type[Exception], str]] = {
    CredentialsNeeded: "You are not logged in",
    SessionEnded: "You are no longer logged in",
}
_FOR_PROGRAMS: Final = ": send credentials"
_MOST_PARAMETERS: Final = 100
_READS: Final = ("GET", "HEAD", "OPTIONS")
# Characters that are invisible, or change the direction of text. Pages have to make them visible.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-"
    "\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
_CODE_POINT: Final = re.compile("⟨U\\+([0-9A-F]{4,6})⟩", re.ASCII)
_MAX_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crumb:
    """A step of the path to a page. ``href`` is below ``/ui``, None if the step is no link."""

    text: str
    href: str | None = None


def build_crumbs(xid: Xid, *below: str) -> tuple[Crumb, ...]:
    """Return the path to the page of ``xid``, or to a page ``below`` it; the last step is no link."""
    steps = [Crumb(text="Registry", href="")]
    steps += [Crumb(text=part, href=str(Xid(xid.parts[: end + 1]))) for end, part in enumerate(xid.parts)]
    steps += [Crumb(text=text) for text in below]
    return (*steps[:-1], Crumb(text=steps[-1].text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page: the name of its ``template``, the ``content`` that the template shows, and the ``title`` of the window.

    ``crumbs`` are the path to the page, and ``status`` is the HTTP status. A ``live`` page also shows the reports of
    pipelines or the time, which change without a commit, so it is made for each request.
    """

    template: str
    title: str
    content: object
    crumbs: tuple[Crumb, ...] = ()
    status: int = 200
    live: bool = False


@dataclass(frozen=True, kw_only=True)
class UIRequest:
    """A request for a page that only reads. ``path`` is below ``/ui``, percent-encoded as it was sent."""

    method: str
    path: str
    query: Mapping[str, str]
    raw_headers: RequestHeaders
    base_url: str
    settings: Settings
    access: Access

    @property
    def subject(self) -> str:
        """The path as errors quote it."""
        return self.path

    def prepare(self) -> None:
        """Do nothing, because the request has no body."""


def escape_hidden(value: object) -> object:
    """Return a value for a template, with invisible or misleading characters as their code points."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return _HIDDEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", value)
    return value


def cut_markup(text: str, max_bytes: int) -> str:
    """Return the beginning of ``text`` that takes up to ``max_bytes`` of a page, where characters may be escaped."""
    text = text[:max_bytes]
    size = len(escape(escape_hidden(text)).encode("utf-8", "replace"))
    return text if size <= max_bytes else text[: max_bytes * len(text) // size]


def restore_hidden(text: str) -> str:
    """Undo ``escape_hidden`` in ``text``, because fields of forms show escaped texts, too."""
    return _CODE_POINT.sub(_restore_character, text)


def _restore_character(match: re.Match[str]) -> str:
    number = int(match[1], 16)
    character = chr(number) if number <= _MAX_CODE_POINT and not _SURROGATES.start <= number < _SURROGATES.stop else ""
    return character if character and _HIDDEN.fullmatch(character) else match[0]


@lru_cache(maxsize=4)
def _make_environment(site: bool, policy: str, undated: str) -> Environment:
    """Return the templates for the options of ``Pages``. They are cached: compiling takes longer than rendering."""
    environment = Environment(
        loader=PackageLoader("signalbook.api.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=escape_hidden,
        auto_reload=False,
    )
    # The values that are the same on every page. All other values of a template are in its page.
    environment.globals = {
        "version": __version__,
        "site": site,
        "policy": policy,
        "undated": undated or None,
        "counted": format_count,
        "integrity": {name: asset.integrity for name, asset in load_assets().items()},
        "explanations": {"reasons": REASONS, "rules": RULES, "words": WORDS, "attributes": ATTRIBUTES},
    }
    return environment


@dataclass(frozen=True)
class Pages:
    """Renders pages as HTML. Create one instance per server process; it is thread-safe.

    In the pages of a static ``site``, everything that needs a server is left out, and the pages contain the ``policy``.
    ``undated`` is the timestamp of entities without a known time; it is not shown.
    """

    settings: Settings = field(default_factory=Settings)
    site: bool = False
    policy: str = ""
    undated: str = ""

    def render_html(self, page: Page, root: str) -> str:
        """Return the text of a page, for a registry whose root has the URL ``root``."""
        base = urlsplit(root).path
        static = {name: f"{base}{STATIC}/{asset.name}" for name, asset in load_assets().items()}
        template = _make_environment(self.site, self.policy, self.undated).get_template(page.template)
        return template.render(page=page, content=page.content, base=base, ui=f"{base}{PATH}", root=root, static=static)

    def build_response(self, page: Page, root: str, *headers: Header) -> Response:
        """Return a page as a response."""
        body = self.render_html(page, root).encode("utf-8", "replace")
        overridden = {name for name, _ in headers}
        security = (header for header in SECURITY if header[0] not in overridden)
        content = ("Content-Type", "text/html; charset=utf-8")
        return Response(status=page.status, headers=(content, *security, _VARY, *headers), body=body)

    def add_reader(self, response: Response, scope: Scope) -> Response:
        """Return a cached page with the name of its reader added. The page may have been made for others with the same
        rights."""
        access: Access | None = scope.get("access")
        if access is not None and access.unrestricted:
            return response
        root = base_url(scope, self.settings)
        identity = ANONYMOUS if access is None else access.identity
        line = self.render_who_line(identity, root, back_to(scope))
        body = response.body.replace(_WHO.encode("ascii"), line.encode("utf-8", "replace"), 1)
        return replace(response, body=body)

    def render_who_line(self, identity: Identity, root: str, back: str) -> str:
        """Return the reader's name with a link to their rights, or a link to log in."""
        base = urlsplit(root).path
        if identity != ANONYMOUS:
            name = str(escape_hidden(identity.displayname or identity.name))
            visible_name = name if len(name) <= _MAX_NAME_CHARS else f"{name[:_MAX_NAME_CHARS]}…"
            you = Markup('<span class="who"><a href="{}"><span class="unseen">You are </span><bdi>{}</bdi></a></span>')
            return you.format(base + IDENTITY, visible_name)
        if self.settings.login == "off":
            return ""
        link = f"{base}{LOGIN}?{urlencode({'back': back})}"
        return Markup('<span class="who"><a href="{}">Log in</a></span>').format(link)

    def failed(self, response: Response, error: Exception, scope: Scope) -> Response:
        """Return a page for the JSON error of an API, with the same status, headers and texts."""
        root = base_url(scope, self.settings)
        body: JSONObject = msgspec.json.decode(response.body)
        content = ErrorContent.of(body, response.status)
        if isinstance(error, CredentialsNeeded | SessionEnded):
            content = replace(content, title=_NOBODY[type(error)], detail=content.detail.removesuffix(_FOR_PROGRAMS))
        if isinstance(error, Denied):
            content = replace(content, login=False)
        elif content.login:
            content = replace(content, **_describe_access(error, scope, self.settings))
        page = Page(
            template="error.html",
            title=f"{response.status} {HTTPStatus(response.status).phrase}",
            content=content,
            crumbs=(Crumb(text="Registry", href=""),),
            status=response.status,
        )
        headers = (header for header in response.headers if header[0] != "Content-Type")
        return self.build_response(page, root, *headers)


def back_to(scope: Scope) -> str:
    """Return the path of a page below the root of the registry, to come back to."""
    query = scope["query_string"].decode("latin-1")
    path = raw_path(scope) + (f"?{query}" if query else "")
    return path if is_page(path) else PATH


def is_page(path: str) -> bool:
    """Return True if a path, with its query, is of the explorer: no link leads elsewhere."""
    # After the URL of the registry, such a path cannot name another host, and it cannot end the header that contains
    # it. Browsers resolve dots, so a path with dots could lead to something else on the same host.
    page = path == PATH or path.startswith((f"{PATH}/", f"{PATH}?"))
    steps = path.partition("?")[0].partition("#")[0].lower().replace("%2e", ".").split("/")
    dots = "." in steps or ".." in steps
    return page and not dots and len(path) <= _BACK and path.isascii() and path.isprintable() and "\\" not in path


def _describe_access(error: Exception, scope: Scope, settings: Settings) -> dict[str, Any]:
    """Return the parts of ``ErrorContent`` about the rejected caller and what would help."""
    access: Access | None = scope.get("access")
    identity = ANONYMOUS if access is None else access.identity
    is_known = identity != ANONYMOUS
    return {
        "who": (identity.displayname or identity.name) if is_known else "",
        "principals": tuple(sorted(identity.principals)[:_MOST_PRINCIPALS]) if is_known else (),
        "missing": f"{error.action.word} on {error.xid}" if isinstance(error, Forbidden) else "",
        "entry": "" if settings.login == "off" else f"/-/login?{urlencode({'back': back_to(scope)})}",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorContent:
    """An error with its subject and findings. ``login`` is True if other credentials may help.

    ``who`` is the name of the refused caller, and ``principals`` are the names that rules use for it. ``missing`` is
    the action that was refused. ``entry`` is the path of the login page, if there is one.
    """

    status: int
    title: str
    detail: str
    subject: str
    instance: str
    faults: tuple[tuple[str, str], ...]
    login: bool
    who: str = ""
    principals: tuple[str, ...] = ()
    missing: str = ""
    entry: str = ""

    @classmethod
    def of(cls, body: JSONObject, status: int) -> ErrorContent:
        """Return the content of an error's body."""
        faults = ((str(fault.get("path", "")), str(fault.get("message", ""))) for fault in body.get("faults", ())[:100])
        return cls(
            status=status,
            title=str(body.get("title", "")),
            detail=str(body.get("detail", "")),
            subject=str(body.get("subject", "")),
            instance=str(body.get("instance", "")),
            faults=tuple(faults),
            login=status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN),
        )


PageFunction: TypeAlias = Callable[[View, UIRequest], Page]


class _Personal(Endpoint):
    """The common part of pages: made for all callers with the same rights, completed with the reader's name."""

    personal = True
    _pages: Pages

    def completed(self, response: Sendable, scope: Scope) -> Sendable:
        """Return the page with the reader's name. No cache stores it if the reader is logged in."""
        if isinstance(response, Response):
            response = self._pages.add_reader(response, scope)
        return forbid_caching(response) if _is_known(scope) else super().completed(response, scope)

    def build_challenges(self, error: Unauthenticated, scope: Scope) -> tuple[Header, ...]:
        """Return the challenges, without Basic if there is a page to log in."""
        challenges = super().build_challenges(error, scope)
        return challenges if self.kernel.settings.login == "off" else remove_basic(challenges)

    def failed(self, error: Exception, scope: Scope) -> Response:
        """Return an error as a page."""
        return self._pages.failed(super().failed(error, scope), error, scope)


def remove_basic(challenges: Iterable[Header]) -> tuple[Header, ...]:
    """Return challenges without Basic, for which browsers ask for a password before they show a login page."""
    return tuple(challenge for challenge in challenges if "Basic" not in challenge[1])


def _is_known(scope: Scope) -> bool:
    access: Access | None = scope.get("access")
    return access is not None and access.identity != ANONYMOUS


class ReadPage(_Personal, EntityAPI[UIRequest]):
    """An endpoint whose page is made by one function from the registry, and cached until a change is committed."""

    writes: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, kernel: Kernel, pages: Pages, page: PageFunction) -> None:
        super().__init__(kernel)
        self._pages = pages
        self._page = page

    def request(self, scope: Scope, body: bytes) -> UIRequest:  # noqa: ARG002  reads have none
        path = raw_path(scope).removeprefix(PATH)
        # Unknown parameters are allowed, because they may be for the scripts of a page.
        query = query_pairs(scope["query_string"], path, most=_MOST_PARAMETERS)
        return UIRequest(
            method="GET" if scope["method"] == "HEAD" else scope["method"],
            path=path,
            query=dict(query),
            raw_headers=RequestHeaders(scope["headers"]),
            base_url=base_url(scope, self.kernel.settings),
            settings=self.kernel.settings,
            access=scope["access"],
        )

    def check(self, view: View, request: UIRequest) -> None:  # noqa: ARG002
        """Check that the request is a read, by a caller that may read something."""
        if request.method not in _READS:
            raise NotAllowed(subject=request.subject, allow=_READS, action=request.method)
        if request.method == "GET":
            request.access.require(Action.READ, ROOT)

    def options(self, view: View, request: UIRequest) -> Response:  # noqa: ARG002
        """Return the methods of a page."""
        return build_options_response(_READS)

    def read(self, view: View, request: UIRequest) -> Response:
        """Return the page."""
        page = self._page(view, request)
        return self._pages.build_response(page, request.base_url, *(NO_STORE,) * page.live)

    def write(self, session: Session, request: UIRequest) -> Response:  # noqa: ARG002
        """Raise ``NotAllowed``. This is never called, because ``writes`` is empty."""
        raise NotAllowed(subject=request.subject, allow=_READS, action=request.method)

    async def respond(self, scope: Scope, receive: Receive) -> Sendable:
        """Return the page, or 304 if an anonymous browser has it.

        For a known caller, ``If-None-Match`` is ignored: the tag does not depend on the reader, so the browser may have
        the page as it was before the login.
        """
        if _is_known(scope):
            scope["headers"] = [header for header in scope["headers"] if header[0] != b"if-none-match"]
        return await super().respond(scope, receive)


class FormPage(_Personal, PathEndpoint):
    """An endpoint with its own handlers, for pages that read or change more than the registry. Errors are pages."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        kernel: Kernel,
        pages: Pages,
        *,
        needs: Action = NOTHING,
        public: bool = False,
    ) -> None:
        super().__init__(handlers, kernel, needs=needs, public=public)
        self._pages = pages
