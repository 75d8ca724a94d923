"""The tables of this program's version. ``migrations/`` brings a database to this state.

Attributes are JSON text next to indexed key columns, so that a change of the model never changes a table. Instants are
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
"""The newest migration. A test checks that it equals the last one in ``migrations/versions``."""

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
    # The id in lower case: ids are unique among siblings, ignoring case (core R25), and sorted by this column.
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
    """Create an index over ``columns`` that contains only rows with a value in ``column``, because few rows have a
    value."""
    has_value = column.is_not(None)
    return Index(name, *columns, sqlite_where=has_value, postgresql_where=has_value)


_C: Final = ENTITIES.c
_index("entities_by_xref", _C.xref, _C.xref)
# Finds the rows that have a document, and those of one Resource's Versions, at a cost independent of other rows.
_index("entities_by_document", _C.document, _C.document, _C.parent)
# Finds the newest Versions of a Resource, the neighbours of a Version and the Versions derived from it by index.
_index("entities_by_rank", _C.rank, _C.parent, _C.rank, _C.folded)
_index("entities_by_ancestor", _C.ancestorid, _C.parent, _C.ancestorid)
_index("entities_by_uri", _C.uri, _C.uri, _C.key)
# Finds the Versions with a schema id in one Group: their xids begin with the Group's xid.
_index("entities_by_schemaid", _C.schemaid, _C.schemaid, _C.xid)

# The number of children of each type that an entity has. Every insert and delete updates it, so that no request counts
# a million rows.
MEMBERS: Final = Table(
    "members",
    TABLES,
    Column("parent", BigInteger, primary_key=True, autoincrement=False),
    Column("type", _BY_CODE_POINT, primary_key=True),
    Column("count", BigInteger, nullable=False),
)

# The number of Versions in each Group, at any depth, and the total bytes of their documents. A document that several
# Versions share is counted for each of them.
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

# The numbers of schema contents in a Group. A number stays when no Version has the content any more.
SCHEMA_IDS: Final = Table(
    "schema_ids",
    TABLES,
    Column("group", _BY_CODE_POINT, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("content", _BY_CODE_POINT, nullable=False),
)
Index("schema_ids_by_content", SCHEMA_IDS.c.content, SCHEMA_IDS.c.group)

# Versions that are deleted for every API except the Confluent-compatible API, which may still show them.
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

# Settings that clients of the Confluent-compatible API store for the registry, for contexts and for subjects.
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

# The key-value store for the server and its operator. Clients cannot see it. Names are paths.
KEY_VALUES: Final = Table(
    "notes",
    TABLES,
    Column("name", _BY_CODE_POINT, primary_key=True),
    Column("value", Text, nullable=False),
)

# The pipelines that report their batches, each with the number and a summary of its newest report.
PIPELINES: Final = Table(
    "pipelines",
    TABLES,
    Column("name", _BY_CODE_POINT, primary_key=True),
    Column("newest", BigInteger, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("gist", Text, nullable=False),
)

# Not part of the registry: writing a report is no change of the registry. Old reports are pruned (docs/decisions/127).
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

# Separate from the subscriptions, because these rows are written every second while events are delivered.
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
# Finds the oldest position that a subscription still needs. Pruning the outbox has to keep everything after it.
Index("deliveries_by_position", DELIVERIES.c.position)

CONSENTS: Final = Table(
    "consents",
    TABLES,
    Column("subscription", _BY_CODE_POINT, primary_key=True),
    Column("sink", Text, nullable=False),
    Column("rate", BigInteger),
)

# The secret of a token is stored as a hash only. ``used`` is updated now and then, by any server that the token was
# used at.
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

# The last storage key that was assigned, and other numbers. They are rows, not sequences, so that a rolled back write
# leaves no trace.
COUNTERS: Final = Table(
    "counters",
    TABLES,
    Column("name", _BY_CODE_POINT, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

# The search index, derived from the entities: what people search, without the words (``words``), and references between
# entities.
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

# Not part of the registry: writing an entry is no change of the registry. Entries are pruned by age.
AUDIT: Final = Table(
    "audit",
    TABLES,
    Column("number", _ROWID, Identity(), primary_key=True),
    Column("time", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    # Each xid is on its own line, with a line break before the first and after the last.
    Column("xids", Text, nullable=False),
    Column("correlationid", Text, nullable=False),
    Column("details", Text, nullable=False),
    sqlite_autoincrement=True,
)
# The only index: an entry is written with every write of the registry, but people rarely read the audit log.
Index("audit_by_time", AUDIT.c.time)


Parameters = dict[str, Any]

COLUMNS: Final = tuple(c for c in ENTITIES.c if c.name not in ("type", "folded"))
"""The columns that a query for rows selects, in the order that ``load`` expects."""

IDENTITY: Final = frozenset({"key", "parent", "xid", "type", "folded"})
"""The columns that never change while an entity exists."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def load(record: tuple[Any, ...]) -> Row:
    """Return the row in one database record, which has the columns of ``COLUMNS``."""
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
    """Return the value of every column for ``row``, by column name."""
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
    """Return the form in which ids are compared and sorted. Lower case is enough, because ids are ASCII (core R25)."""
    return id.lower()


def findable(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that can be ids. Texts with NUL are left out, because PostgreSQL fails the
    transaction for them."""
    return tuple(text for text in texts if "\0" not in text)


def stored_xid(text: str) -> Xid:
    """Parse an xid from the database. It was checked before it was stored; a second check for every row
    would be slow."""
    return Xid(tuple(text[1:].split("/"))) if len(text) > 1 else Xid()


def load_json(text: str) -> JSON:
    """Decode JSON that ``dump_text`` wrote. The depth is not checked, because it was checked before storing."""
    return msgspec.json.decode(text)


def dump_text(value: JSON) -> str:
    """Encode ``value`` as JSON text. NUL is escaped, because PostgreSQL's text type cannot hold it."""
    return dump_json(value).decode()


def microseconds(stamp: datetime) -> int:
    """Return the microseconds since 1970 UTC; exact for every ``datetime``, negative before 1970."""
    return (stamp - _EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    """Return the UTC ``datetime`` for ``value`` microseconds since 1970: the inverse of ``microseconds``."""
    return _EPOCH + timedelta(0, 0, value)
