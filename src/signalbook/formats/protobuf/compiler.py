"""``.proto`` text to descriptors, by protoc in a process of its own.

protoc reports on standard error and a crash of it would take the server along, so it runs apart: 40 ms for a document
seen for the first time, nothing for one seen before (docs/decisions/052).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from signalbook.formats.base import MAX_FINDINGS, Resolve, SchemaError, shorten, too_large
from signalbook.values import Finding

MAIN: Final = "document.proto"
MAX_BYTES: Final = 1024 * 1024
MAX_FILES: Final = 100
_TIMEOUT: Final = 30.0
_WELL_KNOWN: Final = Path(str(files("grpc_tools"))) / "_proto"
# What has no end goes to the end at once: looking for it from each beginning would take hours.
_NOISE: Final = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?", re.DOTALL)
_IMPORT: Final = re.compile(r"\bimport\s+(?:public\s+|weak\s+)?([\"'])([^\"'\n]*)\1\s*;")
# What may become a file name: nothing that climbs out of the directory or hides in it.
_SAFE: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*\.proto", re.ASCII)
# What the compiler's logging says besides.
_LOG: Final = re.compile(r"WARNING: All log messages|[IWE]\d{4} |.*: warning: ")
_MESSAGE: Final = re.compile(r"^(?P<file>[^:\n]*?)(?::(?P<line>\d+):(?P<column>\d+))?: (?P<text>.*)$")

# Texts by import path, the document itself as MAIN.
Sources = tuple[tuple[str, bytes], ...]


def gather(document: bytes, resolve: Resolve | None) -> Sources:
    """The document and everything it imports beyond the well-known types. Raises ``SchemaError``."""
    found = {MAIN: _text(document, MAIN)}
    waiting = list(imports(document))
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        # Paths become file names below a temporary folder, so that nothing may climb out of it, or stand for the
        # document itself.
        content = resolve(path) if resolve and _SAFE.fullmatch(path) and path != MAIN else None
        if content is None:
            raise SchemaError([Finding(path="", rule="import", message=f"there is no {shorten(path)!r} to import")])
        found[path] = _text(content, path)
        if len(found) > MAX_FILES or sum(map(len, found.values())) > MAX_BYTES:
            message = f"more than {MAX_FILES} files or {MAX_BYTES} bytes with everything imported"
            raise SchemaError([Finding(path="", rule="size", message=message)])
        waiting.extend(imports(content))
    return tuple(sorted(found.items()))


def refused_imports(document: bytes) -> list[Finding]:
    """A finding for each import that no compiler accepts: absolute, upwards, or not a ``.proto`` file."""
    paths = [path for path in imports(document) if not _SAFE.fullmatch(path)]
    return [Finding(path="", rule="import", message=shorten(f"{path!r} is no path to import")) for path in paths]


def imports(document: bytes) -> Iterator[str]:
    """Paths a document imports, without those of the well-known types."""
    # Comments go and strings stay: an import in a comment is none, and ``//`` in a string no comment.
    text = _NOISE.sub(lambda match: match[0] if match[0][0] in "\"'" else " ", document.decode("utf-8", "replace"))
    for match in _IMPORT.finditer(text):
        if not _is_well_known(match[2]):
            yield match[2]


def _is_well_known(path: str) -> bool:
    return path.startswith("google/protobuf/") and bool(_SAFE.fullmatch(path)) and (_WELL_KNOWN / path).is_file()


def _text(document: bytes, path: str) -> bytes:
    findings = too_large(document)
    if len(document) > MAX_BYTES:
        findings = [Finding(path="", rule="size", message=f"{path} has more than {MAX_BYTES} bytes")]
    if findings:
        raise SchemaError(findings)
    try:
        document.decode()
    except UnicodeDecodeError as error:
        raise SchemaError([Finding(path="", rule="text", message=f"{path} is not UTF-8 text: {error}")]) from None
    return document


@lru_cache(maxsize=256)
def compile_set(sources: Sources) -> bytes:
    """A serialised ``FileDescriptorSet`` of ``sources`` and all they need. Raises ``SchemaError``."""
    with tempfile.TemporaryDirectory(prefix="signalbook-proto-") as folder:
        root, output = Path(folder) / "in", Path(folder) / "set.bin"
        for path, text in sources:
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
        errors = _run(root, output)
        if errors is not None:
            raise SchemaError(_findings(errors, f"{root}/"))
        return output.read_bytes()


def _run(root: Path, output: Path) -> str | None:
    """Run protoc; what it wrote to standard error if it failed, else ``None``."""
    command = [
        sys.executable, "-P", "-m", "grpc_tools.protoc", f"-I{root}", f"-I{_WELL_KNOWN}", "--include_imports",
        "--include_source_info", f"--descriptor_set_out={output}", MAIN,
    ]  # fmt: skip
    try:
        # ``-P`` keeps the working directory, which has the client's files, off Python's path.
        done = subprocess.run(command, cwd=root, capture_output=True, timeout=_TIMEOUT, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return f": the compiler gave up after {_TIMEOUT:.0f} seconds"
    return done.stderr.decode("utf-8", "replace") if done.returncode else None


def _findings(errors: str, root: str) -> list[Finding]:
    found = [_finding(line.replace(root, "")) for line in errors.splitlines() if line.strip() and not _LOG.match(line)]
    return found[:MAX_FINDINGS] or [Finding(path="", rule="protoc", message="the compiler failed without a word")]


def _finding(line: str) -> Finding:
    match = _MESSAGE.match(line)
    if match is None:
        return Finding(path="", rule="protoc", message=shorten(line))
    where = f"line {match['line']}, column {match['column']}" if match["line"] else ""
    file = match["file"] if match["file"] not in ("", MAIN) else ""
    severity: Final = "warning" if match["text"].startswith("warning") else "error"
    return Finding(
        path=" ".join(filter(None, (file, where))), rule="protoc", message=shorten(match["text"]), severity=severity
    )


# Numbers of fields of descriptors, of which paths into a file are made (descriptor.proto, SourceCodeInfo).
_MESSAGE_FIELD = 4
_NESTED = 3
_FIELD = 2


def field_comments(file: FileDescriptorProto) -> dict[str, str]:
    """Texts by full name of the field: the comment before it, or else behind it on its line."""
    found: dict[str, str] = {}
    for location in file.source_code_info.location:
        text = (location.leading_comments or location.trailing_comments).strip()
        name = _field(file, location.path) if text else ""
        if name:
            found[name] = "\n".join(line.strip() for line in text.splitlines())
    return found


def _field(file: FileDescriptorProto, path: Sequence[int]) -> str:
    """The full name of the field a path leads to; nothing if it leads elsewhere."""
    if len(path) < 4 or len(path) % 2 or path[0] != _MESSAGE_FIELD or path[-2] != _FIELD:
        return ""
    message: DescriptorProto = file.message_type[path[1]]
    names = [file.package, message.name]
    for kind, index in zip(path[2:-2:2], path[3:-2:2], strict=True):
        if kind != _NESTED:
            return ""
        message = message.nested_type[index]
        names.append(message.name)
    return ".".join(filter(None, (*names, message.field[path[-1]].name)))
