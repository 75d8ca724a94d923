"""Notes in a table of their own: there may be many, they go again, and no configuration's epoch counts them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_BY_CODE_POINT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Move the notes that were configuration documents named ``note.*``."""
    op.create_table(
        "notes",
        sa.Column("name", _BY_CODE_POINT, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    moved = "FROM config WHERE name LIKE 'note.%'"
    op.execute(f"INSERT INTO notes SELECT substr(name, 6), value {moved} AND value IS NOT NULL")
    op.execute(f"DELETE {moved}")
