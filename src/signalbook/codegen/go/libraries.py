"""The Go modules that generated packages need, by the format of payloads.

``runtime/go.mod`` and ``runtime/go.sum`` have the versions and sums of all of them. Change them with ``go get`` and
``go mod tidy`` in that folder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from signalbook.codegen.standalone.messages import SchemaFormat

_GO: Final = "1.21"


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """How payloads of one format are written and read.

    ``package`` is the folder in ``internal`` that calls the library.
    ``modules`` are in ``go.mod``, and together with ``test_modules`` in ``go.sum``. ``go`` is the oldest version of Go
    that they take.
    """

    package: str
    modules: tuple[str, ...]
    test_modules: tuple[str, ...] = ()
    go: str


LIBRARIES: Final[Mapping[SchemaFormat, Library]] = {
    "json": Library(
        package="jsonschema",
        modules=("github.com/santhosh-tekuri/jsonschema/v6", "golang.org/x/text"),
        test_modules=("github.com/dlclark/regexp2",),
        go="1.21",
    ),
    "avro": Library(
        package="avro",
        modules=("github.com/twmb/avro",),
        test_modules=("github.com/klauspost/compress",),
        go="1.26",
    ),
    "protobuf": Library(
        package="protobuf",
        modules=("google.golang.org/protobuf",),
        test_modules=("github.com/google/go-cmp",),
        go="1.23",
    ),
}


def write_go_mod(module: str, formats: Collection[SchemaFormat]) -> str:
    """Return the content of ``go.mod`` for a module with payloads of some formats."""
    libraries = [LIBRARIES[name] for name in formats]
    version = max((library.go for library in libraries), key=lambda text: int(text.partition(".")[2]), default=_GO)
    modules = {name for library in libraries for name in library.modules}
    lines = [line for line in _read_lines("go.mod") if line.split(" ")[0] in modules]
    required = f"require {lines[0]}" if len(lines) == 1 else "\n\t".join(["require (", *lines]) + "\n)"
    return "\n\n".join([f"module {module}", f"go {version}", *([required] if lines else [])]) + "\n"


def write_go_sum(formats: Collection[SchemaFormat]) -> str:
    """Return the content of ``go.sum`` for a module with payloads of some formats."""
    libraries = [LIBRARIES[name] for name in formats]
    modules = {name for library in libraries for name in (*library.modules, *library.test_modules)}
    return "".join(f"{line}\n" for line in _read_lines("go.sum") if line.split(" ")[0] in modules)


def _read_lines(name: str) -> Iterator[str]:
    text = (files(__package__) / "runtime" / name).read_text(encoding="utf-8")
    yield from (line.strip() for line in text.splitlines())
