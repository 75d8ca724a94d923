"""Documents for people: YAML or indented JSON, of a long text without holding all of it; and registries as folders.

A folder has one document for each entity, the way git likes it, and documents of Resources as files:
``registry.xreg.json`` is the Registry, ``<GROUPS>/<gid>.xreg.json`` a Group,
``<GROUPS>/<gid>/<RESOURCES>/<rid>.xreg.json`` a Resource with its Versions; their documents are files in the folder
``<rid>`` beside it, named by a relative ``<RESOURCE>url``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote

import yaml

from signalbook.filenames import file_name
from signalbook.values import JSON, JSONObject, dump_json
from signalbook.xid import ROOT, Xid

_YAML: Final = (".yaml", ".yml")
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def write_document(value: JSON, *, name: str = "") -> bytes:
    """``value`` as text in the form that the file name ``name`` asks for: YAML or JSON. ``parse_document`` reads it."""
    if name.lower().endswith(_YAML):
        text: str = yaml.dump(value, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=120)
        return text.encode()
    return dump_json(value, indent=2) + b"\n"


# A whole string, a bracket or comma or colon, a run of anything else, or the beginning of a string that goes on.
_JSON_TOKEN: Final = re.compile(rb'("(?:[^"\\]|\\.)*")|([\[\]{},:])|([^"\[\]{},:\s]+)|(".*)', re.DOTALL)
_OPEN: Final = frozenset(b"[{")
_CLOSE: Final = frozenset(b"]}")


def indent(pieces: Iterable[bytes], *, width: int = 2) -> Iterator[bytes]:
    """The JSON text that ``pieces`` make, with each member on a line of its own, and a line break at the end.

    The same text as ``dump_json(value, indent=2)``, whatever the pieces begin and end with.
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
        """Return the part of ``text`` that can be written, and the part that waits for more."""
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


# What tells nothing that the place of a file does not tell, or changes without anybody's doing.
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
    """A file of the folder: where in it, and all it holds."""

    path: PurePosixPath
    content: bytes


def build_files(xid: Xid, entity: JSONObject, *, suffix: str = ".xreg.json") -> Iterator[FolderFile]:
    """The document of ``entity`` (in document view, ``binary``, its collections but for Versions apart), and its files.

    The same entity gives the same bytes. ``suffix`` ends the documents' names and says JSON or YAML.
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
    """Return the place of ``xid`` in a folder: its document's name without suffix, and its content's folder."""
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
    """Return the name of the file for a Version's document, relative to that of its Resource, and its bytes."""
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
