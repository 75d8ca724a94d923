"""A request to the xRegistry API as a value: its path, flags, headers and body, and the command it represents.

Specification: core/http.md "Registry HTTP APIs", "HTTP Header Values" (R158-R168), "Request Flags / Query Parameters".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Final, Self
from urllib.parse import quote, unquote

from starlette.types import Scope

from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.api.kernel.caching import RequestHeaders
from signalbook.api.kernel.requests import base_url, decode_header, parse_json_body, query_pairs, raw_path
from signalbook.api.kernel.streaming import SpooledResponse
from signalbook.api.registrypaths import NAMES
from signalbook.engine.capabilities import is_same_specversion, resolve_ignore
from signalbook.engine.read.filters import parse_filter
from signalbook.engine.read.nodes import parse_inline
from signalbook.engine.read.pages import parse_sort
from signalbook.engine.read.view import View, ViewOptions
from signalbook.engine.write import commands
from signalbook.engine.write.commands import METHODS, Command, ConfigCommand, DocumentBody, Method
from signalbook.errors import RegistryError
from signalbook.model import Attribute, AttributeSet, Included, Loader, Model, ResourceType, gather
from signalbook.settings import Settings
from signalbook.values import JSON, JSONObject
from signalbook.xid import ROOT, Kind, Xid, XidError, check_id, short_key, short_path

DETAILS: Final = "$details"

_MAX_PARAMETERS: Final = 1000
_ONCE: Final = ("cursor", "epoch", "limit", "setdefaultversionid", "sort", "specversion")
_TEXT_FLAGS: Final = ("cursor", "limit", "setdefaultversionid", "sort", "specversion")
_PAGING: Final = ("cursor", "limit")
HEADER_PREFIX: Final = "xregistry-"
"""The prefix of header names for attributes, in lower case."""
_FORM: Final = "application/x-www-form-urlencoded"
NULL: Final = "null"
"""The header value that deletes an attribute (R162)."""
_NAVIGATION: Final = frozenset({"metaurl", "versionsurl", "versionscount"})
NEVER_HEADERS: Final = frozenset({"meta", "versions", "contenttype"})
_INTEGER: Final = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_DECIMAL: Final = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?", re.ASCII)
WRITES: Final = frozenset(method.value for method in Method)
_ALWAYS_JSON: Final = frozenset({Kind.REGISTRY, Kind.GROUPS, Kind.GROUP, Kind.RESOURCES, Kind.META, Kind.VERSIONS})


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryPath:
    """A request path. If ``name`` is empty, ``target`` is an entity or a collection; otherwise ``name`` is one of
    ``NAMES``.

    ``text`` is the path as errors quote it. ``details`` is True if the path ended in ``$details``. ``short`` is the
    storage key at the beginning of a short path, or None; the entity of a short path is unknown until the registry is
    read.
    """

    text: str
    short: int | None = None
    target: Xid = ROOT
    name: str = ""
    details: bool = False

    def type(self, model: Model) -> ResourceType | None:
        """Return the Resource type of a Resource or Version path if the type has documents, else None."""
        return model.documented_type(self.target)

    @property
    def capability(self) -> str:
        """The name in the capability ``available`` that makes the entity or document of this path changeable."""
        return self.name or "entities"

    def methods(self, model: Model) -> tuple[str, ...]:
        """Return the methods of the path. HEAD and OPTIONS are added to every path with GET (R134, R138)."""
        methods = NAMES[self.name] if self.name else ("GET", *(m.value for m in METHODS[self.target.kind]))
        if self.type(model) is not None and not self.details:
            methods = tuple(method for method in methods if method != "PATCH")
        return (methods[0], "HEAD", *methods[1:], "OPTIONS")


def path_text(raw: str) -> str:
    """Return a percent-encoded path as errors quote it."""
    return "/" + "/".join(_decode_parts(raw))


def _decode_parts(raw: str) -> tuple[str, ...]:
    return tuple(unquote(part) for part in raw.strip("/").split("/")) if raw.strip("/") else ()


@lru_cache(maxsize=4096)
def parse_path(raw: str) -> RegistryPath:
    """Parse a path below the registry root, percent-encoded as sent. Trailing slashes are ignored.

    Raises ``api_not_found`` for a path of an unknown shape and ``bad_details`` for a misplaced ``$details`` (R155).
    """
    text, parts = path_text(raw), _decode_parts(raw)
    # These names take precedence over Group types: a model may not define a Group type with such a name.
    if parts and parts[0] in NAMES:
        if len(parts) > 1:
            raise RegistryError("api_not_found", subject=text)
        return RegistryPath(text=text, name=parts[0])
    if parts and (short := short_key(parts[0].removesuffix(DETAILS))) is not None:
        return RegistryPath(text=text, short=short)
    details = bool(parts) and parts[-1].endswith(DETAILS)
    if details:
        parts = (*parts[:-1], parts[-1].removesuffix(DETAILS))
    if any(part.endswith(DETAILS) for part in parts) or (details and len(parts) not in (4, 6)) or text == f"/{DETAILS}":
        raise RegistryError("bad_details", subject=text)
    if len(parts) > 6 or (len(parts) > 4 and not _is_nested(parts)) or not all(parts[0::2]):
        raise RegistryError("api_not_found", subject=text)
    return RegistryPath(text=text, target=Xid(parts), details=details)


def check_path(path: RegistryPath, model: Model) -> None:
    """Raise ``not_found`` if a type in the path does not exist (GAP 14), and ``malformed_id`` for an
    invalid id (R25)."""
    target = path.target
    if target.parts and model.group_type(target) is None:
        detail = _format_unknown(f'there is no Group type "{target.group_type}"', model.groups)
        raise RegistryError("not_found", subject=path.text, detail=detail)
    if target.resource_type and model.resource_type(target) is None:
        unknown = f'"{target.group_type}" have no Resource type "{target.resource_type}"'
        detail = _format_unknown(unknown, model.groups[target.group_type].resources)
        raise RegistryError("not_found", subject=path.text, detail=detail)
    for part in target.parts[1::2]:
        try:
            check_id(part)
        except XidError as error:
            raise RegistryError("malformed_id", subject=path.text, id=part, error_detail=str(error)) from None


def explain_missing_entity(target: Xid, view: View) -> str:
    """Return a sentence that says which part of ``target`` does not exist, or "" if all of it exists."""
    if len(target.parts) > len(target.resource.parts) and (detail := explain_dangling_xref(view, target)):
        return detail
    for length in (2, 4, 6):
        xid = Xid(target.parts[:length])
        if len(xid.parts) < length:
            break
        if not view.exists(xid):
            inside = f" in {xid.owner}" if length > 2 else ""
            return f'there is no "{xid.id}" among the {xid.parts[-2]}{inside}'
    return ""


def explain_dangling_xref(view: View, xid: Xid) -> str:
    """Return a sentence on why a Resource shows nothing, or "" if it is not a dangling cross reference.

    The sentence is the same whether the target is missing or hidden from the caller.
    """
    target, kind = view.find_dangling_xref(xid), view.model.resource_type(xid)
    if target is None or kind is None:
        return ""
    if view.reader.get(target) is None:
        return f"This {kind.singular} refers to {target}, which does not exist or which you cannot read."
    return f"This {kind.singular} refers to {target}, which is a cross reference itself: these are followed once."


def _format_unknown(problem: str, names: Collection[str]) -> str:
    return f"{problem}; there are {', '.join(names)}" if names else f"{problem}; the model has none"


def _is_nested(parts: tuple[str, ...]) -> bool:
    """Return True if the parts after a Resource lead to its meta, its Versions or a Version."""
    return parts[4:] == ("meta",) or parts[4] == "versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFlags:
    """The flags of one request as sent; None means absent. Unknown parameters are ignored (R136).

    ``limit`` and ``cursor`` are not flags of the specification's flag list; they request a page (R286).
    """

    binary: bool = False
    collections: bool = False
    cursor: str | None = None
    doc: bool = False
    epoch: int | None = None
    filter: tuple[str, ...] = ()
    ignore: tuple[str, ...] | None = None
    inline: tuple[str, ...] = ()
    limit: str | None = None
    setdefaultversionid: str | None = None
    sort: str | None = None
    specversion: str | None = None

    def supported(self, capabilities: JSONObject) -> QueryFlags:
        """Return these flags without those that the capabilities switch off, which are ignored (R119)."""
        if self is NOTHING:
            return self
        on = (*capabilities["flags"], *(_PAGING if capabilities.get("pagination") else ()))
        off = {name: value for name, value in _NO_FLAGS.items() if name not in on}
        return replace(self, **off) if off else self

    def for_write(self, capabilities: JSONObject, target: Xid) -> commands.Flags:
        """Return the flags of a write command. Raises ``bad_ignore`` (R204)."""
        ignore: frozenset[str] = frozenset()
        if self.ignore is not None:
            ignore = resolve_ignore(capabilities, self.ignore, target)
        return commands.Flags(epoch=self.epoch, ignore=ignore, setdefaultversionid=self.setdefaultversionid)


NOTHING: Final = QueryFlags()
_NO_FLAGS: Final = {name: getattr(NOTHING, name) for name in QueryFlags.__dataclass_fields__}


def parse_flags(query: bytes, *, subject: str) -> QueryFlags:
    """Parse a query string.

    Raises ``bad_request`` if it cannot be parsed, and ``bad_flag`` if a single-valued flag is repeated.
    """
    if not query:
        return NOTHING
    values: dict[str, list[str]] = {}
    for name, value in query_pairs(query, subject, most=_MAX_PARAMETERS):
        if name in _NO_FLAGS:
            values.setdefault(name, []).append(value)
    for name in _ONCE:
        if len(values.get(name, ())) > 1:
            detail = f"?{name} may be given once"
            raise RegistryError("bad_flag", subject=subject, flag=name, detail=detail)
    return QueryFlags(
        binary=_on(values, "binary"),
        collections=_on(values, "collections"),
        doc=_on(values, "doc"),
        epoch=_parse_epoch(values["epoch"][0], subject) if "epoch" in values else None,
        filter=tuple(values.get("filter", ())),
        ignore=_split_lists(values["ignore"]) if "ignore" in values else None,
        inline=tuple(values.get("inline", ())),
        **{name: values[name][0] for name in _TEXT_FLAGS if name in values},
    )


def check_specversion(requested: str | None, supported: Collection[str], *, subject: str) -> None:
    """Raise ``unsupported_specversion`` unless the server supports the requested version, ignoring its patch number
    (R180)."""
    if requested is None or any(is_same_specversion(requested, version) for version in supported):
        return
    listed = ", ".join(supported)
    raise RegistryError("unsupported_specversion", subject=subject, specversion=requested, list=listed)


def _on(values: dict[str, list[str]], name: str) -> bool:
    """Return True if a boolean flag is on: it is present (R175), and its value is not ``false``."""
    return name in values and values[name][-1].lower() != "false"


def _split_lists(values: list[str]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(","))


def _parse_epoch(value: str, subject: str) -> int:
    if value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    detail = f'the flag "epoch" needs an unsigned integer, not "{value}"'
    raise RegistryError("bad_request", subject=subject, error_detail=detail)


def read_headers(headers: Iterable[tuple[str, str]], type: ResourceType, *, subject: str) -> JSONObject:
    """Return the attributes in ``headers`` (names in lower case) of a write in document form.

    An attribute with the value ``null`` is None. A map has exactly the keys that were sent (R163). Values are converted
    to the type of the attribute in the model. A value that cannot be converted stays text; the check of attributes
    reports it later. Raises ``header_error`` and ``extra_xregistry_header``.
    """
    texts: JSONObject = {}
    for header, value in headers:
        if header.startswith(HEADER_PREFIX):
            name, _, key = header.removeprefix(HEADER_PREFIX).partition(".")
            if not name:
                detail = "the name of an attribute is missing"
                raise RegistryError("header_error", subject=subject, name=header, error_detail=detail)
            _check_allowed(header, name, type, subject)
            if name not in _NAVIGATION:
                _collect(texts, name, key, decode_header(value, header, subject=subject))
    return _convert_texts(texts, type.attributes)


def _collect(texts: JSONObject, name: str, key: str, text: str) -> None:
    if not key:
        texts[name] = text
        return
    if not isinstance(texts.get(name), dict):
        texts[name] = {}
    if text != NULL:
        texts[name][key] = text


def refuse_headers(headers: Iterable[tuple[str, str]], *, subject: str) -> None:
    """Raise ``extra_xregistry_header`` if ``headers`` contain an attribute, because the body has all
    attributes (R165)."""
    for header, _ in headers:
        if header.startswith(HEADER_PREFIX):
            detail = "attributes are in the body of this request"
            raise RegistryError("extra_xregistry_header", subject=subject, name=header, error_detail=detail)


def _check_allowed(header: str, name: str, type: ResourceType, subject: str) -> None:
    if name in (type.singular, f"{type.singular}base64"):
        detail = "the document is the body of this request"
    elif name == "contenttype":
        detail = "the content type is the header Content-Type"
    elif name in NEVER_HEADERS:
        detail = "nested entities need the $details form"
    else:
        return
    raise RegistryError("extra_xregistry_header", subject=subject, name=header, error_detail=detail)


def _convert_texts(texts: JSONObject, rules: AttributeSet) -> JSONObject:
    """Convert each text to the type of its attribute, which may depend on other attributes (``ifvalues``)."""
    attributes = rules.active(texts)
    result: JSONObject = {}
    for name, text in texts.items():
        attribute = attributes.get(name, attributes.get("*"))
        if isinstance(text, dict):
            item = attribute.item if attribute else None
            result[name] = {key: _convert_text(part, item) for key, part in text.items()} or None
        else:
            result[name] = None if text == NULL else _convert_text(text, attribute)
    return result


def _convert_text(text: str, attribute: Attribute | None) -> JSON:
    """Return ``text`` converted to the attribute's type; as a string if the type is unknown or ``any`` (R12)."""
    kind = attribute.type if attribute else "string"
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    if kind in ("integer", "uinteger") and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "decimal" and _DECIMAL.fullmatch(text):
        return float(text)
    return text


@dataclass(frozen=True, kw_only=True)
class RegistryRequest:
    """A request to the API. ``raw_headers`` are as ASGI gives them. ``spool`` sends a response that may be large.

    ``included`` are the documents that a model in the body includes from other places.
    """

    method: str
    path: RegistryPath
    query: QueryFlags = NOTHING
    raw_headers: RequestHeaders = field(default_factory=RequestHeaders)
    body: bytes = b""
    base_url: str = ""
    settings: Settings = field(default_factory=Settings)
    spool: SpooledResponse | None = None
    included: Included = field(default_factory=Included)
    access: Access = UNRESTRICTED

    @property
    def subject(self) -> str:
        """The path as errors quote it."""
        return self.path.text

    def in_full(self, view: View) -> Self:
        """Return the request with the full path for its short path. Raises ``not_found``."""
        key = self.path.short
        if key is None:
            return self
        xid = view.find_by_short_path(key)
        if xid is None:
            raise RegistryError("not_found", subject=self.subject, detail="the entity of this short URL is gone")
        return replace(self, path=parse_path(f"{xid}{quote(self.path.text.removeprefix(short_path(key)))}"))

    @property
    def is_small(self) -> bool:
        """True if the request reads one entity without nested entities, which takes a few point reads."""
        query, path = self.query, self.path
        wide = query.inline or query.collections or query.filter or path.target.is_collection
        return not wide and path.name not in ("export", "openapi.json")

    @property
    def is_quick(self) -> bool:
        """True if the request is small and its response is, too: a document may be as large as a request body."""
        path = self.path
        document = path.target.kind in (Kind.RESOURCE, Kind.VERSION) and not (path.details or self.query.doc)
        return self.is_small and not document

    @cached_property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers: names in lower case, values with one character per byte."""
        return tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in self.raw_headers)

    @cached_property
    def json(self) -> JSON:
        """The decoded body; None if it is empty. Raises ``parsing_data`` (R20), and ``bad_request`` for ``null``."""
        if not self.body:
            return None
        most = self.settings.max_json_values
        value = parse_json_body(self.body, self.subject, max_depth=self.settings.max_depth, max_values=most)
        if value is None:  # null must not count as an empty body, which deletes everything (R169)
            detail = "the body needs to be a JSON object, not null"
            raise RegistryError("bad_request", subject=self.path.text, error_detail=detail)
        return value

    def prepare(self) -> None:
        """Decode the body if it can only be JSON. This needs neither model nor transaction."""
        if (
            self.method in WRITES
            and not self._is_delete_of_one
            and (self.path.target.kind in _ALWAYS_JSON or self.path.details)
        ):
            _ = self.json

    @property
    def includes(self) -> bool:
        """True if the body may contain a model with includes."""
        is_model = self.path.name == "modelsource" or (not self.path.name and self.path.target == ROOT)
        return is_model and self.method in ("PUT", "PATCH") and b"$include" in self.body

    def gather(self, load: Loader) -> Self:
        """Return the request with the documents that its model includes. Loading them with ``load`` may take long."""
        source = self.json
        if not self.path.name:
            source = source.get("modelsource") if isinstance(source, dict) else None
        return replace(self, included=gather(source, load)) if isinstance(source, dict) else self

    def find_document_type(self, view: View) -> ResourceType | None:
        """Return the Resource type if the request is about a document, or None if it is about metadata (R153, R154,
        R273)."""
        return None if self.path.details or self.query.doc else self.path.type(view.model)

    def options(self, view: View, xid: Xid) -> ViewOptions:
        """Return the view options for ``xid`` in the response.

        Raises ``bad_inline``, ``inline_noninlineable``, ``bad_filter``, ``bad_sort``, ``sort_noncollection``.
        """
        query = self.query if self.path.name == "export" else self.query.supported(view.capabilities)
        return ViewOptions(
            base_url=self.base_url,
            inline=parse_inline(query.inline, xid, view.model, subject=self.path.text),
            doc=query.doc,
            binary=query.binary,
            collections=query.collections,
            filter=parse_filter(query.filter, xid, view.model, subject=self.path.text),
            sort=parse_sort(query.sort, xid, view.model, subject=self.path.text),
            max_bytes=self.settings.max_response_bytes,
        )

    def command(self, view: View) -> Command | ConfigCommand:
        """Return the command for a write. Raises ``RegistryError`` if flags, headers or body are invalid."""
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
                method=method,
                target=path.target,
                document=self._read_document(kind),
                flags=written,
                base_url=self.base_url,
            )
        refuse_headers(self.headers, subject=path.text)
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

    def _read_document(self, type: ResourceType) -> DocumentBody:
        attributes = read_headers(self.headers, type, subject=self.path.text)
        url = f"{type.singular}url"
        if self.body and attributes.get(url) is not None:
            detail = "a document kept elsewhere comes with an empty body"
            raise RegistryError(
                "extra_xregistry_header", subject=self.path.text, name=f"xRegistry-{url}", error_detail=detail
            )
        contenttype = next((value for name, value in self.headers if name == "content-type"), None)
        if contenttype is not None and contenttype.partition(";")[0].strip().lower() == _FORM:
            contenttype = None  # curl sends this type with every -d
        return DocumentBody(content=self.body, contenttype=contenttype, attributes=attributes)


def read_request(scope: Scope, body: bytes, settings: Settings) -> RegistryRequest:
    """Return the request for an ASGI scope and body. Raises ``RegistryError`` for an invalid path or invalid flags."""
    path = parse_path(raw_path(scope))
    return RegistryRequest(
        method="GET" if scope["method"] == "HEAD" else scope["method"],
        path=path,
        query=parse_flags(scope["query_string"], subject=path.text),
        raw_headers=RequestHeaders(scope["headers"]),
        body=body,
        base_url=base_url(scope, settings),
        settings=settings,
        access=scope["access"],
    )
