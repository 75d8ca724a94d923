"""Which package may import which: dependencies only point down, lazy imports counted, no cycles.

`DEPENDENCIES` orders the top-level packages. Sub-packages may depend on each other in one direction only.
"""

import ast
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "signalbook"
KIT = sorted((ROOT / "conformance" / "src").rglob("*.py"))
L0 = {
    *("batches", "errors", "largejson", "excerpts", "filenames", "terminal", "metrics", "tracing", "logs", "values"),
    *("xid", "uris", "settings", "documents", "plugins", "verdict", "version", "work"),
}
L1 = {"brokers", "model", "formats", "messages", "cncf", "confluent"}
ALL = {*L0, *L1, "dialects", "storage", "engine", "events", "api", "client", "pipeline", "cli", "server"}
ALL |= {"access", "fetching", "pipeline_reports", "folder_registry", "replication", "doctor", "codegen"}

# package -> packages it may import (itself is always allowed)
DEPENDENCIES: dict[str, set[str]] = {
    **{name: set() for name in ("batches", "metrics", "terminal", "values", "excerpts", "version", "xid", "uris")},
    "logs": {"terminal", "tracing", "values"},
    "tracing": {"errors", "plugins"},
    "largejson": {"values"},
    "filenames": {"errors", "values"},
    "errors": {"values"},
    "settings": {"errors", "values"},
    "plugins": {"errors"},
    "verdict": {"errors", "values"},
    "work": {"errors"},
    "fetching": {"errors", "settings", "values"},
    "documents": {"errors", "filenames", "values", "xid"},
    "cncf": L0,
    "confluent": L0 | {"cncf", "formats"},
    "brokers": L0 | {"fetching"},
    "model": L0,
    "formats": L0,
    "messages": L0 | {"formats"},
    "storage": L0,
    "access": L0 | {"fetching", "storage"},
    "dialects": {"values", "xid", "cncf", "confluent"},
    # The core uses the dialects of other APIs only through the functions in "dialects".
    "engine": L0 | {"model", "formats", "messages", "dialects", "access", "storage"},
    "pipeline_reports": L0 | {"formats", "storage"},
    "events": L0 | L1 | {"access", "fetching", "storage", "engine"},
    "replication": L0 | L1 | {"access", "fetching", "storage", "engine", "events", "client"},
    "api": L0 | L1 | {"pipeline_reports", "replication", "access", "fetching", "storage", "engine", "events"},
    "client": {"confluent"} | L0,
    "pipeline": L0 | L1 | {"client", "fetching"},
    "codegen": {"pipeline"} | L0 | L1,
    "folder_registry": L0 | L1 | {"access", "storage", "engine"},
    "server": ALL - {"cli"},
    "doctor": ALL - {"cli"},
    "demo": L0 | L1 | {"events", "client", "pipeline", "server"},
    "cli": ALL | {"demo"},
    "__init__": {"client", "codegen", "messages", "version"},
    "__main__": {"cli"},
}
PYSPARK_PACKAGES = {"pipeline"}


def package(module: Path) -> str:
    return module.relative_to(SOURCE).parts[0].removesuffix(".py")


def dotted(module: Path) -> str:
    parts = module.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in sorted(SOURCE.rglob("*.py"))}


@cache
def imports(path: Path) -> set[str]:
    """Absolute names imported anywhere in a module, inside functions too."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            names = {f"{base}.{alias.name}" for alias in node.names}
            modules |= {name if name in MODULES else base for name in names}
    return modules


@pytest.mark.parametrize("name", MODULES)
def test_dependencies_point_down(name: str) -> None:
    here = package(MODULES[name])
    assert here in DEPENDENCIES, f"{here} is a package that is not planned: add it to the plan first"
    for target in imports(MODULES[name]):
        if target == "signalbook" or target.startswith("signalbook."):
            there = package(MODULES[target])
            assert there == here or there in DEPENDENCIES[here], f"{name} may not import {target}"
        if target.split(".")[0] == "pyspark":
            assert here in PYSPARK_PACKAGES, f"{name} may not import pyspark"
        if target.split(".")[0] == "sqlalchemy":
            assert here == "storage", f"{name} may not import sqlalchemy"


@pytest.mark.parametrize("path", KIT, ids=lambda path: str(path.stem))
def test_the_conformance_kit_stands_alone(path: Path) -> None:
    """It imports only itself and what its own project names."""
    project = tomllib.loads((ROOT / "conformance" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    dependencies = {re.split(r"[^a-z]", text)[0].replace("pyyaml", "yaml") for text in project["dependencies"]}
    allowed = sys.stdlib_module_names | dependencies | {"xregistry_conformance"}
    assert {name.split(".")[0] for name in imports(path)} <= allowed


def test_only_the_command_line_imports_the_conformance_kit() -> None:
    users = {name for name, path in MODULES.items() if any("xregistry_conformance" in row for row in imports(path))}
    assert users == {"signalbook.cli.conform"}


def check_for_cycles(graph: dict[str, set[str]]) -> None:
    visited: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name not in visited:
            for target in graph[name]:
                visit(target, (*trail, name))
            visited.add(name)

    for name in graph:
        visit(name, ())


def test_no_import_cycles() -> None:
    check_for_cycles({name: imports(path) & MODULES.keys() for name, path in MODULES.items()})


@pytest.mark.parametrize("parent", [name for name, path in MODULES.items() if path.name == "__init__.py"])
def test_subpackages_have_no_cycles(parent: str) -> None:
    """The modules and sub-packages of each package depend on each other in one direction only, at every depth."""
    names = {
        name: f"{name.removeprefix(parent)}.__init__".split(".")[1]
        for name in MODULES
        if f"{name}.".startswith(f"{parent}.")
    }
    graph: dict[str, set[str]] = {part: set() for part in names.values()}
    for name, part in names.items():
        graph[part] |= {names[target] for target in imports(MODULES[name]) & names.keys()} - {part}
    check_for_cycles(graph)
