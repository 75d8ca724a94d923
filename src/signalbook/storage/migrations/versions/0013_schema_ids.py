"""Numbers of the contents of schemas, and what is softly deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import sqlalchemy as sa
from alembic import op

from signalbook.values import canonical_json, digest

revision = "0013"
down_revision = "0012"

_TEXT: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_SCHEMA_TYPES: Final = {"avro": "AVRO", "jsonschema": "JSON", "protobuf": "PROTOBUF"}
_AT_ONCE: Final = 1000
_VERSIONS: Final = sa.text(
    "SELECT key, xid, attributes, document FROM entities WHERE type = 'versions' AND key > :key "
    "AND xid LIKE '/schemagroups/%' AND document IS NOT NULL ORDER BY key LIMIT :count"
)
_NUMBERS: Final = sa.text('SELECT "group", content, id FROM schema_ids WHERE content IN :contents').bindparams(
    sa.bindparam("contents", expanding=True)
)


def upgrade() -> None:
    """Number the contents there are by age."""
    op.create_table(
        "schema_ids",
        sa.Column("group", _TEXT, primary_key=True),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("content", _TEXT, nullable=False),
        sa.UniqueConstraint("content", "group"),
    )
    op.create_table(
        "soft_deleted",
        sa.Column("group", _TEXT, primary_key=True),
        sa.Column("schema", _TEXT, primary_key=True),
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("schemaid", sa.BigInteger, nullable=False),
        sa.Column("deletedat", sa.BigInteger, nullable=False),
        sa.Column("attributes", sa.Text, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_index("soft_deleted_by_id", "soft_deleted", ["group", "schemaid"])
    op.create_table(
        "subject_settings",
        sa.Column("kind", _TEXT, primary_key=True),
        sa.Column("scope", _TEXT, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.add_column("entities", sa.Column("schemaid", sa.BigInteger))
    has_schemaid = sa.text("schemaid IS NOT NULL")
    op.create_index(
        "entities_by_schemaid",
        "entities",
        ["schemaid", "xid"],
        sqlite_where=has_schemaid,
        postgresql_where=has_schemaid,
    )
    _number_contents()


def _number_contents() -> None:
    """A page at a time: what was numbered before is in the table, not in memory."""
    connection = op.get_bind()
    add = sa.text('INSERT INTO schema_ids ("group", id, content) VALUES (:group, :id, :content)')
    update = sa.text("UPDATE entities SET schemaid = :id WHERE key = :key")
    last: dict[str, int] = {}
    for page in _read_pages(connection):
        contents = {
            key: (xid.split("/")[2].lower(), content)
            for key, xid, attributes, document in page
            if (content := _compute_content(json.loads(attributes), document)) is not None
        }
        numbers = _read_numbers(connection, {content for _, content in contents.values()})
        fresh = []
        for group, content in contents.values():
            if (group, content) not in numbers:
                numbers[group, content] = last[group] = last.get(group, 0) + 1
                fresh.append({"group": group, "id": last[group], "content": content})
        numbered = [{"key": key, "id": numbers[place]} for key, place in contents.items()]
        for statement, rows in ((add, fresh), (update, numbered)):
            if rows:
                connection.execute(statement, rows)


def _read_numbers(connection: sa.Connection, contents: set[str]) -> dict[tuple[str, str], int]:
    """The numbers of those contents that have one, by group and content."""
    records = connection.execute(_NUMBERS, {"contents": sorted(contents)}) if contents else ()
    return {(group, content): number for group, content, number in records}


def _read_pages(connection: sa.Connection) -> Iterator[list[Any]]:
    after = -1
    while page := connection.execute(_VERSIONS, {"key": after, "count": _AT_ONCE}).fetchall():
        yield list(page)
        after = page[-1][0]


def _compute_content(attributes: dict[str, Any], document: str) -> str | None:
    """Return the content that the engine computed for a Version when this migration was written."""
    stated = attributes.get("format")
    kind = _SCHEMA_TYPES.get(stated.partition("/")[0].lower()) if isinstance(stated, str) else None
    if kind is None:
        return None
    parts = [kind, document, *(attributes.get(name) for name in ("references", "metadata", "ruleset"))]
    return digest(canonical_json(parts))
