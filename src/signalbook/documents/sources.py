"""Documents to read, from files and folders: their names, their repairs, the files they name, and several as one.

``"schemaurl": "./placed.avsc"`` in a file means the file next to it: the Registry itself takes absolute URLs only.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from signalbook.documents import avroidl
from signalbook.documents.conversion import convert
from signalbook.documents.errors import DocumentError, Repair
from signalbook.documents.importing import collections, entities, make_upload
from signalbook.documents.localfiles import LocalFiles, is_file_reference
from signalbook.documents.modernise import REPAIRED, modernise
from signalbook.documents.parts import Parts
from signalbook.documents.protofiles import group_of_files, is_proto_folder
from signalbook.documents.reading import AVRO_IDL, MAX_BYTES, find_documents, find_files, parse_document, read_bytes
from signalbook.documents.standards import is_whole
from signalbook.values import JSON, MAX_DEPTH, JSONObject
from signalbook.xid import Kind

_DERIVED: Final = frozenset({"defaultversionurl", "metaurl", "versionsurl"})
_CONTENT_TYPES: Final = {
    ".avsc": "application/json",
    ".json": "application/json",
    ".proto": "text/plain",
    ".xsd": "application/xml",
}


def attach(document: JSON, files: LocalFiles, *, plain: Container[int] = ()) -> None:
    """Embed the files that ``document`` names.

    Entities with their ids among the ``plain`` ones are known to name none.

    The bytes become ``<RESOURCE>base64``, with a ``contenttype`` by the file's suffix where none is given. Raises
    ``DocumentError`` for a file that cannot be read.
    """
    for xid, body in entities(document, without=plain):
        if xid.kind is Kind.GROUP:
            continue
        for name in [name for name in body if name.endswith("url") and _is_file_attribute(name, body[name])]:
            _put(body, name, *files.read(unquote(body[name]), f"{xid}#{name}"))


def _is_file_attribute(name: str, value: JSON) -> bool:
    if name in _DERIVED or not isinstance(value, str):
        return False
    return is_file_reference(value)


def _put(body: JSONObject, name: str, file: Path, content: bytes) -> None:
    del body[name]
    body[f"{name.removesuffix('url')}base64"] = base64.b64encode(content).decode("ascii")
    guessed = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    body.setdefault("contenttype", _CONTENT_TYPES.get(file.suffix.lower(), guessed))


_MAX_SHOWN_REPAIRS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """A document. ``files`` are those that were included, ``lenient`` tells how it was read.

    ``parts`` are the documents it was merged from (``merge``). A document that ``is_whole`` is imported by itself even
    if another document refers to it.
    """

    name: str
    document: JSON
    repairs: tuple[Repair, ...] = ()
    files: tuple[Path, ...] = ()
    lenient: bool = False
    parts: tuple[SourceDocument, ...] = ()
    is_whole: bool = False

    def iterate_repairs(self) -> Iterator[tuple[str, Repair]]:
        """Yield each repair with the name of its file."""
        for part in self.parts or (self,):
            yield from ((repair.file or part.name, repair) for repair in part.repairs)

    def advice(self) -> str:
        """Return what a lenient reading would repair, for the author of a rejected document, or ``""``."""
        if self.lenient:
            return ""
        if not self.parts:
            return _format_advice([str(repair) for repair in self._find_needed_repairs()])
        return _format_advice(
            [f"{part.name}, {repair}" for part in self.parts for repair in part._find_needed_repairs()]
        )

    def _find_needed_repairs(self) -> tuple[Repair, ...]:
        return modernise(self.document, source=self.name)[1]

    def find_parts_naming(self, xids: Iterable[str]) -> list[str]:
        """Return names of the parts that speak of one of ``xids``, or of what one of them is in."""
        related_xids = {xid for text in xids for xid in _iterate_ancestors(text)}
        return [part.name for part in self.parts if related_xids & {str(xid) for xid, _ in entities(part.document)}]


def parse_source(
    data: bytes,
    *,
    name: str,
    media_type: str = "",
    lenient: bool = False,
    max_depth: int = MAX_DEPTH,
    label: str = "",
    files: LocalFiles | None = None,
    parts: Parts | None = None,
) -> SourceDocument:
    """Parse like ``parse_document``. The error of a strict reading names what a lenient one would repair.

    A document of another standard becomes one of a registry, with its references from ``files``.
    """
    path = Path(name.partition("?")[0]) if files is None else files.document
    if path.suffix.lower() == AVRO_IDL:
        return _parse_avro_idl(path, data, label or path.name, files)
    try:
        document, repairs = parse_document(
            data, name=name, media_type=media_type, lenient=lenient, max_depth=max_depth, label=label, parts=parts
        )
    except DocumentError as error:
        if lenient:
            raise
        raise DocumentError(f"{error}{_suggest_lenient(data, name, media_type, max_depth)}") from None
    whole = is_whole(document)
    try:
        converted = convert(document, source=label or path.name, files=files)
    except DocumentError as error:
        raise DocumentError(f"{name}: {error}") from None
    if converted is not None:
        document, repairs = converted[0], (*repairs, *converted[1])
    return SourceDocument(name=name, document=document, repairs=repairs, lenient=lenient, is_whole=whole)


def read_source(
    path: Path, *, root: Path | None = None, lenient: bool = False, max_bytes: int = MAX_BYTES
) -> SourceDocument:
    """The document in a file, with the files it names below ``root`` (its own folder). Raises ``DocumentError``."""
    data = read_bytes(path, max_bytes=max_bytes)
    return source_of(path, data, root=root, lenient=lenient, max_bytes=max_bytes)


def source_of(
    path: Path,
    data: bytes,
    *,
    root: Path | None = None,
    lenient: bool = False,
    max_bytes: int = MAX_BYTES,
    parts: Parts | None = None,
) -> SourceDocument:
    """The same out of what was read of the file.

    Of JSON the ``parts`` that the document before had, too, are the same objects. Where the document names files, or
    cannot be read, they are of no use any more.
    """
    # In a folder there may be several of a name.
    label = "" if root is None else path.relative_to(root).as_posix()
    files = LocalFiles(document=path, root=root or path.parent, bytes_left=max_bytes)
    source = parse_source(data, name=str(path), lenient=lenient, label=label, files=files, parts=parts)
    try:
        attach(source.document, files, plain=parts.plain if parts is not None else ())
    except DocumentError as error:
        raise DocumentError(f"{path}: {error}") from None
    return replace(source, files=tuple(sorted(files.paths - {path.resolve()})))


def _parse_avro_idl(path: Path, data: bytes, source: str, files: LocalFiles | None) -> SourceDocument:
    """Return the document of a file of Avro IDL; without ``files`` it may import nothing."""

    def open_import(beside: Path, name: str) -> tuple[Path, bytes]:
        assert files is not None
        if not is_file_reference(name):
            raise DocumentError(f"{name} is no file beside it, and was not fetched")
        return files.read(name, name, beside=beside)

    try:
        document, repairs = avroidl.convert_avro_idl(
            data, path=path, source=source, open=None if files is None else open_import
        )
    except DocumentError as error:
        raise DocumentError(f"{path}: {error}") from None
    return SourceDocument(name=str(path), document=document, repairs=repairs, is_whole=True)


def read_folder(folder: Path, *, lenient: bool = False, max_bytes: int = MAX_BYTES) -> list[SourceDocument]:
    """The documents in a folder and below, by path. Files that a document names are none themselves.

    The ``.proto`` files of a folder without ``.json`` and ``.yaml`` files are one document, called as the folder is
    (``protofiles``). Raises ``DocumentError`` for the first that cannot be read, and for a folder without any.
    """
    sources: dict[Path, SourceDocument] = {}
    errors: dict[Path, DocumentError] = {}
    protos: list[SourceDocument] = []
    if is_proto_folder(folder):
        group = group_of_files(folder, max_bytes=max_bytes)
        protos.append(SourceDocument(name=str(folder), document=group, lenient=lenient))
    for file in find_files(folder, (AVRO_IDL,)) if protos else find_documents(folder):
        try:
            sources[file] = read_source(file, root=folder, lenient=lenient, max_bytes=max_bytes)
        except DocumentError as error:
            errors[file] = error
    # A schema document next to a registry document is no registry document, though it is JSON: it fails alone, and is
    # none.
    attached = {file for source in sources.values() for file in source.files}
    for file, failed in errors.items():
        if file.resolve() not in attached:
            raise failed
    return [*protos, *(source for file, source in sources.items() if source.is_whole or file.resolve() not in attached)]


def _iterate_ancestors(xid: str) -> Iterator[str]:
    """``xid`` and what it is in, but for the Registry."""
    parts = xid.partition("#")[0].strip("/").split("/")
    for length in range(len(parts), 0, -1):
        yield "/" + "/".join(parts[:length])


def _suggest_lenient(data: bytes, name: str, media_type: str, max_depth: int) -> str:
    try:
        _, repairs = parse_document(data, name=name, media_type=media_type, lenient=True, max_depth=max_depth)
    except DocumentError:
        return ""
    return f"\n{_format_advice([str(repair) for repair in repairs])}"


def _format_advice(repairs: Sequence[str]) -> str:
    if not repairs:
        return ""
    lines = [f"  {repair}" for repair in repairs[:_MAX_SHOWN_REPAIRS]]
    more = [f"  and {len(repairs) - _MAX_SHOWN_REPAIRS} more"] if len(repairs) > _MAX_SHOWN_REPAIRS else []
    return "\n".join(["--lenient would repair it:", *lines, *more])


def merge(sources: Sequence[SourceDocument], *, name: str) -> SourceDocument:
    """Merge ``sources`` into one, each document in its place below the Registry. ``parts`` are its sources.

    Several documents may contain the same entity if they agree. Raises ``DocumentError`` that names both if they do
    not.
    """
    merging = _Merging()
    for source in sources:
        try:
            upload = make_upload(source.document)
        except DocumentError as error:
            raise DocumentError(f"{source.name}: {error}") from None
        body: JSON = upload.body
        for part in reversed(upload.target.parts):
            body = {part: body}
        merging.add((), merging.tree, body, source.name)
    counted = f"{name} ({len(sources)} document{'' if len(sources) == 1 else 's'})"
    return SourceDocument(
        name=counted, document=merging.tree, parts=tuple(sources), lenient=any(s.lenient for s in sources)
    )


class _Merging:
    def __init__(self) -> None:
        self.tree: JSONObject = {}
        self._origins: dict[tuple[str, ...], str] = {}

    def add(self, path: tuple[str, ...], into: JSONObject, body: JSONObject, source: str) -> None:
        """Put what is at ``path`` of a document into ``into``, which is there in the tree."""
        shared = _find_shared_members(path, body)
        for name, value in body.items():
            here = (*path, name)
            if name in shared and isinstance(value, dict) and isinstance(into.setdefault(name, {}), dict):
                self.add(here, into[name], value, source)
            elif (
                name == "labels" and len(path) % 2 == 0 and (joined := _join_labels(into.get(name), value)) is not None
            ):
                into[name] = joined
            elif name in into and into[name] != value:
                place = f"/{'/'.join(path)}#{name}"
                raise DocumentError(
                    f"{self._origins.get(here, 'another document')} and {source} do not agree on {place}"
                )
            else:
                into[name] = value
                self._origins[here] = source


def _join_labels(labels: JSON, other_labels: JSON) -> JSONObject | None:
    """Labels of an entity in two documents, if they differ in nothing but what was repaired in each."""
    if (
        not isinstance(labels, dict)
        or not isinstance(other_labels, dict)
        or not REPAIRED.keys() & {*labels, *other_labels}
    ):
        return None
    own_labels, theirs = (
        {name: value for name, value in label_map.items() if name not in REPAIRED}
        for label_map in (labels, other_labels)
    )
    if own_labels and theirs and own_labels != theirs:
        return None
    words = {
        name: sorted(
            {
                word
                for label_map in (labels, other_labels)
                for word in str(label_map.get(name, "")).split(between)
                if word
            }
        )
        for name, between in REPAIRED.items()
    }
    return {**own_labels, **theirs, **{name: REPAIRED[name].join(values) for name, values in words.items()}}


def _find_shared_members(path: tuple[str, ...], body: JSONObject) -> Collection[str]:
    """Return the members at ``path`` that several documents may each have a part of."""
    if path[:1] == ("modelsource",):
        return {"groups", "attributes"} if len(path) == 1 else ()
    # Odd lengths are collections, whose members several documents may bring; even ones are entities.
    if len(path) % 2 == 1:
        return () if path[-1] == "meta" else body.keys()
    match len(path):
        case 0:
            return {*collections(body), "modelsource"}
        case 2:
            return set(collections(body))
        case 4:
            return {"meta", "versions"}
        case _:
            return ()
