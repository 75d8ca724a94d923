"""What commands show: nothing that comes from a server or a document controls the terminal."""

import ast
from pathlib import Path

import pytest
from rich.panel import Panel
from rich.text import Text

from signalbook.cli import console
from signalbook.cli.console import counts_table, echo, fail, notice, print_json, say, table
from signalbook.cli.safeconsole import SafeConsole

HOSTILE = "\x1b[2J\x1b]8;;http://evil\x07[red]x[/nothing]\u202e\x9b1m:smile:"
SHOWN = "[2J]8;;http://evil[red]x[/nothing]1m:smile:"
BYPASSES = ("print", "typer.echo", "typer.secho", "Console", "sys.stdout.write", "sys.stderr.write")
SOURCES = Path(console.__file__).parent


@pytest.mark.parametrize("show", [fail, say, notice, echo])
def test_lines_are_printable(show: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(show)
    show(HOSTILE)
    out, err = capsys.readouterr()
    assert (out + err).replace("\n", "").replace(" ", "").endswith(SHOWN)


def test_tables_and_panels_are_printable() -> None:
    screen = SafeConsole(width=100, record=True, force_terminal=True, color_system=None)
    rows = table(HOSTILE, numbers=("n",), title=HOSTILE)
    rows.add_row(HOSTILE, "1")
    with screen.capture() as captured:
        screen.print(rows)
        screen.print(counts_table("reason", "Dead letters", [(HOSTILE, 1)]))
        screen.print(Panel(Text(HOSTILE), title="error"))
        screen.print(HOSTILE)
    output = captured.get()
    assert all(char.isprintable() or char == "\n" for char in output)
    assert output.count("http://evil[red]x[/nothing]") == 5


def test_progress_is_printable() -> None:
    screen = SafeConsole(width=100, force_terminal=True, color_system=None)
    with screen.capture() as captured, screen.status(Text(HOSTILE)) as status:
        status.update(Text(HOSTILE))
    assert "\x1b]8" not in captured.get()
    assert "\u202e" not in captured.get()


def test_styles_still_reach_the_terminal() -> None:
    screen = SafeConsole(force_terminal=True, color_system="standard", no_color=False)
    with screen.capture() as captured:
        screen.print(Text("\x1b[1mx", style="red"))
    assert captured.get() == "\x1b[31m[1mx\x1b[0m\n"


def test_json_is_exact(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_json({"name": "\u202e\x9b"})
    echo(b'{"name":"\x1b"}')
    assert capfdbinary.readouterr().out == '{\n  "name": "\u202e\x9b"\n}\n'.encode() + b'{"name":"\x1b"}\n'


def test_commands_write_through_the_console_alone() -> None:
    bypasses = [
        f"{path.name}:{node.lineno}"
        for path in SOURCES.glob("*.py")
        if path.name not in ("console.py", "safeconsole.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in BYPASSES
    ]
    assert bypasses == []
