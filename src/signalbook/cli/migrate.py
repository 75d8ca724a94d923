"""``signalbook migrate``."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from typer import Option

from signalbook.cli.console import say, working
from signalbook.cli.registry import DbOption, database_settings
from signalbook.values import format_count


def run(
    db: DbOption = None,
    recount: Annotated[
        bool,
        Option("--recount", help="Count anew what Groups have, once no server of an older version writes any more."),
    ] = False,
    reindex: Annotated[bool, Option("--reindex", help="Make the index of search and impact anew.")] = False,
) -> None:
    """Bring a database to the schema of this version, and make it if it is empty.

    serve does the same when it starts: this is for a step of its own before that, such as a job of a cluster. It does
    nothing where nothing is to be done.
    """
    from signalbook.access import audit
    from signalbook.engine.write.searchindex import complete_index
    from signalbook.storage.inspection import inspect

    settings = database_settings(db)
    with closing(audit.open_recorded(settings)) as store:
        if recount:
            with store.write() as transaction:
                transaction.entities.recount()
                entries = audit.record(transaction, settings, "/", about="counted anew what Groups have")
            audit.log_entries(entries, settings)
        with working("indexing") as show:
            complete_index(
                store,
                lambda done: show(f"indexing: {format_count(done, 'entity', 'entities')}"),
                root=settings.base_url,
                anew=reindex,
            )
    state = inspect(settings.db, timeout=settings.request_timeout)
    say(f"{state.where} has schema {state.revision}")
