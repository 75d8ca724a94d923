"""API tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_BY_CODE_POINT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make their table."""
    op.create_table(
        "tokens",
        sa.Column("id", _BY_CODE_POINT, primary_key=True),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("groups", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("expires", sa.BigInteger),
        sa.Column("used", sa.BigInteger),
    )
