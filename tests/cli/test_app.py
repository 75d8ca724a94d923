"""The command line as a whole."""

from __future__ import annotations

import subprocess
import sys

import pytest

from signalbook import __version__

from .conftest import Cli


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("serve",),
        ("import",),
        ("export",),
        ("pipeline",),
        ("pipeline", "run"),
        ("pipeline", "infer"),
        ("pipeline", "status"),
        ("pipeline", "profile"),
        ("demo",),
    ],
)
def test_every_command_explains_itself(cli: Cli, command: tuple[str, ...]) -> None:
    ran = cli(*command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert "Usage: signalbook" in ran.out


def test_the_version(cli: Cli) -> None:
    assert cli("--version").out == f"signalbook {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nonsense",), "No such command 'nonsense'."),
        (("import",), "Missing argument 'PATH...'."),
        (("pipeline", "run"), "Invalid value: --registry is missing"),
        (("serve", "--nonsense"), "No such option: --nonsense"),
        (("import", "x", "--dryrun"), "No such option: --dryrun (Possible options: --dry-run)"),
        (("serve", "--port", "x"), "Invalid value for '--port': "),
        (("serve", "--port"), "Option '--port' requires an argument."),
        (("export", "--format", "xml"), "Invalid value for '--format': "),
        (("export", "/", "b"), "Got unexpected extra argument"),
        (("export", "nonsense"), "Invalid value for XID: 'nonsense' is no xid"),
    ],
)
def test_faults_of_the_command_line_itself_end_with_2(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    ran = cli(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {words}")
    assert ran.err.rstrip().endswith("--help' for help.")


def test_nothing_at_all_is_answered_with_all_there_is(cli: Cli) -> None:
    ran = cli()
    assert ran.code == 2
    assert "Usage: signalbook" in ran.out


def test_tracebacks_are_for_those_who_ask() -> None:
    command = [sys.executable, "-m", "signalbook", "import", "gone.json"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (
        1,
        "",
        "error: gone.json: cannot be read: No such file or directory\n",
    )
    ran = subprocess.run([*command[:3], "--debug", *command[3:]], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "Traceback" in ran.stderr


def test_commands_load_what_they_need_when_they_run() -> None:
    """So that the line comes up at once: no web, no database, no Spark for ``--help``."""
    heavy = {"sqlalchemy", "starlette", "uvicorn", "httpx", "pyspark", "pyarrow", "yaml", "signalbook.engine"}
    code = f"import sys; from signalbook.cli import app; print({heavy!r} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
