"""All commands, and what becomes of an error."""

from __future__ import annotations

import gc
import inspect
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer import Argument, Option

from signalbook import __version__, settings
from signalbook.cli import (
    access,
    audit,
    backup,
    check,
    conform,
    doctor,
    export,
    generate,
    get,
    impact,
    importing,
    message,
    migrate,
    pipeline,
    register,
    replicate,
    search,
    site,
    subscriptions,
    tokens,
)
from signalbook.cli.console import CommandGroup, fail, plain, say
from signalbook.cli.credentials import TokenOption
from signalbook.errors import SignalbookError
from signalbook.plugins import install

_INTERRUPTED: Final = 130
_MISUSED: Final = 2
# Typer exports but one of its usage errors; the others share this base.
_UsageError: Final[Any] = typer.BadParameter.__mro__[1]
_PIPELINE: Final = frozenset({"numpy", "pandas", "py4j", "pyarrow", "pyiceberg", "pyspark"})
app: Final = CommandGroup(
    name="signalbook",
    help="One registry for message definitions, payload schemas and endpoints, and a Spark pipeline that holds live "
    "event streams to it.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_debug: Final = {"on": bool(os.environ.get("SIGNALBOOK_DEBUG"))}


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"signalbook {__version__}")
        raise typer.Exit


def _switch_debug(wanted: bool) -> None:
    _debug["on"] = _debug["on"] or wanted


@app.callback()
def _common(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    token: TokenOption = None,
    debug: Annotated[bool, Option("--debug", callback=_switch_debug, help="Show the traceback of an error.")] = False,
) -> None:
    """Options before the command."""


def serve(**given: Any) -> None:
    """Run the registry server.

    Every option is also a variable in the environment (--base-url: SIGNALBOOK_BASE_URL) and a line in signalbook.toml
    (base_url = "...").
    """
    # Nothing that is imported becomes garbage: to look through all of it again and again takes a quarter of the start.
    gc.disable()
    from signalbook.server import run

    config: Path | None = given.pop("config", None)
    run(settings.load(given, environ=os.environ, config=config))


def _serve_parameters() -> list[inspect.Parameter]:
    table = [
        _parameter(row.name, settings.option_for(row.name), type(row.default), _setting_help(row.name, row.default))
        for row in fields(settings.Settings)
    ]
    text = f"Configuration file. Default: {settings.CONFIG_FILE}, if it is there."
    return [*table, _parameter("config", "--config", Path, text)]


def _setting_help(name: str, default: Any) -> str:
    text = settings.help_for(name)
    if isinstance(default, tuple):
        listed = f" Default: {','.join(default)}." if default else ""
        return f"{text}{listed} May be given again."
    return text if default == "" else f"{text} Default: {default}."


def _parameter(name: str, flag: str, type: type, text: str) -> inspect.Parameter:
    option = Option(flag, help=text)
    kind = list[str] if type is tuple else type
    annotation = Annotated[kind | None, option]  # type: ignore[valid-type] # made at run time, out of the table
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


# What the command line reads instead of ``**given``.
serve.__signature__ = inspect.Signature(_serve_parameters())  # type: ignore[attr-defined]
serve.__annotations__ = {parameter.name: parameter.annotation for parameter in _serve_parameters()}


app.command("serve")(serve)
app.command("import")(importing.run)
app.command("register")(register.run)
app.command("export")(export.run)
app.command("get")(get.run)
app.command("generate")(generate.run)
app.command("site")(site.run)
app.command("search")(search.run)
app.command("impact")(impact.run)
app.command("replicate")(replicate.run)
app.command("backup")(backup.back_up)
app.command("restore")(backup.restore)
app.command("doctor")(doctor.run)
app.command("migrate")(migrate.run)
app.command("audit")(audit.run)
app.command("subscribe")(subscriptions.subscribe)
app.add_typer(subscriptions.app, name="subscriptions")
app.add_typer(tokens.app, name="token")
app.add_typer(access.app, name="access")
app.command("whoami")(access.whoami)
app.command("check")(check.run)
app.add_typer(message.app, name="message")
app.command("conform")(conform.run)
app.add_typer(pipeline.app, name="pipeline")


@app.command("login")
def login(
    server: Annotated[str, Argument(metavar="URL", help="The registry.")],
    issuer: Annotated[str, Option("--issuer", metavar="URL", help="The issuer, if not the registry's.")] = "",
    client_id: Annotated[str, Option("--client-id", metavar="ID", help="The client, if not the registry's.")] = "",
    scope: Annotated[str, Option("--scope", metavar="TEXT", help="The scope to ask for, if not the registry's.")] = "",
) -> None:
    """Log in to the registry at URL with a browser, on this machine or another one.

    The tokens are kept in a file that only you can read, are used by all commands for that registry, and renewed.
    """
    from signalbook.client.login import log_in

    def show(by: str, audience: str, where: str, code: str) -> None:
        say(f"{plain(by)} will give a token for {plain(audience or server)}.")
        say(f"Open {plain(where)} in a browser and confirm the code {plain(code)}")

    found = log_in(server, show, issuer=issuer, client=client_id, scope=scope)
    say(f"Logged in to {plain(server)} by {plain(found)}.")


@app.command("logout")
def logout(server: Annotated[str, Argument(metavar="URL", help="The registry.")]) -> None:
    """Forget the login for the registry at URL."""
    from signalbook.client.login import log_out

    if not log_out(server):
        raise SignalbookError(f"there is no login for {server}")


@app.command("demo")
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
    from signalbook.demo.steps import run

    run(folder, count=count, master=master, with_github=github, with_live=live)


def main() -> None:
    """Run the command in ``sys.argv``; exits with 0, 1 after an error, 2 after one in the command line itself."""
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
        fail(_words(error))
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: Any) -> None:
    """Show Typer's words for an error in the command line; without any, it has shown the help instead."""
    if message := error.format_message():
        command = error.ctx.command_path if error.ctx is not None else app.info.name
        fail(f"{message}\nTry '{command} --help' for help.")


def _words(error: Exception) -> str:
    """The error for people: what went wrong, where, what to do."""
    if isinstance(error, SignalbookError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in _PIPELINE:
        return f"this command needs {error.name}: {install('pipeline')}"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    return f"unexpected {type(error).__name__}: {error}\nThis is a fault in Signalbook: signalbook --debug shows more."
