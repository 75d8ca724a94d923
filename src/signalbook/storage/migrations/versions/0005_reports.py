"""Reports of pipelines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_BY_CODE_POINT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make their tables."""
    op.create_table(
        "pipelines",
        sa.Column("name", _BY_CODE_POINT, primary_key=True),
        sa.Column("newest", sa.BigInteger, nullable=False),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("gist", sa.Text, nullable=False),
    )
    op.create_table(
        "reports",
        sa.Column("pipeline", _BY_CODE_POINT, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("batch", _BY_CODE_POINT, nullable=False),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.UniqueConstraint("pipeline", "batch"),
    )
