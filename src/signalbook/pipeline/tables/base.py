"""What a table format offers: a place for data files, and a commit that may be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from signalbook.pipeline.journal import DataFile, sync_folder
from signalbook.pipeline.naming import TableName


class Tables(Protocol):
    """The tables of one output folder, open for the files of one batch."""

    def commit(self, table: TableName, files: Sequence[DataFile]) -> None:
        """Make ``files`` part of ``table``, all at once where the format can. Doing it again changes nothing.

        Raises ``PipelineError`` or ``OSError``; the batch stays prepared then, and the next run goes on from there.
        """
        ...


def move_in(output: Path, folder: Path, files: Sequence[DataFile]) -> list[Path]:
    """Move staged files into ``folder``, those not moved before, and return where all of them are."""
    folder.mkdir(parents=True, exist_ok=True)
    places = [folder / file.name for file in files]
    for file, place in zip(files, places, strict=True):
        staged = output / file.staged
        if staged.exists():
            staged.replace(place)
        elif not place.exists():
            raise FileNotFoundError(2, "a staged file of a prepared batch is gone", str(staged))
    sync_folder(folder)
    return places
