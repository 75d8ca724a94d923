"""What Alembic runs: the migrations, on the connection and in the transaction that ``storage.store`` opened."""

from __future__ import annotations

from alembic import context

from signalbook.storage.schema import TABLES

context.configure(connection=context.config.attributes["connection"], target_metadata=TABLES)
context.run_migrations()
