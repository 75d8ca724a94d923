"""Versions found by their URIs, and by their documents below one Resource; counters that no number is ahead of."""

from __future__ import annotations

import hashlib
import json
from typing import Final

import sqlalchemy as sa
from alembic import op

from signalbook.uris import is_uri

revision = "0004"
down_revision = "0003"

_BY_CODE_POINT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_NAMED: Final = """
SELECT key, xid, attributes FROM entities WHERE type = 'versions' AND attributes LIKE '%"globaluri"%'
"""
_NUMBER: Final = {"sqlite": "folded NOT GLOB '*[^0-9]*'", "postgresql": "folded ~ '^[0-9]+$'"}
_COUNTED: Final = """
UPDATE entities SET versioncounter = highest.number
FROM (
    SELECT parent, max(CAST(folded AS BIGINT)) AS number FROM entities
    WHERE type = 'versions' AND length(folded) < 10 AND {number} GROUP BY parent
) AS highest
WHERE key = highest.parent AND versioncounter < highest.number
"""


def upgrade() -> None:
    """Give the Versions there are their digests, and their Resources counters."""
    op.add_column("entities", sa.Column("uri", _BY_CODE_POINT))
    connection = op.get_bind()
    named = connection.execute(sa.text(_NAMED)).fetchall()
    update = sa.text("UPDATE entities SET uri = :uri WHERE key = :key")
    for key, xid, attributes in named:
        uri = _digest(xid.split("/")[1], json.loads(attributes))
        connection.execute(update, {"key": key, "uri": uri})
    connection.execute(sa.text(_COUNTED.format(number=_NUMBER[connection.dialect.name])))
    _index("uri", ["uri", "key"])
    op.drop_index("entities_by_document", "entities")
    _index("document", ["document", "parent"])


def _digest(groups: str, attributes: dict[str, object]) -> str | None:
    """What the engine made of these attributes when this was written."""
    named, authority = attributes.get("globaluri"), attributes.get("authority")
    authority = authority if isinstance(authority, str) else ""
    if not isinstance(named, str) or not named:
        return None
    uri, behind = named.replace(" ", "%20"), authority.partition(":")[2]
    if not is_uri(uri):
        opaque = bool(behind) and not behind.startswith("/") and is_uri(authority)
        uri = f"{authority}:{uri}" if opaque else f"{authority.removesuffix('/')}/{uri.removeprefix('/')}"
        uri = uri if authority else uri.removeprefix("/")
    return hashlib.sha256(f"{groups} {uri}".encode()).hexdigest()


def _index(name: str, columns: list[str]) -> None:
    rows = sa.text(f"{columns[0]} IS NOT NULL")
    op.create_index(f"entities_by_{name}", "entities", columns, sqlite_where=rows, postgresql_where=rows)
