"""The audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_ROWID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make its table."""
    op.create_table(
        "audit",
        sa.Column("number", _ROWID, sa.Identity(), primary_key=True),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("xids", sa.Text, nullable=False),
        sa.Column("correlationid", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_by_time", "audit", ["time"])
