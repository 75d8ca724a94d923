"""Registry documents as text: reading JSON and YAML strictly, repairing damaged JSON on request, writing both."""

from signalbook.documents.aiming import Upload, aim, extend_model, target_of
from signalbook.documents.comparing import Work, attributes, compare
from signalbook.documents.entities import entities
from signalbook.documents.faults import DocumentError
from signalbook.documents.folders import File, files_for, place
from signalbook.documents.indenting import indent
from signalbook.documents.merging import merge
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
from signalbook.documents.sources import Source, parse_source, read_folder, read_source
from signalbook.documents.writing import write_document

__all__ = [
    "MAX_BYTES",
    "SUFFIXES",
    "DocumentError",
    "File",
    "Repair",
    "Source",
    "Upload",
    "Work",
    "aim",
    "attributes",
    "check_size",
    "compare",
    "entities",
    "extend_model",
    "files_for",
    "files_of",
    "indent",
    "merge",
    "parse_document",
    "parse_source",
    "place",
    "read_document",
    "read_folder",
    "read_limited",
    "read_source",
    "repair_json",
    "target_of",
    "write_document",
]
