"""Read a folder of ``.proto`` files as a schema group whose schemas have the paths of the files as names.

So an ``import`` finds the other files, as with a compiler that searches this folder (``-I``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Final

from signalbook.documents.errors import DocumentError
from signalbook.documents.reading import SUFFIXES, find_files, read_bytes
from signalbook.values import JSONObject
from signalbook.xid import ID

SUFFIX: Final = ".proto"
# Blanks and comments. Nothing is tried twice, however many there are.
_GAP: Final = rb"(?:\s++|//[^\n]*+|/\*.*?\*/)*+"
_SYNTAX: Final = re.compile(
    rb"""(?:\xef\xbb\xbf)?%b(?:syntax%b=%b["'](proto[23])["']|(edition)%b=%b["']\d++["'])""" % ((_GAP,) * 5),
    re.DOTALL,
)
_PROTO_FORMATS: Final = {b"proto2": "Protobuf/2", b"proto3": "Protobuf/3", b"edition": "Protobuf"}
_NOT_IN_AN_ID: Final = re.compile(r"[^A-Za-z0-9._~:@-]+")


def states_syntax(content: bytes) -> bool:
    """Return True if ``content`` begins with a statement of a syntax or an edition of Protobuf."""
    return _SYNTAX.match(content) is not None


def proto_format(content: bytes) -> str:
    """Return the format of a ``.proto`` file: the one it states, else proto2, which is also the compiler's default."""
    match = _SYNTAX.match(content)  # before all else, or not at all
    return "Protobuf/2" if match is None else _PROTO_FORMATS[match[1] or match[2]]


def is_proto_folder(folder: Path) -> bool:
    """Return True if there are ``.proto`` files in ``folder`` or below, and no possible registry document."""
    return bool(find_files(folder, (SUFFIX,))) and not find_files(folder, SUFFIXES)


def group_of_files(folder: Path, *, max_bytes: int) -> JSONObject:
    """Return the ``.proto`` files in ``folder`` as a schema group with the name of the folder.

    Raises ``DocumentError`` for a file that cannot be read, and for two files that would get the same id.
    """
    # "." has a name only once it is resolved.
    group = _make_id(folder.resolve().name)
    schemas: dict[str, JSONObject] = {}
    bytes_left = max_bytes
    for path in find_files(folder, (SUFFIX,)):
        content = read_bytes(path, max_bytes=bytes_left)
        bytes_left -= len(content)
        name = path.relative_to(folder).as_posix()
        key = _make_id(name.removesuffix(SUFFIX).replace("/", "."))
        if key in schemas:
            raise DocumentError(
                f"{folder}: {name} and {schemas[key]['name']} would both be the schema {key}: rename one"
            )
        schemas[key] = dict(_build_schema(name, path, content))
    return {"xid": f"/schemagroups/{group}", "schemagroupid": group, "schemas": schemas}


def _build_schema(name: str, path: Path, content: bytes) -> Iterator[tuple[str, str]]:
    yield "name", name
    yield "format", proto_format(content)
    yield "contenttype", "text/plain"
    try:
        yield "schema", content.decode()
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path}: not UTF-8 text (byte {error.start})") from None


def _make_id(text: str) -> str:
    new_id = _NOT_IN_AN_ID.sub("-", PurePath(text).as_posix()).lstrip("-.~:@")
    if not ID.fullmatch(new_id):
        raise DocumentError(f"{text!r} makes no id (letters, digits, . _ ~ : @ -; at most 128): rename it")
    return new_id
