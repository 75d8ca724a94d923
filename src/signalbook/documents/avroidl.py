"""Convert Avro IDL, protocols and the schema syntax of 1.12, to schemas of its named types.

Each schema is standalone: a type that it refers to is defined where it is first used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Final, NoReturn

from signalbook.documents.errors import DocumentError, Repair, line_of
from signalbook.documents.reading import AVRO_IDL
from signalbook.documents.references import FreeIds, add_labels, id_of
from signalbook.values import JSON, MAX_DEPTH, JSONError, JSONObject, parse_json

Open = Callable[[Path, str], tuple[Path, bytes]]
"""Opens what a file imports: the file, and the name in it, to the file that is meant and its bytes."""
_SCHEMA_FORMAT: Final = "Avro/1.11"
_MAX_VALUES: Final = 1_000_000
"""Values of all schemas together: types that share others are copied into each."""
_MAX_NESTED: Final = MAX_DEPTH - 8
"""Levels of a schema: it is a part of a document that has a few itself."""
_MAX_FILES: Final = 1000
_MAX_IMPORTS: Final = 50
"""Files of which each imports the next."""
_NAME_PATTERN: Final = r"(?:`[^\W\d]\w*`|[^\W\d]\w*)"
_TOKEN_PATTERN: Final = re.compile(
    rf"""(?P<skip>\s++|//[^\n\r]*+|/\*(?!\*)(?:.*?)\*/|/\*\*/)|(?P<doc>/\*\*.*?\*/)
    |(?P<string>"(?:[^"\\\n\r]|\\.)*+"|'(?:[^'\\\n\r]|\\.)*+')
    |(?P<number>[+-]?(?:NaN|Infinity)\b|-?0[xX][0-9a-fA-F]++[lL]?|[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[lLfFdD]?)
    |(?P<name>{_NAME_PATTERN}(?:[.-]{_NAME_PATTERN})*+)|(?P<mark>[][(){{}}<>:;,@=?])""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE: Final = re.compile(r'\\([0-3]?[0-7]{1,2}|.)|"', re.DOTALL)
_LOGICAL_TYPES: Final[dict[str, JSONObject]] = {
    "date": {"type": "int", "logicalType": "date"},
    "time_ms": {"type": "int", "logicalType": "time-millis"},
    "timestamp_ms": {"type": "long", "logicalType": "timestamp-millis"},
    "local_timestamp_ms": {"type": "long", "logicalType": "local-timestamp-millis"},
    "uuid": {"type": "string", "logicalType": "uuid"},
}
_PRIMITIVE: Final = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string", "null"})
_NAMED_KINDS: Final = frozenset({"record", "error", "enum", "fixed"})
_ABSENT: Final = object()


class _TooDeepError(DocumentError):
    """Raised for a type that, with all types it refers to, is nested more deeply than a document may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    kind: str
    text: str
    line: int
    doc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reference:
    """A reference to a type by name, which may be defined later. ``place`` is where the name was read."""

    name: str
    namespace: str
    place: str = field(compare=False)


@dataclass(slots=True, kw_only=True)
class _Types:
    """The named types of all files, by full name."""

    open: Open | None
    types: dict[str, JSONObject] = field(default_factory=dict)
    main: list[tuple[str, Any, str]] = field(default_factory=list)
    files: set[Path] = field(default_factory=set)
    importing: int = 0
    repairs: list[Repair] = field(default_factory=list)
    values: int = 0

    def add(self, name: str, body: JSONObject, place: str) -> None:
        """Add a type. Raises ``DocumentError`` if there is another type with this name."""
        if self.types.setdefault(name, body) != body:
            raise DocumentError(f"{place}: there are two types called {name}")

    def find(self, reference: _Reference) -> str:
        """Return the full name of the type that a reference means."""
        full_name = _join_name(reference.name, reference.namespace)
        type_name = full_name if full_name in self.types else reference.name
        if type_name not in self.types:
            raise DocumentError(f"{reference.place}: there is no type {reference.name}")
        return type_name

    def inline_types(self, value: Any, seen: set[str], depth: int) -> JSON:
        """Return ``value`` with each type defined where it is first named."""
        self.values += 1
        if self.values > _MAX_VALUES:
            raise DocumentError(f"its types, put where they are used, make more than {_MAX_VALUES} values: split it")
        if depth > _MAX_NESTED:
            raise _TooDeepError(f"its types are nested deeper than {_MAX_NESTED} levels")
        if isinstance(value, _Reference):
            name = self.find(value)
            if name in seen:
                return name
            seen.add(name)
            return self.inline_types(self.types[name], seen, depth)
        if isinstance(value, dict):
            return {key: self.inline_types(part, seen, depth + 1) for key, part in value.items()}
        return [self.inline_types(part, seen, depth + 1) for part in value] if isinstance(value, list) else value


def convert_avro_idl(
    data: bytes, *, path: Path, source: str, open: Open | None
) -> tuple[JSONObject, tuple[Repair, ...]]:
    """Return the schemas in a file, and a list of what was lost. ``source`` is the name of the file.

    If ``open`` is None, imports are not allowed. Raises ``DocumentError`` with the line of a mistake.
    """
    types = _Types(open=open)
    _read_file(types, data, path)
    stem = id_of(PurePath(path.name).stem, "avro")
    schemas = [(*_split_name(name), _Reference(name=name, namespace="", place="")) for name in sorted(types.types)]
    schemas += [(namespace, stem, value) for namespace, value, _ in types.main if not isinstance(value, _Reference)]
    groups: JSONObject = {}
    ids: dict[str, FreeIds] = {}
    for namespace, name, value in schemas:
        group = id_of(namespace, stem)
        key = ids.setdefault(group, FreeIds()).take_id(name, "schema")
        if key != name:
            types.repairs.append(Repair(message=f"the schema of {name} is called {key}", path=f"/{group}", rule="AV-5"))
        try:
            body = {"format": _SCHEMA_FORMAT, "schema": types.inline_types(value, set(), 0)}
        except _TooDeepError as error:
            types.repairs.append(Repair(message=f"left out {name}: {error}", path=f"/{group}", rule="AV-6"))
            continue
        groups.setdefault(group, {"schemas": {}})["schemas"][key] = body
    for _, value, _ in types.main:
        if isinstance(value, _Reference):
            types.find(value)
    if not groups:
        raise DocumentError("it has no types, and so nothing to make schemas of")
    repairs = tuple(dict.fromkeys(types.repairs))
    return add_labels({"schemagroups": groups}, repairs, source), repairs


def _read_file(types: _Types, data: bytes, path: Path) -> None:
    """Read a file once, however often it is imported."""
    if path.resolve() in types.files:
        return
    types.files.add(path.resolve())
    if len(types.files) > _MAX_FILES:
        raise DocumentError(f"{path.name}: more than {_MAX_FILES} files are imported")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"{path.name}: " if len(types.files) > 1 else ""
        raise DocumentError(f"{place}not UTF-8 text (byte {error.start})") from None
    if path.suffix.lower() == AVRO_IDL:
        _Parser(types, text, path).parse_file()
        return
    try:
        document = parse_json(text)
    except JSONError as error:
        raise DocumentError(f"{path.name}: {error}") from None
    _register_json(types, document, path)


def _register_json(types: _Types, document: JSON, path: Path) -> None:
    """Register the types of an imported schema (``.avsc``) or protocol (``.avpr``)."""
    if isinstance(document, dict) and "protocol" in document:
        namespace = str(document.get("namespace") or _split_name(str(document["protocol"]))[0])
        listed = document.get("types")
        for definition in listed if isinstance(listed, list) else ():
            _register(types, definition, namespace, path.name)
    else:
        _register(types, document, "", path.name)


def _register(types: _Types, value: JSON, namespace: str, place: str) -> Any:
    """Register the named types in a JSON schema, and return the schema with references in place of them."""
    if isinstance(value, list):
        return [_register(types, branch, namespace, place) for branch in value]
    if isinstance(value, str):
        return value if value in _PRIMITIVE else _Reference(name=value, namespace=namespace, place=place)
    if not isinstance(value, dict):
        raise DocumentError(f"{place}: a schema is an object, a list or a name")
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _NAMED_KINDS:
        parts = [name for name in ("type", "items", "values") if name in value and value[name] not in ("array", "map")]
        return {**value, **{name: _register(types, value[name], namespace, place) for name in parts}}
    name = value.get("name")
    if not isinstance(name, str):
        raise DocumentError(f"{place}: a {kind} has no name")
    stated = value.get("namespace")
    full = _join_name(name, stated if isinstance(stated, str) else namespace)
    type_namespace = _split_name(full)[0]
    members = {key: member for key, member in value.items() if key not in ("name", "namespace", "type", "fields")}
    if kind in ("record", "error"):
        fields = value.get("fields")
        if not isinstance(fields, list) or not all(isinstance(entry, dict) and "type" in entry for entry in fields):
            raise DocumentError(f"{place}: the fields of {full} are no list of objects with a type")
        members["fields"] = [
            {**entry, "type": _register(types, entry["type"], type_namespace, place)} for entry in fields
        ]
    types.add(full, _build_definition(kind, full, members), place)
    return _Reference(name=full, namespace="", place=place)


def _build_definition(kind: str, full: str, members: JSONObject) -> JSONObject:
    namespace, name = _split_name(full)
    head = {"type": "record" if kind == "error" else kind, "name": name}
    return {**head, **({"namespace": namespace} if namespace else {}), **members}


def _join_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _split_name(full: str) -> tuple[str, str]:
    """Return namespace and name."""
    namespace, _, name = full.rpartition(".")
    return namespace, name


class _Parser:
    """Parses one file, and adds its types to ``types``. The grammar is that of Avro 1.12."""

    def __init__(self, types: _Types, text: str, path: Path) -> None:
        self._types = types
        self._imported = str(path) if len(types.files) > 1 else ""
        self._text = text
        self._path = path
        self._at = 0
        self._line = 1
        self._counted = 0
        self._depth = 0
        self._namespace = ""
        self._next = self._scan()

    def parse_file(self) -> None:
        """Parse the file, which is a protocol or in the schema syntax."""
        if self._is("namespace") or self._is("schema") or self._is("import"):
            self._parse_schema_syntax()
            return
        first, properties = self._next, self._parse_properties()
        if self._is("protocol"):
            self._parse_protocol(first, properties)
        else:
            self._parse_schema_syntax(first, properties)

    def _parse_protocol(self, first: _Token, properties: JSONObject) -> None:
        self._take()
        name = self._take_name()
        self._namespace = str(properties.pop("namespace", "") or _split_name(name)[0])
        lost = sorted([*properties, *(["its description"] if first.doc else [])])
        if lost:
            self._report(first, f"left out {', '.join(lost)} of the protocol {name}: there are schemas only")
        self._expect("{")
        messages: list[str] = []
        while not self._is("}"):
            if self._is("import"):
                self._parse_import()
                continue
            declared, own_properties = self._next, self._parse_properties()
            if not self._parse_declaration(declared, own_properties):
                messages.append(self._skip_message())
        self._take()
        if messages:
            message_names = ", ".join(messages[:3]) + (f" and {len(messages) - 3} more" if len(messages) > 3 else "")
            self._report(first, f"left out the messages {message_names} of the protocol {name}: they are calls")
        self._expect_end()

    def _parse_schema_syntax(self, first: _Token | None = None, properties: JSONObject | None = None) -> None:
        if first is None and self._is("namespace"):
            self._take()
            self._namespace = self._take_name()
            self._expect(";")
        while self._next.kind != "end":
            if first is None and self._is("import"):
                self._parse_import()
            elif first is None and self._is("schema"):
                token = self._take()
                self._types.main.append((self._namespace, self._parse_type(), self._locate(token)))
                self._expect(";")
            else:
                declared, own_properties = (
                    first or self._next,
                    self._parse_properties() if properties is None else properties,
                )
                first, properties = None, None
                if not self._parse_declaration(declared, own_properties):
                    self._fail("a record, enum, fixed, schema or import is expected")

    def _parse_declaration(self, first: _Token, properties: JSONObject) -> bool:
        """Parse the declaration of a named type. Return False if the next token does not begin one."""
        kind = self._next.text if self._next.kind == "name" else ""
        if kind not in _NAMED_KINDS:
            return False
        self._take()
        stated = properties.pop("namespace", None)
        full = _join_name(self._take_name(), stated if isinstance(stated, str) else self._namespace)
        outer, self._namespace = self._namespace, _split_name(full)[0]
        members: JSONObject = {"doc": first.doc} if first.doc else {}
        members |= properties
        if kind == "fixed":
            self._expect("(")
            members["size"] = self._take_integer()
            self._expect(")")
            self._expect(";")
        elif kind == "enum":
            members |= self._parse_symbols()
        else:
            members["fields"] = self._parse_fields()
        self._namespace = outer
        self._types.add(full, _build_definition(kind, full, members), self._locate(first))
        return True

    def _parse_symbols(self) -> JSONObject:
        self._expect("{")
        symbols: list[str] = []
        while not self._is("}"):
            symbols += self._parse_symbol()
            if not self._is("}"):
                self._expect(",")
        self._take()
        if not self._is("="):
            return {"symbols": symbols}
        self._take()
        default = self._take_name()
        self._expect(";")
        return {"symbols": symbols, "default": default}

    def _parse_symbol(self) -> list[str]:
        token, properties = self._next, self._parse_properties()
        name = self._take_name()
        if properties:
            self._report(token, f"left out {', '.join(sorted(properties))} of the symbol {name}: it is but a name")
        return [name]

    def _parse_fields(self) -> list[JSONObject]:
        self._expect("{")
        fields: list[JSONObject] = []
        while not self._is("}"):
            doc, kind = self._next.doc, self._parse_type()
            while True:
                fields.append(self._parse_field(kind, doc))
                if not self._is(","):
                    break
                self._take()
            self._expect(";")
        self._take()
        return fields

    def _parse_field(self, kind: Any, doc: str) -> JSONObject:
        doc = self._next.doc or doc
        token, properties = self._next, self._parse_properties()
        definition: JSONObject = {"name": self._take_name(), "type": kind, **({"doc": doc} if doc else {})}
        if self._is("="):
            self._take()
            default = self._parse_json()
            if default is _ABSENT:
                self._report(token, f"left out the default of {definition['name']}: JSON has no such number")
            else:
                definition["default"] = default
                # An optional type has null first, unless its default is something else.
                if isinstance(kind, _Optional):
                    definition["type"] = list(kind) if default is None else list(reversed(kind))
        return {**definition, **properties}

    def _skip_message(self) -> str:
        """Skip a message of a protocol, and return its name."""
        if self._is("void"):
            self._take()
        else:
            self._parse_type()
        name = self._take_name()
        self._expect("(")
        while not self._is(")"):
            self._parse_type()
            self._parse_field("null", "")
            if not self._is(")"):
                self._expect(",")
        self._take()
        while not self._is(";"):
            if not (self._is("oneway") or self._is("throws") or self._is(",") or self._next.kind == "name"):
                self._fail("; is expected")
            self._take()
        self._take()
        return name

    def _parse_type(self) -> Any:
        self._depth += 1
        if self._depth > _MAX_NESTED:
            self._fail(f"types are nested deeper than {_MAX_NESTED} levels")
        properties, token = self._parse_properties(), self._next
        parsed_type = self._parse_bare_type()
        self._depth -= 1
        if not properties:
            return parsed_type
        if isinstance(parsed_type, _Optional):
            return _Optional(_with(branch, properties) for branch in parsed_type)
        if isinstance(parsed_type, _Reference | list):
            self._fail("a union or a type that is defined elsewhere has no annotations", token)
        return _with(parsed_type, properties)

    def _parse_bare_type(self) -> Any:
        token = self._take()
        if token.kind != "name":
            self._fail("a type is expected", token)
        match token.text:
            case "array" | "map" if self._is("<"):
                self._take()
                inner = self._parse_type()
                self._expect(">")
                return {"type": token.text, "items" if token.text == "array" else "values": inner}
            case "union" if self._is("{"):
                return self._parse_union()
        parsed_type = self._parse_scalar(token)
        if self._is("?"):
            self._take()
            return _Optional(["null", parsed_type])
        return parsed_type

    def _parse_union(self) -> list[Any]:
        self._take()
        branches = [self._parse_type()]
        while self._is(","):
            self._take()
            branches.append(self._parse_type())
        self._expect("}")
        return branches

    def _parse_scalar(self, token: _Token) -> Any:
        if token.text in _PRIMITIVE:
            return token.text
        if token.text in _LOGICAL_TYPES:
            return dict(_LOGICAL_TYPES[token.text])
        if token.text == "decimal" and self._is("("):
            self._take()
            decimal = {"type": "bytes", "logicalType": "decimal", "precision": self._take_integer()}
            if self._is(","):
                self._take()
                decimal["scale"] = self._take_integer()
            self._expect(")")
            return decimal
        return _Reference(name=_strip_backticks(token.text), namespace=self._namespace, place=self._locate(token))

    def _parse_import(self) -> None:
        self._take()
        kind = self._take()
        if kind.text not in ("idl", "schema", "protocol"):
            self._fail("idl, schema or protocol is expected", kind)
        name = self._take()
        if name.kind != "string":
            self._fail("the name of a file, in quotes, is expected", name)
        self._expect(";")
        if self._types.open is None:
            self._fail(f"it imports {name.text}: give the file, or the folder that it is in, by its path", name)
        file_name = self._parse_string(name)
        try:
            file, data = self._types.open(self._path, file_name)
        except DocumentError as error:
            raise DocumentError(f"{self._locate(name)}: {error}") from None
        if (file.suffix.lower() == AVRO_IDL) != (kind.text == "idl"):
            self._fail(f"{file_name} is imported as {kind.text}, and does not look like it by its name", name)
        self._types.importing += 1
        if self._types.importing > _MAX_IMPORTS:
            self._fail(f"more than {_MAX_IMPORTS} files import one another in a row", name)
        _read_file(self._types, data, file)
        self._types.importing -= 1

    def _parse_properties(self) -> JSONObject:
        properties: JSONObject = {}
        while self._is("@"):
            self._take()
            name = self._take_name()
            self._expect("(")
            value = self._parse_json()
            self._expect(")")
            properties |= {} if value is _ABSENT else {name: value}
        return properties

    def _parse_json(self) -> Any:
        """Return a JSON value, or ``_ABSENT`` for a number that JSON cannot express."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"nested deeper than {MAX_DEPTH} levels")
        value = self._parse_json_value(self._take())
        self._depth -= 1
        return value

    def _parse_json_value(self, token: _Token) -> Any:
        match token.kind, token.text:
            case "string", _:
                return self._parse_string(token)
            case "number", _:
                return self._parse_number(token)
            case "name", "true" | "false" | "null":
                return {"true": True, "false": False, "null": None}[token.text]
            case "mark", "[":
                return self._parse_elements("]", self._parse_json)
            case "mark", "{":
                return dict(self._parse_elements("}", self._parse_pair))
        return self._fail("a value in JSON is expected", token)

    def _parse_elements(self, end: str, read: Callable[[], Any]) -> list[Any]:
        elements: list[Any] = []
        while not self._is(end):
            elements.append(read())
            if not self._is(end):
                self._expect(",")
        self._take()
        return elements

    def _parse_pair(self) -> tuple[str, Any]:
        key = self._take()
        if key.kind != "string":
            self._fail("a name in quotes is expected", key)
        self._expect(":")
        return self._parse_string(key), self._parse_json()

    def _parse_string(self, token: _Token) -> str:
        try:
            text = str(json.loads(f'"{_ESCAPE.sub(_convert_escape, token.text[1:-1])}"', strict=False))
        except json.JSONDecodeError as error:
            return self._fail(f"a string with a fault: {error.msg}", token)
        if any("\ud800" <= character <= "\udfff" for character in text):
            self._fail("a string with half a character in it", token)
        return text

    def _parse_number(self, token: _Token) -> Any:
        text = token.text.lower()
        if "nan" in text or "inf" in text:
            return _ABSENT
        if re.fullmatch(r"[+-]?(0x[0-9a-f]+|[0-9]+)l?", text):
            return self._parse_whole_number(token)
        value = float(text.rstrip("fdl"))
        return _ABSENT if value in (float("inf"), float("-inf")) else value

    def _parse_whole_number(self, token: _Token) -> int:
        text = token.text.lower().rstrip("l")
        if token.kind != "number" or not re.fullmatch(r"[+-]?(0x[0-9a-f]{1,16}|[0-9]{1,19})", text):
            self._fail("a whole number is expected", token)
        digits = text.lstrip("+-")
        value = int(digits, 16 if "x" in digits else 8 if re.fullmatch(r"0[0-7]+", digits) else 10)
        return -value if text[0] == "-" else value

    def _take_integer(self) -> int:
        return self._parse_whole_number(self._take())

    def _take_name(self) -> str:
        token = self._take()
        if token.kind != "name":
            self._fail("a name is expected", token)
        return _strip_backticks(token.text)

    def _is(self, text: str) -> bool:
        return self._next.text == text and self._next.kind in ("name", "mark")

    def _expect(self, text: str) -> None:
        token = self._take()
        if token.text != text or token.kind == "string":
            self._fail(f"{text} is expected", token)

    def _take(self) -> _Token:
        token = self._next
        self._next = self._scan()
        return token

    def _expect_end(self) -> None:
        if self._next.kind != "end":
            self._fail("the file ends here, behind the protocol, and not with more")

    def _scan(self) -> _Token:
        doc = ""
        while self._at < len(self._text) and self._text[self._at] != "\x1a":
            match = _TOKEN_PATTERN.match(self._text, self._at)
            self._line += self._text.count("\n", self._counted, self._at)
            self._counted = self._at
            if match is None:
                excerpt = self._text[self._at : self._at + 20].split("\n")[0]
                raise DocumentError(f"{self._format_line(self._line)}: {excerpt!r} is nothing of Avro IDL")
            self._at = match.end()
            if match.lastgroup == "doc":
                doc = _clean_doc(match[0])
            elif match.lastgroup != "skip":
                return _Token(kind=str(match.lastgroup), text=match[0], line=self._line, doc=doc)
        return _Token(kind="end", text="", line=line_of(self._text, len(self._text.rstrip())))

    def _locate(self, token: _Token) -> str:
        return self._format_line(token.line)

    def _format_line(self, line: int) -> str:
        """Return the place of a line for messages. It has the name of the file only if the file is imported."""
        return f"{self._imported}: line {line}" if self._imported else f"line {line}"

    def _report(self, token: _Token, message: str) -> None:
        self._types.repairs.append(Repair(message=message, line=token.line, rule="AV-2", file=self._imported))

    def _fail(self, message: str, token: _Token | None = None) -> NoReturn:
        token = token or self._next
        actual = f", not {token.text[:40]!r}" if token.text and message.endswith("expected") else ""
        raise DocumentError(f"{self._locate(token)}: {message}{actual}")


class _Optional(list[Any]):
    """An optional type (with a question mark): a union with null.

    Null comes first unless a default requires otherwise.
    """


def _with(kind: Any, properties: JSONObject) -> Any:
    if kind == "null" or isinstance(kind, _Reference):
        return kind
    return {**(kind if isinstance(kind, dict) else {"type": kind}), **properties}


def _convert_escape(match: re.Match[str]) -> str:
    """Return an escape sequence of Java as one of JSON."""
    escape = match[1] or ""
    if escape.isdecimal():
        return f"\\u{int(escape, 8):04x}"
    return '\\"' if match[0] == '"' else "'" if escape == "'" else match[0]


def _strip_backticks(name: str) -> str:
    return name.replace("`", "")


def _clean_doc(comment: str) -> str:
    """Return the text of a comment without the stars at the beginnings of its lines."""
    lines = [re.sub(r"^\s*\*? ?", "", line) for line in comment[3:-2].strip().split("\n")]
    return "\n".join(line.rstrip() for line in lines).strip()
