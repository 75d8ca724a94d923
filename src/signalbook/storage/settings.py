"""Operator settings: configuration documents with their epochs, and a key-value store."""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, delete, literal_column, select

from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import CONFIG, KEY_VALUES, dump_text, load_json
from signalbook.storage.transaction import SqlReader, SqlWriting
from signalbook.values import JSON


class SettingsStatements:
    """The SQL text for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        c, k = CONFIG.c, KEY_VALUES.c
        named: Any = c.name == bindparam("name")
        self.config = dialect.text(select(c.value).where(named))
        self.config_epoch = dialect.text(select(c.epoch).where(named))
        config = dialect.insert(CONFIG).values(
            name=bindparam("name"), value=bindparam("value"), epoch=literal_column("1")
        )
        changed = {"value": config.excluded.value, "epoch": c.epoch + literal_column("1")}
        self.put_config = dialect.text(config.on_conflict_do_update(index_elements=[c.name], set_=changed))
        self.get = dialect.text(select(k.value).where(k.name == bindparam("name")))
        self.put = dialect.upsert(KEY_VALUES, "name")
        self.drop = dialect.text(delete(KEY_VALUES).where(k.name == bindparam("name")))


class SettingsReader(SqlReader[SettingsStatements]):
    """Reads operator settings: configuration documents, and a key-value store that clients cannot see."""

    def config(self, name: str) -> JSON | None:
        """Return the configuration document ``name`` (``capabilities``, ``modelsource``), or None if it is not set."""
        records = self._transaction.rows(self._sql.config, {"name": name})
        return load_json(records[0][0]) if records and records[0][0] is not None else None

    def config_epoch(self, name: str) -> int:
        """Return a number that grows with every ``put_config`` of ``name``; 0 if it was never set.

        Reading it is cheap. Compiled models are cached by it.
        """
        records = self._transaction.rows(self._sql.config_epoch, {"name": name})
        return int(records[0][0]) if records else 0

    def get(self, name: str) -> JSON:
        """Return the value stored under ``name``, or None if there is no value."""
        records = self._transaction.rows(self._sql.get, {"name": name})
        return load_json(records[0][0]) if records else None


class SettingsWriter(SettingsReader):
    """Reads and writes operator settings in a write transaction."""

    def __init__(self, transaction: SqlWriting, sql: SettingsStatements) -> None:
        super().__init__(transaction, sql)
        self._writing = transaction

    def put_config(self, name: str, value: JSON | None) -> None:
        """Set a configuration document and raise its epoch. The value None removes the document."""
        self._writing.pending.touched = True
        text = None if value is None else dump_text(value)
        self._writing.run(self._sql.put_config, {"name": name, "value": text})

    def put(self, name: str, value: JSON | None) -> None:
        """Store a value in the key-value store; None removes it. This does not change the registry."""
        if value is None:
            self._writing.run(self._sql.drop, {"name": name})
        else:
            self._writing.run(self._sql.put, {"name": name, "value": dump_text(value)})
