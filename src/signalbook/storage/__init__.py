"""Rows and documents: one narrow interface, SQLite and PostgreSQL behind it. No domain rules here."""

from signalbook.storage.open import open_store

__all__ = ["open_store"]
