"""All commands, and what becomes of an error."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer import Option
from typer.core import TyperGroup
from typer.main import get_command

from signalbook.cli.console import CommandGroup, echo, fail, say
from signalbook.cli.credentials import TokenOption
from signalbook.errors import SignalbookError
from signalbook.plugins import install
from signalbook.version import __version__

_INTERRUPTED: Final = 130
# Imports create many objects but no garbage. With Python's own threshold, collections take an eighth of the start time.
_ALLOCATIONS_PER_COLLECTION: Final = 20_000
_MISUSED: Final = 2
# Typer exports but one of its usage errors; the others share this base.
_UsageError: Final[Any] = typer.BadParameter.__mro__[1]
_PIPELINE: Final = frozenset({"numpy", "pandas", "py4j", "pyarrow", "pyiceberg", "pyspark"})
_PANELS: Final = {
    "Begin": {"try": "trial:run", "init": "init:run", "serve": "serve:run", "demo": "app:demo"},
    "Definitions": {
        "import": "importing:run",
        "register": "register:run",
        "export": "export:run",
        "get": "entities:get",
        "search": "search:run",
        "open": "entities:open_page",
        "check": "check:run",
        "impact": "impact:run",
        "generate": "generate:run",
        "site": "site:run",
        "delete": "entities:delete",
    },
    "Messages": {"pipeline": "pipeline:app", "message": "message:app"},
    "Access": {
        "login": "access:login",
        "logout": "access:logout",
        "whoami": "access:whoami",
        "token": "tokens:app",
        "access": "access:app",
        "audit": "audit:run",
    },
    "Events and copies": {
        "subscribe": "subscriptions:subscribe",
        "subscriptions": "subscriptions:app",
        "replicate": "replicate:run",
    },
    "Operation": {
        "doctor": "doctor:run",
        "migrate": "migrate:run",
        "backup": "backup:back_up",
        "restore": "backup:restore",
        "conform": "conform:app",
    },
}
"""The panels of the help text, and their commands in order, each with its module and its function or group there."""
_COMMANDS: Final = {name: (panel, place) for panel, places in _PANELS.items() for name, place in places.items()}


class _Commands(Mapping[str, Any]):
    """The commands by name. Each is imported when it is needed: importing all takes longer than most commands."""

    def __getitem__(self, name: str) -> Any:
        panel, place = _COMMANDS[name]
        module, _, attribute = place.partition(":")
        function_or_group = getattr(import_module(f"signalbook.cli.{module}"), attribute)
        if isinstance(function_or_group, CommandGroup):
            command: Any = get_command(function_or_group)
            command.name = name
        else:
            group = CommandGroup(add_completion=False)
            group.command(name)(function_or_group)
            command = get_command(group)
        command.rich_help_panel = panel
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _Signalbook(TyperGroup):
    """``signalbook`` itself, with the commands above."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()  # type: ignore[assignment] # Typer adds none to it

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """The names, without the commands."""
        return list(_COMMANDS)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what is noted at an interrupt is said here, since Typer makes an exit code of that."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            for note in getattr(interrupt, "__notes__", ()):
                say(f"interrupted: {note}")
            raise


app: Final = CommandGroup(
    name="signalbook",
    cls=_Signalbook,
    help="One registry for message definitions, payload schemas and endpoints, and a Spark pipeline that holds live "
    "event streams to it.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_debug: Final = {"on": bool(os.environ.get("SIGNALBOOK_DEBUG"))}


def _show_version(requested: bool) -> None:
    if requested:
        echo(f"signalbook {__version__}")
        raise typer.Exit


def _switch_debug(requested: bool) -> None:
    _debug["on"] = _debug["on"] or requested


@app.callback()
def _common(
    version: Annotated[
        bool, Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    token: TokenOption = None,
    debug: Annotated[bool, Option("--debug", callback=_switch_debug, help="Show the traceback of an error.")] = False,
) -> None:
    """Options before the command."""


def demo(
    folder: Annotated[Path, Option("--folder", metavar="DIR", help="Where everything goes.")] = Path("signalbook-demo"),
    count: Annotated[int, Option("--count", min=1000, help="Deliveries to replay.")] = 200_000,
    master: Annotated[str, Option("--master", help="Spark master.")] = "local[*]",
    github: Annotated[bool, Option("--github/--no-github", help="Replay GitHub's webhooks, fetched with npm.")] = True,
    live: Annotated[
        bool, Option("--live/--no-live", help="Show the live side, with the Kafka that tools/setup fetched.")
    ] = True,
) -> None:
    """Show the main job on real input.

    Starts a registry, loads definitions of real and made-up messages, replays deliveries with a known number of seeded
    faults, runs the pipeline, and checks that those faults and only those became dead letters. Then starts a Kafka and
    a stream from it, changes a definition meanwhile, and replays dead letters.
    """
    from signalbook.cli.safeconsole import SafeConsole
    from signalbook.demo.steps import run

    screen = SafeConsole(markup=True, soft_wrap=True)
    run(screen, folder, count=count, master=master, with_github=github, with_live=live)


def main() -> None:
    """Run the command in ``sys.argv``; exits with 0, 1 after an error, 2 after one in the command line itself."""
    gc.set_threshold(_ALLOCATIONS_PER_COLLECTION, 20, 20)
    # Without a command: the help, and the exit code of a wrong command line, which scripts notice.
    if len(sys.argv) == 1:
        app(["--help"], prog_name=str(app.info.name), standalone_mode=False)
        sys.exit(_MISUSED)
    try:
        # Not standalone: Typer would show errors in its own way, and exit.
        code = app(prog_name=str(app.info.name), standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(_INTERRUPTED)
    except _UsageError as error:
        _explain(error)
        sys.exit(_MISUSED)
    except Exception as error:
        if _debug["on"]:
            raise
        fail(_describe_error(error))
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: Any) -> None:
    """Show Typer's words for an error in the command line; without any, it has shown the help instead."""
    if message := error.format_message():
        command = error.ctx.command_path if error.ctx is not None else app.info.name
        fail(f"{message}\nTry '{command} --help' for help.")


def _describe_error(error: Exception) -> str:
    """The error for people: what went wrong, where, what to do."""
    if isinstance(error, SignalbookError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in _PIPELINE:
        return f"this command needs {error.name}: {install('pipeline')}"
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "xregistry_conformance":
        return "this command needs the conformance kit: pip install ./conformance in a clone of Signalbook"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    return f"unexpected {type(error).__name__}: {error}\nThis is a fault in Signalbook: signalbook --debug shows more."
