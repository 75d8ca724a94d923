"""Rows and documents: one narrow interface, SQLite and PostgreSQL behind it. No domain rules here."""
