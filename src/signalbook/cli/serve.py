"""``signalbook serve``: one option for every setting of the table."""

from __future__ import annotations

import inspect
import os
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from signalbook import settings

HELP: Final = (
    "Run the registry server.\n\n"
    "Every option is also a variable in the environment (--base-url: SIGNALBOOK_BASE_URL) and a line in "
    'signalbook.toml (base_url = "...").'
)


def serve(**given: Any) -> None:
    """Serve with the settings in ``given``, the environment and the configuration file."""
    from signalbook.server import run

    config: Path | None = given.pop("config", None)
    run(settings.load(given, environ=os.environ, config=config))


def _parameters() -> list[inspect.Parameter]:
    table = [
        _parameter(row.name, settings.option_for(row.name), type(row.default), _help(row.name, row.default))
        for row in fields(settings.Settings)
    ]
    text = f"Configuration file. Default: {settings.CONFIG_FILE}, if it is there."
    return [*table, _parameter("config", "--config", Path, text)]


def _help(name: str, default: Any) -> str:
    text = settings.help_for(name)
    if isinstance(default, tuple):
        return f"{text} May be given again."
    return text if default == "" else f"{text} Default: {default}."


def _parameter(name: str, flag: str, type: type, text: str) -> inspect.Parameter:
    option = typer.Option(flag, help=text)
    kind = list[str] if type is tuple else type
    annotation = Annotated[kind | None, option]  # type: ignore[valid-type] # made at run time, out of the table
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


# What the command line reads instead of ``**given``.
serve.__signature__ = inspect.Signature(_parameters())  # type: ignore[attr-defined]
serve.__annotations__ = {parameter.name: parameter.annotation for parameter in _parameters()}
