"""Registry documents as text: reading JSON and YAML strictly, repairing damaged JSON on request, writing both."""

from signalbook.documents.aiming import Upload, aim, extend_model
from signalbook.documents.faults import DocumentError
from signalbook.documents.reading import (
    MAX_BYTES,
    SUFFIXES,
    check_size,
    files_of,
    parse_document,
    read_document,
    read_limited,
)
from signalbook.documents.repair import repair_json
from signalbook.documents.repairs import Repair
from signalbook.documents.writing import write_document

__all__ = [
    "MAX_BYTES",
    "SUFFIXES",
    "DocumentError",
    "Repair",
    "Upload",
    "aim",
    "check_size",
    "extend_model",
    "files_of",
    "parse_document",
    "read_document",
    "read_limited",
    "repair_json",
    "write_document",
]
