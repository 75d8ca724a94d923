"""Generated Go: vetted, held to gofmt, compiled, run; and what Signalbook says of its messages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.codegen.conftest import DOCUMENT, GROUP, Make
from tests.codegen.standalone import hard, suite
from tests.codegen.standalone.suite import *  # noqa: F403 - what generated code has to do

from signalbook.codegen.base import Generated, GeneratorError

MODULE = "example.com/shop"
LEAST = 21
FRANZ = Path(__file__).parents[2] / "api" / "confluent" / "clients" / "franz"
FRANZ_BUILT = Path(sys.prefix) / "brokers" / "franz"
# Go may be where its own archive puts it; nothing is fetched.
_PATH = f"{os.environ['PATH']}:/usr/local/go/bin"
GO = shutil.which("go", path=_PATH)
ENVIRONMENT = {**os.environ, "PATH": _PATH, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod",
               "GOPROXY": "off"}  # fmt: skip
# Both in one module, so that one program has them.
BOTH = {**DOCUMENT, "messagegroups": {**DOCUMENT["messagegroups"], **hard.DOCUMENT["messagegroups"]}}
_FUNCTION = re.compile(r"^func Build(\w+)\(payload [^,)]+(.*)\) \(\*signalbook", re.MULTILINE)


@cache
def compiler() -> str:
    """Where Go is. Skips the test if there is none, or one that is too old: tools/setup says so."""
    version = subprocess.run([GO, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout if GO else ""
    found = re.match(r"go1\.(\d+)", version)
    if GO is None or found is None or int(found[1]) < LEAST:
        pytest.skip(f"Go 1.{LEAST} is not installed")
    return GO


def go(folder: Path, *command: str) -> str:
    """What Go says of the module in a folder."""
    program = [compiler(), *command]
    ran = subprocess.run(program, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def functions(folder: Path, found: Generated) -> str:
    """A file with the functions of all messages, by xid."""
    imports, entries = set(), []
    for file in found.files:
        made = _FUNCTION.search(file.content.decode())
        if made is None:
            continue
        package = file.path.partition("/")[0]
        imports.add(f'"{MODULE}/{package}"')
        xid = file.xids[0]
        # By their names in the definition, of which those of the hard one are none in Go.
        names = (
            re.findall(r'"([^"]+)": \w+', re.findall(r"signalbook\.Inputs\{(.*?)\}", file.content.decode())[0])
            if made[2]
            else []
        )
        given = "".join(f', "{name}"' for name in names)
        entries.append(f'\t"{xid}": entry({package}.Build{made[1]}, {package}.Parse{made[1]}{given}),')
    lines = [
        "package main",
        "",
        "import (",
        *sorted(imports),
        ")",
        "",
        "var functions = map[string]function{",
        *entries,
        "}",
    ]
    return "\n".join(lines)


def exchange(folder: Path) -> str:
    """A program that sends and receives orders with franz-go, whose modules ``tools/setup`` fetched for another one."""
    if not (FRANZ_BUILT / "ready").exists():
        pytest.skip("the modules of franz-go are not there: tools/setup test fetches them, where Go is new enough")
    suite.write("go", folder, DOCUMENT, module=MODULE, gomod="no")
    modules = (FRANZ / "go.mod").read_text().replace("signalbook.tests/franz", MODULE)
    (folder / "go.mod").write_text(modules)
    shutil.copy(FRANZ / "go.sum", folder)
    program = folder / "cmd" / "exchange"
    program.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("exchange.go"), program / "main.go")
    go(folder, "build", "-gcflags=all=-N -l", "-o", "exchange", "./cmd/exchange")
    return str(folder / "exchange")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Generated]:
    """A module with all that is generated here, and the program that runs it, compiled."""
    folder = tmp_path_factory.mktemp("go")
    found = suite.write("go", folder, BOTH, module=MODULE)
    program = folder / "cmd" / "program"
    program.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("program.go"), program / "main.go")
    (program / "functions.go").write_text(functions(folder, found))
    go(folder, "build", "-o", "program", "./cmd/program")
    return folder, found


@pytest.fixture(scope="module")
def run(project: tuple[Path, Generated]) -> Iterator[suite.Run]:
    """Answers of a program of the generated code."""
    folder, found = project
    names = {xid: xid for file in found.files for xid in file.xids}
    with suite.started([str(folder / "program")], folder, {"shop": names, "hard": names}) as answers:
        yield answers


def test_it_is_as_gofmt_writes_it_and_vet_has_nothing_to_say(project: tuple[Path, Generated]) -> None:
    folder, found = project
    names = [file.path for file in found.files if file.path.endswith(".go")]
    assert subprocess.run([str(Path(compiler()).resolve().with_name("gofmt")), "-l", *names], cwd=folder,
                          capture_output=True, text=True, check=True).stdout == ""  # fmt: skip
    assert go(folder, "vet", "./...") == ""


def test_what_is_left_out(project: tuple[Path, Generated]) -> None:
    assert sorted(project[1].left_out) == [GROUP + name for name in ("broken", "xml")]


@pytest.mark.parametrize("name", ["Shop", "a/../b", "/a", "a//b", "a b", ".a", "a/.b", 'a"'])
def test_module_paths(name: str, make: Make) -> None:
    with pytest.raises(GeneratorError, match=r"module is a path such as example\.com/shop/messages"):
        make("go", module=name)
