"""Bringing a database to the schema of this program, by the migrations shipped in ``migrations/``."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from signalbook.storage.base import StorageError
from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import REVISION

MIGRATIONS: Final = Path(__file__).parent / "migrations"
_ONE_AT_A_TIME: Final = threading.Lock()
"""Alembic keeps the migration that runs in module globals."""


def ensure_current(dialect: Dialect) -> None:
    """Migrate the database unless it is at this program's revision already; all migrations or none.

    Any number of programs may start at once: one migrates, the others wait for it. Raises ``StorageError`` if the
    database cannot be used or was written by a newer program.
    """
    try:
        if _revision(dialect) != REVISION:
            with _ONE_AT_A_TIME:
                _migrate(dialect)
    except dialect.errors as error:
        raise dialect.explain(error) from None
    except DBAPIError as error:
        raise dialect.explain(error.orig if isinstance(error.orig, Exception) else error) from None


def _revision(dialect: Dialect) -> str | None:
    """The revision of the database, asked without loading Alembic; None also for whatever hinders the answer."""
    connection = dialect.connect()
    try:
        return str(connection.execute("SELECT version_num FROM alembic_version").fetchall()[0][0])
    except (dialect.errors, IndexError):
        return None
    finally:
        connection.close()


def _migrate(dialect: Dialect) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    url = f"{dialect.sql.name}+{dialect.sql.driver}://"
    engine = create_engine(url, creator=dialect.connect, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(dialect.begin_write)
        found = MigrationContext.configure(connection).get_current_revision()
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if found is not None and found not in known:
            raise StorageError(
                f"{dialect.where}: its schema is {found}, this program knows {REVISION} at most: "
                "update Signalbook, or name another database"
            )
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.commit()
