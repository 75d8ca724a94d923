"""One request to a door as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final
from urllib.parse import parse_qsl

from starlette.types import Scope

from signalbook.api.messagecatalog.paths import Path, parse
from signalbook.api.urls import base_url
from signalbook.drafts.paths import message_path, message_xid
from signalbook.engine.uris import Places
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.values import JSON, JSONError, JSONObject, parse_json
from signalbook.xid import Xid

_MOST_PARAMETERS: Final = 100


@dataclass(frozen=True, kw_only=True)
class Request:
    """``root`` is the URL of the registry, ``mounts`` the paths of the doors below it, ``mount`` that of this one.

    Names of ``headers`` are in lower case; ``query`` is decoded.
    """

    method: str
    path: Path
    root: str
    mount: str
    mounts: tuple[str, ...]
    query: tuple[tuple[str, str], ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    settings: Settings = field(default_factory=Settings)

    @property
    def base(self) -> str:
        """The URL of this door."""
        return f"{self.root}{self.mount}"

    @property
    def places(self) -> Places:
        """Where versions are to be had."""
        bases = (self.base, *(f"{self.root}{mount}" for mount in self.mounts if mount != self.mount))
        return Places(groups="messagegroups", bases=bases, root=self.root, path=message_path, xid=message_xid)

    def url(self, xid: Xid) -> str:
        """The URL of an entity at this door."""
        return f"{self.base}{message_path(xid)}"

    def values(self, name: str) -> list[str]:
        """All values of a query parameter."""
        return [value for key, value in self.query if key == name]

    @cached_property
    def json(self) -> JSONObject:
        """The body. Raises ``missing_body``, ``parsing_data``, and ``bad_request`` if it is no JSON object."""
        found = self.read_json()
        if not isinstance(found, dict):
            raise RegistryError(
                "bad_request", subject=self.path.text, error_detail="the body needs to be a JSON object"
            )
        return found

    def read_json(self) -> JSON:
        """The JSON in the body. Raises ``missing_body``, ``parsing_data``."""
        if not self.body:
            raise RegistryError("missing_body", subject=self.path.text)
        try:
            return parse_json(self.body, max_depth=self.settings.max_depth, unique=True)
        except JSONError as error:
            raise RegistryError("parsing_data", subject=self.path.text, error_detail=str(error)) from None


def read_request(scope: Scope, body: bytes, settings: Settings, mount: str, mounts: tuple[str, ...]) -> Request:
    """The request that an ASGI scope and body make. Raises ``RegistryError`` for a path or query that is none."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8")
    text = raw.decode("latin-1").partition("?")[0].removeprefix(scope.get("root_path", "")).removeprefix(mount)
    return Request(
        method="GET" if scope["method"] == "HEAD" else scope["method"],
        path=parse(text),
        root=base_url(scope, settings),
        mount=mount,
        mounts=mounts,
        query=_query(scope["query_string"], text),
        headers={name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]},
        body=body,
        settings=settings,
    )


def _query(raw: bytes, subject: str) -> tuple[tuple[str, str], ...]:
    try:
        text = raw.decode("ascii")
        found = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS)
    except ValueError as error:
        detail = f"the query cannot be read: {error}"
        raise RegistryError("bad_request", subject=subject, error_detail=detail) from None
    return tuple(found)
