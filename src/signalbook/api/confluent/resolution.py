"""Resolve references: find the versions that they name, and combine schemas with them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from signalbook.api.confluent.subjects import Subjects
from signalbook.api.confluent.versions import SchemaVersion
from signalbook.confluent.avro import inline_named_types
from signalbook.confluent.errors import invalid_schema, too_large
from signalbook.confluent.protobuf import build_file_descriptor
from signalbook.confluent.schemas import Reference, read_stored_references
from signalbook.engine.checks import CheckedDocument
from signalbook.formats.avro.document import list_defined_names
from signalbook.formats.compatibility import SchemaText
from signalbook.formats.references import MAX_REFERENCES, match_reference
from signalbook.values import digest, dump_json


@dataclass(frozen=True)
class ReferredSchemas:
    """All schemas that a schema refers to, directly or indirectly, by name: a ``Resolve`` that needs no store."""

    documents: Mapping[str, bytes]

    def __call__(self, name: str) -> bytes | None:
        """Return the schema that ``name`` refers to, or None."""
        return match_reference(self.documents, name)

    @property
    def size(self) -> int:
        """The number of bytes of all schemas."""
        return sum(map(len, self.documents.values()))

    @cached_property
    def digests(self) -> tuple[tuple[str, str], ...]:
        """The name and the digest of each schema."""
        return tuple((name, digest(document)) for name, document in self.documents.items())


def make_document(text: SchemaText) -> CheckedDocument:
    """Return the schema ``text`` as a document to check."""
    held_bytes = text.resolve.size if isinstance(text.resolve, ReferredSchemas) else 0
    return CheckedDocument.from_text(text, held_bytes)


def load_resolver(
    subjects: Subjects, references: Iterable[Reference], context: str, *, deleted: bool = False
) -> ReferredSchemas:
    """Return the schemas that ``references`` name, directly or through the references of these schemas.

    With ``deleted``, soft-deleted schemas are found, too. Raises 40401 and 40402 for a missing schema, and 42201 for
    too many schemas.
    """
    documents: dict[str, bytes] = {}
    types: dict[str, bytes] = {}
    waiting = {reference.name: (reference, context) for reference in references}
    while waiting:
        if len(documents) + len(waiting) > MAX_REFERENCES:
            raise invalid_schema(f"it refers to more than {MAX_REFERENCES} schemas, with those that these refer to")
        targets = dict(zip(waiting, find_referred(subjects, waiting.values(), deleted=deleted), strict=True))
        documents |= {name: target.text.encode("utf-8") for name, target in targets.items()}
        for target in targets.values():
            for name in list_defined_names(target.document) if target.type == "AVRO" else ():
                types.setdefault(name, target.document)
        waiting = {
            reference.name: (reference, target.subject.context)
            for target in targets.values()
            for reference in read_stored_references(target.attributes)
            if reference.name not in documents
        }
    return ReferredSchemas({**types, **documents})


def find_referred(
    subjects: Subjects, references: Iterable[tuple[Reference, str]], *, deleted: bool = False
) -> list[SchemaVersion]:
    """Return the version that each of ``references`` names in its context. Equal pairs are returned once.

    With ``deleted``, soft-deleted versions are included. Versions that are named by number are read together. Raises
    40401 and 40402.
    """
    requested = {pair: subjects.parse(pair[0].subject, pair[1]) for pair in references}
    schemas = subjects.schemas(dict.fromkeys(requested.values()))
    places = {
        pair: schemas[subject].xid / "versions" / str(pair[0].version)
        for pair, subject in requested.items()
        if subject in schemas and pair[0].version > 0
    }
    rows = subjects.view.reader.get_many(list(dict.fromkeys(places.values())))
    by_place = {version.xid: version for version in subjects.versions(rows.values())}
    versions = {pair: by_place[place] for pair, place in places.items() if place in by_place}
    for (reference, context), subject in requested.items():
        if (reference, context) not in versions:
            number = "latest" if reference.version == -1 else str(reference.version)
            versions[reference, context] = subjects.version(subject, number, deleted=deleted)
    return [versions[pair] for pair in requested]


def inline_types(subjects: Subjects, version: SchemaVersion) -> str:
    """Return an Avro schema that contains the types that it refers to, each at its first use."""
    return inline_document(version.document, load_referred_schemas(subjects, version))


def load_referred_schemas(subjects: Subjects, version: SchemaVersion) -> ReferredSchemas:
    """Return the schemas that a stored version refers to, including soft-deleted ones.

    Raises the errors of ``load_resolver``.
    """
    references = read_stored_references(version.attributes)
    return load_resolver(subjects, references, version.subject.context, deleted=True)


def inline_document(document: bytes, referred: ReferredSchemas) -> str:
    """Return an Avro schema that contains the types of ``referred`` that it uses, each at its first use."""
    try:
        return dump_json(inline_named_types(msgspec.json.decode(document), referred)).decode("utf-8")
    except RecursionError:
        raise too_large("with all that it refers to, the schema is nested too deeply") from None


def serialize(subjects: Subjects, version: SchemaVersion) -> str:
    """Return a Protobuf schema as the base64 of its ``FileDescriptorProto``."""
    resolve = load_referred_schemas(subjects, version)
    return b64encode(build_file_descriptor(version.text, resolve)).decode("ascii")
