"""Compile ``.proto`` text to descriptors with protoc in a separate process.

protoc writes errors to standard error, and a crash of it would also stop the server. A separate process takes 20 ms for
a new document; results are cached (docs/decisions/052).
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

# No import can refer to this name, because ``_SAFE`` does not match it.
MAIN: Final = ".document.proto"
UNDEFINED: Final = "undefined"
"""The rule of findings about types that a document uses without defining or importing them."""
MAX_BYTES: Final = 1024 * 1024
MAX_FILES: Final = 100
"""The maximum number of files of a document with its imports.

The compiler takes a millisecond for each file. A write gathers the files again after each step of a chain of imports.
"""
_COMPILE_SECONDS: Final = 30.0
# ``python -m grpc_tools.protoc`` does the same, but it first prepares imports of ``.proto`` files, which doubles the
# time.
_PROTOC: Final = (
    "import sys; from grpc_tools import _protoc_compiler as protoc; "
    "sys.exit(protoc.run_main([argument.encode() for argument in sys.argv]))"
)
_LOOKED: Final = (
    "it is none of Google's common protos, and neither the own group has a schema that is this file, nor all other "
    "groups together exactly one; register it with the path for its name, or say of its group in which folder it is "
    f"(label {ROOT_LABEL})"
)
# Unterminated comments and strings extend to the end; searching for the end from each start would take hours.
_NOISE: Final = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?", re.DOTALL)
_IMPORT: Final = re.compile(r"\bimport\s+(?:public\s+|weak\s+)?([\"'])([^\"'\n]*)\1\s*;")
# Paths that are safe as file names: inside the directory, not hidden, and not too long.
_SAFE: Final = re.compile(
    r"(?=.{1,500}\Z)(?:[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}/)*[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}(?<=\.proto)", re.ASCII
)
# Lines of the compiler's log that are not errors.
_LOG: Final = re.compile(r"WARNING: All log messages|[IWE]\d{4} |.*: warning: ")
_UNDEFINED_TYPE: Final = re.compile(r'"[\w.]+" (?:is not defined\.|seems to be defined in )', re.ASCII)
_MESSAGE: Final = re.compile(r"^(?P<file>[^:\n]*?)(?::(?P<line>\d+):(?P<column>\d+))?: (?P<text>.*)$")

# Pairs of an import path and the text of the file; the path of the document itself is MAIN.
Sources = tuple[tuple[str, bytes], ...]


def gather(document: bytes, resolve: Resolve | None) -> Sources:
    """Return the document and all files that it imports, directly or indirectly, except built-in files.

    Raises ``UnresolvedReferences`` with all missing imports, else ``SchemaError`` for other problems.
    """
    files = {MAIN: _check_text(document, MAIN)}
    # The first path of each text: a file imported by two paths is the same file, or its types would be defined twice.
    first = {files[MAIN]: MAIN}
    waiting = [(path, MAIN) for path in list_imports(document)]
    missing: dict[str, Finding] = {}
    size = len(files[MAIN])
    while waiting:
        path, by = waiting.pop()
        if path in files or path in missing:
            continue
        # Paths become file names in a temporary folder, so they must not lead out of it.
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
    """Return the finding for a missing import; ``searched`` is True if there was a way to look it up."""
    importer = "it" if by == MAIN else by
    looked = _LOOKED if searched else "no reference names it"
    text = f"{importer} imports {shorten(repr(path))}, which is missing: {looked}"
    return Finding(path="", rule=IMPORT, message=text)


def check_imports(document: bytes) -> list[Finding]:
    """Return a finding for each import that no compiler accepts: absolute, with "..", or not a ``.proto`` file."""
    paths = [path for path in list_imports(document) if not _SAFE.fullmatch(path)]
    return [Finding(path="", rule="import", message=f"{shorten(repr(path))} is no path to import") for path in paths]


def list_imports(document: bytes) -> Iterator[str]:
    """Yield the paths that a document imports, except the well-known types."""
    # Remove comments but keep strings: an import in a comment is not an import, and ``//`` in a string not a comment.
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
    """Return the serialized ``FileDescriptorSet`` of ``sources`` and the files they need. Raises ``SchemaError``."""
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
    """Run protoc. Return None if it succeeded, otherwise what it wrote to standard error."""
    command = [
        sys.executable, "-P", "-c", _PROTOC, *(f"-I{folder}" for folder in (root, *include_folders())),
        "--include_imports", "--include_source_info", f"--descriptor_set_out={output}", MAIN,
    ]  # fmt: skip
    try:
        # ``-P`` keeps the working directory, which contains the client's files, off Python's path.
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


# The field numbers of descriptors that form paths into a file (descriptor.proto, SourceCodeInfo).
_MESSAGE_FIELD = 4
_NESTED = 3
_FIELD = 2


def list_field_comments(file: FileDescriptorProto) -> dict[str, str]:
    """Return the comments of fields by full name: the comment before the field, or else the one
    after it on its line.
    """
    comments: dict[str, str] = {}
    for location in file.source_code_info.location:
        text = (location.leading_comments or location.trailing_comments).strip()
        name = _find_field_name(file, location.path) if text else ""
        if name:
            comments[name] = "\n".join(line.strip() for line in text.splitlines())
    return comments


def _find_field_name(file: FileDescriptorProto, path: Sequence[int]) -> str:
    """Return the full name of the field at the path ``path``; empty if the path does not lead to a field."""
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
