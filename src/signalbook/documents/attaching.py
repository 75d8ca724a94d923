"""Documents of Resources that lie beside the registry document, as files named by a relative URL.

``"schemaurl": "./placed.avsc"`` in a file means the file next to it: the Registry itself takes absolute URLs only.
"""

from __future__ import annotations

import base64
import mimetypes
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from signalbook.documents.entities import entities
from signalbook.documents.faults import DocumentError
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind

_DERIVED: Final = frozenset({"defaultversionurl", "metaurl", "versionsurl"})
_CONTENT_TYPES: Final = {
    ".avsc": "application/json",
    ".json": "application/json",
    ".proto": "text/plain",
    ".xsd": "application/xml",
}


def attach(document: JSON, *, beside: Path, root: Path, max_bytes: int) -> tuple[Path, ...]:
    """Take the files that ``document``, read from the file ``beside``, names into it; returns them.

    The bytes become ``<RESOURCE>base64``, with a ``contenttype`` by the file's suffix where none is given. Raises
    ``DocumentError`` for a file that is not there, not below ``root``, or with the others larger than ``max_bytes``.
    """
    files: list[Path] = []
    left = max_bytes
    for xid, body in entities(document):
        if xid.kind is Kind.GROUP:
            continue
        for name in [name for name in body if name.endswith("url") and _names_file(name, body[name])]:
            file = _within(root, beside.parent / unquote(body[name]), f"{xid}#{name}")
            content = _content(file, left, f"{xid}#{name}")
            left -= len(content)
            _put(body, name, file, content)
            files.append(file)
    return tuple(files)


def _names_file(name: str, value: JSON) -> bool:
    if name in _DERIVED or not isinstance(value, str):
        return False
    return bool(value) and value[0] not in "/#?" and not urlsplit(value).scheme


def _within(root: Path, file: Path, where: str) -> Path:
    resolved = file.resolve()
    if not resolved.is_relative_to(root.resolve()):
        raise DocumentError(f"{where}: {file} lies outside {root}, from where nothing is read")
    return resolved


def _content(file: Path, limit: int, where: str) -> bytes:
    try:
        with file.open("rb") as opened:
            content = opened.read(limit + 1)
    except OSError as error:
        raise DocumentError(f"{where}: {file} cannot be read: {error.strerror}") from None
    if len(content) > limit:
        raise DocumentError(f"{where}: with {file} the document and its files are too large: split it")
    return content


def _put(body: JSONObject, name: str, file: Path, content: bytes) -> None:
    del body[name]
    body[f"{name.removesuffix('url')}base64"] = base64.b64encode(content).decode("ascii")
    guessed = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    body.setdefault("contenttype", _CONTENT_TYPES.get(file.suffix.lower(), guessed))
