"""Generated packages, imported, and type-checked, in tests."""

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.codegen.conftest import DOCUMENT, GROUP

from signalbook.codegen.base import Generated, generate, read_input
from signalbook.codegen.runtime import TypedMessage
from signalbook.values import dump_json


def generated(folder: Path, document: dict[str, Any], **options: str) -> Generated:
    """Run the target ``python`` for a document and write the files to ``folder``."""
    path = folder / "definitions.json"
    path.write_bytes(dump_json(document))
    generated_files = generate(read_input("python", str(path), (), options))
    for file in generated_files.files:
        place = folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.content)
    return generated_files


@contextmanager
def imported(folder: Path, package: str = "messages") -> Iterator[dict[str, ModuleType]]:
    """The modules of the package in ``folder``, by the xid of their message; afterwards nothing is imported."""
    sys.path.insert(0, str(folder))
    try:
        importlib.invalidate_caches()
        root = importlib.import_module(package)
        names = [info.name for info in pkgutil.walk_packages(root.__path__, f"{package}.")]
        modules = [importlib.import_module(name) for name in names]
        yield {module.MESSAGE.xid: module for module in modules if hasattr(module, "MESSAGE")}
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]


@dataclass(frozen=True)
class Orders:
    """The package of the shop in use: an order, handlers for its messages, and what these were given."""

    placed: ModuleType
    order: Any
    handlers: Any
    seen: list[TypedMessage[Any]]

    def check(self, section: str, value: Any) -> None:
        """Check that the order of shop 7 was received, by the place that it was sent to."""
        (message,) = self.seen
        assert (message.payload, message.context["shop"]) == (self.order, "7")
        assert message.message.sections[section] == value


@contextmanager
def ordering(folder: Path) -> Iterator[Orders]:
    generated(folder, DOCUMENT)
    with imported(folder) as modules:
        placed = modules[GROUP + "order.placed"]
        table = importlib.import_module("messages.definitions").handlers("/messagegroups/shop.orders")
        orders = Orders(placed, placed._types.OrderPlaced(kind="again", total=2.5), table, [])
        table.on(placed.MESSAGE)(orders.seen.append)
        yield orders


ROOT = Path(__file__).parents[2]


def type_errors(folder: Path, *targets: str) -> list[str]:
    """The lines that mypy, as strict as for this project, has to say about files in ``folder``; none if all is well.

    It runs where it runs for the project, whose cache it shares: it knows the runtime already.
    """
    options = ["--strict", "--no-error-summary", "--hide-error-context", "--show-absolute-path"]
    paths = [str(folder / target) for target in targets]
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *paths],
        cwd=ROOT, env={**os.environ, "MYPYPATH": str(folder)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    # What it kept of the same files from an earlier run names them by their places then.
    return [re.sub(r"^\S*/", "", line) for line in (ran.stdout + ran.stderr).splitlines()]
