"""Kept numbers of the Versions of Groups, and of the bytes of their documents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Count those there are. A server of the version before counts none that it writes: ``migrate --recount`` does."""
    op.create_table(
        "group_usage",
        sa.Column("parent", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("versions", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )
    op.execute(
        "INSERT INTO group_usage SELECT r.parent, count(*), coalesce(sum(length(d.content)), 0) FROM entities v "
        "JOIN entities r ON r.key = v.parent LEFT JOIN documents d ON d.digest = v.document "
        "WHERE v.type = 'versions' GROUP BY r.parent"
    )
