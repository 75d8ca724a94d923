"""Read registry documents from JSON and YAML, repair damaged ones on request, and write documents."""

from signalbook.documents.detection import guess_content_type, guess_document_format, guess_format
from signalbook.documents.errors import DocumentError, Repair
from signalbook.documents.importing import (
    ImportPlan,
    Upload,
    compare,
    extend_model,
    make_upload,
    target_of,
)
from signalbook.documents.jsonrepair import repair_json
from signalbook.documents.parts import Parts
from signalbook.documents.protofiles import proto_format
from signalbook.documents.reading import (
    MAX_BYTES,
    NAMED,
    check_size,
    find_documents,
    find_files,
    parse_document,
    read_bytes,
    read_document,
    read_limited,
)
from signalbook.documents.sources import SourceDocument, merge, parse_source, read_folder, read_source, source_of
from signalbook.documents.writing import FolderFile, build_files, indent, place, write_document

__all__ = [
    "MAX_BYTES",
    "NAMED",
    "DocumentError",
    "FolderFile",
    "ImportPlan",
    "Parts",
    "Repair",
    "SourceDocument",
    "Upload",
    "build_files",
    "check_size",
    "compare",
    "extend_model",
    "find_documents",
    "find_files",
    "guess_content_type",
    "guess_document_format",
    "guess_format",
    "indent",
    "make_upload",
    "merge",
    "parse_document",
    "parse_source",
    "place",
    "proto_format",
    "read_bytes",
    "read_document",
    "read_folder",
    "read_limited",
    "read_source",
    "repair_json",
    "source_of",
    "target_of",
    "write_document",
]
