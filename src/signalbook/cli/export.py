"""``signalbook export``: a registry, or part of it, as one document."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from signalbook.cli.console import working
from signalbook.cli.files import write_whole
from signalbook.cli.registry import DbOption, ServerOption, open_registry
from signalbook.xid import Xid, XidError

HELP: Final = (
    "Write a registry, or the part of it at XID, as one document that import reads.\n\n"
    "It goes to standard output as JSON, or with -o to a file, as YAML if its name ends in .yaml or .yml. The file is "
    "replaced only when all of the document is written."
)


def run(
    xid: Annotated[
        str, typer.Argument(metavar="XID", help="An entity or collection, such as /schemagroups/parcels.")
    ] = "/",
    server: ServerOption = None,
    db: DbOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.", show_default=False)
    ] = None,
) -> None:
    """Fetch the document, then write it."""
    from signalbook.documents import write_document

    try:
        target = Xid.parse(xid)
    except XidError as error:
        raise typer.BadParameter(f"{xid!r} is no xid: {error}", param_hint="XID") from None
    with open_registry(server, db, create=False) as registry, working("exporting"):
        document = registry.export(target)
    text = write_document(document, name="" if output is None else output.name)
    if output is None:
        sys.stdout.buffer.write(text)
    else:
        write_whole(output, text)
