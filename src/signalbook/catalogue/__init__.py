"""A folder of documents as a read-only registry that follows it (docs/documents.md, "A folder as a catalogue")."""

from signalbook.catalogue.folder import Snapshot, read_snapshot
from signalbook.catalogue.synchronising import synchronise
from signalbook.catalogue.watching import Watch

__all__ = ["Snapshot", "Watch", "read_snapshot", "synchronise"]
