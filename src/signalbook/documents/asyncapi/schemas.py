"""Convert payloads of AsyncAPI to standalone schemas: shared parts are copied into each schema that refers to them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote

from signalbook.documents.asyncapi.reading import AsyncApiReader
from signalbook.documents.errors import DocumentError
from signalbook.documents.localfiles import is_file_reference
from signalbook.documents.references import below, find_other_files, name_of, place_in, split_place
from signalbook.documents.standalone import StandaloneSchema
from signalbook.values import JSON, JSONError, parse_json

_SHARED: Final = "/components/schemas/"
_DEFAULT_FORMAT: Final = "JsonSchema/draft-07"
_MEDIA_TYPES: Final = {
    "application/vnd.aai.asyncapi": "aai",
    "application/schema": "JsonSchema",
    "application/vnd.apache.avro": "Avro",
    "application/vnd.google.protobuf": "Protobuf",
    "application/vnd.json-structure": "JsonStructure",
    "application/xml": "XSD",
}
_TEXT_CONTENT_TYPES: Final = {"Protobuf": "text/plain", "XSD": "application/xml"}
_SCHEMA_XID: Final = re.compile(r"/schemagroups/([^/]+)/schemas/([^/]+)(/versions/[^/]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPayload:
    """The schema ``value`` of a payload, at ``path``.

    If it is a shared schema or a part of one, ``name`` is the name of the shared schema, and ``link`` leads to the
    part.
    """

    format: str
    value: JSON
    path: str
    name: str = ""
    link: str = ""
    file: str = ""
    xid: str = ""


def find_registry_format(stated: str) -> str:
    """Return the registry's format for a ``schemaFormat``, or "" if there is none."""
    media_type, _, parameters = stated.partition(";")
    kind = _MEDIA_TYPES.get(re.sub(r"\+(json|yaml)$", "", media_type.strip().lower()), "")
    match = re.search(r"version\s*=\s*\"?([^\";\s]+)", parameters)
    version = match[1] if match else ""
    match kind:
        case "aai":
            return _DEFAULT_FORMAT
        case "JsonSchema":
            dated = re.fullmatch(r"(?:draft[-/])?(20[0-9]{2}-[0-9]{2})", version)
            return f"JsonSchema/draft/{dated[1]}" if dated else f"JsonSchema/{version or 'draft-07'}"
        case "Avro":
            # 1.9.0 is the one version that AsyncAPI lists, whatever the schema was written for.
            return "Avro/1.11" if version in ("", "1.9.0") else f"Avro/{'.'.join(version.split('.')[:2])}"
        case "":
            return ""
        case _:
            return f"{kind}/{version}" if version else kind


@dataclass(slots=True)
class Payloads:
    """Finds the schemas of messages, and collects the shared ones in ``used``."""

    reader: AsyncApiReader
    used: set[str] = field(default_factory=set)

    def of(self, value: JSON, path: str, stated: str) -> ReadPayload | None:
        """Return the schema of a payload, or None if it cannot be kept. The loss is noted."""
        if file := self._find_kept_file(value, path, stated):
            return self._build_file_payload(file, path, stated)
        followed = self.reader.follow(value, path)
        if followed is None or followed[0] is None:
            return None
        is_shared = followed[1] != path
        value, path = followed
        holder = path
        xid = str(value.get("x-xid") or "") if isinstance(value, dict) else ""
        link = str(value.get("x-type") or "") if isinstance(value, dict) else ""
        if isinstance(value, dict) and self._is_wrapper(value):
            stated = self.reader.text(value, "schemaFormat", path)
            inner, place = value["schema"], below(path, "schema")
            if file := self._find_kept_file(inner, place, stated):
                return self._build_file_payload(file, place, stated)
            followed = self.reader.follow(inner, place)
            if followed is None:
                return None
            is_shared = is_shared or followed[1] != place
            value, path = followed
        kind = self._find_format(stated, path)
        if not kind:
            return None
        payload = ReadPayload(format=kind, value=value, path=path, link=link, xid=xid)
        return self._name_shared_schema(self._check_payload(payload), holder, is_shared=is_shared)

    def _find_format(self, stated: str, path: str) -> str:
        """Return the format of a schema. If this format cannot be read, report that and return ""."""
        schema_format = find_registry_format(stated) if stated else _DEFAULT_FORMAT
        if not schema_format:
            self.reader.report(path, f"left out its schema: schemas in {stated} are not read", 6)
        return schema_format

    def _check_payload(self, payload: ReadPayload) -> ReadPayload:
        """Check that the schema has the type that its format needs, and parse an Avro schema that is text.

        Raises ``DocumentError``.
        """
        kind, value = payload.format.partition("/")[0], payload.value
        if kind in _TEXT_CONTENT_TYPES and not isinstance(value, str):
            raise DocumentError(f"{payload.path}: a schema in {kind} is text")
        if kind == "Avro" and isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            try:
                value = parse_json(value)
            except JSONError as error:
                raise DocumentError(f"{payload.path}: an Avro schema is JSON: {error}") from None
        if kind in ("JsonSchema", "JsonStructure") and not isinstance(value, dict | bool):
            raise DocumentError(f"{payload.path}: a JSON Schema is an object, true or false")
        return replace(payload, value=value)

    def _name_shared_schema(self, payload: ReadPayload, holder: str, *, is_shared: bool) -> ReadPayload:
        """Return the payload with the name of the shared schema that it is, or is a part of."""
        root = self.find_root(payload.path)
        file, pointer = split_place(root)
        if not pointer.startswith(_SHARED) and not (file and is_shared):
            return payload
        self._use(root)
        top = self.reader.value_at(root, payload.path)
        entry_place = holder if root == f"{holder}/schema" else self._find_entry(root)
        entry = self.reader.value_at(entry_place, payload.path)
        xid = str(entry.get("x-xid") or "") if isinstance(entry, dict) else payload.xid
        link = f"#{payload.path[len(root) :]}" if payload.path != root else payload.link
        if split_place(holder)[1].startswith(_SHARED) and payload.link:
            link = payload.link
        value = payload.value if payload.path == root else top
        return ReadPayload(
            format=payload.format, value=value, path=root, xid=xid, link=link,
            name=name_of(entry_place),
        )  # fmt: skip

    def find_root(self, place: str) -> str:
        """Return the place of the shared schema that contains a place, or the place itself if none does."""
        entry = self._find_entry(place)
        wrapped = self._is_wrapper(self.reader.value_at(entry, place))
        return f"{entry}/schema" if wrapped and place.startswith(f"{entry}/schema") else entry

    @staticmethod
    def _find_entry(place: str) -> str:
        """Return the place of the member of ``components/schemas`` that contains a place, or the place itself."""
        file, pointer = split_place(place)
        if not pointer.startswith(_SHARED):
            return place
        return place_in(file, _SHARED + pointer[len(_SHARED) :].partition("/")[0])

    def _find_kept_file(self, value: JSON, path: str, stated: str) -> str:
        """Return the file that contains a schema if its bytes are to be kept, else "".

        YAML files, and JSON Schemas that refer to other files, are not kept but converted to standalone schemas.
        """
        reference = value.get("$ref") if isinstance(value, dict) else None
        file = reference.removesuffix("#") if isinstance(reference, str) else ""
        if self.reader.files is None or not is_file_reference(file):
            return ""
        place = self.reader.locate(file, path)
        if place is None:
            return file
        if PurePosixPath(file).suffix.lower() in (".yaml", ".yml"):
            return ""
        kind = (find_registry_format(stated) if stated else _DEFAULT_FORMAT).partition("/")[0]
        if kind not in ("JsonSchema", "JsonStructure"):
            return file
        document = self.reader.value_at(place, path)
        refers = any(self.reader.is_file(target) for target in find_other_files(document, split_place(place)[0]))
        return "" if refers or self._is_wrapper(document) else file

    def _is_wrapper(self, value: JSON) -> bool:
        """Return True for a schema of 3.0 that states its format (Multi Format Schema Object)."""
        return not self.reader.is_old and isinstance(value, dict) and {"schemaFormat", "schema"} <= value.keys()

    def _build_file_payload(self, file: str, path: str, stated: str) -> ReadPayload | None:
        kind = self._find_format(stated, path)
        if not kind:
            return None
        return ReadPayload(format=kind, value=None, path=path, name=PurePosixPath(unquote(file)).stem, file=file)

    def build_document(self, payload: ReadPayload) -> JSON:
        """Return a standalone JSON Schema, or a schema of another format unchanged.

        Return None if that is not possible.
        """
        if payload.format.partition("/")[0] not in ("JsonSchema", "JsonStructure"):
            return payload.value
        old = payload.format.startswith("JsonSchema/draft-0")
        return StandaloneSchema(
            reader=self.reader, value=payload.value, path=payload.path, keyword="definitions" if old else "$defs",
            root=self.find_root, use=self._use,
        ).build()  # fmt: skip

    def _use(self, place: str) -> None:
        if place.startswith(_SHARED):
            self.used.add(place[len(_SHARED) :].partition("/")[0])


def text_type(format: str) -> str:
    """Return the content type of a schema that is text, or "" for a schema in JSON."""
    return _TEXT_CONTENT_TYPES.get(format.partition("/")[0], "")


def parse_schema_xid(xid: str) -> tuple[str, str] | None:
    """Return the group and the schema that an xid names, or None if it is not the xid of a schema."""
    match = _SCHEMA_XID.fullmatch(xid)
    return (match[1], match[2]) if match else None
