"""The index: what people search, and what refers to what. The engine fills it when it opens the store."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_TEXT: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_ROWID: Final = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables, empty."""
    op.create_table(
        "index_entries",
        sa.Column("key", _ROWID, primary_key=True, autoincrement=False),
        sa.Column("xid", _TEXT, nullable=False),
        sa.Column("folded", _TEXT, nullable=False),
        sa.Column("flags", sa.BigInteger, nullable=False),
        sa.Column("format", sa.Text),
        sa.Column("protocol", sa.Text),
        sa.Column("envelope", sa.Text),
        sa.Column("texts", sa.Text, nullable=False),
    )
    op.create_index("index_entries_by_id", "index_entries", ["folded"])
    op.create_table(
        "index_links",
        sa.Column("source", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", _TEXT, primary_key=True),
        sa.Column("target", _TEXT, primary_key=True),
    )
    op.create_index("index_links_by_target", "index_links", ["target", "source"])
    op.create_table(
        "index_state",
        sa.Column("name", _TEXT, primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE TABLE index_words (key BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)")
        op.execute("CREATE INDEX index_words_by_word ON index_words USING GIN (words)")
    else:
        op.execute(
            "CREATE VIRTUAL TABLE index_words USING fts5(names, fields, members, prose, facets, columnsize=0, "
            "tokenize=\"unicode61 remove_diacritics 0 categories 'L* N* Co'\")"
        )
