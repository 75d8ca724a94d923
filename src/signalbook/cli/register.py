"""``signalbook register``: schema files into a registry, each as a new schema or as the next Version of one."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from signalbook.cli.check import Rule, verdict_lines
from signalbook.cli.console import echo, output
from signalbook.cli.files import STANDARD_INPUT, read_file
from signalbook.cli.registry import DbOption, ServerOption, open_registry
from signalbook.cli.schemafiles import SchemaFile
from signalbook.errors import SignalbookError
from signalbook.values import JSONError, JSONObject, dump_json, parse_json
from signalbook.verdict import Verdict
from signalbook.xid import ROOT, Xid, XidError, check_id

if TYPE_CHECKING:
    from signalbook.client.registry import Refusal, Registry, WriteChecks

_NOT_IN_AN_ID: Final = re.compile(r"[^A-Za-z0-9._~:@-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The result for one file.

    ``rule`` is the one it was compared by, ``""`` for none. ``unchecked`` is why the registry could not validate or
    compare it, ``verdict`` why it was refused.
    """

    source: str
    xid: str
    format: str
    action: str
    rule: str = ""
    unchecked: str = ""
    verdict: Verdict | None = None

    def to_json(self) -> JSONObject:
        """Return the form that ``--json`` prints."""
        errors = {} if self.verdict is None else {"errors": list(self.verdict.errors)}
        unchecked = {"unchecked": self.unchecked} if self.unchecked else {}
        names = ("source", "xid", "format", "action", "rule")
        return {name: getattr(self, name) for name in names} | unchecked | errors

    def __str__(self) -> str:
        if self.action == "unchanged":
            return f"unchanged  {self.xid}"
        notes = [self.format]
        if self.unchecked:
            notes.append(self.unchecked)
        elif self.action == "updated":
            notes.append(f"compared by the rule {self.rule}" if self.rule else "compared with nothing: it has no rule")
        return f"registered {self.xid} ({', '.join(notes)})"


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
    for name in files:
        if Path(name).is_dir():
            raise SignalbookError(f"{name} is a folder: name the schema files in it (signalbook import takes folders)")
    schemas = [SchemaFile(name=name, content=read_file(name), stated=format) for name in files]
    targets = [_build_target(schema, group, id) for schema in schemas]
    registered: list[Registered] = []
    with open_registry(server, db, create=True) as registry:
        for schema, target in zip(schemas, targets, strict=True):
            _check_format(registry, schema, target)
        for schema, target in _sort_by_references(list(zip(schemas, targets, strict=True))):
            registered.append(_register(registry, schema, target, compatibility))
            if not as_json:
                _print_registered(registered[-1])
    if as_json:
        echo(dump_json({"registered": [row.to_json() for row in registered]}))
    if any(row.verdict for row in registered):
        raise typer.Exit(1)


def _sort_by_references(files: list[tuple[SchemaFile, Xid]]) -> list[tuple[SchemaFile, Xid]]:
    """Return the files in an order in which those that others refer to come first, as far as there is one."""
    from signalbook.formats.references import ReferableSchema, SchemaNames, list_identities, list_referred_names

    def named(schema: SchemaFile, target: Xid) -> ReferableSchema:
        return ReferableSchema(str(target), schema.format, identities=list_identities(schema.content, schema.format))

    names = SchemaNames([named(schema, target) for schema, target in files])
    by_xid = {str(target): (schema, target) for schema, target in files}
    ordered: dict[str, tuple[SchemaFile, Xid]] = {}

    def add(xid: str, trail: tuple[str, ...]) -> None:
        schema, target = by_xid[xid]
        referred = (names.find(name, str(target.owner)) for name in list_referred_names(schema.content, schema.format))
        for other in referred:
            if other is not None and other not in ordered and other not in (*trail, xid):
                add(other, (*trail, xid))
        ordered[xid] = (schema, target)

    for xid in by_xid:
        if xid not in ordered:
            add(xid, ())
    return list(ordered.values()) if len(by_xid) == len(files) else files


def _print_registered(row: Registered) -> None:
    if row.verdict is None:
        echo(str(row))
        return
    screen = output()
    for line in verdict_lines(row.source, row.verdict):
        screen.print(line, soft_wrap=True)


def _build_target(schema: SchemaFile, group: str, id: str) -> Xid:
    """Return the xid for the schema. Raises ``typer.BadParameter`` for invalid ids."""
    schema_id = id or _infer_id(schema)
    for text, option in ((group, "--group"), (schema_id, "--id")):
        try:
            check_id(text)
        except XidError as error:
            raise typer.BadParameter(f"{text!r}: {error}", param_hint=option) from None
    return ROOT / "schemagroups" / group / "schemas" / schema_id


def _infer_id(schema: SchemaFile) -> str:
    document = _parse_document(schema)
    schema_id = ""
    if schema.format.startswith("Avro/"):
        name, namespace = str(document.get("name", "")), document.get("namespace")
        schema_id = f"{namespace}.{name}" if namespace and "." not in name else name
    elif document.get("$id"):
        schema_id = str(document["$id"]).rstrip("#/").rpartition("/")[2].removesuffix(".json")
    if not schema_id:
        if schema.name == STANDARD_INPUT:
            raise typer.BadParameter("a schema from standard input needs a name", param_hint="--id")
        schema_id = PurePath(schema.name).name.partition(".")[0]
    return _NOT_IN_AN_ID.sub("-", schema_id).strip("-")


def _parse_document(schema: SchemaFile) -> JSONObject:
    try:
        document = parse_json(schema.content)
    except JSONError:
        return {}
    return document if isinstance(document, dict) else {}


def _check_format(registry: Registry, schema: SchemaFile, target: Xid) -> None:
    """Raise ``SignalbookError`` for a new schema whose format neither the file nor an option tells."""
    if not schema.format and registry.find(target, deep=False) is None:
        from signalbook.formats.base import list_supported

        formats = ", ".join(list_supported())
        raise SignalbookError(f"{schema.name}: the file does not show its format; name it with --format: {formats}")


def _register(registry: Registry, schema: SchemaFile, target: Xid, rule: Rule | None) -> Registered:
    from signalbook.client.registry import Refusal

    existing = registry.find(target, deep=False)
    if existing is None:
        return _create(registry, schema, target, rule)
    default = registry.get(target, inline=["schema"], binary=True)
    # Its format is the schema's, whichever the file looks like: all Versions have the same.
    name = schema.stated or str(default.get("format", "")) or schema.format
    meta = existing.get("meta", {})
    # The default Version is the newest one, unless it was chosen: then any may be what the file holds.
    versions = (
        registry.members(target / "versions", deep=False) if meta.get("defaultversionsticky") else [("", default)]
    )
    for _, version in versions:
        if base64.b64decode(version.get("schemabase64", "")) == schema.content:
            xid = str(target / "versions" / str(version["versionid"]))
            return Registered(source=schema.name, xid=xid, format=name, action="unchanged")
    try:
        added = registry.add_version(target, schema.content, _build_attributes(schema, name))
    except Refusal as refusal:
        question = partial(_check_next_version, target=target, content=schema.content, format=name)
        return _describe_refusal(registry, schema, target, name, refusal, question)
    compared_by = str(meta.get("compatibility", ""))
    unchecked = _explain_unchecked(registry.get(added))
    return Registered(
        source=schema.name,
        xid=str(added),
        format=name,
        action="updated",
        rule="" if unchecked else compared_by,
        unchecked=unchecked,
    )


def _explain_unchecked(version: JSONObject) -> str:
    """Return why the registry could not validate a Version, or not compare it with the one before; else ``""``."""
    for name, problem in (("compatibilityvalidated", "not compared"), ("formatvalidated", "not validated")):
        if version.get(name) is False:
            return f"{problem}: {version.get(f'{name}reason', '')}"
    return ""


def _check_next_version(checks: WriteChecks, *, target: Xid, content: bytes, format: str) -> Verdict:
    return checks.version(target, content, format, None)


def _create(registry: Registry, schema: SchemaFile, target: Xid, rule: Rule | None) -> Registered:
    """The schema, and its group if need be, in one request."""
    from signalbook.client.registry import Refusal

    body = {
        **_build_attributes(schema, schema.format),
        "schemabase64": base64.b64encode(schema.content).decode("ascii"),
    }
    if rule is not None:
        body["meta"] = {"compatibility": rule}
    schemas: JSONObject = {"schemas": {target.id: body}}
    try:
        registry.patch(target.owner, schemas)
    except Refusal as refusal:
        whole = {target.group_type: {target.group_id: schemas}}
        return _describe_refusal(
            registry, schema, target, schema.format, refusal, lambda checks: checks.patch(ROOT, whole)
        )
    created = registry.get(target)
    version = target / "versions" / str(created["versionid"])
    unchecked = _explain_unchecked(created)
    return Registered(source=schema.name, xid=str(version), format=schema.format, action="created", unchecked=unchecked)


def _describe_refusal(
    registry: Registry,
    schema: SchemaFile,
    target: Xid,
    format: str,
    refusal: Refusal,
    question: Callable[[WriteChecks], Verdict],
) -> Registered:
    """Return why a write was rejected, in the words of the check if the registry has one."""
    with registry.checking() as checks, suppress(SignalbookError):
        verdict = question(checks)
        if not verdict.accepted:
            return Registered(source=schema.name, xid=str(target), format=format, action="refused", verdict=verdict)
    raise SignalbookError(f"{schema.name}: {refusal}")


def _build_attributes(schema: SchemaFile, format: str) -> JSONObject:
    from signalbook.documents import guess_content_type

    document = _parse_document(schema)
    title = document.get("title") or document.get("name")
    name = {"name": title} if isinstance(title, str) and title else {}
    return {"format": format, "contenttype": guess_content_type(format) or "application/json", **name}
