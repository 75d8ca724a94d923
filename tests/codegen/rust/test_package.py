"""Generated Rust: compiled without warnings, held to rustfmt, run; and what Signalbook says of its messages."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.codegen.conftest import DOCUMENT, Make
from tests.codegen.standalone import hard, suite
from tests.codegen.standalone.suite import *  # noqa: F403 - what generated code has to do

from signalbook.codegen.base import GeneratorError
from signalbook.codegen.rust.records import identifier

HOME = Path(sys.prefix) / "brokers" / "rust"
HERE = Path(__file__).parent
_PATH = os.pathsep.join([os.environ.get("PATH", ""), str(Path.home() / ".cargo" / "bin")])
_WORKSPACE = """
[workspace]
members = [{members}]
resolver = "2"

[profile.dev]
debug = false
incremental = false
"""
_PROGRAM = """
[package]
name = "{name}"
version = "0.1.0"
edition = "2021"

[dependencies]
serde_json = "1"
"""
_KAFKA = """chrono = { version = "0.4", default-features = false, features = ["now"] }
rskafka = { version = "0.6", default-features = false }
tokio = { version = "1", default-features = false, features = ["macros", "rt"] }
"""


def cargo(folder: Path, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Cargo run in a folder, without the network; what it depends on is compiled already."""
    environment = {**os.environ, "PATH": _PATH, "CARGO_TARGET_DIR": str(HOME / "target"), "CARGO_NET_OFFLINE": "true"}
    ran = subprocess.run(["cargo", *command], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 or not check, ran.stdout + ran.stderr
    return ran


def workspace(
    name: str,
    documents: dict[str, dict[str, Any]],
    program: Callable[[Path, suite.Names], dict[str, str]],
    clients: str = "",
) -> tuple[Path, suite.Names]:
    """A workspace with a crate of each document, and a program that uses them: its files, given the folder.

    It stays where it is, and files that are as they were are not written: Cargo compiles what has changed.
    """
    if not (HOME / "ready").exists() or shutil.which("cargo", path=_PATH) is None:
        pytest.skip("Cargo, or what generated Rust depends on, is not installed: tools/setup test")
    place, fresh = HOME / name, HOME / f"{name}-{os.getpid()}"
    names = {}
    for crate, document in documents.items():
        package = suite.write("rust", fresh / crate, document, package=crate)
        names[crate] = suite.names_of(package, lambda path, crate=crate: f"{crate}/{path[4:].removesuffix('.rs')}")  # type: ignore[misc]
    members = ", ".join(f'"{crate}"' for crate in (*documents, "program"))
    crates = "".join(f'{crate} = {{ path = "../{crate}" }}\n' for crate in documents)
    manifest = _PROGRAM.format(name=name) + clients + crates
    files = {"Cargo.toml": _WORKSPACE.format(members=members), "program/Cargo.toml": manifest, **program(fresh, names)}
    for path, text in files.items():
        (fresh / path).parent.mkdir(parents=True, exist_ok=True)
        (fresh / path).write_text(text)
    shutil.copy(HOME / "Cargo.lock", fresh)
    _bring(fresh, place)
    shutil.rmtree(fresh)
    return place, names


def _bring(source: Path, target: Path) -> None:
    """Make a folder as another one is; what is the same in both stays."""
    target.mkdir(parents=True, exist_ok=True)
    for path in target.iterdir():
        if not (source / path.name).exists():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in source.iterdir():
        if path.is_dir():
            _bring(path, target / path.name)
        elif not (target / path.name).exists() or (target / path.name).read_bytes() != path.read_bytes():
            shutil.copyfile(path, target / path.name)


def _dispatch(sources: Path, names: suite.Names) -> str:
    """Rust that finds the functions of a message by its module."""
    arms = []
    for project, modules in names.items():
        for module in modules.values():
            source = (sources / project / "src" / f"{module.partition('/')[2]}.rs").read_text()
            signature = re.search(r"pub fn build\(\s*payload: (.*?),?\s*\) -> ", source, re.DOTALL)
            assert signature is not None
            kind, *parameters = signature[1].replace("\n", " ").split(", ")
            arguments = "".join(map(_argument, parameters))
            path = "::".join(map(identifier, module.split("/")))
            arms.append(_arm(module, path, f"of_{project}", arguments, kind == "&Payload"))
    return f"""use serde_json::Value;

use super::*;

pub fn answer(module: &str, task: &Value) -> Answer {{
    let reads = ["read", "parse"].contains(&text(task, "action").unwrap_or_default());
    match (module, reads) {{{"".join(arms)}
        _ => unreachable!("no module {{module}}"),
    }}
}}
"""


def _argument(parameter: str) -> str:
    name, _, kind = parameter.strip().partition(": ")
    return f', &value(task, "{name}")' if kind == "&str" else ", 0"


def _arm(module: str, path: str, adapter: str, arguments: str, typed: bool) -> str:
    if typed:
        return f"""
        ("{module}", true) => {adapter}::read({path}::parse(&{adapter}::received(task))),
        ("{module}", false) => {{
            let payload: {path}::Payload = {adapter}::payload(task)?;
            {adapter}::sent(task, {path}::build(&payload{arguments}))
        }}"""
    return f"""
        ("{module}", true) => {adapter}::read_bytes({path}::parse(&{adapter}::received(task))),
        ("{module}", false) => {{
            let payload = bytes(&task["payload"]);
            {adapter}::sent(task, {path}::build(payload.as_deref(){arguments}))
        }}"""


@pytest.fixture(scope="module")
def project() -> tuple[Path, suite.Names]:
    """Return one compiled workspace with all generated packages, and the modules of their messages."""

    def program(sources: Path, names: suite.Names) -> dict[str, str]:
        return {
            "program/src/main.rs": (HERE / "program.rs").read_text(),
            "program/src/messages.rs": _dispatch(sources, names),
            "program/examples/refused.rs": (HERE / "refused.rs").read_text(),
        }

    built = workspace("suite", {"shop": DOCUMENT, "hard": hard.DOCUMENT}, program)
    cargo(built[0], "build", "--bins")
    return built


def exchange() -> str:
    """A program that sends and receives orders by Kafka, compiled with its client, which takes a minute."""
    files = {"program/src/main.rs": (HERE / "exchange.rs").read_text()}
    folder, _ = workspace("exchange", {"shop": DOCUMENT}, lambda _sources, _names: files, _KAFKA)
    cargo(folder, "build", "--bins")
    return str(HOME / "target" / "debug" / "exchange")


@pytest.fixture(scope="module")
def run(project: tuple[Path, suite.Names]) -> Iterator[suite.Run]:
    with suite.started([str(HOME / "target" / "debug" / "suite")], *project) as answers:
        yield answers


def test_code_compiles_without_warnings(project: tuple[Path, suite.Names]) -> None:
    # What the compiler said when it compiled them is said again.
    assert "warning" not in cargo(project[0], "build", "--bins").stderr


def test_code_is_formatted_by_rustfmt(project: tuple[Path, suite.Names]) -> None:
    cargo(project[0], "fmt", "--check", "--package", "shop", "--package", "hard")


def test_type_errors_do_not_compile(project: tuple[Path, suite.Names]) -> None:
    options = ("--package", "suite", "--example", "refused", "--message-format=short")
    ran = cargo(project[0], "build", *options, check=False)
    lines = {int(line_number) for line_number in re.findall(r"refused\.rs:(\d+):\d+: error", ran.stderr)}
    source = (HERE / "refused.rs").read_text().splitlines()
    assert lines == {number for number, line in enumerate(source, 1) if "// error: " in line}


@pytest.mark.parametrize("name", ["Shop", "self", "a..b", "../x", "1a", "regex", "a-"])
def test_names_of_crates(name: str, make: Make) -> None:
    with pytest.raises(GeneratorError, match="package is a name such as shop-messages"):
        make("rust", package=name)
