"""Read documents from files and folders, embed the files that they refer to, and merge several documents into one.

``"schemaurl": "./placed.avsc"`` in a document means the file next to it. The Registry itself accepts only absolute
URLs, so the content of the file is embedded.
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
    """Embed the files that ``document`` refers to, in place. Entities whose Python ``id`` is in ``plain`` are skipped.

    The content of a file becomes the attribute ``<RESOURCE>base64``. If ``contenttype`` is missing, it is derived from
    the suffix of the file. Raises ``DocumentError`` for a file that cannot be read.
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
    """A document that was read from a file or folder.

    ``files`` are the files that were embedded. ``lenient`` is True if the document was read leniently. ``parts`` are
    the documents from which it was merged (``merge``). If ``is_whole`` is True, it is imported even if another document
    refers to its file.
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
        """Return advice for the author of a rejected document: the repairs that ``--lenient`` would make, or ``""``."""
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
        """Return the names of the parts that contain one of the entities ``xids``, or an entity above one of them."""
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
    """Parse ``data`` like ``parse_document``. If strict parsing fails, the error lists what ``lenient`` would repair.

    A document of another standard (such as AsyncAPI) is converted to a registry document. References of such a document
    are read from ``files``; None allows no references. Raises ``DocumentError``.
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
    """Read the document in the file ``path``, and embed the files it refers to. Raises ``DocumentError``.

    These files must be in ``root``, by default the folder of ``path``.
    """
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
    """Do the same as ``read_source``, with the content ``data`` of the file.

    With ``parts``, unchanged Resources of a JSON document are not parsed again. Discard ``parts`` if the document
    refers to files or cannot be read.
    """
    # Several files in a folder may have the same name, so label them by their path.
    label = "" if root is None else path.relative_to(root).as_posix()
    files = LocalFiles(document=path, root=root or path.parent, bytes_left=max_bytes)
    source = parse_source(data, name=str(path), lenient=lenient, label=label, files=files, parts=parts)
    try:
        attach(source.document, files, plain=parts.plain if parts is not None else ())
    except DocumentError as error:
        raise DocumentError(f"{path}: {error}") from None
    return replace(source, files=tuple(sorted(files.paths - {path.resolve()})))


def _parse_avro_idl(path: Path, data: bytes, source: str, files: LocalFiles | None) -> SourceDocument:
    """Return the document of a file of Avro IDL. If ``files`` is None, imports are not allowed."""

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
    """Return the documents in ``folder`` and its subfolders in order of path.

    Files that a document refers to are not documents. If a folder has no ``.json`` or ``.yaml`` files, its ``.proto``
    files form one document with the name of the folder (``protofiles``). Raises ``DocumentError`` for the first
    document that cannot be read, and for a folder without documents.
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
    # A schema file next to a registry document is JSON, but cannot be read as a registry document. Ignore such errors
    # if a document refers to the file.
    attached = {file for source in sources.values() for file in source.files}
    for file, failed in errors.items():
        if file.resolve() not in attached:
            raise failed
    return [*protos, *(source for file, source in sources.items() if source.is_whole or file.resolve() not in attached)]


def _iterate_ancestors(xid: str) -> Iterator[str]:
    """Yield ``xid`` and the xids of everything above it, except the Registry."""
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
    """Merge ``sources`` into one document of the Registry. The ``sources`` become its ``parts``.

    Several documents may contain the same entity if they agree on its attributes. Otherwise ``DocumentError`` is
    raised, which names two documents that disagree.
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
        """Merge ``body``, which is at ``path`` in the document ``source``, into ``into``, at ``path`` in the tree."""
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
    """Return the joined labels of an entity in two documents, or None if they differ in more than repair labels."""
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
    """Return the names of members at ``path`` to which several documents may each contribute a part."""
    if path[:1] == ("modelsource",):
        return {"groups", "attributes"} if len(path) == 1 else ()
    # Paths of odd length are collections, to which several documents may contribute. Paths of even length are entities.
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
