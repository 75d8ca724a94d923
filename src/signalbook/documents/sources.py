"""Documents to read: with the name people know them by, the repairs they took, and what leniency would do for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from signalbook.documents.attaching import attach
from signalbook.documents.entities import entities
from signalbook.documents.faults import DocumentError
from signalbook.documents.lenient import modernise
from signalbook.documents.reading import MAX_BYTES, files_of, parse_document, read_bytes
from signalbook.documents.repairs import Repair
from signalbook.values import JSON, MAX_DEPTH

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One document; ``files`` are those that were taken into it, ``lenient`` tells how it was read.

    ``parts`` are the documents it was made of, if it was (``merge``).
    """

    name: str
    document: JSON
    repairs: tuple[Repair, ...] = ()
    files: tuple[Path, ...] = ()
    lenient: bool = False
    parts: tuple[Source, ...] = ()

    def advice(self) -> str:
        """What a lenient reading would repair, for someone whose document was refused; ``""`` if nothing."""
        return "" if self.lenient else _advice(modernise(self.document, source=self.name)[1])

    def naming(self, xids: Iterable[str]) -> list[str]:
        """Names of the parts that speak of one of ``xids``, or of what one of them is in."""
        wanted = {xid for text in xids for xid in _upwards(text)}
        return [part.name for part in self.parts if wanted & {str(xid) for xid, _ in entities(part.document)}]


def parse_source(
    data: bytes, *, name: str, media_type: str = "", lenient: bool = False, max_depth: int = MAX_DEPTH
) -> Source:
    """As ``parse_document``; the error of a strict reading tells what a lenient one would repair."""
    try:
        document, repairs = parse_document(data, name=name, media_type=media_type, lenient=lenient, max_depth=max_depth)
    except DocumentError as error:
        if lenient:
            raise
        raise DocumentError(f"{error}{_instead(data, name, media_type, max_depth)}") from None
    return Source(name=name, document=document, repairs=repairs, lenient=lenient)


def read_source(path: Path, *, root: Path | None = None, lenient: bool = False, max_bytes: int = MAX_BYTES) -> Source:
    """The document in a file, with the files it names below ``root`` (its own folder). Raises ``DocumentError``."""
    source = parse_source(read_bytes(path, max_bytes=max_bytes), name=str(path), lenient=lenient)
    try:
        files = attach(source.document, beside=path, root=root or path.parent, max_bytes=max_bytes)
    except DocumentError as error:
        raise DocumentError(f"{path}: {error}") from None
    return replace(source, files=files)


def read_folder(folder: Path, *, lenient: bool = False, max_bytes: int = MAX_BYTES) -> list[Source]:
    """The documents in a folder and below, by path. Files that a document names are none themselves.

    Raises ``DocumentError`` for the first that cannot be read, and for a folder without any.
    """
    sources: dict[Path, Source] = {}
    errors: dict[Path, DocumentError] = {}
    for file in files_of(folder):
        try:
            sources[file] = read_source(file, root=folder, lenient=lenient, max_bytes=max_bytes)
        except DocumentError as error:
            errors[file] = error
    attached = {file for source in sources.values() for file in source.files}
    for file, failed in errors.items():
        if file.resolve() not in attached:
            raise failed
    return [source for file, source in sources.items() if file.resolve() not in attached]


def _upwards(xid: str) -> Iterator[str]:
    """``xid`` and what it is in, but for the Registry."""
    parts = xid.partition("#")[0].strip("/").split("/")
    for length in range(len(parts), 0, -1):
        yield "/" + "/".join(parts[:length])


def _instead(data: bytes, name: str, media_type: str, max_depth: int) -> str:
    try:
        _, repairs = parse_document(data, name=name, media_type=media_type, lenient=True, max_depth=max_depth)
    except DocumentError:
        return ""
    return f"\n{_advice(repairs)}"


def _advice(repairs: Sequence[Repair]) -> str:
    if not repairs:
        return ""
    shown = [f"  {repair}" for repair in repairs[:_SHOWN]]
    more = [f"  and {len(repairs) - _SHOWN} more"] if len(repairs) > _SHOWN else []
    return "\n".join(["--lenient would repair it:", *shown, *more])
