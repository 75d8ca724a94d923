"""Sessions of people who logged in to the explorer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_BY_CODE_POINT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make their table."""
    op.create_table(
        "sessions",
        sa.Column("id", _BY_CODE_POINT, primary_key=True),
        sa.Column("subject", _BY_CODE_POINT, nullable=False),
        sa.Column("groups", sa.Text, nullable=False),
        sa.Column("issuer", sa.Text, nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("displayname", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("expires", sa.BigInteger, nullable=False),
        sa.Column("hint", sa.Text, nullable=False),
    )
    op.create_index("sessions_by_expires", "sessions", ["expires"])
    op.create_index("sessions_by_subject", "sessions", ["subject", "created"])
