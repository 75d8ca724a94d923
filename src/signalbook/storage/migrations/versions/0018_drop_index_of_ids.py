"""Drop the database index of the ids of index entries: no query uses it."""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Drop it."""
    op.drop_index("index_entries_by_id", "index_entries")
