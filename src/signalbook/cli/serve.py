"""``signalbook serve``: its options are the table of settings."""

from __future__ import annotations

import gc
import os
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from signalbook import settings
from signalbook.cli.console import declare_options


def run(**given: Any) -> None:
    """Run the registry server.

    Every option is also a variable in the environment (--base-url: SIGNALBOOK_BASE_URL) and a line in signalbook.toml
    (base_url = "...").
    """
    # Nothing that is imported becomes garbage: to look through all of it again and again takes a quarter of the start.
    gc.disable()
    from signalbook import server

    config: Path | None = given.pop("config", None)
    server.run(settings.load(given, environ=os.environ, config=config))


def _build_options() -> dict[str, Any]:
    table = {
        row.name: _build_option(
            settings.option_for(row.name), type(row.default), _describe_setting(row.name, row.default)
        )
        for row in fields(settings.Settings)
    }
    text = f"Configuration file. Default: {settings.CONFIG_FILE}, if it is there."
    return {**table, "config": _build_option("--config", Path, text)}


def _describe_setting(name: str, default: Any) -> str:
    text = settings.help_for(name)
    if isinstance(default, tuple):
        listed = f" Default: {','.join(default)}." if default else ""
        return f"{text}{listed} May be given again."
    return text if default == "" else f"{text} Default: {default}."


def _build_option(flag: str, type: type, text: str) -> Any:
    kind = list[str] if type is tuple else type
    return Annotated[kind | None, Option(flag, help=text)]


declare_options(run, _build_options())
