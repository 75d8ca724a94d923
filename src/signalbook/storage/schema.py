"""The tables, as the program of this version wants them. ``migrations/`` brings a database here.

Attributes are JSON text beside indexed key columns, so that a change of the model never changes a table. Instants are
integers (microseconds since 1970 UTC): exact, comparable and the same on every database. Text that is compared or
sorted uses code point order everywhere (SQLite's own order, collation "C" on PostgreSQL).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from signalbook.storage.base import Row
from signalbook.values import JSON, dump_json
from signalbook.xid import Xid

REVISION: Final = "0018"
"""The newest migration; a test holds it to ``migrations/versions``."""

TABLES: Final = MetaData()

_BY_CODE_POINT: Final = Text().with_variant(Text(collation="C"), "postgresql")
_ROWID: Final = BigInteger().with_variant(Integer, "sqlite")

ENTITIES: Final = Table(
    "entities",
    TABLES,
    Column("key", _ROWID, primary_key=True, autoincrement=False),
    Column("parent", BigInteger, nullable=False),
    Column("xid", _BY_CODE_POINT, nullable=False, unique=True),
    Column("type", _BY_CODE_POINT, nullable=False),
    # The id in lower case: ids are unique among siblings whatever their case (core R25), and sorted by this.
    Column("folded", _BY_CODE_POINT, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("createdat", BigInteger, nullable=False),
    Column("modifiedat", BigInteger, nullable=False),
    Column("attributes", Text, nullable=False),
    Column("defaultversionid", Text),
    Column("defaultversionsticky", Boolean, nullable=False),
    Column("versioncounter", BigInteger, nullable=False),
    Column("xref", _BY_CODE_POINT),
    Column("ancestorid", _BY_CODE_POINT),
    Column("document", _BY_CODE_POINT),
    Column("settled", Text),
    Column("rank", _BY_CODE_POINT),
    Column("uri", _BY_CODE_POINT),
    Column("schemaid", BigInteger),
    UniqueConstraint("parent", "type", "folded"),
)


def _index(name: str, column: Column[Any], *columns: Column[Any]) -> Index:
    """An index over ``columns`` of the rows that have a value in the first column named: few of all rows do."""
    has_value = column.is_not(None)
    return Index(name, *columns, sqlite_where=has_value, postgresql_where=has_value)


_C: Final = ENTITIES.c
_index("entities_by_xref", _C.xref, _C.xref)
# Which rows hold a document, and which of a Resource's Versions do, however many others do as well.
_index("entities_by_document", _C.document, _C.document, _C.parent)
# Of a Resource's Versions the newest ones, the neighbours of one and those derived from one, whatever their number.
_index("entities_by_rank", _C.rank, _C.parent, _C.rank, _C.folded)
_index("entities_by_ancestor", _C.ancestorid, _C.parent, _C.ancestorid)
_index("entities_by_uri", _C.uri, _C.uri, _C.key)
# The Versions with an id, of one Group: xids begin with it.
_index("entities_by_schemaid", _C.schemaid, _C.schemaid, _C.xid)

# How many children of a type each entity has: kept with every insert and delete, so that no one counts a million rows.
MEMBERS: Final = Table(
    "members",
    TABLES,
    Column("parent", BigInteger, primary_key=True, autoincrement=False),
    Column("type", _BY_CODE_POINT, primary_key=True),
    Column("count", BigInteger, nullable=False),
)

# How many Versions are in each Group, at any depth, and how many bytes their documents have, each for itself.
USAGE: Final = Table(
    "group_usage",
    TABLES,
    Column("parent", BigInteger, primary_key=True, autoincrement=False),
    Column("versions", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)

DOCUMENTS: Final = Table(
    "documents",
    TABLES,
    Column("digest", _BY_CODE_POINT, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

# The numbers that contents of schemas have in a Group: also when no Version has them any more.
SCHEMA_IDS: Final = Table(
    "schema_ids",
    TABLES,
    Column("group", _BY_CODE_POINT, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("content", _BY_CODE_POINT, nullable=False),
)
Index("schema_ids_by_content", SCHEMA_IDS.c.content, SCHEMA_IDS.c.group)

# Versions that are deleted for everybody but the API that may still show them.
SOFT_DELETED: Final = Table(
    "soft_deleted",
    TABLES,
    Column("group", _BY_CODE_POINT, primary_key=True),
    Column("schema", _BY_CODE_POINT, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("schemaid", BigInteger, nullable=False),
    Column("deletedat", BigInteger, nullable=False),
    Column("attributes", Text, nullable=False),
    Column("document", LargeBinary, nullable=False),
)
Index("soft_deleted_by_id", SOFT_DELETED.c.group, SOFT_DELETED.c.schemaid)

# What the Confluent-compatible API is given for the registry, contexts and subjects beside their schemas.
SUBJECT_SETTINGS: Final = Table(
    "subject_settings",
    TABLES,
    Column("kind", _BY_CODE_POINT, primary_key=True),
    Column("scope", _BY_CODE_POINT, primary_key=True),
    Column("value", Text, nullable=False),
)

CONFIG: Final = Table(
    "config",
    TABLES,
    Column("name", _BY_CODE_POINT, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("value", Text),
)

# The key-value store beside the registry, for the server and its operator, unseen by clients: names are paths.
KEY_VALUES: Final = Table(
    "notes",
    TABLES,
    Column("name", _BY_CODE_POINT, primary_key=True),
    Column("value", Text, nullable=False),
)

# The pipelines that report their batches, each with the number and the gist of the newest report.
PIPELINES: Final = Table(
    "pipelines",
    TABLES,
    Column("name", _BY_CODE_POINT, primary_key=True),
    Column("newest", BigInteger, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("gist", Text, nullable=False),
)

# No part of the registry, and no change of it: a history that grows and is pruned (docs/decisions/127).
REPORTS: Final = Table(
    "reports",
    TABLES,
    Column("pipeline", _BY_CODE_POINT, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("batch", _BY_CODE_POINT, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("value", Text, nullable=False),
    UniqueConstraint("pipeline", "batch"),
)

SUBSCRIPTIONS: Final = Table(
    "subscriptions",
    TABLES,
    Column("id", _BY_CODE_POINT, primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("protocol", Text, nullable=False),
    Column("sink", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("root", Text, nullable=False),
    Column("types", Text, nullable=False),
    Column("filters", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("protocolsettings", Text, nullable=False),
    Column("credential", Text),
    # Secrets, encrypted with a key that is not in the database.
    Column("sealed", Text),
    Column("owner", Text),
)

# Apart from subscriptions: these are written every second while events are delivered.
DELIVERIES: Final = Table(
    "deliveries",
    TABLES,
    Column("subscription", _BY_CODE_POINT, primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("delivered", BigInteger, nullable=False),
    Column("rejected", BigInteger, nullable=False),
    Column("failures", BigInteger, nullable=False),
    Column("failing", Text, nullable=False),
    Column("lasterror", Text, nullable=False),
    Column("lastattempt", Text, nullable=False),
    Column("lastdelivery", Text, nullable=False),
    Column("next", Text, nullable=False),
)
# What the pruning of the outbox has to leave.
Index("deliveries_by_position", DELIVERIES.c.position)

CONSENTS: Final = Table(
    "consents",
    TABLES,
    Column("subscription", _BY_CODE_POINT, primary_key=True),
    Column("sink", Text, nullable=False),
    Column("rate", BigInteger),
)

# Of a token's secret there is a hash alone. ``used`` is written now and then, and by whichever server it was used at.
TOKENS: Final = Table(
    "tokens",
    TABLES,
    Column("id", _BY_CODE_POINT, primary_key=True),
    Column("hash", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("groups", Text, nullable=False),
    Column("scopes", Text),
    Column("note", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger),
    Column("used", BigInteger),
)

SESSIONS: Final = Table(
    "sessions",
    TABLES,
    Column("id", _BY_CODE_POINT, primary_key=True),
    Column("subject", _BY_CODE_POINT, nullable=False),
    Column("groups", Text, nullable=False),
    Column("issuer", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("displayname", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("hint", Text, nullable=False),
    Index("sessions_by_expires", "expires"),
    Index("sessions_by_subject", "subject", "created"),
)

# The last storage key given out, and other numbers. Rows rather than sequences, so that a rolled back write leaves no
# trace.
COUNTERS: Final = Table(
    "counters",
    TABLES,
    Column("name", _BY_CODE_POINT, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

# Made of the entities alone: what people search, beside the words themselves (``words``), and what refers to what.
INDEX_ENTRIES: Final = Table(
    "index_entries",
    TABLES,
    Column("key", _ROWID, primary_key=True, autoincrement=False),
    Column("xid", _BY_CODE_POINT, nullable=False),
    Column("folded", _BY_CODE_POINT, nullable=False),
    Column("flags", BigInteger, nullable=False),
    Column("format", Text),
    Column("protocol", Text),
    Column("envelope", Text),
    Column("texts", Text, nullable=False),
)

INDEX_LINKS: Final = Table(
    "index_links",
    TABLES,
    Column("source", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", _BY_CODE_POINT, primary_key=True),
    Column("target", _BY_CODE_POINT, primary_key=True),
)
Index("index_links_by_target", INDEX_LINKS.c.target, INDEX_LINKS.c.source)

INDEX_STATE: Final = Table(
    "index_state",
    TABLES,
    Column("name", _BY_CODE_POINT, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

OUTBOX: Final = Table(
    "outbox",
    TABLES,
    Column("position", _ROWID, Identity(), primary_key=True),
    Column("time", BigInteger, nullable=False),
    Column("correlationid", Text, nullable=False),
    Column("change", Text, nullable=False),
    sqlite_autoincrement=True,
)

# No part of the registry, and no change of it either: a history that is pruned by age.
AUDIT: Final = Table(
    "audit",
    TABLES,
    Column("number", _ROWID, Identity(), primary_key=True),
    Column("time", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    # Each on a line of its own, with a line break before the first and behind the last.
    Column("xids", Text, nullable=False),
    Column("correlationid", Text, nullable=False),
    Column("details", Text, nullable=False),
    sqlite_autoincrement=True,
)
# The only one: a row is written with every write of the registry, and read by people now and then.
Index("audit_by_time", AUDIT.c.time)


Parameters = dict[str, Any]

COLUMNS: Final = tuple(c for c in ENTITIES.c if c.name not in ("type", "folded"))
"""What a query for rows selects, in the order ``load`` expects."""

IDENTITY: Final = frozenset({"key", "parent", "xid", "type", "folded"})
"""Columns that never change in the life of an entity."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def load(record: tuple[Any, ...]) -> Row:
    """The row in one record of ``COLUMNS``."""
    key, parent, xid, epoch, createdat, modifiedat, attributes, *more_columns = record
    default, sticky, counter, xref, ancestor, document, settled, rank, uri, schemaid = more_columns
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
        schemaid=schemaid,
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
        "schemaid": row.schemaid,
    }


def position(xid: Xid) -> tuple[str, str]:
    """Return the place of an entity among its siblings: collection name and folded id; both empty for the Registry."""
    return (xid.parts[-2], fold(xid.parts[-1])) if xid.parts else ("", "")


def fold(id: str) -> str:
    """The form in which ids are compared and sorted. Ids are ASCII (core R25), so lower case is all there is to it."""
    return id.lower()


def findable(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that can be ids. PostgreSQL rejects a search for NUL and fails the transaction."""
    return tuple(text for text in texts if "\0" not in text)


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
    return _EPOCH + timedelta(0, 0, value)
