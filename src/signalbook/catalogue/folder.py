"""What a folder holds at one moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from signalbook.cncf.messagecatalog.documents import adopt_catalog_documents
from signalbook.documents import DocumentError, Source, merge, read_folder
from signalbook.values import JSONObject, fingerprint

_UNFINISHED: Final = "L-37"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All documents of a folder as one.

    ``revision`` is a fingerprint of what they say, whatever their form; ``mark`` the ``mark`` of the folder they were
    read from.
    """

    source: Source
    revision: str
    mark: str

    @property
    def document(self) -> JSONObject:
        """What they say, as the body of a write to the Registry."""
        found: JSONObject = self.source.document
        return found

    @property
    def repairs(self) -> tuple[str, ...]:
        """What had to be put right, with the file it was in."""
        return tuple(f"{part.name}, {repair}" for part in self.source.parts for repair in part.repairs)


def read_snapshot(folder: Path) -> Snapshot:
    """Read every document of ``folder`` leniently. Raises ``DocumentError``."""
    before = mark(folder)
    sources = read_folder(folder, lenient=True)
    for source in sources:
        _check_complete(source)
    source = merge(adopt_catalog_documents(sources), name=str(folder))
    return Snapshot(source=source, revision=fingerprint(source.document), mark=before)


def _check_complete(source: Source) -> None:
    """A file that ends too soon is being written: what it lacks is not to be deleted for that."""
    for repair in source.repairs:
        if repair.rule == _UNFINISHED:
            raise DocumentError(f"{source.name}: line {repair.line}: the document ends before it is complete")


def mark(folder: Path) -> str:
    """Something cheap that is another when a file is: of names, sizes and times of all that are not hidden."""
    return fingerprint(sorted(_files(folder)))


def _files(folder: Path) -> Iterator[tuple[str, int, int]]:
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            try:
                found = Path(top, name).stat()
            except OSError:  # gone meanwhile: the next look tells
                continue
            yield f"{top}/{name}", found.st_size, found.st_mtime_ns
