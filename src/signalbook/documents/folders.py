"""A registry as a folder, the way git likes it: one document for each entity, documents of Resources as files.

``registry.xreg.json`` is the Registry, ``<GROUPS>/<gid>.xreg.json`` a Group,
``<GROUPS>/<gid>/<RESOURCES>/<rid>.xreg.json`` a Resource with its Versions; their documents are files in the folder
``<rid>`` beside it, named by a relative ``<RESOURCE>url``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote

from signalbook.documents.writing import write_document
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Xid

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


def files_for(xid: Xid, entity: JSONObject, *, suffix: str = ".xreg.json") -> Iterator[FolderFile]:
    """The document of ``entity`` (in document view, ``binary``, its collections but for Versions apart), and its files.

    The same entity gives the same bytes. ``suffix`` ends the documents' names and says JSON or YAML.
    """
    own = {"xid": str(xid), **_lasting(entity)}
    for name, body in (own.get("versions") or {}).items():
        file, content = _document(name, body, xid)
        if file is not None:
            yield FolderFile(path=place(xid).parent / file, content=content)
    yield FolderFile(path=place(xid).with_name(f"{place(xid).name}{suffix}"), content=write_document(own, name=suffix))


def place(xid: Xid) -> PurePosixPath:
    """Where in a folder ``xid`` is: the name of its document without suffix, and of the folder with what is in it."""
    if xid == ROOT:
        return PurePosixPath("registry")
    return PurePosixPath(*(_file_name(part) for part in xid.parts))


def _lasting(entity: JSONObject) -> JSONObject:
    plurals = {name.removesuffix("count") for name in entity if name.endswith("count")}
    derived = {f"{plural}{end}" for plural in plurals if f"{plural}url" in entity for end in ("url", "count")}
    own = {name: value for name, value in entity.items() if name not in _DERIVED and name not in derived}
    if isinstance(own.get("meta"), dict):
        own["meta"] = _lasting(own["meta"])
    if isinstance(own.get("versions"), dict):
        own["versions"] = {name: _lasting(version) for name, version in own["versions"].items()}
    return own


def _document(versionid: str, body: JSONObject, xid: Xid) -> tuple[str | None, bytes]:
    """The name of the file for a Version's document, relative to that of its Resource, and its bytes."""
    for name in [name for name in body if name.endswith("base64")]:
        try:
            content = base64.b64decode(body[name], validate=True)
        except (binascii.Error, TypeError, ValueError):
            continue
        file = f"{_file_name(xid.id)}/{_file_name(versionid)}{_suffix(body)}"
        del body[name]
        body[f"{name.removesuffix('base64')}url"] = f"./{quote(file)}"
        return file, content
    return None, b""


def _suffix(version: JSONObject) -> str:
    name = str(version.get("format", "")).partition("/")[0].lower()
    media = str(version.get("contenttype", "")).partition(";")[0].strip().lower()
    return _SUFFIXES.get(name) or _BY_TYPE.get(media) or (".json" if media.endswith("+json") else ".bin")


def _file_name(part: str) -> str:
    """Part of an xid as the name of a file on any system: ``:`` and a dot at the end are none."""
    name = part.replace(":", "%3A")
    return f"{name[:-1]}%2E" if name.endswith(".") else name
