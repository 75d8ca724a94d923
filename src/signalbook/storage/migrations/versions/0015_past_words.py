"""Words of Versions that are not shown by default in a table of their own: most searches pass them over."""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Make the table, and move them there."""
    past = "SELECT key FROM index_entries WHERE flags & 1 = 0"
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE TABLE index_words_past (key BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)")
        op.execute(f"INSERT INTO index_words_past SELECT key, words FROM index_words WHERE key IN ({past})")  # noqa: S608  our own names
        op.execute("CREATE INDEX index_words_past_by_word ON index_words_past USING GIN (words)")
        op.execute(f"DELETE FROM index_words WHERE key IN ({past})")  # noqa: S608  our own names
    else:
        op.execute(
            "CREATE VIRTUAL TABLE index_words_past USING fts5(names, fields, members, prose, facets, columnsize=0, "
            "tokenize=\"unicode61 remove_diacritics 0 categories 'L* N* Co'\")"
        )
        columns = "rowid, names, fields, members, prose, facets"
        op.execute(
            f"INSERT INTO index_words_past ({columns}) SELECT {columns} FROM index_words WHERE rowid IN ({past})"  # noqa: S608  our own names
        )
        op.execute(f"DELETE FROM index_words WHERE rowid IN ({past})")  # noqa: S608  our own names
        for table in ("index_words", "index_words_past"):
            op.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608  our own names
