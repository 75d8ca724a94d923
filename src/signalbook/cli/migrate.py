"""``signalbook migrate``."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from typer import Option

from signalbook.cli.console import say
from signalbook.cli.registry import DbOption, database_settings


def run(
    db: DbOption = None,
    recount: Annotated[
        bool,
        Option("--recount", help="Count anew what Groups have, once no server of an older version writes any more."),
    ] = False,
) -> None:
    """Bring a database to the schema of this version, and make it if it is empty.

    serve does the same when it starts: this is for a step of its own before that, such as a job of a cluster. It does
    nothing where nothing is to be done.
    """
    from signalbook.access import audit
    from signalbook.storage.inspection import inspect

    given = database_settings(db)
    with closing(audit.open_recorded(given)) as store:
        if recount:
            with store.write() as transaction:
                transaction.entities.recount()
                found = audit.record(transaction, given, "/", about="counted anew what Groups have")
            audit.tell(found, given)
    state = inspect(given.db, timeout=given.request_timeout)
    say(f"{state.where} has schema {state.revision}")
