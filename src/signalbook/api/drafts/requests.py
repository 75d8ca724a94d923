"""One request to a door of a draft as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Generic, Protocol, Self, TypeVar
from urllib.parse import parse_qsl

from starlette.types import Scope

from signalbook.api.urls import base_url
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.values import JSON, JSONError, JSONObject, parse_json

_MOST_PARAMETERS: Final = 100


class PathBelow(Protocol):
    """A path below a door, ``text`` as it came, still percent-encoded."""

    @property
    def text(self) -> str:
        """The path."""
        ...


P = TypeVar("P", bound=PathBelow)


@dataclass(frozen=True, kw_only=True)
class CncfRequest(Generic[P]):
    """``root`` is the URL of the registry, ``mount`` the path of the door below it; ``query`` is decoded."""

    method: str
    path: P
    root: str
    mount: str
    query: tuple[tuple[str, str], ...] = ()
    raw_headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    settings: Settings = field(default_factory=Settings)

    @classmethod
    def of(cls, scope: Scope, body: bytes, settings: Settings, *, path: P, mount: str) -> Self:
        """The request that an ASGI scope and body make. Raises ``bad_request`` for a query that is none."""
        return cls(
            method="GET" if scope["method"] == "HEAD" else scope["method"],
            path=path,
            root=base_url(scope, settings),
            mount=mount,
            query=_query(scope["query_string"], path.text),
            raw_headers=tuple(scope["headers"]),
            body=body,
            settings=settings,
        )

    @property
    def base(self) -> str:
        """The URL of this door."""
        return f"{self.root}{self.mount}"

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """One value each, one character per byte, by names in lower case."""
        return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self.raw_headers}

    def values(self, name: str) -> list[str]:
        """All values of a query parameter."""
        return [value for key, value in self.query if key == name]

    @property
    def uri(self) -> str:
        """The parameter ``uri``. Raises ``bad_request`` if there is none, or several."""
        given = self.values("uri")
        if len(given) == 1 and given[0]:
            return given[0]
        raise self.wrong("the query needs one parameter uri, the percent-encoded URI of a version")

    @cached_property
    def json(self) -> JSONObject:
        """The body. Raises ``missing_body``, ``parsing_data``, and ``bad_request`` if it is no JSON object."""
        found = self.read_json()
        if isinstance(found, dict):
            return found
        raise self.wrong("the body needs to be a JSON object")

    def read_json(self) -> JSON:
        """The JSON in the body. Raises ``missing_body``, ``parsing_data``."""
        if not self.body:
            raise RegistryError("missing_body", subject=self.path.text)
        try:
            return parse_json(self.body, max_depth=self.settings.max_depth, unique=True)
        except JSONError as error:
            raise RegistryError("parsing_data", subject=self.path.text, error_detail=str(error)) from None

    def wrong(self, detail: str) -> RegistryError:
        """The error for a request that says something it must not."""
        return RegistryError("bad_request", subject=self.path.text, error_detail=detail)


def path_below(scope: Scope, mount: str) -> str:
    """The path below a door, still percent-encoded."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8")
    text: str = raw.decode("latin-1").partition("?")[0]
    return text.removeprefix(scope.get("root_path", "")).removeprefix(mount)


def _query(raw: bytes, subject: str) -> tuple[tuple[str, str], ...]:
    try:
        text = raw.decode("ascii")
        return tuple(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS))
    except ValueError:
        detail = f"the query string is not percent-encoded UTF-8 of at most {_MOST_PARAMETERS} parameters"
        raise RegistryError("bad_request", subject=subject, error_detail=detail) from None
