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
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from signalbook.formats.base import (
    IMPORT,
    MAX_FINDINGS,
    Resolve,
    SchemaError,
    UnresolvedReferences,
    check_size,
    shorten,
)
from signalbook.formats.imports import ROOT_LABEL, find_renamed, include_folders, is_built_in, is_well_known
from signalbook.values import Finding

# No import can name it: see ``_SAFE``.
MAIN: Final = ".document.proto"
UNDEFINED: Final = "undefined"
"""The rule of findings about types that a document uses without defining or importing them."""
MAX_BYTES: Final = 1024 * 1024
MAX_FILES: Final = 100
"""The compiler takes a millisecond for each, and a write reads them in as many tries."""
_COMPILE_SECONDS: Final = 30.0
_LOOKED: Final = (
    "it is none of Google's common protos, and neither the own group has a schema that is this file, nor all other "
    "groups together exactly one; register it with the path for its name, or say of its group in which folder it is "
    f"(label {ROOT_LABEL})"
)
# What has no end goes to the end at once: looking for it from each beginning would take hours.
_NOISE: Final = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?", re.DOTALL)
_IMPORT: Final = re.compile(r"\bimport\s+(?:public\s+|weak\s+)?([\"'])([^\"'\n]*)\1\s*;")
# What may become a file name: nothing that climbs out of the directory or hides in it, or that is too long for one.
_SAFE: Final = re.compile(
    r"(?=.{1,500}\Z)(?:[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}/)*[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}(?<=\.proto)", re.ASCII
)
# What the compiler's logging says besides.
_LOG: Final = re.compile(r"WARNING: All log messages|[IWE]\d{4} |.*: warning: ")
_UNDEFINED_TYPE: Final = re.compile(r'"[\w.]+" (?:is not defined\.|seems to be defined in )', re.ASCII)
_MESSAGE: Final = re.compile(r"^(?P<file>[^:\n]*?)(?::(?P<line>\d+):(?P<column>\d+))?: (?P<text>.*)$")

# Texts by import path, the document itself as MAIN.
Sources = tuple[tuple[str, bytes], ...]


def gather(document: bytes, resolve: Resolve | None) -> Sources:
    """Return the document and everything it imports beyond what is built in.

    Raises ``UnresolvedReferences`` with all imports that lead to nothing, else ``SchemaError``.
    """
    files = {MAIN: _check_text(document, MAIN)}
    # Where a text was first met: what is imported by two paths is one file, or its types would be defined twice.
    first = {files[MAIN]: MAIN}
    waiting = [(path, MAIN) for path in list_imports(document)]
    missing: dict[str, Finding] = {}
    size = len(files[MAIN])
    while waiting:
        path, by = waiting.pop()
        if path in files or path in missing:
            continue
        # Paths become file names below a temporary folder, so that nothing may climb out of it.
        content = resolve(path) if resolve and _SAFE.fullmatch(path) else None
        if content is None:
            content = find_renamed(path)
        if content is None:
            if not is_built_in(path):
                missing[path] = _build_missing(path, by, searched=resolve is not None)
            continue
        first_path = first.setdefault(_check_text(content, path), path)
        files[path] = content if first_path == path else f'syntax = "proto3"; import public "{first_path}";'.encode()
        size += len(files[path])
        if len(files) > MAX_FILES or size > MAX_BYTES:
            message = f"more than {MAX_FILES} files or {MAX_BYTES} bytes with everything imported"
            raise SchemaError([Finding(path="", rule="size", message=message)])
        waiting.extend((import_path, path) for import_path in list_imports(content))
    if missing:
        raise UnresolvedReferences(list(missing.values())[:MAX_FINDINGS])
    return tuple(sorted(files.items()))


def _build_missing(path: str, by: str, *, searched: bool) -> Finding:
    """Return the finding for an import that leads nowhere."""
    importer = "it" if by == MAIN else by
    looked = _LOOKED if searched else "no reference names it"
    text = f"{importer} imports {shorten(repr(path))}, which is missing: {looked}"
    return Finding(path="", rule=IMPORT, message=text)


def check_imports(document: bytes) -> list[Finding]:
    """Return a finding for each import that no compiler accepts: absolute, upwards, or not a ``.proto`` file."""
    paths = [path for path in list_imports(document) if not _SAFE.fullmatch(path)]
    return [Finding(path="", rule="import", message=f"{shorten(repr(path))} is no path to import") for path in paths]


def list_imports(document: bytes) -> Iterator[str]:
    """Yield paths a document imports, without those of the well-known types."""
    # Comments go and strings stay: an import in a comment is none, and ``//`` in a string no comment.
    text = _NOISE.sub(lambda match: match[0] if match[0][0] in "\"'" else " ", document.decode("utf-8", "replace"))
    for match in _IMPORT.finditer(text):
        if not (_SAFE.fullmatch(match[2]) and is_well_known(match[2])):
            yield match[2]


def _check_text(document: bytes, path: str) -> bytes:
    findings = check_size(document)
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
    """Return a serialised ``FileDescriptorSet`` of ``sources`` and all they need. Raises ``SchemaError``."""
    with tempfile.TemporaryDirectory(prefix="signalbook-proto-") as folder:
        root, output = Path(folder) / "in", Path(folder) / "set.bin"
        for path, text in sources:
            file = root / path
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(text)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                message = f"{shorten(repr(path))} cannot be imported: of what is imported, one is a folder of another"
                raise SchemaError([Finding(path="", rule="import", message=message)]) from None
        errors = _run(root, output)
        if errors is not None:
            raise SchemaError(_parse_findings(errors, f"{root}/"))
        return output.read_bytes()


def _run(root: Path, output: Path) -> str | None:
    """Run protoc; what it wrote to standard error if it failed, else ``None``."""
    command = [
        sys.executable, "-P", "-m", "grpc_tools.protoc", *(f"-I{folder}" for folder in (root, *include_folders())),
        "--include_imports", "--include_source_info", f"--descriptor_set_out={output}", MAIN,
    ]  # fmt: skip
    try:
        # ``-P`` keeps the working directory, which has the client's files, off Python's path.
        process = subprocess.run(command, cwd=root, capture_output=True, timeout=_COMPILE_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return f": the compiler gave up after {_COMPILE_SECONDS:.0f} seconds"
    return process.stderr.decode("utf-8", "replace") if process.returncode else None


def _parse_findings(errors: str, root: str) -> list[Finding]:
    findings = [
        _parse_finding(line.replace(root, "")) for line in errors.splitlines() if line.strip() and not _LOG.match(line)
    ]
    return findings[:MAX_FINDINGS] or [Finding(path="", rule="protoc", message="the compiler failed without a word")]


def _parse_finding(line: str) -> Finding:
    match = _MESSAGE.match(line)
    if match is None:
        return Finding(path="", rule="protoc", message=shorten(line))
    where = f"line {match['line']}, column {match['column']}" if match["line"] else ""
    file = match["file"] if match["file"] not in ("", MAIN) else ""
    severity: Final = "warning" if match["text"].startswith("warning") else "error"
    rule = UNDEFINED if _UNDEFINED_TYPE.match(match["text"]) else "protoc"
    return Finding(
        path=" ".join(filter(None, (file, where))), rule=rule, message=shorten(match["text"]), severity=severity
    )


# Numbers of fields of descriptors, of which paths into a file are made (descriptor.proto, SourceCodeInfo).
_MESSAGE_FIELD = 4
_NESTED = 3
_FIELD = 2


def list_field_comments(file: FileDescriptorProto) -> dict[str, str]:
    """Return texts by full name of the field: the comment before it, or else behind it on its line."""
    comments: dict[str, str] = {}
    for location in file.source_code_info.location:
        text = (location.leading_comments or location.trailing_comments).strip()
        name = _find_field_name(file, location.path) if text else ""
        if name:
            comments[name] = "\n".join(line.strip() for line in text.splitlines())
    return comments


def _find_field_name(file: FileDescriptorProto, path: Sequence[int]) -> str:
    """Return the full name of the field a path leads to; nothing if it leads elsewhere."""
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
