"""Kept numbers of children; what a write needs to find its way among the Versions of one Resource."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_BY_CODE_POINT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Count the children there are. Ranks stay unknown: they depend on the model, the next write brings them."""
    op.create_table(
        "members",
        sa.Column("parent", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("type", _BY_CODE_POINT, primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
    )
    op.execute("INSERT INTO members SELECT parent, type, count(*) FROM entities GROUP BY parent, type")
    op.add_column("entities", sa.Column("settled", sa.Text))
    op.add_column("entities", sa.Column("rank", _BY_CODE_POINT))
    _index("rank", ["parent", "rank", "folded"], "rank IS NOT NULL")
    if op.get_bind().dialect.name == "postgresql":  # SQLite compares by code point anyway, and alters no column
        op.alter_column("entities", "ancestorid", type_=_BY_CODE_POINT)
    _index("ancestor", ["parent", "ancestorid"], "ancestorid IS NOT NULL")


def _index(name: str, columns: list[str], where: str) -> None:
    rows = sa.text(where)
    op.create_index(f"entities_by_{name}", "entities", columns, sqlite_where=rows, postgresql_where=rows)
