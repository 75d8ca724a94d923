"""``signalbook doctor``."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from typer import Option

from signalbook import settings
from signalbook.cli.console import output, plain, print_json, working
from signalbook.cli.registry import DbOption

_STYLES: Final = {"ok": "green", "warning": "yellow", "error": "red"}


def run(
    db: DbOption = None,
    config: Annotated[Path | None, Option("--config", help="Configuration file, as for serve.")] = None,
    json: Annotated[bool, Option("--json", help="Print all checks as JSON.")] = False,
) -> None:
    """Check what a server with these settings needs, and say what to do where something is wrong.

    Settings, database (reachable, writable, schema, damage), its clock, disk, keys, permissions of files, access, sinks
    of subscriptions, registries that are followed. Run it where the server runs, with its environment and as its user.
    Nothing is changed. The exit code is 1 if there is an error; warnings leave it at 0.
    """
    from rich.text import Text

    from signalbook.doctor import examine

    loaded = settings.load({"db": db}, environ=os.environ, config=config)
    with working("checking"):
        checks = list(examine(loaded))
    if json:
        print_json(
            {"checks": [asdict(check) for check in checks], "ok": all(result.state != "error" for result in checks)}
        )
    else:
        screen = output()
        for check in checks:
            screen.print(Text(f"{check.state:8}", style=_STYLES[check.state]), end="")
            screen.print(Text(plain(f"{check.subject}: {check.found}")), soft_wrap=True)
            if check.advice:
                screen.print(Text(plain(f"        {check.advice}")), soft_wrap=True)
    if any(check.state == "error" for check in checks):
        raise typer.Exit(1)
