"""``signalbook register``: schema files into a registry, each as a new schema or as the next Version of one."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from signalbook.cli.check import Rule, SchemaFile, verdict_lines
from signalbook.cli.console import output
from signalbook.cli.files import STANDARD_INPUT, read_file
from signalbook.cli.registry import DbOption, ServerOption, open_registry
from signalbook.errors import RegistryError, SignalbookError
from signalbook.values import JSONError, JSONObject, dump_json, parse_json
from signalbook.xid import ROOT, Xid, XidError, check_id

if TYPE_CHECKING:
    from signalbook.client.registry import Registry

_CONTENT_TYPES: Final = {"jsonschema": "application/schema+json", "protobuf": "text/plain", "xsd": "application/xml"}
_NOT_IN_AN_ID: Final = re.compile(r"[^A-Za-z0-9._~:@-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What became of one file. ``rule`` is the one it was compared by, ``""`` for none."""

    source: str
    xid: str
    format: str
    action: str
    rule: str = ""

    def to_json(self) -> JSONObject:
        """The form that ``--json`` prints."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        if self.action == "unchanged":
            return f"unchanged  {self.xid}"
        compared = f"compared by the rule {self.rule}" if self.rule else "compared with nothing: it has no rule"
        return f"registered {self.xid} ({self.format}{', ' + compared if self.action == 'updated' else ''})"


def run(
    files: Annotated[list[str], Argument(metavar="FILE...", help="Schema files, or -.")],
    group: Annotated[str, Option("--group", metavar="ID", help="The schema group; it is created if it is not there.")],
    server: ServerOption = None,
    db: DbOption = None,
    id: Annotated[str, Option("--id", metavar="ID", help="Id of the schema, if there is one FILE.")] = "",
    format: Annotated[
        str, Option("--format", metavar="NAME/VERSION", help="Format of the schemas; by default what the files show.")
    ] = "",
    compatibility: Annotated[
        Rule | None,
        Option("--compatibility", case_sensitive=False, help="The rule for the next Versions of schemas that are new."),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print what was registered as one JSON object.")] = False,
) -> None:
    """Register schemas.

    FILE is a schema in Avro, JSON Schema, Protobuf, XML Schema or JSON Structure (- for standard input). Its format,
    id and name are taken from the file: an Avro schema is called by its full name, a JSON Schema by the end of its
    $id, any other by its file. A schema that is there already gets a new Version, unless it is the same; one that its
    rule of compatibility does not allow is refused, with the reasons. The exit code is 0 if all are registered, else
    1.
    """
    # Everything is read first, so that a broken file stops it before it begins.
    if id and len(files) > 1:
        raise typer.BadParameter("one id is for one file", param_hint="--id")
    schemas = [SchemaFile(name=name, content=read_file(name), stated=format) for name in files]
    targets = [_target(schema, group, id) for schema in schemas]
    with open_registry(server, db, create=True) as registry:
        done = [_register(registry, *pair, compatibility) for pair in zip(schemas, targets, strict=True)]
    if as_json:
        typer.echo(dump_json({"registered": [row.to_json() for row in done]}))
        return
    for row in done:
        typer.echo(str(row))


def _target(schema: SchemaFile, group: str, id: str) -> Xid:
    """Where it belongs. Raises ``typer.BadParameter`` for ids that are none."""
    named = id or _inferred_id(schema)
    for text, option in ((group, "--group"), (named, "--id")):
        try:
            check_id(text)
        except XidError as error:
            raise typer.BadParameter(f"{text!r}: {error}", param_hint=option) from None
    return ROOT / "schemagroups" / group / "schemas" / named


def _inferred_id(schema: SchemaFile) -> str:
    document = _document(schema)
    found = ""
    if schema.format.startswith("Avro/"):
        name, namespace = str(document.get("name", "")), document.get("namespace")
        found = f"{namespace}.{name}" if namespace and "." not in name else name
    elif document.get("$id"):
        found = str(document["$id"]).rstrip("#/").rpartition("/")[2].removesuffix(".json")
    if not found:
        if schema.name == STANDARD_INPUT:
            raise typer.BadParameter("a schema from standard input needs a name", param_hint="--id")
        found = PurePath(schema.name).name.partition(".")[0]
    return _NOT_IN_AN_ID.sub("-", found).strip("-")


def _document(schema: SchemaFile) -> JSONObject:
    try:
        document = parse_json(schema.content)
    except JSONError:
        return {}
    return document if isinstance(document, dict) else {}


def _register(registry: Registry, schema: SchemaFile, target: Xid, rule: Rule | None) -> Registered:
    known = registry.find(target, deep=False)
    if known is None:
        return _create(registry, schema, target, rule)
    shown = registry.get(target, inline=["schema"], binary=True)
    name = schema.format or str(shown.get("format", ""))
    if base64.b64decode(shown.get("schemabase64", "")) == schema.content:
        version = target / "versions" / str(shown["versionid"])
        return Registered(source=schema.name, xid=str(version), format=name, action="unchanged")
    with registry.checking() as checks:
        verdict = checks.version(target, schema.content, name, None)
    if not verdict.accepted:
        screen = output()
        for line in verdict_lines(schema.name, verdict):
            screen.print(line, soft_wrap=True)
        raise typer.Exit(1)
    registry.add_version(target, schema.content, _attributes(schema, name))
    version = target / "versions" / str(registry.get(target)["versionid"])
    compared = str(known.get("meta", {}).get("compatibility", ""))
    return Registered(source=schema.name, xid=str(version), format=name, action="updated", rule=compared)


def _create(registry: Registry, schema: SchemaFile, target: Xid, rule: Rule | None) -> Registered:
    """The schema, and its group if need be, in one request."""
    if not schema.format:
        from signalbook.formats.base import supported

        known = ", ".join(supported())
        raise SignalbookError(f"{schema.name}: the file does not show its format; name it with --format: {known}")
    body = {**_attributes(schema, schema.format), "schemabase64": base64.b64encode(schema.content).decode("ascii")}
    if rule is not None:
        body["meta"] = {"compatibility": rule}
    try:
        registry.patch(target.owner, {"schemas": {target.id: body}})
    except RegistryError as error:
        raise SignalbookError(f"{schema.name}: {error}") from None
    version = target / "versions" / str(registry.get(target)["versionid"])
    return Registered(source=schema.name, xid=str(version), format=schema.format, action="created")


def _attributes(schema: SchemaFile, format: str) -> JSONObject:
    family = format.partition("/")[0].lower()
    title = _document(schema).get("title") or _document(schema).get("name")
    name = {"name": title} if isinstance(title, str) and title else {}
    return {"format": format, "contenttype": _CONTENT_TYPES.get(family, "application/json"), **name}
