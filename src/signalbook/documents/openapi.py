"""Convert the webhooks of OpenAPI 3.0 (``x-webhooks``) to 3.2 to HTTP messages with schemas of their bodies.

The other parts of the document describe requests to a server, which are not messages. They are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from signalbook.documents import headers
from signalbook.documents.errors import DocumentError, Repair
from signalbook.documents.localfiles import LocalFiles
from signalbook.documents.references import (
    DocumentReader,
    FreeIds,
    add_labels,
    below,
    id_of,
    last_name,
    name_of,
    split_place,
)
from signalbook.documents.standalone import StandaloneSchema
from signalbook.values import JSON, JSONObject, format_count

_SUPPORTED_VERSION: Final = re.compile(r"3\.([0-2])(\.[0-9]+)?(-[\w.-]+)?", re.ASCII)
_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_ITEM: Final = frozenset({*_METHODS, "summary", "description", "parameters", "$ref"})
_ROOT_MEMBERS: Final = frozenset(
    {"openapi", "info", "webhooks", "x-webhooks", "components", "externalDocs", "jsonSchemaDialect", "$self"}
)  # fmt: skip
_INFO: Final = frozenset({"title", "description", "summary"})
_OPERATION: Final = frozenset(
    {"summary", "description", "operationId", "externalDocs", "parameters", "requestBody", "deprecated"}
)  # fmt: skip
_PARAMETER: Final = frozenset({"name", "in", "required", "schema", "description"})
_BODY: Final = frozenset({"content", "required", "description"})
_SCHEMAS_POINTER: Final = "/components/schemas/"
_MAX_NAME_CHARS: Final = 120
_DIALECTS: Final = {
    "draft-04": "draft-04", "draft-06": "draft-06", "draft-07": "draft-07",
    "2019-09": "draft/2019-09", "2020-12": "draft/2020-12",
}  # fmt: skip
_ANNOTATIONS: Final = frozenset({"title", "summary", "description"})
_GITHUB_EVENT: Final = "x-github-event"


def convert_openapi(
    document: JSONObject, *, source: str, files: LocalFiles | None
) -> tuple[JSONObject, tuple[Repair, ...]]:
    """Return the messages and schemas of the webhooks, and a list of what was lost or chosen.

    ``source`` is the name of the file. ``files`` are the files that the document may refer to. Raises ``DocumentError``
    with the place (a JSON Pointer) of a mistake.
    """
    version = _SUPPORTED_VERSION.fullmatch(str(document.get("openapi")))
    if version is None:
        raise DocumentError(f"/openapi: OpenAPI 3.0 to 3.2 is read, not {document.get('openapi', 'Swagger')!r}")
    reader = DocumentReader(document=document, family="OA", files=files)
    definitions = _Webhooks(reader, _Schemas.of(reader, is_old=version[1] == "0")).convert()
    repairs = tuple(dict.fromkeys(reader.repairs))
    return add_labels(definitions, repairs, source), repairs


class _Webhooks:
    def __init__(self, reader: DocumentReader, schemas: _Schemas) -> None:
        self._reader = reader
        self._schemas = schemas
        self._info = reader.object(reader.document.get("info"), "/info")
        self._group = id_of(reader.text(self._info, "title", "/info"), "webhooks")
        self._ids = FreeIds()

    def convert(self) -> JSONObject:
        """Return the registry document."""
        reader = self._reader
        messages = {
            self._assign_id(name, path): self._build_message(body, path)
            for body, path, name in self._iterate_operations()
        }
        if not messages:
            raise DocumentError(
                "it has no webhooks (/webhooks, or /x-webhooks in 3.0): requests to a server are no messages"
            )
        about = {**self._info, "externalDocs": reader.document.get("externalDocs")}
        self._report_rest()
        group = {**reader.describe(about, "/info", name="title"), "messages": messages}
        schemas = self._schemas.schemas
        groups: JSONObject = {"messagegroups": {self._group: group}}
        return groups | ({"schemagroups": {self._group: {"schemas": schemas}}} if schemas else {})

    def _iterate_operations(self) -> Iterator[tuple[JSONObject, str, str]]:
        """Yield the operations with their place and name. They get the parameters of their webhook."""
        reader = self._reader
        for section in ("webhooks", "x-webhooks"):
            for key, item, path in reader.members(reader.document, section, ""):
                reader.note_left_out(item, _ITEM, path)
                methods = [name for name in item if name in _METHODS]
                shared = [parameter for parameter, _ in reader.items(item, "parameters", path)]
                for method in methods:
                    place = below(path, method)
                    operation = dict(reader.object(item[method], place))
                    # The operation's own parameters come last and replace those with the same name.
                    own_parameters = [parameter for parameter, _ in reader.items(operation, "parameters", place)]
                    operation["parameters"] = [*shared, *own_parameters]
                    yield operation, place, f"{key}-{method}" if len(methods) > 1 else key

    def _assign_id(self, requested_id: str, path: str) -> str:
        name = self._ids.take_id(requested_id, "webhook")
        if name != requested_id:
            self._reader.report(path, f"its id is {name}, for {requested_id}", 5)
        return name

    def _build_message(self, body: JSONObject, path: str) -> JSONObject:
        reader = self._reader
        definition = self._describe(body, path)
        method = last_name(path).upper()
        content_type, schema, place = self._choose_body(body, path)
        members, query = self._collect_parameters(body, path)
        self._set_event_header(members, body, path)
        reader.note_left_out(body, _OPERATION, path)
        prefix = None
        if headers.is_structured(content_type):
            event, data = headers.read_structured_event(reader, schema, place, content_type)
            definition |= event
            schema, place = data or (None, place)
        else:
            definition |= {"datacontenttype": content_type} if content_type and "*" not in content_type else {}
            prefix = headers.find_attribute_prefix(members) or None
            if prefix is not None:
                metadata = headers.build_attributes(reader, members, prefix)
                definition |= {"envelope": headers.CLOUDEVENTS, **({"envelopemetadata": metadata} if metadata else {})}
        if schema is not None:
            definition |= self._schemas.of_payload(schema, place, self._group)
        options: JSONObject = {"method": method}
        options |= headers.build_protocol_headers(reader, members, "HTTP", prefix, below(path, "parameters"))
        listed = headers.build_protocol_headers(reader, query, "HTTP", None, below(path, "parameters"))
        options |= {"query": listed["headers"]} if listed else {}
        return {**definition, "protocol": "HTTP", "protocoloptions": options}

    def _describe(self, body: JSONObject, path: str) -> JSONObject:
        """Return name and description.

        A summary that is too long for a name becomes the beginning of the description.
        """
        summary, description = (self._reader.text(body, name, path) for name in ("summary", "description"))
        short = len(summary) <= _MAX_NAME_CHARS and "\n" not in summary
        parts = [part for part in ("" if short else summary, description) if part]
        about = {"summary": summary if short else "", "description": "\n\n".join(parts)}
        attributes = self._reader.describe({**about, "externalDocs": body.get("externalDocs")}, path, name="summary")
        return attributes | ({"meta": {"deprecated": {}}} if body.get("deprecated") is True else {})

    def _choose_body(self, body: JSONObject, path: str) -> tuple[str, JSON, str]:
        """Return content type, schema and its place. JSON is preferred if there are several content types."""
        reader = self._reader
        followed = reader.follow(body.get("requestBody"), below(path, "requestBody"))
        if followed is None or followed[0] is None:
            return "", None, path
        request, path = reader.object(*followed), followed[1]
        reader.note_left_out(request, _BODY, path)
        content = reader.object(request.get("content"), below(path, "content"))
        types = sorted(content, key=lambda content_type: (not _is_json(content_type), "*" in content_type))
        if not types:
            return "", None, path
        chosen = types[0]
        if len(types) > 1:
            reader.report(below(path, "content"), f"took {chosen}, not {', '.join(types[1:])}", 7)
        place = below(path, "content", chosen)
        media = reader.object(content[chosen], place)
        reader.note_left_out(media, frozenset({"schema"}), place)
        schema = media.get("schema")
        if schema is not None and not (_is_json(chosen) or "*" in chosen):
            reader.report(place, f"left out its schema: it is not one of JSON, but of {chosen}", 6)
            schema = None
        return chosen, schema, below(place, "schema")

    def _collect_parameters(self, body: JSONObject, path: str) -> tuple[headers.SchemaMembers, headers.SchemaMembers]:
        """Return headers and query parameters."""
        reader = self._reader
        by_location = {"header": headers.SchemaMembers(), "query": headers.SchemaMembers()}
        spellings: dict[tuple[str, str], str] = {}
        for value, place in reader.items(body, "parameters", path):
            followed = reader.follow(value, place)
            if followed is None:
                continue
            parameter, place = reader.object(*followed), followed[1]
            name, where = reader.text(parameter, "name", place), reader.text(parameter, "in", place)
            if where not in by_location or not name:
                reader.report(place, f"left out the parameter {name!r} in {where!r}: a message has none there", 2)
                continue
            reader.note_left_out(parameter, _PARAMETER, place)
            schema = reader.follow(parameter.get("schema"), below(place, "schema"))
            stated = dict(reader.object(schema[0], schema[1])) if schema else {}
            for annotation in ("example", "examples"):
                stated.pop(annotation, None)
            if parameter.get("description"):
                stated["description"] = parameter["description"]
            members = by_location[where]
            # Names of headers are case-insensitive.
            same = spellings.setdefault((where, name.lower() if where == "header" else name), name)
            if same != name:
                spellings[where, name.lower()] = name
            members.schemas.pop(same, None)
            members.required.discard(same)
            members.schemas[name] = (stated, place)
            members.required |= {name} if parameter.get("required") is True else set()
        return by_location["header"], by_location["query"]

    def _set_event_header(self, members: headers.SchemaMembers, body: JSONObject, path: str) -> None:
        """Set the value of the header that tells GitHub's deliveries apart: ``x-github`` states it, no schema does."""
        github = body.get("x-github")
        event = github.get("subcategory") if isinstance(github, dict) else None
        for name, (schema, place) in members.schemas.items():
            if name.lower() == _GITHUB_EVENT and isinstance(event, str) and headers.find_constant(schema) is None:
                members.schemas[name] = ({**schema, "const": event}, place)
                self._reader.note(path, f"{name} has the value of x-github's subcategory", 7)

    def _report_rest(self) -> None:
        reader = self._reader
        reader.leave_out(reader.document, _ROOT_MEMBERS, "")
        reader.leave_out(self._info, _INFO, "/info")
        self._schemas.report()
        reader.report_noted()


def _is_json(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type == "application/json" or media_type.endswith("+json")


def _find_top_place(place: str) -> str:
    """Return the place of the shared schema that contains a place, or the place itself."""
    return "/".join(place.split("/")[:4]) if place.startswith(_SCHEMAS_POINTER) else place


@dataclass(slots=True, kw_only=True)
class _Schemas:
    """The schemas of payloads. Each is created once."""

    reader: DocumentReader
    dialect: str
    is_old: bool
    schemas: JSONObject = field(default_factory=dict)
    ids: FreeIds = field(default_factory=FreeIds)
    shared_names: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    changes: dict[tuple[str, int, str], set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, reader: DocumentReader, *, is_old: bool) -> _Schemas:
        """Return the schemas of a document in its dialect."""
        if is_old:
            return cls(reader=reader, dialect="draft-07", is_old=True)
        stated = reader.text(reader.document, "jsonSchemaDialect", "")
        dialect = next((version for name, version in _DIALECTS.items() if name in stated), "")
        if stated and not dialect and "spec.openapis.org/oas/" not in stated:
            reader.report("/jsonSchemaDialect", f"took JSON Schema 2020-12 for {stated}, which is not known", 7)
        return cls(reader=reader, dialect=dialect or "draft/2020-12", is_old=False)

    def of_payload(self, value: JSON, path: str, group: str) -> JSONObject:
        """Return the attributes for a message's schema: a reference to a shared one, else the schema itself."""
        # From 3.1 on, keywords next to a reference apply as well.
        place = path
        if self.is_old or (isinstance(value, dict) and value.keys() - _ANNOTATIONS == {"$ref"}):
            followed = self.reader.follow(value, path)
            if followed is None:
                return {}
            value, path = followed
        if not isinstance(value, dict | bool):
            raise DocumentError(f"{path}: a schema is an object, true or false")
        stated = {"dataschemaformat": f"JsonSchema/{self.dialect}"}
        is_elsewhere = path != place and split_place(path)[0] != ""
        if is_elsewhere or (path.startswith(_SCHEMAS_POINTER) and "/" not in path[len(_SCHEMAS_POINTER) :]):
            if path not in self.shared_names:
                self.shared_names[path] = self._add_shared_schema(value, path)
            name = self.shared_names[path]
            return {**stated, "dataschemauri": f"/schemagroups/{group}/schemas/{name}"} if name else {}
        document = self._build_standalone(value, path)
        return {} if document is None else {**stated, "dataschema": document}

    def _add_shared_schema(self, value: JSON, path: str) -> str:
        self.used.add(path)
        document = self._build_standalone(value, path)
        if document is None:
            return ""
        requested_id = name_of(path)
        name = self.ids.take_id(requested_id, "schema")
        if name != requested_id:
            self.reader.report(path, f"its id is {name}, for {requested_id}", 5)
        self.schemas[name] = {"format": f"JsonSchema/{self.dialect}", "schema": document}
        return name

    def _build_standalone(self, value: JSON, path: str) -> JSON:
        self.reader.count_copied(value)
        return StandaloneSchema(
            reader=self.reader, value=value, path=path, keyword="definitions" if "draft-0" in self.dialect else "$defs",
            root=lambda place: place, use=self._use, rewrite=self._rewrite,
        ).build()  # fmt: skip

    def _use(self, place: str) -> None:
        self.used.add(place)

    def _rewrite(self, schema: JSONObject, path: str) -> JSONObject:
        """Convert a schema of OpenAPI to JSON Schema."""
        if "discriminator" in schema:
            del schema["discriminator"]
            self._record_change(path, 2, "left out discriminator: JSON Schema has no such thing")
        if not self.is_old:
            return schema
        for limit, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(exclusive := schema.get(limit), bool):
                del schema[limit]
                if exclusive and bound in schema:
                    schema[limit] = schema.pop(bound)
                self._record_change(path, 4, f"{limit} is a number, not {str(exclusive).lower()}")
        if "example" in schema:
            schema.setdefault("examples", [schema["example"]])
            del schema["example"]
        if "nullable" in schema:
            schema = self._with_null(schema, path)
        return schema

    def _with_null(self, schema: JSONObject, path: str) -> JSONObject:
        """Return the schema changed to allow null where ``nullable`` says or seems to say so."""
        if schema.pop("nullable") is not True:
            return schema
        kind = schema.get("type")
        if isinstance(kind, str):
            schema["type"] = [kind, "null"]
            self._record_change(path, 4, "nullable became the type null")
        enum = schema.get("enum")
        if isinstance(enum, list) and None not in enum:
            schema["enum"] = [*enum, None]
            self._record_change(path, 7, "nullable, and so null is one of the values in enum")
        if schema.keys() & {"$ref", "allOf", "anyOf", "oneOf", "not"}:
            self._record_change(path, 7, "nullable, and so null is allowed beside what it is made of")
            return {"anyOf": [schema, {"type": "null"}]}
        return schema

    def _record_change(self, path: str, number: int, text: str) -> None:
        # Reported once for a shared schema: GitHub's have tens of thousands of such places.
        self.changes.setdefault((_find_top_place(path), number, text), set()).add(path)

    def report(self) -> None:
        """Note what was changed in schemas, and how many schemas no webhook uses."""
        for (top, number, text), places in self.changes.items():
            first = min(places)
            count_text = f" (and in {format_count(len(places) - 1, 'more place')} of it)" if len(places) > 1 else ""
            self.reader.report(first if len(places) == 1 else top, f"{text}{count_text}", number)
        tops = {_find_top_place(place) for place in self.used}
        components = self.reader.object(self.reader.document.get("components"), "/components")
        unused = [
            name
            for name in self.reader.object(components.get("schemas"), "/components/schemas")
            if below(_SCHEMAS_POINTER.rstrip("/"), name) not in tops
        ]
        if unused:
            unused_names = ", ".join(unused[:3])
            more = f" and {len(unused) - 3} more" if len(unused) > 3 else ""
            self.reader.report(
                _SCHEMAS_POINTER.rstrip("/"), f"left out {unused_names}{more}: no webhook refers to them", 2
            )
