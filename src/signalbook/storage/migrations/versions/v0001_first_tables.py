"""The first tables: entities, documents, config, counters, outbox."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_BY_CODE_POINT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_ROWID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create every table in an empty database."""
    _create_entities()
    op.create_table(
        "documents",
        sa.Column("digest", _BY_CODE_POINT, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "config",
        sa.Column("name", _BY_CODE_POINT, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("value", sa.Text),
    )
    counters = op.create_table(
        "counters",
        sa.Column("name", _BY_CODE_POINT, primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(counters, [{"name": "entities", "value": 0}])
    op.create_table(
        "outbox",
        sa.Column("position", _ROWID, sa.Identity(), primary_key=True),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("correlationid", sa.Text, nullable=False),
        sa.Column("change", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )


def _create_entities() -> None:
    op.create_table(
        "entities",
        sa.Column("key", _ROWID, primary_key=True, autoincrement=False),
        sa.Column("parent", sa.BigInteger, nullable=False),
        sa.Column("xid", _BY_CODE_POINT, nullable=False, unique=True),
        sa.Column("type", _BY_CODE_POINT, nullable=False),
        sa.Column("folded", _BY_CODE_POINT, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("createdat", sa.BigInteger, nullable=False),
        sa.Column("modifiedat", sa.BigInteger, nullable=False),
        sa.Column("attributes", sa.Text, nullable=False),
        sa.Column("defaultversionid", sa.Text),
        sa.Column("defaultversionsticky", sa.Boolean, nullable=False),
        sa.Column("versioncounter", sa.BigInteger, nullable=False),
        sa.Column("xref", _BY_CODE_POINT),
        sa.Column("ancestorid", sa.Text),
        sa.Column("document", _BY_CODE_POINT),
        sa.UniqueConstraint("parent", "type", "folded"),
    )
    for column in ("xref", "document"):
        has_value = sa.text(f"{column} IS NOT NULL")
        op.create_index(
            f"entities_by_{column}", "entities", [column], sqlite_where=has_value, postgresql_where=has_value
        )
