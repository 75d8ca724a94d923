"""Rules of messages and endpoints beyond their model, looked at whenever one is written.

The rules themselves are in ``messages/`` (domain.md sections F and H); here is what they need to know of the registry:
groups, base messages, schemas, message groups. They hold for types whose model says ``modelcompatiblewith`` the
specification's own, wherever it has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from signalbook.engine.write.load import WriteLoader, named
from signalbook.engine.write.workingcopies import OwnerCopy, ResourceCopy, VersionCopy, WorkingTree
from signalbook.errors import RegistryError
from signalbook.messages.definitions.endpoints import lint_endpoint, lint_messageids
from signalbook.messages.definitions.lint import review, review_borrowed
from signalbook.messages.definitions.schemas import readings
from signalbook.model import Model
from signalbook.storage.base import Row
from signalbook.values import JSON, Finding, JSONObject
from signalbook.xid import Kind, Xid, XidError

DOMAIN_RULES: Final = ("off", "warn", "reject")
MAX_FINDINGS: Final = 100
_SPECIFIED: Final = {
    domain: f"https://xregistry.io/xreg/domains/{domain}/specs/model.json" for domain in ("message", "endpoint")
}
_MAX_MESSAGEIDS: Final = 10_000
_BATCH: Final = 500
_SELECTORS: Final = ("envelope", "protocol")
_SCHEMA_NAMES: Final = ("dataschemauri", "dataschemaxid")


def check_domain_rules(tree: WorkingTree, loader: WriteLoader, model: Model, base_url: str = "") -> tuple[Finding, ...]:
    """Findings about the messages and endpoints that ``tree`` changes, up to ``MAX_FINDINGS``.

    Each path begins with the xid of the Version or Group it is in, then ``#``. Severity ``error`` is a broken MUST.
    """
    if not any(_is(model.groups[xid.group_type].document, "message", "endpoint") for xid in tree.groups):
        return ()
    return tuple(islice(_DomainCheck(tree, loader, model, base_url).findings(), MAX_FINDINGS))


def domain_refusal(findings: tuple[Finding, ...]) -> RegistryError | None:
    """``invalid_attribute`` with every finding that is an error, None if none is."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return None
    subject, _, name = errors[0].path.partition("#")
    return RegistryError("invalid_attribute", subject=subject, name=name, error_detail=errors[0].message, faults=errors)


def _is(document: JSONObject, *domains: str) -> bool:
    """Whether a type says that it is the one of these specifications."""
    return document.get("modelcompatiblewith") in [_SPECIFIED[domain] for domain in domains]


class _DomainCheck:
    """One look over one tree, before it is stored: what is in the tree counts, then what is stored."""

    def __init__(self, tree: WorkingTree, loader: WriteLoader, model: Model, base_url: str) -> None:
        self._tree = tree
        self._loader = loader
        self._model = model
        self._base_url = base_url
        self._definitions: dict[Xid, JSONObject | None] = {}

    def findings(self) -> Iterator[Finding]:
        """Groups first, then the messages in them, by xid."""
        for xid, group in sorted(self._tree.groups.items(), key=_by_xid):
            if self._is_endpoint(xid):
                yield from _located_at(xid, self._endpoint(group))
            if _restated(group):
                yield from self._members(group)
        for xid, resource in sorted(self._tree.resources.items(), key=_by_xid):
            if self._is_message(xid):
                yield from self._resource(resource)

    def _is_endpoint(self, xid: Xid) -> bool:
        return _is(self._model.groups[xid.group_type].document, "endpoint")

    def _is_message(self, xid: Xid) -> bool:
        kind = self._model.resource_type(xid)
        return kind is not None and _is(kind.document, "message")

    def _resource(self, resource: ResourceCopy) -> Iterator[Finding]:
        group = self._tree.groups[resource.xid.owner]
        if resource.xref is not None:
            if resource.touched:
                yield from _located_at(resource.xid, self._borrowed(self._definition(resource.xref), group))
            return
        for version in resource.versions.values():
            if version.touched or version.before is None:
                yield from _located_at(version.xid, self._message(version, resource, group))
            elif _restated(group):
                yield from _located_at(version.xid, self._borrowed(_raw(version.attributes, resource.xid), group))

    def _message(self, version: VersionCopy, resource: ResourceCopy, group: OwnerCopy) -> list[Finding]:
        raw = _raw(version.attributes, resource.xid)
        found = review(raw, group.attributes, self._base, endpoint=self._is_endpoint(group.xid))
        return [*found, *self._schemas(raw)]

    def _borrowed(self, raw: JSONObject | None, group: OwnerCopy) -> list[Finding]:
        if raw is None:
            return []
        return review_borrowed(raw, group.attributes, self._base, endpoint=self._is_endpoint(group.xid))

    def _schemas(self, raw: JSONObject) -> Iterator[Finding]:
        """F-12, F-13: a schema of this registry that is named is there."""
        for name in _SCHEMA_NAMES:
            reference = raw.get(name)
            if isinstance(reference, str) and named(reference, self._base_url) is not None:
                xids = (named(target, self._base_url) for target, _ in readings(reference))
                if not any(xid is not None and self._exists(xid) for xid in xids):
                    text = f"there is no schema {reference} in this registry"
                    yield Finding(path=name, rule="unknown_schema", message=text, severity="warning")

    def _exists(self, xid: Xid) -> bool:
        if xid.resource in self._tree.resources:
            return xid.kind is Kind.RESOURCE or self._loader.version(xid) is not None
        return self._loader.stored(xid) is not None

    def _base(self, reference: str) -> Mapping[str, JSON] | None:
        xid = named(reference, self._base_url)
        return None if xid is None or not self._is_message(xid) else self._definition(xid)

    def _definition(self, xid: Xid) -> JSONObject | None:
        """A message as it will be: that of its default Version, unless ``xid`` names another."""
        if xid not in self._definitions:
            attributes = self._attributes(xid)
            self._definitions[xid] = None if attributes is None else _raw(attributes, xid)
        return self._definitions[xid]

    def _attributes(self, xid: Xid) -> JSONObject | None:
        copy = self._tree.resources.get(xid.resource)
        if copy is not None and copy.xref is None:
            version = self._loader.version(xid)
            return None if version is None else version.attributes
        row = self._loader.stored(xid)
        if row is not None and xid.kind is Kind.RESOURCE:
            row = self._loader.default_versions([row]).get(xid)
        return None if row is None else row.attributes

    def _members(self, group: OwnerCopy) -> Iterator[Finding]:
        """Stored messages that a group states another envelope or protocol for, beside those in the tree."""
        if group.before is None:
            return
        for plural in self._model.groups[group.xid.group_type].resources:
            if not self._is_message(group.xid / plural):
                continue
            rows = self._loader.members(group.before, plural)
            while batch := list(islice(rows, _BATCH)):
                others = [row for row in batch if row.xid not in self._tree.resources]
                defaults = self._loader.default_versions(others)
                for row in others:
                    shown = defaults.get(row.xid)
                    raw = None if shown is None else _raw(shown.attributes, row.xid)
                    yield from _located_at(row.xid, self._borrowed(raw, group))

    def _endpoint(self, group: OwnerCopy) -> Iterator[Finding]:
        changed = group.before is None or group.before.attributes != group.attributes
        if changed:
            yield from lint_endpoint(group.attributes)
        if changed or group.collections:
            referred = {xid: path for path, xid in self._referred(group)}
            for path, xid in self._referred(group):
                if changed and self._group(xid) is None and xid not in self._tree.groups:
                    text = f"there is no group {xid} in this registry"
                    yield Finding(path=path, rule="unknown_group", message=text, severity="warning")
            yield from lint_messageids(islice(self._ids([group.xid, *referred]), _MAX_MESSAGEIDS))

    def _referred(self, group: OwnerCopy) -> Iterator[tuple[str, Xid]]:
        """The groups of this registry that an endpoint refers to, each with where it does."""
        references = group.attributes.get("messagegroups")
        for position, reference in enumerate(references if isinstance(references, list) else ()):
            text = str(reference).removeprefix("#").removeprefix(self._base_url.rstrip("/") or "\0")
            try:
                xid = Xid.parse(text)
            except XidError:
                continue
            if xid.kind is Kind.GROUP and xid.group_type in self._model.groups:
                yield f"messagegroups[{position}]", xid

    def _ids(self, groups: list[Xid]) -> Iterator[tuple[str, str]]:
        """Every message of ``groups`` by id; what the tree deletes is not looked for."""
        for xid in groups:
            group = self._group(xid)
            stored = self._loader.members(group) if group is not None else ()
            new = (x for x, copy in self._tree.resources.items() if copy.before is None and x.owner == xid)
            found = chain((row.xid for row in stored), new)
            yield from ((message.id, str(message)) for message in found if self._is_message(message))

    def _group(self, xid: Xid) -> Row | None:
        copy = self._tree.groups.get(xid)
        return copy.before if copy is not None else self._loader.stored(xid)


def _by_xid(entity: tuple[Xid, object]) -> str:
    return str(entity[0])


def _restated(group: OwnerCopy) -> bool:
    """Whether a stored group states another envelope or protocol now."""
    before = group.before
    return before is not None and any(before.attributes.get(n) != group.attributes.get(n) for n in _SELECTORS)


def _raw(attributes: JSONObject, xid: Xid) -> JSONObject:
    return {**attributes, "xid": str(xid)}


def _located_at(xid: Xid, findings: Iterator[Finding] | list[Finding]) -> Iterator[Finding]:
    for finding in findings:
        yield replace(finding, path=f"{xid}#{finding.path}")
