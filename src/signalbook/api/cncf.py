"""The shared parts of the CNCF drafts' APIs: reading requests, finding routes, and rendering errors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, Self, TypeVar

from starlette.types import Scope

from signalbook.access.base import Action, Forbidden
from signalbook.access.decisions import Access
from signalbook.api.kernel.admission import list_allowed_methods
from signalbook.api.kernel.caching import RequestHeaders
from signalbook.api.kernel.errors import NotAllowed, ReadOnly, build_problem_response
from signalbook.api.kernel.requests import base_url, parse_json_body, query_pairs, raw_path
from signalbook.api.kernel.responses import Response, build_options_response
from signalbook.api.kernel.routing import EntityAPI
from signalbook.engine import capabilities
from signalbook.engine.read.view import View
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid

_MOST_PARAMETERS: Final = 100

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CncfRoute(Generic[S, T]):
    """The handlers of a path: one for GET and one for each method that writes. Tables of routes are keyed by path
    template."""

    read: S
    writes: Mapping[str, T] = field(default_factory=dict)


def find_route(templates: Iterable[str], path: str) -> tuple[str, tuple[str, ...]]:
    """Return the template that ``path`` matches, and the values for its ``{}``. Raises ``api_not_found``.

    The path is percent-encoded as it was sent, so that an encoded slash in an id does not separate ids. A slash at its
    end is ignored.
    """
    parts = path.removesuffix("/").split("/")
    for template in templates:
        words = template.split("/")
        if len(words) == len(parts) and all(word in ("{}", part) for word, part in zip(words, parts, strict=True)):
            return template, tuple(part for word, part in zip(words, parts, strict=True) if word == "{}")
    raise RegistryError("api_not_found", subject=path)


@dataclass(frozen=True, slots=True, kw_only=True)
class CncfPath:
    """A path below the mount of an API: ``text`` as it was sent, ``template`` its route.

    ``id`` is the last id of a group, schema or definition in the path, as it was sent.
    """

    template: str
    text: str
    id: str = ""


P = TypeVar("P", bound=CncfPath)


@dataclass(frozen=True, kw_only=True)
class CncfRequest(Generic[P]):
    """A request to a draft's API. ``root`` is the URL of the registry, ``mount`` the API's path below it; ``query`` is
    decoded."""

    method: str
    path: P
    root: str
    mount: str
    query: tuple[tuple[str, str], ...] = ()
    raw_headers: RequestHeaders = field(default_factory=RequestHeaders)
    body: bytes = b""
    settings: Settings = field(default_factory=Settings)
    access: Access

    @classmethod
    def of(cls, scope: Scope, body: bytes, settings: Settings, *, path: P, mount: str) -> Self:
        """Return the request for an ASGI scope and body. Raises ``bad_request`` for an invalid query."""
        return cls(
            method="GET" if scope["method"] == "HEAD" else scope["method"],
            path=path,
            root=base_url(scope, settings),
            mount=mount,
            query=tuple(query_pairs(scope["query_string"], path.text, most=_MOST_PARAMETERS)),
            raw_headers=RequestHeaders(scope["headers"]),
            body=body,
            settings=settings,
            access=scope["access"],
        )

    @property
    def subject(self) -> str:
        """The subject of errors: the path as it was sent."""
        return self.path.text

    @property
    def base(self) -> str:
        """The URL of this API."""
        return f"{self.root}{self.mount}"

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers: one value each, one character per byte, by names in lower case."""
        return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self.raw_headers}

    def values(self, name: str) -> list[str]:
        """Return all values of a query parameter."""
        return [value for key, value in self.query if key == name]

    @property
    def uri(self) -> str:
        """The query parameter ``uri``. Raises ``bad_request`` unless there is exactly one."""
        values = self.values("uri")
        if len(values) == 1 and values[0]:
            return values[0]
        raise self.wrong("the query needs one parameter uri, the percent-encoded URI of a version")

    @cached_property
    def json(self) -> JSONObject:
        """The body as a JSON object. Raises ``missing_body``, ``parsing_data``, and ``bad_request`` if it is not an
        object."""
        body = self.read_json()
        if isinstance(body, dict):
            return body
        raise self.wrong("the body needs to be a JSON object")

    def read_json(self) -> JSON:
        """Return the JSON in the body. Raises ``missing_body``, ``parsing_data``."""
        if not self.body:
            raise RegistryError("missing_body", subject=self.path.text)
        if isinstance(self._json_or_error, RegistryError):
            raise self._json_or_error
        return self._json_or_error

    @cached_property
    def _json_or_error(self) -> JSON | RegistryError:
        settings = self.settings
        try:
            return parse_json_body(
                self.body, self.path.text, max_depth=settings.max_depth, max_values=settings.max_json_values
            )
        except RegistryError as error:
            return error

    def prepare(self) -> None:
        """Decode the body. An error is kept, because only the registry's content decides whether the body has to be
        JSON."""
        if self.body:
            _ = self._json_or_error

    def wrong(self, detail: str) -> RegistryError:
        """Return the error ``bad_request`` with ``detail``."""
        return RegistryError("bad_request", subject=self.path.text, error_detail=detail)


def path_below(scope: Scope, mount: str) -> str:
    """Return the path below the mount of an API, still percent-encoded."""
    return raw_path(scope).removeprefix(mount)


R = TypeVar("R", bound=CncfRequest[Any])


class CncfAPI(EntityAPI[R], Generic[R]):
    """The API of a CNCF draft. Errors are problem documents."""

    @abstractmethod
    def check_model(self, view: View, request: R) -> None:
        """Raise ``api_not_found`` if the model of the registry has no types for this draft."""

    @abstractmethod
    def methods(self, request: R, *, read_only: bool) -> tuple[str, ...]:
        """Return the methods of a path; in a ``read_only`` registry only those that read."""

    @abstractmethod
    def target(self, request: R) -> Xid:
        """Return the xid of a path. If no entity can have this path, return the xid of the collection of groups."""

    def check(self, view: View, request: R) -> None:
        """Raise an error unless the path supports the method, the model has this draft's types, and the write may be
        tried."""
        # 405 comes first, because it does not depend on the registry's content.
        allow = self.methods(request, read_only=False)
        if request.method not in allow:
            raise NotAllowed(subject=request.subject, allow=allow, action=request.method)
        self.check_model(view, request)
        if request.method not in self.writes:
            return
        if not is_mutable(view):
            raise ReadOnly("this registry is read-only", self.methods(request, read_only=True))
        target = self.target(request)
        # Check before any look-up: a refused write gets the same response whether the entity exists or not.
        if not view.access.is_readable(target):
            raise Forbidden(Action.DELETE if request.method == "DELETE" else Action.UPDATE, target)

    def options(self, view: View, request: R) -> Response:
        """Return the methods that the caller may use at a path."""
        methods = self.methods(request, read_only=not is_mutable(view))
        return build_options_response(methods, list_allowed_methods(request.access, self.target(request), methods))

    def failed(self, error: Exception, scope: Scope) -> Response:
        """Return an error as a problem document (RFC9457)."""
        return build_problem_response(error, self.subject(scope))


def is_mutable(view: View) -> bool:
    """Return True if clients may write (C-37)."""
    return capabilities.is_mutable(view.capabilities, "entities")
