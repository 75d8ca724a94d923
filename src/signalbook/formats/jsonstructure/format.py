"""JSON Structure Core: the format and its schemas. Payloads are JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

from signalbook.formats.base import (
    MAX_FINDINGS,
    Resolve,
    Schema,
    SchemaError,
    decode_json,
    encode_json,
    too_large,
)
from signalbook.formats.jsonstructure import columns
from signalbook.formats.jsonstructure.instances import resolved, violations
from signalbook.formats.jsonstructure.rules import faults
from signalbook.formats.jsonstructure.structure import IMPORTS, Structure
from signalbook.formats.shape import Shape
from signalbook.values import JSON, Finding, JSONError, JSONObject, canonical_json, digest, parse_json

_VERSION: Final = re.compile(r"draft-0[0-4]", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, eq=False)
class JsonStructure:
    """One type of a document: that of whole payloads, or the one a deep link names."""

    format: str
    structure: Structure
    schema: JSONObject
    link: str = ""
    warnings: tuple[Finding, ...] = ()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over format, document and deep link."""
        return digest(f"{self.format} {self.structure.fingerprint} {self.link}".encode())

    def decode(self, payload: bytes, content_type: str = "") -> JSON:
        """Decode JSON and validate it; values stay as JSON has them. Raises ``PayloadError``."""
        return decode_json(self, payload, content_type)

    def encode(self, value: JSON, content_type: str = "") -> bytes:
        """Validate a value and write it as JSON. Raises ``PayloadError``."""
        return encode_json(self, value, content_type)

    def reading(self, writer: Schema) -> Schema:
        """``writer``: its payloads are as it says."""
        return writer

    def validate(self, value: JSON) -> list[Finding]:
        """Every violation in a JSON value, at most ``MAX_FINDINGS``."""
        return violations(self.structure, self.schema, value)

    def shape(self) -> Shape:
        """The columns a conforming payload fits into."""
        return columns.shape_of(self.structure, self.schema)

    def constants(self) -> Mapping[str, frozenset[JSON]]:
        """Required top-level properties with listed values."""
        return columns.constants(self.structure, resolved(self.structure, self.schema))


class JsonStructureFormat:
    """Reads JSON Structure documents."""

    name: Final = "JsonStructure"
    versions: Final = ("JsonStructure/draft-04",)

    def canonical(self, format: str) -> str | None:
        """``JsonStructure/draft-<nn>``, or ``JsonStructure`` where no version is named; they are read alike."""
        version = format.partition("/")[2].strip()
        if "/" not in format:
            return self.name
        return f"{self.name}/{version.lower()}" if _VERSION.fullmatch(version) else None

    def check(self, document: bytes, format: str) -> list[Finding]:  # noqa: ARG002 - all drafts are read alike
        """What is wrong with a document by itself; imports are not followed."""
        try:
            structure = _read(document)
        except SchemaError as error:
            return list(error.findings)
        return list(islice(faults(structure), MAX_FINDINGS))

    def parse(
        self,
        document: bytes,
        format: str,
        *,
        link: str = "",
        resolve: Resolve | None = None,  # noqa: ARG002 - there are no references to other documents
    ) -> JsonStructure:
        """The type ``link`` names by a JSON Pointer, or that of whole payloads (G-15, G-17). Raises ``SchemaError``."""
        structure = _read(document)
        findings = list(islice((*faults(structure), *_imports(structure)), MAX_FINDINGS))
        if findings:
            raise SchemaError(findings)
        wanted = "/" + link.removeprefix(":").removeprefix("#").removeprefix("/")
        schema = structure.lookup(wanted) if wanted != "/" else structure.top()
        if not isinstance(schema, dict) or "type" not in schema:
            text = f"{link!r} names no type of the document" if wanted != "/" else "the document has no type of its own"
            raise SchemaError([Finding(path=link, rule="link", message=text)])
        canonical = self.canonical(format) or self.name
        return JsonStructure(format=canonical, structure=structure, schema=schema, link=link)


def _read(document: bytes) -> Structure:
    findings = too_large(document)
    if findings:
        raise SchemaError(findings)
    try:
        root = parse_json(document)
    except JSONError as error:
        raise SchemaError([Finding(path="", rule="json", message=f"not JSON: {error}")]) from None
    if not isinstance(root, dict):
        raise SchemaError([Finding(path="", rule="document", message="a document must be a JSON object")])
    return Structure(root=root, fingerprint=digest(canonical_json(root)))


def _imports(structure: Structure) -> list[Finding]:
    """Imports that would be needed to read payloads."""
    found = []
    waiting: list[tuple[str, JSON]] = [("", structure.root)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, dict):
            text = "imports of other documents are not followed"
            found += [Finding(path=f"{path}/{name}", rule=name, message=text) for name in IMPORTS if name in node]
            waiting += [("/definitions", node["definitions"])] if not path and "definitions" in node else []
            waiting += [(f"{path}/{name}", item) for name, item in node.items() if path and "type" not in node]
    return found


FORMAT: Final = JsonStructureFormat()
