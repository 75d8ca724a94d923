"""``signalbook migrate``."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from typer import Option

from signalbook.cli.console import say, working
from signalbook.cli.registry import DbOption, database_settings


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
    from signalbook.engine.write.indexing import complete_index
    from signalbook.storage.inspection import inspect

    given = database_settings(db)
    with closing(audit.open_recorded(given)) as store:
        if recount:
            with store.write() as transaction:
                transaction.entities.recount()
                found = audit.record(transaction, given, "/", about="counted anew what Groups have")
            audit.log_entries(found, given)
        with working("indexing") as shown:
            complete_index(store, lambda done: shown(f"indexing: {done} entities"), root=given.base_url, anew=reindex)
    state = inspect(given.db, timeout=given.request_timeout)
    say(f"{state.where} has schema {state.revision}")
