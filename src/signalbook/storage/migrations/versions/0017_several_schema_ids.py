"""Contents of schemas with several numbers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table anew without the constraint that a content has one number: SQLite cannot drop it."""
    op.rename_table("schema_ids", "unique_schema_ids")
    op.create_table(
        "schema_ids",
        sa.Column("group", _TEXT, primary_key=True),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("content", _TEXT, nullable=False),
    )
    op.execute('INSERT INTO schema_ids ("group", id, content) SELECT "group", id, content FROM unique_schema_ids')
    op.drop_table("unique_schema_ids")
    op.create_index("schema_ids_by_content", "schema_ids", ["content", "group"])
