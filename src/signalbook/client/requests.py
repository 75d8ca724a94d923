"""Requests on the wire: paths, flags, header values (core/http.md "Request Flags / Query Parameters")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack
from urllib.parse import quote

from signalbook.client.answers import ClientError
from signalbook.xid import Kind, Xid, XidError

Target = Xid | str
Query = Mapping[str, str | Sequence[str]]


class ReadFlags(TypedDict, total=False):
    """Request flags of a read.

    ``inline`` names what to inline, ``["*"]`` all. A ``filter`` is expressions that have to hold together, with commas
    between them; one of several is enough. ``sort`` is for collections: an attribute, with ``=desc`` behind it or not.
    """

    inline: Sequence[str]
    filter: str | Sequence[str]
    sort: str
    doc: bool
    binary: bool


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


def reading(**flags: Unpack[ReadFlags]) -> dict[str, str | Sequence[str]]:
    """The flags of a read."""
    query: dict[str, str | Sequence[str]] = {"inline": ",".join(flags["inline"])} if flags.get("inline") else {}
    filters = flags.get("filter", ())
    query |= {"filter": [filters] if isinstance(filters, str) else filters} if filters else {}
    query |= {"sort": flags["sort"]} if "sort" in flags else {}
    return query | ({"doc": ""} if flags.get("doc") else {}) | ({"binary": ""} if flags.get("binary") else {})


def writing(*, ignore: Sequence[str] = (), setdefaultversionid: str | None = None) -> dict[str, str]:
    """The flags of a write."""
    query = {"ignore": ",".join(dict.fromkeys(ignore))} if ignore else {}
    return query if setdefaultversionid is None else query | {"setdefaultversionid": setdefaultversionid}


def query_string(query: Query) -> str:
    """``query`` percent-encoded; a flag without a value stays bare, one with several is repeated."""
    return "&".join(
        f"{name}={quote(value, safe='*,./')}" if value else name
        for name, values in query.items()
        for value in ([values] if isinstance(values, str) else values)
    )


def encode(value: str | None) -> str:
    """A value for an ``xRegistry-`` header (core/http.md "HTTP Header Values", R166)."""
    return "null" if value is None else quote(value, safe="!#$&'()*+,/:;<=>?@[\\]^`{|}~-._")
