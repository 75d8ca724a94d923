"""Answers of the door."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from signalbook.api.answers import Answer, Header, json_answer
from signalbook.api.documents import OCTETS, UNTRUSTED, media_type
from signalbook.api.encoding import encode
from signalbook.api.schemaregistry.requests import Request
from signalbook.cncf.ids import draft_id
from signalbook.cncf.schemaregistry import number_of, version_headers, version_id, version_uri
from signalbook.engine.view import View, ViewOptions
from signalbook.errors import RegistryError
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid

_URI_SAFE: Final = "!#$%&'()*+,/:;=?@[]~"


def shown(value: JSON, request: Request, *, status: int = 200, headers: tuple[Header, ...] = ()) -> Answer:
    """A group or a list as JSON."""
    return limited(json_answer(value, status=status, headers=headers), request)


def ids(xids: Iterable[Xid], request: Request) -> Answer:
    """The ids of entities, as the draft writes them."""
    return shown([draft_id(xid.id) for xid in xids], request)


def document(view: View, request: Request, xid: Xid) -> Answer:
    """A version: its document with the attributes beside it (A-46, A-48, A-49), or the way to it elsewhere."""
    found = view.document(xid, ViewOptions(base_url=request.root))
    headers = (
        ("Content-Type", media_type(found.contenttype) or OCTETS),
        *version_headers_of(request, xid, found.attributes, group(view, request, xid)),
        *UNTRUSTED,
    )
    if found.url is not None:
        location = quote(found.url, safe=_URI_SAFE)
        return Answer(status=303, headers=(("Location", location), *headers[:1], *headers[2:]))
    return limited(Answer(headers=headers, body=found.content), request)


def registered(view: View, request: Request, xid: Xid) -> Answer:
    """What a POST of a document is answered with: the version that has it (A-39, A-46)."""
    version = view.entity(xid, ViewOptions(base_url=request.root))
    headers = tuple(version_headers_of(request, xid, version, group(view, request, xid)))
    return json_answer({"id": version_id(version, xid)}, headers=headers)


def group(view: View, request: Request, xid: Xid) -> JSONObject:
    """The group of a version or schema, as xRegistry has it. Raises ``not_found``."""
    return view.entity(Xid(xid.parts[:2]), ViewOptions(base_url=request.root))


def version_headers_of(
    request: Request, xid: Xid, version: Mapping[str, JSON], group: Mapping[str, JSON]
) -> Iterator[Header]:
    """The headers beside a version (A-46, A-48), its URL first."""
    uri = version_uri(version, xid, request.base)
    yield "Location", request.url(xid)
    yield "Schema-Id", _uri(version_id(version, xid))
    yield "Schema-Id-Location", f"{request.base}/schema?uri={quote(uri, safe='')}"
    yield "Schema-Version", str(number_of(xid))
    for name, value in version_headers(version, group):
        yield name, _uri(value) if name == "Schema-Authority" else encode(value)


def limited(answer: Answer, request: Request) -> Answer:
    """``answer`` if it is not too large to be sent. Raises ``too_large``."""
    size, limit = len(answer.body), request.settings.max_response_bytes
    if size <= limit:
        return answer
    detail = f"it has {size} bytes and {limit} are allowed (setting max_response_bytes)"
    raise RegistryError("too_large", subject=request.path.text, detail=detail)


def _uri(text: str) -> str:
    """A URI as a header: what another door let in that is none is encoded as far as needed."""
    return quote(text, safe=_URI_SAFE)
