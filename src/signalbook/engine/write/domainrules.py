"""Rules for messages and endpoints beyond their model, checked whenever a message or endpoint is written.

The rules are in ``messages/`` (sections F and H of docs/requirements). This module loads the data that they need from
the registry: groups, base messages, schemas and message groups. The rules apply to types whose model states in
``modelcompatiblewith`` that they follow the specification's own types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from signalbook import work
from signalbook.engine.checks import check_alone, check_whole
from signalbook.engine.write.context import Context
from signalbook.engine.write.references import make_document
from signalbook.engine.write.workingcopies import OwnerCopy, ResourceCopy, VersionCopy, WorkingTree
from signalbook.errors import RegistryError
from signalbook.formats import base as formats
from signalbook.formats.base import SchemaError
from signalbook.formats.references import has_open_references, is_importing
from signalbook.messages.definitions.endpoints import lint_endpoint, lint_messageids
from signalbook.messages.definitions.lint import lint_selectors, review, review_borrowed
from signalbook.messages.definitions.normalise import find_stated_base, materialise
from signalbook.messages.definitions.schemas import inline_document, readings
from signalbook.messages.definitions.source import Outline, build_outline, find_equal_outlines
from signalbook.messages.properties import finding
from signalbook.storage.base import Row
from signalbook.values import JSON, Finding, JSONObject, Severity
from signalbook.xid import Kind, Xid, XidError

MAX_FINDINGS: Final = 100
_MODEL_URLS: Final = {
    domain: f"https://xregistry.io/xreg/domains/{domain}/specs/model.json" for domain in ("message", "endpoint")
}
_MAX_MESSAGEIDS: Final = 10_000
_MESSAGES_PER_PAGE: Final = 500
_SELECTORS: Final = ("envelope", "protocol")
_SCHEMA_NAMES: Final = ("dataschemauri", "dataschemaxid")


def check_domain_rules(tree: WorkingTree, context: Context) -> tuple[Finding, ...]:
    """Return up to ``MAX_FINDINGS`` findings about the messages and endpoints that ``tree`` changes.

    Each path starts with the xid of the Version or Group, followed by ``#``. Severity ``error`` means a violated MUST.
    """
    groups = context.model.groups
    if not any(_is_of_domain(groups[xid.group_type].document, "message", "endpoint") for xid in tree.groups):
        return ()
    findings = _DomainCheck(tree, context).find_findings()
    return tuple(findings[:MAX_FINDINGS])


def make_domain_error(findings: tuple[Finding, ...]) -> RegistryError | None:
    """Return the error ``invalid_attribute`` with all findings of severity ``error``, or None if there are none."""
    # Warnings are returned with the result of the write. Only a violated MUST rejects the write.
    errors = [finding_to_check for finding_to_check in findings if finding_to_check.severity == "error"]
    if not errors:
        return None
    subject, _, name = errors[0].path.partition("#")
    return RegistryError("invalid_attribute", subject=subject, name=name, error_detail=errors[0].message, faults=errors)


def _check_inline_schema(version: VersionCopy, context: Context) -> list[Finding]:
    """Return the findings about the schema inside a message, checked together with the schemas that it refers to."""
    schema, name = version.attributes.get("dataschema"), version.attributes.get("dataschemaformat")
    if schema is None or not isinstance(name, str) or (reader := formats.find(name)) is None:
        return []
    document = make_document(context.documents.keep(inline_document(schema)), name, version.xid, context)
    findings = check_alone(reader, replace(document, is_text=True))
    may_import = is_importing(reader) and (findings is None or has_open_references(findings))
    if not may_import:
        return findings or []
    outcome = check_whole(reader, document)
    if outcome is None:
        return []
    unresolved = outcome.error.findings if isinstance(outcome.error, SchemaError) else ()
    return [*outcome.items, *(replace(unresolved_finding, severity="warning") for unresolved_finding in unresolved)]


def _locate_in_schema(findings: Iterable[Finding]) -> Iterator[Finding]:
    for schema_finding in findings:
        # A position in a text, such as a line number, is not a JSON Pointer.
        position = schema_finding.path if schema_finding.path.startswith("/") else f" {schema_finding.path}".rstrip()
        yield replace(schema_finding, path=f"dataschema{position}")


def _is_of_domain(document: JSONObject, *domains: str) -> bool:
    """Return True if the type with this ``document`` is a type of one of the specifications ``domains``."""
    return document.get("modelcompatiblewith") in [_MODEL_URLS[domain] for domain in domains]


class _DomainCheck:
    """A check of one tree before it is stored. Entities in the tree take precedence over stored ones."""

    def __init__(self, tree: WorkingTree, context: Context) -> None:
        self._tree = tree
        self._context = context
        self._stored = context.stored
        self._groups = context.model.groups
        self._inline: dict[Xid, list[Finding]] = {}
        self._messages: dict[Xid, list[Xid]] = {}

    def find_findings(self) -> list[Finding]:
        """Return the findings: first those about Groups and their stored messages, then those about written messages.

        Checking stops once there are ``MAX_FINDINGS``, so that the result may have a few more.
        """
        findings: list[Finding] = []
        self._load()
        for xid, group in sorted(self._tree.groups.items(), key=_xid_key):
            if self._is_endpoint(xid):
                findings += _locate_at(xid, self._check_endpoint(group))
            elif _is_changed(group) and _is_of_domain(self._groups[xid.group_type].document, "message"):
                findings += _locate_at(xid, lint_selectors(group.attributes))
            if _has_new_selectors(group):
                self._check_stored_messages(group, findings)
        for xid, resource in sorted(self._tree.resources.items(), key=_xid_key):
            if len(findings) < MAX_FINDINGS and self._is_message(xid):
                findings += self._check_resource(resource)
        if len(findings) < MAX_FINDINGS:
            findings += islice(self._check_duplicate_types(), MAX_FINDINGS - len(findings))
        return findings

    def _load(self) -> None:
        """Load the entities that Groups and messages of the tree refer to, in a few queries however many there are."""
        needed: set[Xid] = set()
        bases: set[Xid] = set()
        for resource in self._tree.resources.values():
            if self._is_message(resource.xid):
                restated = _has_new_selectors(self._tree.groups[resource.xid.owner])
                for version in resource.versions.values():
                    if _is_written(version):
                        needed |= {xid for _, xids in self._list_schema_names(version.attributes) for xid in xids}
                        self._inline[version.xid] = _check_inline_schema(version, self._context)
                    if _is_written(version) or restated:
                        bases |= self._find_bases(version.attributes)
                if resource.xref is not None and resource.touched:
                    bases.add(resource.xref)
        endpoints = [
            g for g in self._tree.groups.values() if self._is_endpoint(g.xid) and (_is_changed(g) or g.collections)
        ]
        needed |= {
            xid for group in endpoints for _, xid in self._list_referred_groups(group) if xid not in self._tree.groups
        }
        for xid in needed:
            self._exists(xid)
        missing = self._context.take_missing()
        if missing is not None:
            self._context.loader.load(replace(missing, defaults=False))
        self._load_bases(bases)
        message_groups = {xid for group in endpoints for xid in self._list_message_groups(group)}
        rows = [row for xid in sorted(message_groups) if (row := self._find_group(xid)) is not None]
        if rows:
            types = frozenset(
                (plural, resource_type.plural)
                for plural, group_type in self._groups.items()
                for resource_type in group_type.resources.values()
                if _is_of_domain(resource_type.document, "message")
            )
            self._messages = self._context.loader.list_messages(rows, types, _MAX_MESSAGEIDS)

    def _load_bases(self, pending: set[Xid]) -> None:
        """Load these messages and their base messages, one or two queries per level, however many there are."""
        loaded: set[Xid] = set()
        while pending:
            # Repeated, because the target of a cross reference is known only once the reference is loaded.
            while True:
                for xid in pending:
                    self._find_attributes(xid)
                missing = self._context.take_missing()
                if missing is None:
                    break
                self._context.loader.load(missing)
            loaded |= pending
            pending = {base for xid in pending for base in self._find_bases(self._find_attributes(xid) or {})} - loaded

    def _find_bases(self, attributes: JSONObject) -> set[Xid]:
        reference = find_stated_base(attributes)
        xid = None if reference is None else self._stored.find_named(reference)
        return set() if xid is None or not self._is_message(xid) else {xid}

    def _is_endpoint(self, xid: Xid) -> bool:
        return _is_of_domain(self._groups[xid.group_type].document, "endpoint")

    def _is_message(self, xid: Xid) -> bool:
        resource_type = self._context.model.resource_type(xid)
        return resource_type is not None and _is_of_domain(resource_type.document, "message")

    def _check_resource(self, resource: ResourceCopy) -> Iterator[Finding]:
        group = self._tree.groups[resource.xid.owner]
        if resource.xref is not None:
            if resource.touched:
                yield from _locate_at(resource.xid, self._check_borrowed(self._find_definition(resource.xref), group))
            return
        for version in resource.versions.values():
            if _is_written(version):
                yield from _locate_at(version.xid, self._check_message(version, resource, group))
            elif _has_new_selectors(group):
                raw = _add_xid(version.attributes, resource.xid)
                yield from _locate_at(version.xid, self._check_borrowed(raw, group))

    def _check_message(self, version: VersionCopy, resource: ResourceCopy, group: OwnerCopy) -> list[Finding]:
        # The Resource's xid names only its default Version; other messages may derive from that Version.
        raw = _add_xid(version.attributes, resource.xid if version.id == resource.defaultversionid else version.xid)
        findings = review(raw, group.attributes, self._find_base, endpoint=self._is_endpoint(group.xid))
        return [*findings, *self._check_schemas(raw), *_locate_in_schema(self._inline.get(version.xid, ()))]

    def _check_duplicate_types(self) -> Iterator[Finding]:
        """Yield a warning for each written message with the type and constants of another one in its Group (K-13).

        Only written default Versions are compared. The Group may have thousands of other messages, whose base messages
        are not loaded.
        """
        outlines: dict[Xid, list[Outline]] = {}
        for xid, resource in sorted(self._tree.resources.items(), key=_xid_key):
            if self._is_message(xid) and resource.xref is None and _is_default_written(resource):
                raw = self._find_definition(xid)
                work.spend()
                if raw is not None:
                    definition = materialise(raw, self._find_base).definition
                    outlines.setdefault(xid.owner, []).append(build_outline(str(xid), definition))
        for group_outlines in outlines.values():
            for name, doubt in find_equal_outlines(group_outlines):
                yield replace(doubt, path=f"{name}#{doubt.path}")

    def _check_borrowed(self, raw: JSONObject | None, group: OwnerCopy) -> list[Finding]:
        if raw is None:
            return []
        return review_borrowed(raw, group.attributes, self._find_base, endpoint=self._is_endpoint(group.xid))

    def _check_schemas(self, raw: JSONObject) -> Iterator[Finding]:
        """Yield findings about schemas that a message names in this registry but that do not exist.

        Only ``dataschemaxid`` must name an existing schema; for other attributes it is a warning (F-12, F-13).
        """
        xids_by_name = dict(self._list_schema_names(raw))
        if isinstance(raw.get("dataschemaxid"), str):
            xids = xids_by_name.get("dataschemaxid", ())
            xids_by_name["dataschemaxid"] = [xid for xid in xids if self._is_schema(xid)]
        for name, xids in xids_by_name.items():
            if not any(self._exists(xid) for xid in xids):
                text = f"there is no schema {raw[name]} in this registry"
                severity: Severity = "error" if name == "dataschemaxid" else "warning"
                yield finding(name, "unknown_schema", text, severity)

    def _is_schema(self, xid: Xid) -> bool:
        resource_type = self._context.model.resource_type(xid)
        return resource_type is not None and resource_type.singular == "schema"

    def _list_schema_names(self, raw: JSONObject) -> Iterator[tuple[str, list[Xid]]]:
        """Yield the attributes that name a schema of this registry, each with the xids that it may mean, the likeliest
        first.
        """
        for name in _SCHEMA_NAMES:
            reference = raw.get(name)
            if isinstance(reference, str) and self._stored.find_named(reference) is not None:
                xids = (self._stored.find_named(target) for target, _ in readings(reference))
                yield name, [xid for xid in xids if xid is not None]

    def _exists(self, xid: Xid) -> bool:
        if xid.resource in self._tree.resources:
            return xid.kind is Kind.RESOURCE or self._stored.find_version(xid) is not None
        return self._stored.find_entity(xid) is not None

    def _find_base(self, reference: str) -> Mapping[str, JSON] | None:
        xid = self._stored.find_named(reference)
        return None if xid is None or not self._is_message(xid) else self._find_definition(xid)

    def _find_definition(self, xid: Xid) -> JSONObject | None:
        """Return the message at ``xid`` after this write, or None. For a Resource this is its default Version."""
        attributes = self._find_attributes(xid)
        return None if attributes is None else _add_xid(attributes, xid)

    def _find_attributes(self, xid: Xid) -> JSONObject | None:
        xid = self._follow_xref(xid)
        copy = self._tree.resources.get(xid.resource)
        if copy is not None and copy.xref is not None:  # a cross reference to a cross reference shows no Version
            return None
        version = self._stored.find_version(xid) if copy is not None else self._stored.find_shown(xid)
        return None if version is None else version.attributes

    def _follow_xref(self, xid: Xid) -> Xid:
        """Return the xid at which the Version is stored. Versions of a cross reference are stored at its target."""
        copy = self._tree.resources.get(xid.resource) or self._stored.find_entity(xid.resource)
        return xid if copy is None or copy.xref is None else Xid((*copy.xref.parts, *xid.parts[4:]))

    def _check_stored_messages(self, group: OwnerCopy, findings: list[Finding]) -> None:
        """Add findings about stored messages of ``group``, whose envelope or protocol changes.

        Messages in the tree are skipped.
        """
        assert group.before is not None
        for plural in self._groups[group.xid.group_type].resources:
            after: str | None = ""
            while after is not None and len(findings) < MAX_FINDINGS and self._is_message(group.xid / plural):
                page = self._context.loader.list_members(group.before, plural, after or None, _MESSAGES_PER_PAGE)
                loaded_before = dict(self._stored.entities)
                other_rows = [row for row in page if row.xid not in self._tree.resources]
                self._stored.entities |= {row.xid: row for row in other_rows}
                self._load_bases({row.xid for row in other_rows})
                for row in other_rows:
                    findings += _locate_at(row.xid, self._check_borrowed(self._find_definition(row.xid), group))
                self._stored.entities = loaded_before  # forget the page: the messages of a Group may not fit in memory
                after = page[-1].xid.id if len(page) == _MESSAGES_PER_PAGE else None

    def _check_endpoint(self, group: OwnerCopy) -> Iterator[Finding]:
        changed = _is_changed(group)
        if changed:
            yield from lint_endpoint(group.attributes)
            for path, xid in self._list_referred_groups(group):
                if self._find_group(xid) is None and xid not in self._tree.groups:
                    text = f"there is no group {xid} in this registry"
                    yield Finding(path=path, rule="unknown_group", message=text, severity="warning")
        if changed or group.collections:
            yield from lint_messageids(
                islice(self._list_message_ids(self._list_message_groups(group)), _MAX_MESSAGEIDS)
            )

    def _list_message_groups(self, group: OwnerCopy) -> list[Xid]:
        """Return the xid of an endpoint and the xids of the Groups that it refers to."""
        return [group.xid, *dict.fromkeys(xid for _, xid in self._list_referred_groups(group))]

    def _list_referred_groups(self, group: OwnerCopy) -> Iterator[tuple[str, Xid]]:
        """Yield the Groups of this registry that an endpoint refers to, each with the path of the reference."""
        references = group.attributes.get("messagegroups")
        for position, reference in enumerate(references if isinstance(references, list) else ()):
            text = str(reference).removeprefix("#").removeprefix(self._stored.base_url.rstrip("/") or "\0")
            try:
                xid = Xid.parse(text)
            except XidError:
                continue
            if xid.kind is Kind.GROUP and xid.group_type in self._groups:
                yield f"messagegroups[{position}]", xid

    def _list_message_ids(self, groups: list[Xid]) -> Iterator[tuple[str, str]]:
        """Yield the id and xid of every message in ``groups``, stored or new. Deletions are not considered."""
        for xid in groups:
            new = (x for x, copy in self._tree.resources.items() if copy.before is None and x.owner == xid)
            messages = chain(self._messages.get(xid, ()), new)
            yield from ((message.id, str(message)) for message in messages if self._is_message(message))

    def _find_group(self, xid: Xid) -> Row | None:
        copy = self._tree.groups.get(xid)
        return copy.before if copy is not None else self._stored.find_entity(xid)


def _is_written(version: VersionCopy) -> bool:
    return version.touched or version.before is None


def _is_default_written(resource: ResourceCopy) -> bool:
    default_version = resource.versions.get(resource.defaultversionid or "")
    return default_version is not None and _is_written(default_version)


def _is_changed(group: OwnerCopy) -> bool:
    """Return True if a Group is new or its attributes changed."""
    return group.before is None or group.before.attributes != group.attributes


def _xid_key(entity: tuple[Xid, object]) -> str:
    return str(entity[0])


def _has_new_selectors(group: OwnerCopy) -> bool:
    """Return True if the write changes the envelope or protocol of a stored Group."""
    before = group.before
    return before is not None and any(before.attributes.get(n) != group.attributes.get(n) for n in _SELECTORS)


def _add_xid(attributes: JSONObject, xid: Xid) -> JSONObject:
    return {**attributes, "xid": str(xid)}


def _locate_at(xid: Xid, findings: Iterator[Finding] | list[Finding]) -> Iterator[Finding]:
    for entity_finding in findings:
        yield replace(entity_finding, path=f"{xid}#{entity_finding.path}")
