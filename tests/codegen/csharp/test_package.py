"""Generated C#: compiled by Mono, with all warnings as errors, run; and what Signalbook says of its messages."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.codegen.conftest import DOCUMENT, GROUP, Make
from tests.codegen.standalone import hard, suite
from tests.codegen.standalone.suite import *  # noqa: F403 - what generated code has to do

from signalbook.codegen.base import GeneratorError
from signalbook.codegen.csharp.package import FRAMEWORK, runtime_files, runtime_types

NAMESPACES = {"shop": "Acme.Shop", "hard": "Hard"}
# Mono's compiler knows C# up to 7.2.
OPTIONS = [
    "-langversion:7.2",
    "-warn:4",
    "-warnaserror",
    "-checked+",
    "-r:System.Numerics.dll",
    "-r:Microsoft.CSharp.dll",
]


def mcs(folder: Path, *options: str) -> None:
    """Compile, with all warnings as errors."""
    if shutil.which("mcs") is None or shutil.which("mono") is None:
        pytest.skip("Mono and its compiler are not installed: tools/setup test")
    command = ["mcs", *OPTIONS, *options]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def compiled(folder: Path, documents: dict[str, dict[str, Any]], program: str, *options: str) -> suite.Names:
    """A project with what is generated of documents and a program, compiled into ``program.exe`` in its folder."""
    found = {name: suite.write("csharp", folder / name, document, namespace=NAMESPACES[name])
             for name, document in documents.items()}  # fmt: skip
    mcs(folder, "-out:program.exe", "-doc:program.xml", *options, "-recurse:*.cs", program)
    return {name: suite.names_of(each, lambda path, name=name: class_name(NAMESPACES[name], path))  # type: ignore[misc]
            for name, each in found.items()}  # fmt: skip


def class_name(namespace: str, path: str) -> str:
    """The full name of the class in a file."""
    return f"{namespace}.{path.removesuffix('.cs').replace('/', '.')}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[suite.Run]:
    """Answers of a program of the generated code."""
    folder = tmp_path_factory.mktemp("csharp")
    program = str(Path(__file__).with_name("Program.cs"))
    names = compiled(folder, {"shop": DOCUMENT, "hard": hard.DOCUMENT}, program)
    with suite.started(["mono", "program.exe"], folder, names) as answers:
        yield answers


def test_what_is_left_out(tmp_path: Path) -> None:
    assert sorted(suite.write("csharp", tmp_path, DOCUMENT).left_out) == [GROUP + name for name in ("broken", "xml")]
    assert suite.write("csharp", tmp_path, hard.DOCUMENT).left_out == {}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, r"namespace is a name such as Acme\.Shop") for name in ("1Shop", "a..b", "../x", "Acme.1", "Ä")),
        *((name, "is a word of C# or .NET: choose another") for name in ("Acme.class", "Regex", "Acme.Group")),
    ],
)
def test_namespaces(name: str, message: str, make: Make) -> None:
    with pytest.raises(GeneratorError, match=message):
        make("csharp", namespace=name)


def test_groups_may_have_any_names_but_those_the_runtime_calls(tmp_path: Path) -> None:
    """A namespace for each word of the runtime that is not reserved, beside it: it still means the same."""
    words = {word for _, text in runtime_files() for word in re.findall(r"\b[A-Z]\w*", text)}
    free = sorted(words - FRAMEWORK - runtime_types())
    (tmp_path / "Groups.cs").write_text(
        "".join(f"namespace Messages.{word} {{ class Nothing {{ }} }}\n" for word in free)
    )
    for name, text in runtime_files():
        (tmp_path / name).write_text(text)
    mcs(tmp_path, "-target:library", "-out:runtime.dll", "-recurse:*.cs")


def test_the_same_definitions_give_the_same_bytes(tmp_path: Path) -> None:
    found = [suite.write("csharp", tmp_path / name, hard.DOCUMENT) for name in ("a", "b")]
    assert found[0] == found[1]
