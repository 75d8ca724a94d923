"""Between ``Row`` and the columns of ``entities``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from signalbook.storage.base import Row
from signalbook.storage.schema import ENTITIES
from signalbook.values import JSON, dump_json
from signalbook.xid import Xid

Parameters = dict[str, Any]

COLUMNS: Final = tuple(c for c in ENTITIES.c if c.name not in ("type", "folded"))
"""What a query for rows selects, in the order ``load`` expects."""

IDENTITY: Final = frozenset({"key", "parent", "xid", "type", "folded"})
"""Columns that never change in the life of an entity."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def load(record: tuple[Any, ...]) -> Row:
    """The row in one record of ``COLUMNS``."""
    key, parent, xid, epoch, createdat, modifiedat, attributes, *rest = record
    default, sticky, counter, xref, ancestor, document, settled, rank, uri = rest
    return Row(
        key=key,
        parent=parent,
        xid=stored_xid(xid),
        epoch=epoch,
        createdat=instant(createdat),
        modifiedat=instant(modifiedat),
        attributes=load_json(attributes),
        defaultversionid=default,
        defaultversionsticky=bool(sticky),
        versioncounter=counter,
        xref=None if xref is None else stored_xid(xref),
        ancestorid=ancestor,
        document=document,
        settled=settled,
        rank=rank,
        uri=uri,
    )


def dump(row: Row) -> Parameters:
    """Every column of ``row``, by name."""
    collection, folded = position(row.xid)
    return {
        "key": row.key,
        "parent": row.parent,
        "xid": str(row.xid),
        "type": collection,
        "folded": folded,
        "epoch": row.epoch,
        "createdat": microseconds(row.createdat),
        "modifiedat": microseconds(row.modifiedat),
        "attributes": dump_text(row.attributes),
        "defaultversionid": row.defaultversionid,
        "defaultversionsticky": row.defaultversionsticky,
        "versioncounter": row.versioncounter,
        "xref": None if row.xref is None else str(row.xref),
        "ancestorid": row.ancestorid,
        "document": row.document,
        "settled": row.settled,
        "rank": row.rank,
        "uri": row.uri,
    }


def position(xid: Xid) -> tuple[str, str]:
    """Where an entity stands among its siblings: its collection's name and its folded id; both "" for the Registry."""
    return (xid.parts[-2], fold(xid.parts[-1])) if xid.parts else ("", "")


def fold(id: str) -> str:
    """The form in which ids are compared and sorted. Ids are ASCII (core R25), so lower case is all there is to it."""
    return id.lower()


def stored_xid(text: str) -> Xid:
    """An xid that was checked on its way in: no second check, this runs for every row read."""
    return Xid(tuple(text[1:].split("/"))) if len(text) > 1 else Xid()


def load_json(text: str) -> JSON:
    """Decode JSON that ``dump_text`` wrote; its depth was checked on its way in."""
    return msgspec.json.decode(text)


def dump_text(value: JSON) -> str:
    """Encode as JSON text; NUL comes out escaped, which PostgreSQL's text needs."""
    return dump_json(value).decode()


def microseconds(stamp: datetime) -> int:
    """Microseconds since 1970 UTC; exact for every ``datetime``, negative before."""
    return (stamp - _EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    """The UTC ``datetime`` that ``microseconds`` made ``value`` of."""
    return _EPOCH + timedelta(microseconds=value)
