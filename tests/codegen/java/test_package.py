"""Generated Java: compiled with -Xlint:all -Werror, run; and what Signalbook says of its messages."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.codegen.conftest import DOCUMENT, BuildOnce, Make
from tests.codegen.standalone import hard, suite
from tests.codegen.standalone.suite import *  # noqa: F403 - what generated code has to do

from signalbook.codegen.base import GeneratorError

JARS = Path(sys.prefix) / "brokers" / "kafka"
PACKAGES = {"shop": "com.example.shop", "hard": "hard"}


def compiled(folder: Path, documents: dict[str, dict[str, Any]], program: str) -> suite.Names:
    """A project with what is generated of documents and a program, compiled into its folder ``classes``."""
    if shutil.which("javac") is None or not JARS.exists():
        pytest.skip("javac or Jackson are not installed: tools/setup test")
    packages = {name: suite.write("java", folder / name, document, package=PACKAGES[name])
             for name, document in documents.items()}  # fmt: skip
    sources = [
        str(folder / name / file.path)
        for name, generated_package in packages.items()
        for file in generated_package.files
    ]
    (folder / "classes").mkdir()
    # Names of parameters are for the program alone, which calls methods by reflection.
    options = ["-Xlint:all", "-Werror", "-proc:none", "-parameters", "-encoding", "UTF-8"]
    command = ["javac", *options, "-d", str(folder / "classes"), "-cp", class_path(folder), program, *sources]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return {name: suite.names_of(generated_package, lambda path: path.removesuffix(".java").replace("/", "."))
            for name, generated_package in packages.items()}  # fmt: skip


def class_path(folder: Path) -> str:
    return ":".join([str(folder / "classes"), *map(str, JARS.glob("*.jar"))])


@pytest.fixture(scope="module")
def run(build_once: BuildOnce[suite.Names]) -> Iterator[suite.Run]:
    """Answers of a program of the generated code."""
    documents, program = {"shop": DOCUMENT, "hard": hard.DOCUMENT}, str(Path(__file__).with_name("Program.java"))
    folder, names = build_once("java", lambda folder: compiled(folder, documents, program))
    with suite.started(["java", "-cp", class_path(folder), "Program"], folder, names) as answers:
        yield answers


def test_class_file_limits_are_respected(make: Make) -> None:
    headers = [{"name": f"h{number}", "required": True} for number in range(255)]
    messages = {
        "long": hard.message({"type": "object", "properties": {"x" * 10_001: True}}),
        "long input": {"protocol": "KAFKA", "protocoloptions": {"headers": [{"name": "x" * 10_001, "required": True}]}},
        "many": {"protocol": "KAFKA", "protocoloptions": {"headers": headers}},
        "most": {"protocol": "KAFKA", "protocoloptions": {"headers": headers[:-1]}},
    }
    generated_files = make("java", {"messagegroups": {"g": {"messages": messages}}})
    assert sorted(generated_files.left_out) == [
        f"/messagegroups/g/messages/{name}" for name in ("long", "long input", "many")
    ]


def test_class_names_do_not_hide_imported_classes(make: Make) -> None:
    names = ["Boolean", "Double", "Integer", "Long", "Object", "Override", "String"]
    document = {"messagegroups": {"g": {"messages": dict.fromkeys(names, hard.message(True))}}}
    classes = {file.path.rpartition("/")[2] for file in make("java", document).files}
    assert classes & {f"{name}.java" for name in names} == set()
    assert "Integer_2.java" in classes


@pytest.mark.parametrize("name", ["Shop", "com.class.x", "a..b", "../x", "1.a"])
def test_package_names(name: str, make: Make) -> None:
    with pytest.raises(GeneratorError, match=r"package is a name such as com\.example\.shop"):
        make("java", package=name)
