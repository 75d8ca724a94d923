"""Parse documents from files, folders or bytes. They are JSON unless the name or the content says YAML (domain I-2)."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Final

from signalbook.documents.errors import DocumentError, Repair, line_of
from signalbook.documents.jsonrepair import repair_json
from signalbook.documents.messagecatalog import shape_of
from signalbook.documents.modernise import modernise
from signalbook.documents.parts import Parts
from signalbook.documents.standards import standard_of
from signalbook.documents.yaml import parse_yaml
from signalbook.values import JSON, MAX_DEPTH, JSONError, parse_json

MAX_BYTES: Final = 64 * 1024 * 1024
SUFFIXES: Final = (".json", ".yaml", ".yml", ".cereg")
AVRO_IDL: Final = ".avdl"
NAMED: Final = (".xreg.json", ".xreg.yaml", ".xreg.yml", ".cereg", ".cereg.json", ".cereg.yaml", ".cereg.yml")
_YAML: Final = ("yaml", ".yml")
_TRUNCATED: Final = "the document ends before it is complete (truncated, or a closing bracket is missing)"


def parse_document(
    data: bytes,
    *,
    name: str,
    media_type: str = "",
    lenient: bool = False,
    max_depth: int = MAX_DEPTH,
    label: str = "",
    unique: bool = False,
    parts: Parts | None = None,
) -> tuple[JSON, tuple[Repair, ...]]:
    """Parse ``data``, and return the value with the repairs that were made. Repairs are made only if ``lenient``.

    Lenient parsing repairs the text, and then outdated names and values. If ``unique`` is True, an object with the same
    name twice is an error; in YAML this is always an error. ``name`` is a file name or URL. ``label`` is the source
    that repaired entities state, by default the last part of ``name``. With ``parts``, unchanged Resources of JSON
    documents are not parsed again, and the document is parsed strictly.

    The language is chosen by ``media_type`` or else ``name``, by their ends: ``yaml``, ``.yml`` or ``json``. Otherwise
    (``.cereg``, standard input) the document is JSON if it starts with a brace, a bracket or a slash. Raises
    ``DocumentError`` with ``name``, the place and the mistake.
    """
    try:
        text = data.decode("utf-8-sig")
        yaml = _is_yaml(text, name, media_type)
        if parts is not None and not yaml:
            value = _parse_parts(text, parts, max_depth)
            # Converters of other standards may change the document, so it must not share objects with the previous one.
            if standard_of(value) is None:
                return value, ()
        value, repairs = _parse(text, yaml, lenient, max_depth, unique)
    except UnicodeDecodeError as error:
        raise DocumentError(f"{name}: not UTF-8 text (byte {error.start})") from None
    except DocumentError as error:
        raise DocumentError(f"{name}: {error}") from None
    if not lenient:
        return value, ()
    # Documents of other standards have no outdated names of registry documents.
    if shape_of(value) is not None or standard_of(value) is not None:
        return value, repairs
    value, renewed = modernise(value, source=label or _file_name(name), text=repairs)
    return value, (*repairs, *renewed)


def read_document(
    path: Path,
    *,
    lenient: bool = False,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
    unique: bool = False,
) -> tuple[JSON, tuple[Repair, ...]]:
    """Read and parse the file at ``path`` like ``parse_document``. It may have ``max_bytes``."""
    data = read_bytes(path, max_bytes=max_bytes)
    return parse_document(data, name=str(path), lenient=lenient, max_depth=max_depth, unique=unique)


def read_bytes(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Read the file at ``path``. Raises ``DocumentError`` if that fails, or it is larger than ``max_bytes``."""
    try:
        with path.open("rb") as file:
            return read_limited(file, name=str(path), max_bytes=max_bytes)
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror}") from None


def read_limited(file: BinaryIO, *, name: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Read all of ``file``. Raises ``DocumentError`` if that is more than ``max_bytes``."""
    data = file.read(max_bytes + 1)
    check_size(len(data), name=name, max_bytes=max_bytes)
    return data


def check_size(size: int, *, name: str, max_bytes: int = MAX_BYTES) -> None:
    """Raise ``DocumentError`` if ``size`` bytes are more than ``max_bytes``."""
    if size > max_bytes:
        raise DocumentError(f"{name}: larger than the {max_bytes} bytes a document may have: split it")


def find_documents(folder: Path) -> list[Path]:
    """Return the registry documents and Avro IDL files in ``folder`` and below, sorted by path (see ``find_files``).

    If some files have the suffix of registry documents (``NAMED``), only these are returned, because a repository also
    contains other JSON and YAML. Raises ``DocumentError`` if there are none.
    """
    files = find_files(folder, (*SUFFIXES, AVRO_IDL))
    files = [path for path in files if path.name.endswith(NAMED)] or files
    if not files:
        if not folder.exists():
            raise DocumentError(f"{folder} does not exist")
        names = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
        raise DocumentError(
            f"{folder}: holds no registry document: neither this folder nor one below it has a file named {names}"
        )
    return files


def find_files(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files in ``folder`` and below with one of these ``suffixes``, sorted by path.

    Hidden files, files in hidden folders, and links that lead out of ``folder`` are left out.
    """
    root = folder.resolve()
    return sorted(
        path
        for path in folder.rglob("*")
        if path.name.endswith(suffixes)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.is_file()
        # Do not follow links out of the folder: a folder from an untrusted source must not make us read other files.
        and path.resolve().is_relative_to(root)
    )


def _is_yaml(text: str, name: str, media_type: str) -> bool:
    for stated in (media_type.partition(";")[0].strip().lower(), name.partition("?")[0].lower()):
        if stated.endswith(_YAML):
            return True
        if stated.endswith("json"):
            return False
    return text.lstrip()[:1] not in ("{", "[", "/")


def _file_name(name: str) -> str:
    """Return the last part of a path or URL, without its query."""
    return name.partition("?")[0].rstrip("/").rpartition("/")[2]


def _parse(text: str, yaml: bool, lenient: bool, max_depth: int, unique: bool) -> tuple[JSON, tuple[Repair, ...]]:
    if yaml:
        return parse_yaml(text, max_depth=max_depth), ()
    try:
        return parse_json(text, max_depth=max_depth, unique=unique), ()
    except JSONError as error:
        if lenient:
            return repair_json(text, max_depth=max_depth)
        raise DocumentError(_locate_error(text, error)) from None


def _parse_parts(text: str, parts: Parts, max_depth: int) -> JSON:
    try:
        return parts.parse(text.encode(), max_depth=max_depth)
    except JSONError as error:
        raise DocumentError(_locate_error(text, error)) from None


def _locate_error(text: str, error: JSONError) -> str:
    """Return the message of the decoder with a line and column instead of a byte offset.

    ``msgspec`` ends its messages with ``(byte N)``.
    """
    words, _, offset = str(error).rpartition(" (byte ")
    if not words or not offset.rstrip(")").isdigit():
        return f"line {line_of(text, len(text.rstrip()))}: {_TRUNCATED}" if "truncated" in str(error) else str(error)
    before = text.encode()[: int(offset.rstrip(")"))]
    line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
    return f"line {line}, column {column}: {words}"
