"""Requests on the wire: paths, flags, header values (core/http.md "Request Flags / Query Parameters")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from signalbook.client.answers import ClientError
from signalbook.xid import Kind, Xid, XidError

Target = Xid | str
Query = Mapping[str, str]


def xid(target: Target) -> Xid:
    """``target`` as an xid. Raises ``ClientError``."""
    try:
        return target if isinstance(target, Xid) else Xid.parse(target)
    except XidError as error:
        raise ClientError(f"{target!r} is no xid: {error}") from None


def path(target: Target, *, details: bool = True) -> str:
    """The path of ``target``, with ``$details`` where that asks for metadata instead of a document (R153)."""
    named = xid(target)
    suffix = "$details" if details and named.kind in (Kind.RESOURCE, Kind.VERSION) else ""
    return quote(str(named), safe="/:@~") + suffix


def reading(inline: Sequence[str], doc: bool, binary: bool) -> dict[str, str]:
    """The flags of a read."""
    query = {"inline": ",".join(inline)} if inline else {}
    return query | {name: "" for name, wanted in (("doc", doc), ("binary", binary)) if wanted}


def writing(*, ignore: Sequence[str] = (), setdefaultversionid: str | None = None) -> dict[str, str]:
    """The flags of a write."""
    query = {"ignore": ",".join(dict.fromkeys(ignore))} if ignore else {}
    return query if setdefaultversionid is None else query | {"setdefaultversionid": setdefaultversionid}


def query_string(query: Query) -> str:
    """``query`` percent-encoded; a flag without a value stays bare."""
    return "&".join(f"{name}={quote(value, safe='*,./')}" if value else name for name, value in query.items())


def encode(value: str | None) -> str:
    """A value for an ``xRegistry-`` header (core/http.md "HTTP Header Values", R166)."""
    return "null" if value is None else quote(value, safe="!#$&'()*+,/:;<=>?@[\\]^`{|}~-._")
