"""The command line as a whole."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from signalbook import __version__
from signalbook.cli.app import app

from .conftest import Cli

PIPELINE = [f"pipeline {name}" for name in ("run", "infer", "status", "profile")]


@pytest.mark.parametrize("command", ["", "serve", "import", "export", "pipeline", *PIPELINE, "demo"])
def test_every_command_explains_itself(cli: Cli, command: str) -> None:
    ran = cli(*command.split(), "--help")
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
        (("export", "non sense"), "Invalid value for XID: 'non sense' is no xid"),
    ],
)
def test_faults_of_the_command_line_itself_end_with_2(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    ran = cli(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {words}")
    assert ran.err.rstrip().endswith("--help' for help.")


def test_command_without_arguments_shows_the_help(cli: Cli) -> None:
    assert cli().ended(2, out="Usage: signalbook")


def test_traceback_requires_an_option() -> None:
    command = [sys.executable, "-m", "signalbook", "import", "gone.json"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "error: gone.json: cannot be read: No such file or directory\n"
    ran = subprocess.run([*command[:3], "--debug", *command[3:]], capture_output=True, text=True)
    assert (ran.returncode, "Traceback" in ran.stderr) == (1, True)


@pytest.mark.parametrize("line", ["--help", "whoami --help"])
def test_commands_import_their_dependencies_lazily(line: str) -> None:
    """Help appears at once: ``--help`` imports no web framework, no database and no Spark, and one command imports
    no other.
    """
    heavy = {"sqlalchemy", "starlette", "uvicorn", "httpx", "pyspark", "pyarrow", "yaml", "signalbook.engine"}
    other_commands = {"signalbook.cli.pipeline", "signalbook.cli.importing"} if line != "--help" else set()
    code = "\n".join(
        [
            "import sys; from signalbook.cli import main",
            f"sys.argv[1:] = {line.split()!r}",
            "try: main()",
            f"finally: sys.stderr.write(str({heavy | other_commands!r} & set(sys.modules)))",
        ]
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "set()")


def test_commands_with_a_server_have_credential_options(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNALBOOK_TOKEN", "")

    def commands(group: Any, *path: str) -> Iterator[tuple[tuple[str, ...], set[str]]]:
        for name, command in getattr(group, "commands", {}).items():
            yield from commands(command, *path, name)
        if not hasattr(group, "commands"):
            yield path, {option for parameter in group.params for option in parameter.opts}

    options_by_path = dict(commands(typer.main.get_command(app)))
    remote = {path for path, options in options_by_path.items() if options & {"--server", "--registry", "--report-to"}}
    assert {path for path, options in options_by_path.items() if "--token" in options} == {*remote, ("conform",)}
    assert ("token", "create") in remote
    # What is given twice is the one that stands nearer.
    ran = cli("--token", "file:/none", "get", "--server", "http://127.0.0.1:1", "--token", "file:/other")
    assert ran.err.startswith("error: cannot read the secret in /other")
    # What runs after it in the same process does not get them.
    assert os.environ["SIGNALBOOK_TOKEN"] == ""
    monkeypatch.delenv("SIGNALBOOK_TOKEN")
    assert cli("--token", "file:/none", "get", "--server", "http://127.0.0.1:1", "--token", "file:/other").code == 1
    assert "SIGNALBOOK_TOKEN" not in os.environ
