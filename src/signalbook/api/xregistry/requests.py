"""One HTTP request as a value, and the command it stands for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Self

from starlette.types import Scope

from signalbook.api.spool import SpooledResponse
from signalbook.api.urls import base_url
from signalbook.api.xregistry import flags, headers, paths
from signalbook.engine import filters, inline, sorting
from signalbook.engine.commands import Command, ConfigCommand, DocumentBody, Method
from signalbook.engine.view import View, ViewOptions
from signalbook.errors import RegistryError
from signalbook.model import Included, Loader, ResourceType, gather
from signalbook.settings import Settings
from signalbook.values import JSON, JSONError, parse_json
from signalbook.xid import ROOT, Kind, Xid

WRITES: Final = frozenset(method.value for method in Method)
_ALWAYS_JSON: Final = frozenset({Kind.REGISTRY, Kind.GROUPS, Kind.GROUP, Kind.RESOURCES, Kind.META, Kind.VERSIONS})


@dataclass(frozen=True, kw_only=True)
class RegistryRequest:
    """A request to the door; ``raw_headers`` as ASGI gives them, ``spool`` for an answer that may be large.

    ``included`` is what a model in the body includes from elsewhere.
    """

    method: str
    path: paths.RegistryPath
    query: flags.QueryFlags = flags.NOTHING
    raw_headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    base_url: str = ""
    settings: Settings = field(default_factory=Settings)
    spool: SpooledResponse | None = None
    included: Included = field(default_factory=Included)

    @property
    def is_write(self) -> bool:
        """Whether it may change something."""
        return self.method in WRITES

    @property
    def is_small(self) -> bool:
        """Whether it reads one entity with nothing beneath it, so that it takes a few point reads."""
        query, path = self.query, self.path
        wide = query.inline or query.collections or query.filter or path.target.is_collection
        return not wide and path.name not in ("export", "openapi.json")

    @property
    def is_quick(self) -> bool:
        """Whether it is small in bytes, too: a document may be as large as a body."""
        path = self.path
        document = path.target.kind in (Kind.RESOURCE, Kind.VERSION) and not (path.details or self.query.doc)
        return self.is_small and not document

    @cached_property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Names in lower case, values with one character per byte."""
        return tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in self.raw_headers)

    @cached_property
    def json(self) -> JSON:
        """The decoded body, None if there is none. Raises ``parsing_data`` (R20), and ``bad_request`` for ``null``."""
        if not self.body:
            return None
        try:
            value = parse_json(self.body, max_depth=self.settings.max_depth, unique=True)
        except JSONError as error:
            raise RegistryError("parsing_data", subject=self.path.text, error_detail=str(error)) from None
        if value is None:  # not to be taken for no body, which deletes everything (R169)
            detail = "the body needs to be a JSON object, not null"
            raise RegistryError("bad_request", subject=self.path.text, error_detail=detail)
        return value

    def prepare(self) -> None:
        """Do now what needs neither model nor transaction: decode a body that can only be JSON."""
        if (
            self.is_write
            and not self._is_delete_of_one
            and (self.path.target.kind in _ALWAYS_JSON or self.path.details)
        ):
            _ = self.json

    @property
    def includes(self) -> bool:
        """Whether there may be a model in the body that includes something."""
        is_model = self.path.name == "modelsource" or (not self.path.name and self.path.target == ROOT)
        return is_model and self.method in ("PUT", "PATCH") and b"$include" in self.body

    def gather(self, load: Loader) -> Self:
        """The request with what its model includes from elsewhere; it may be waited for long."""
        source = self.json
        if not self.path.name:
            source = source.get("modelsource") if isinstance(source, dict) else None
        return replace(self, included=gather(source, load)) if isinstance(source, dict) else self

    def document_type(self, view: View) -> ResourceType | None:
        """The Resource type if the request speaks of a document, None if it speaks of metadata (R153, R154, R273)."""
        return None if self.path.details or self.query.doc else self.path.type(view.model)

    def options(self, view: View, shown: Xid) -> ViewOptions:
        """How to show ``shown`` in the answer.

        Raises ``bad_inline``, ``inline_noninlineable``, ``bad_filter``, ``bad_sort``, ``sort_noncollection``.
        """
        query = self.query if self.path.name == "export" else self.query.supported(view.capabilities)
        return ViewOptions(
            base_url=self.base_url,
            inline=inline.parse(query.inline, shown, view.model, subject=self.path.text),
            doc=query.doc,
            binary=query.binary,
            collections=query.collections,
            filter=filters.parse(query.filter, shown, view.model, subject=self.path.text),
            sort=sorting.parse(query.sort, shown, view.model, subject=self.path.text),
            max_bytes=self.settings.max_response_bytes,
        )

    def command(self, view: View) -> Command | ConfigCommand:
        """The command of a write. Raises ``RegistryError`` for flags, headers or a body that cannot be read."""
        method, path = Method(self.method), self.path
        if path.name:
            return ConfigCommand(name=path.name, method=method, body=self.json, included=self.included)
        kind = path.type(view.model)
        query = self.query.supported(view.capabilities)
        written = query.for_write(view.capabilities, path.target)
        if method is Method.DELETE:
            body = None if self._is_delete_of_one else self.json
            return Command(method=method, target=path.target, body=body, flags=written, base_url=self.base_url)
        if kind is not None and not path.details:
            return Command(
                method=method, target=path.target, document=self._document(kind), flags=written, base_url=self.base_url
            )
        headers.refuse(self.headers, subject=path.text)
        return Command(
            method=method,
            target=path.target,
            body=self.json,
            flags=written,
            base_url=self.base_url,
            included=self.included,
        )

    @property
    def _is_delete_of_one(self) -> bool:
        return self.method == "DELETE" and not self.path.target.is_collection

    def _document(self, type: ResourceType) -> DocumentBody:
        attributes = headers.read(self.headers, type, subject=self.path.text)
        url = f"{type.singular}url"
        if self.body and attributes.get(url) is not None:
            detail = "a document kept elsewhere comes with an empty body"
            raise RegistryError(
                "extra_xregistry_header", subject=self.path.text, name=f"xRegistry-{url}", error_detail=detail
            )
        contenttype = next((value for name, value in self.headers if name == "content-type"), None)
        return DocumentBody(content=self.body, contenttype=contenttype, attributes=attributes)


def read_request(scope: Scope, body: bytes, settings: Settings) -> RegistryRequest:
    """The request that an ASGI scope and body make. Raises ``RegistryError`` for a path or flags that are none."""
    path = paths.parse(_path(scope))
    return RegistryRequest(
        method="GET" if scope["method"] == "HEAD" else scope["method"],
        path=path,
        query=flags.parse(scope["query_string"], subject=path.text),
        raw_headers=tuple(scope["headers"]),
        body=body,
        base_url=base_url(scope, settings),
        settings=settings,
    )


def _path(scope: Scope) -> str:
    """The path below the door, still percent-encoded."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8")
    text: str = raw.decode("latin-1").partition("?")[0]
    return text.removeprefix(scope.get("root_path", ""))
