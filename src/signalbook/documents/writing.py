"""Write documents for people, as YAML or indented JSON (also piecewise), and registries as folders of files.

A folder has one document for each entity, which suits git: ``registry.xreg.json`` is the Registry,
``<GROUPS>/<gid>.xreg.json`` a Group, and ``<GROUPS>/<gid>/<RESOURCES>/<rid>.xreg.json`` a Resource with its Versions.
The documents of Versions are files in the folder ``<rid>`` next to it. A relative ``<RESOURCE>url`` names them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

import yaml

from signalbook.filenames import file_name
from signalbook.values import JSON, JSONObject, dump_json
from signalbook.xid import ROOT, Xid

_YAML: Final = (".yaml", ".yml")
_DUMPER: Final[type] = type("_Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})


def _represent_text(dumper: Any, text: str) -> Any:
    """Write a text of several lines as its lines. Texts whose lines YAML might change get quotes as before."""
    lines = text.split("\n")
    is_literal = len(lines) > 1 and text[:1].strip() and all(map(str.isprintable, lines))
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if is_literal else None)


yaml.add_representer(str, _represent_text, Dumper=_DUMPER)


def write_document(value: JSON, *, name: str = "") -> bytes:
    """Return ``value`` as YAML or JSON, depending on the file name ``name``. ``parse_document`` can read the result."""
    if name.lower().endswith(_YAML):
        text: str = yaml.dump(value, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=120)
        return text.encode()
    return dump_json(value, indent=2) + b"\n"


# A whole string, a bracket or comma or colon, a run of anything else, or the beginning of a string that goes on.
_JSON_TOKEN: Final = re.compile(rb'("(?:[^"\\]|\\.)*")|([\[\]{},:])|([^"\[\]{},:\s]+)|(".*)', re.DOTALL)
_OPEN: Final = frozenset(b"[{")
_CLOSE: Final = frozenset(b"]}")


def indent(pieces: Iterable[bytes], *, width: int = 2) -> Iterator[bytes]:
    """Yield the JSON text in ``pieces`` with each member on its own line, and a line break at the end.

    The result is the same as ``dump_json(value, indent=2)``, wherever the pieces are cut.
    """
    writer = _Writer(width)
    remainder = b""
    for piece in pieces:
        written, remainder = writer.take(remainder + piece, final=False)
        yield written
    written, _ = writer.take(remainder, final=True)
    yield written + b"\n"


class _Writer:
    def __init__(self, width: int) -> None:
        self._width = width
        self._depth = 0
        self._opened = False

    def take(self, text: bytes, *, final: bool) -> tuple[bytes, bytes]:
        """Return the text that can be written, and the rest of ``text``, which must wait for the next piece."""
        written = bytearray()
        for token in _JSON_TOKEN.finditer(text):
            # A number or a string at the end of a piece may go on in the next one.
            unfinished = token[4] is not None or (token[3] is not None and token.end() == len(text))
            if unfinished and not final:
                return bytes(written), text[token.start() :]
            self._write(written, token[0])
        return bytes(written), b""

    def _write(self, written: bytearray, token: bytes) -> None:
        first = token[0]
        if first in _CLOSE:
            self._depth -= 1
            written += token if self._opened else self._break() + token
        elif token == b",":
            written += token + self._break()
        elif token == b":":
            written += b": "
        else:
            written += self._break() + token if self._opened else token
        self._opened = first in _OPEN
        self._depth += first in _OPEN

    def _break(self) -> bytes:
        return b"\n" + b" " * (self._width * self._depth)


# Attributes that follow from the path of a file, or that change although nobody changed the entity.
_DERIVED: Final = frozenset(
    {"self", "shortself", "epoch", "isdefault", "metaurl", "versionsurl", "versionscount", "defaultversionurl"}
)
_SUFFIXES: Final = {
    "avro": ".avsc",
    "jsonschema": ".json",
    "jsonstructure": ".json",
    "protobuf": ".proto",
    "xsd": ".xsd",
}
_BY_TYPE: Final = {"application/json": ".json", "application/xml": ".xml", "text/xml": ".xml", "text/plain": ".txt"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFile:
    """A file of the folder: its path in the folder, and its content."""

    path: PurePosixPath
    content: bytes


def build_files(xid: Xid, entity: JSONObject, *, suffix: str = ".xreg.json") -> Iterator[FolderFile]:
    """Yield the files with the documents of the Versions of ``entity``, and then the file of ``entity`` itself.

    ``entity`` is in document view (with the ``binary`` flag), without its collections except Versions. The same entity
    gives the same bytes. ``suffix`` is the end of the file name, and says JSON or YAML.
    """
    document = {"xid": str(xid), **_strip_derived(entity)}
    for name, body in (document.get("versions") or {}).items():
        file, content = _extract_document(name, body, xid)
        if file is not None:
            yield FolderFile(path=place(xid).parent / file, content=content)
    yield FolderFile(
        path=place(xid).with_name(f"{place(xid).name}{suffix}"), content=write_document(document, name=suffix)
    )


def place(xid: Xid) -> PurePosixPath:
    """Return the path of ``xid`` in a folder: of its document without suffix, and of the folder for its content."""
    if xid == ROOT:
        return PurePosixPath("registry")
    return PurePosixPath(*map(file_name, xid.parts))


def _strip_derived(entity: JSONObject) -> JSONObject:
    plurals = {name.removesuffix("count") for name in entity if name.endswith("count")}
    derived = {f"{plural}{end}" for plural in plurals if f"{plural}url" in entity for end in ("url", "count")}
    attributes = {name: value for name, value in entity.items() if name not in _DERIVED and name not in derived}
    if isinstance(attributes.get("meta"), dict):
        attributes["meta"] = _strip_derived(attributes["meta"])
    if isinstance(attributes.get("versions"), dict):
        attributes["versions"] = {name: _strip_derived(version) for name, version in attributes["versions"].items()}
    return attributes


def _extract_document(versionid: str, body: JSONObject, xid: Xid) -> tuple[str | None, bytes]:
    """Replace a Version's document in ``body`` by a relative URL. Return its file name and its bytes.

    The file name is relative to the document of the Resource. It is None if the Version has no document.
    """
    for name in [name for name in body if name.endswith("base64")]:
        try:
            content = base64.b64decode(body[name], validate=True)
        except (binascii.Error, TypeError, ValueError):
            continue
        file = f"{file_name(xid.id)}/{file_name(versionid)}{_choose_suffix(body)}"
        del body[name]
        body[f"{name.removesuffix('base64')}url"] = f"./{quote(file)}"
        return file, content
    return None, b""


def _choose_suffix(version: JSONObject) -> str:
    name = str(version.get("format", "")).partition("/")[0].lower()
    media = str(version.get("contenttype", "")).partition(";")[0].strip().lower()
    return _SUFFIXES.get(name) or _BY_TYPE.get(media) or (".json" if media.endswith("+json") else ".bin")
