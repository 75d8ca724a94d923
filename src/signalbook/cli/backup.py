"""``signalbook backup`` and ``signalbook restore``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from signalbook.cli.console import plain, print_json, say, working
from signalbook.cli.registry import DbOption, database_settings, require_database
from signalbook.values import format_count

if TYPE_CHECKING:
    from signalbook.settings import Settings
    from signalbook.storage.audit import AuditEntry
    from signalbook.storage.backup import Backup
    from signalbook.storage.store import WriteTransaction

JsonOption = Annotated[bool, Option("--json", help="Print what is in the backup as JSON.")]


def back_up(
    file: Annotated[Path, Argument(metavar="FILE", help="The new file.")],
    db: DbOption = None,
    json: JsonOption = False,
) -> None:
    """Write a backup of a database, while servers may be at work on it.

    All that is committed when it begins is in it: registry, history, subscriptions, reports. The file is an SQLite
    database, whichever kind was backed up, readable by its owner only. Secrets in it stay encrypted: keep the key file
    (setting key_file) as well, and elsewhere.
    """
    from signalbook.storage.backup import back_up

    settings = database_settings(db)
    require_database(settings.db)
    with working("backing up") as show:
        backup = back_up(
            settings.db, file, timeout=settings.request_timeout, progress=_build_progress("backing up", show)
        )
    _record_backup(backup, file, settings)
    _report(backup, file, f"backed up {backup.database} to {file}", json=json)


def restore(
    file: Annotated[Path, Argument(metavar="FILE", help="What signalbook backup wrote.")],
    db: DbOption = None,
    replace: Annotated[
        bool, Option("--replace", help="Delete what the database holds. No server may run on it meanwhile.")
    ] = False,
    check: Annotated[bool, Option("--check", help="Only read all of the backup and compare its digests.")] = False,
    json: JsonOption = False,
) -> None:
    """Restore a backup into an empty database, of either kind: all of it or nothing.

    The backup is read and checked first. One of an older version is migrated on the way, and stays as it is itself.
    """
    from signalbook.access import audit
    from signalbook.storage.backup import restore, verify

    settings = database_settings(db)
    if check:
        with working("checking") as show:
            backup = verify(file, progress=_build_progress("checking", show))
        _report(backup, file, f"{file} is complete", json=json)
        return
    entries: list[AuditEntry] = []

    def restored(transaction: WriteTransaction) -> None:
        entries.extend(audit.record(transaction, settings, "/", about=f"restored from {file.absolute()}"))

    with working("restoring") as show:
        progress, timeout = _build_progress("restoring", show), settings.request_timeout
        backup = restore(file, settings.db, timeout=timeout, replace=replace, progress=progress, restored=restored)
    audit.log_entries(entries, settings)
    _report(backup, file, f"restored {file}", json=json)
    if tokens := backup.tables["tokens"].rows:
        say(f"{tokens} API tokens work again as they did then: signalbook token list, revoke what was revoked since")


def _record_backup(backup: Backup, file: Path, settings: Settings) -> None:
    """Record a backup in the audit if possible: not in a standby, nor before a migration."""
    from signalbook.access import audit
    from signalbook.storage import open_store
    from signalbook.storage.base import StorageError
    from signalbook.storage.schema import REVISION

    if backup.revision != REVISION:
        return
    try:
        with closing(open_store(settings.db, timeout=settings.request_timeout)) as store, store.write() as transaction:
            entries = audit.record(transaction, settings, "/", about=f"backed up to {file.absolute()}")
    except StorageError as error:
        say(f"warning: the backup is complete, and the audit does not say so: {plain(str(error))}", style="yellow")
    else:
        audit.log_entries(entries, settings)


def _build_progress(action: str, show: Callable[[str], None]) -> Callable[[str, int], None]:
    return lambda table, rows: show(f"{action}: {table}, {format_count(rows, 'row')}")


def _report(backup: Backup, file: Path, message: str, *, json: bool) -> None:
    if json:
        tables = {name: {"rows": table.rows, "sha256": table.sha256} for name, table in backup.tables.items()}
        print_json(
            {
                "file": str(file),
                "bytes": file.stat().st_size,
                "created": backup.created.isoformat(),
                "database": backup.database,
                "revision": backup.revision,
                "tables": tables,
            }
        )
        return
    rows = sum(table.rows for table in backup.tables.values())
    entities = format_count(backup.tables["entities"].rows, "entity", "entities")
    say(f"{message}: {entities}, {format_count(rows, 'row')}, of {backup.created:%Y-%m-%d %H:%M:%S} UTC")
