"""Whose a subscription is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Nobody knows it of those there are."""
    op.add_column("subscriptions", sa.Column("owner", sa.Text))
