"""Versions found by their URIs, and by their documents below one Resource; counters that no number is ahead of."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_BY_CODE_POINT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
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
    """Make room for the digests, which come with 0008, and give the Resources there are counters."""
    op.add_column("entities", sa.Column("uri", _BY_CODE_POINT))
    connection = op.get_bind()
    connection.execute(sa.text(_COUNTED.format(number=_NUMBER[connection.dialect.name])))
    _index("uri", ["uri", "key"])
    op.drop_index("entities_by_document", "entities")
    _index("document", ["document", "parent"])


def _index(name: str, columns: list[str]) -> None:
    rows = sa.text(f"{columns[0]} IS NOT NULL")
    op.create_index(f"entities_by_{name}", "entities", columns, sqlite_where=rows, postgresql_where=rows)
