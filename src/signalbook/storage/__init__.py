"""Rows and documents: one narrow interface, SQLite and PostgreSQL behind it. No domain rules here."""

from signalbook.storage.store import open_store

__all__ = ["open_store"]
