"""Storage of entities and documents behind one narrow interface, in SQLite or PostgreSQL. It has no domain rules."""

from signalbook.storage.store import open_store

__all__ = ["open_store"]
