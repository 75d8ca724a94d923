"""The commands that an API passes to the engine, and their bodies parsed into a tree of intents.

Each API translates its requests into commands; there is no other way to write. Intents have the same shape for every
write, from one Version to a whole registry. This module checks structure only (maps are maps, ids are valid, types
exist). Values are checked when the write is decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from signalbook.errors import RegistryError
from signalbook.model import GroupType, Included, Model, ResourceType
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind, Xid, XidError, check_id


class Method(StrEnum):
    """The four kinds of write: replace, merge, add and delete (core/spec.md "Design: Protocol Bindings")."""

    PUT = "PUT"
    PATCH = "PATCH"
    POST = "POST"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """Request flags of a write (core/spec.md "Request Flags").

    ``epoch`` is checked when one entity is deleted (R179). ``ignore`` holds lower-case names from the capability
    ``ignores``; ``capabilities.resolve_ignore`` builds it from the client's values. ``setdefaultversionid`` is the
    flag's value as sent, including ``"null"`` and ``"request"``, or None if the flag is absent (R208-R211).
    """

    epoch: int | None = None
    ignore: frozenset[str] = frozenset()
    setdefaultversionid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentBody:
    """The body of a write in document form (core/http.md "Serializing Resource Domain-Specific Documents").

    ``content`` replaces the stored bytes, even if it is empty. ``contenttype`` None erases the stored one (R160).
    ``attributes`` are the decoded ``xRegistry-`` headers, merged as in a PATCH: None deletes an attribute (R162), and a
    map is replaced as a whole (R163). If ``<RESOURCE>url`` is set, it is stored instead of the content.
    """

    content: bytes = b""
    contenttype: str | None = None
    attributes: JSONObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A write of entities. ``target`` is an entity, a meta or a collection.

    ``body`` is the decoded metadata document, or None if none was sent (R148, R169). A write in document form of a
    Resource or Version sets ``document`` instead. ``base_url`` is the URL of the registry's root as the client knows
    it, so that schemas can refer to others by URL. ``included`` are the texts that a model in the body includes from
    elsewhere. ``counts_on`` means that a new Version never gets a number that a deleted Resource of the same xid had
    used (A-19). Findings about documents that break ``accepted_rules`` do not stop the write.
    """

    method: Method
    target: Xid
    body: JSON = None
    document: DocumentBody | None = None
    flags: Flags = field(default_factory=Flags)
    base_url: str = ""
    included: Included = field(default_factory=Included)
    counts_on: bool = False
    accepted_rules: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigCommand:
    """A write of ``capabilities`` (PUT, PATCH) or ``modelsource`` (PUT, with the texts that it includes)."""

    name: str
    method: Method
    body: JSON = None
    included: Included = field(default_factory=Included)


ONE_RESOURCE: Final = frozenset({Kind.RESOURCE, Kind.META, Kind.VERSIONS, Kind.VERSION})
"""The kinds of target that belong to exactly one Resource."""
METHODS: Final[dict[Kind, tuple[Method, ...]]] = {
    Kind.REGISTRY: (Method.PUT, Method.PATCH, Method.POST),
    Kind.GROUPS: (Method.PATCH, Method.POST, Method.DELETE),
    Kind.GROUP: (Method.PUT, Method.PATCH, Method.POST, Method.DELETE),
    Kind.RESOURCES: (Method.PATCH, Method.POST, Method.DELETE),
    Kind.RESOURCE: (Method.PUT, Method.PATCH, Method.POST, Method.DELETE),
    Kind.META: (Method.PUT, Method.PATCH),
    Kind.VERSIONS: (Method.PATCH, Method.POST, Method.DELETE),
    Kind.VERSION: (Method.PUT, Method.PATCH, Method.DELETE),
}
"""The methods that each kind of target accepts (core/http.md method matrix). Others are ``action_not_supported``."""


def check_command(command: Command, model: Model) -> None:
    """Check that the target's types exist and that the method and the flags are valid for the target.

    Raises ``not_found`` (GAP 14), ``action_not_supported``, ``bad_flag``, ``bad_defaultversionid``,
    ``too_many_versions``.
    """
    target = command.target
    group = model.groups.get(target.group_type)
    if target.parts and (group is None or (target.resource_type and target.resource_type not in group.resources)):
        raise RegistryError("not_found", subject=str(target))
    if command.method not in METHODS[target.kind]:
        raise RegistryError("action_not_supported", subject=str(target), action=command.method.value)
    _check_default_version_flag(command)
    if command.flags.epoch is not None and (command.method is not Method.DELETE or target.is_collection):
        raise RegistryError("bad_flag", subject=str(target), flag="epoch")


def _check_default_version_flag(command: Command) -> None:
    """Check that ``setdefaultversionid`` is sent to one Resource only, and its value ``request`` only with a POST
    (R208-R211).
    """
    flag, target = command.flags.setdefaultversionid, command.target
    if flag is None:
        return
    to_resource = target.kind is Kind.RESOURCE
    misplaced = target.kind not in ONE_RESOURCE or (to_resource and command.method is Method.DELETE)
    misused = flag == "request" and not (to_resource and command.method is Method.POST)
    if misused and not misplaced and _count_versions(command) > 1:
        raise RegistryError("too_many_versions", subject=str(target))
    if misplaced or misused:
        raise RegistryError("bad_flag", subject=str(target), flag="setdefaultversionid")
    if not flag:
        detail = "it needs to be a versionid, null or request"
        raise RegistryError("bad_defaultversionid", subject=str(target), value='""', error_detail=detail)


def _count_versions(command: Command) -> int:
    """Return the number of Versions in the request's map of Versions, 0 if it has no such map."""
    body = command.body if isinstance(command.body, dict) else {}
    versions = body if command.target.kind is Kind.VERSIONS else body.get("versions")
    return len(versions) if isinstance(versions, dict) else 0


_DEFAULT_VERSION_ATTRIBUTES: Final = ("defaultversionid", "defaultversionsticky")
_RESERVED_VERSIONIDS: Final = frozenset({"null", "request"})


class WriteMode(StrEnum):
    """The treatment of attributes that a body leaves out: they are reset (R142) or kept (R144)."""

    REPLACE = "replace"
    MERGE = "merge"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionIntent:
    """A Version to create or update. If ``id`` is None, a ``versionid`` is generated (R234).

    ``of_resource`` means that the body was sent to the Resource, so it may have attributes that Versions do not have.
    """

    id: str | None
    body: JSONObject
    mode: WriteMode
    document: DocumentBody | None = None
    of_resource: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceIntent:
    """The requested changes of a Resource and everything under it.

    ``attributes`` are the Resource's own attributes without ``meta`` and ``versions``. They are None for a write to its
    meta or Versions. ``meta`` is None if the request has none. ``remove`` names Versions to delete. ``explicit`` means
    that the request targets this Resource, not a collection that contains it. ``has_versions`` means that the request
    has a map of Versions, which may be empty.
    """

    xid: Xid
    type: ResourceType
    group: GroupType
    mode: WriteMode
    attributes: JSONObject | None = None
    document: DocumentBody | None = None
    meta: JSONObject | None = None
    versions: tuple[VersionIntent, ...] = ()
    remove: tuple[str, ...] = ()
    explicit: bool = False
    has_versions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupIntent:
    """The requested changes of a Group.

    With ``body`` None its attributes stay the same, but a missing Group is created (R52).
    """

    xid: Xid
    type: GroupType
    mode: WriteMode
    body: JSONObject | None = None
    resources: tuple[ResourceIntent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The requested changes of a whole write. With ``body`` None the Registry's own attributes stay the same.

    ``processed`` is as in ``WriteResult``.
    """

    mode: WriteMode
    body: JSONObject | None = None
    groups: tuple[GroupIntent, ...] = ()
    processed: tuple[Xid, ...] = ()

    def list_resources(self) -> Iterator[ResourceIntent]:
        """Yield every Resource intent, in request order."""
        for group in self.groups:
            yield from group.resources


def read_intent(command: Command, model: Model) -> Intent:
    """Return the intent of a PUT, PATCH or POST. The types of its target must exist in ``model``.

    Raises ``RegistryError``: missing_body, bad_request, invalid_attribute, malformed_id, groups_only, resources_only.
    """
    return _IntentReader(command, model).read()


def require_object(value: JSON, subject: Xid, name: str) -> JSONObject:
    """Return ``value`` if it is a JSON object, else raise ``bad_request`` (R50). ``name`` is used in the error."""
    if not isinstance(value, dict):
        raise RegistryError("bad_request", subject=str(subject), error_detail=f"{name} needs to be a JSON object")
    return value


def check_entry_id(collection: Xid, id: str) -> str:
    """Return ``id`` if it is a valid id for an entity of ``collection`` (R25, R28), else raise ``malformed_id``."""
    try:
        if collection.kind is Kind.VERSIONS and id in _RESERVED_VERSIONIDS:
            raise XidError("null and request are reserved words")
        return check_id(id)
    except XidError as error:
        raise RegistryError("malformed_id", subject=str(collection), id=id, error_detail=str(error)) from None


@dataclass(frozen=True, slots=True)
class _IntentReader:
    command: Command
    model: Model
    mode: WriteMode = field(init=False)

    def __post_init__(self) -> None:
        merge = self.command.method is Method.PATCH
        object.__setattr__(self, "mode", WriteMode.MERGE if merge else WriteMode.REPLACE)

    @property
    def target(self) -> Xid:
        return self.command.target

    @property
    def _root(self) -> Xid | None:
        """The single entity that the request targets: the Resource for its meta and Versions.

        None for several entities.
        """
        if self.target.is_collection or (self.command.method is Method.POST and self.target.kind is not Kind.RESOURCE):
            return None
        return Xid(self.target.parts[:4])

    def read(self) -> Intent:
        for position in range(1, len(self.target.parts), 2):
            check_entry_id(Xid(self.target.parts[:position]), self.target.parts[position])
        return _BY_KIND[self.target.kind](self)

    def require_body(self) -> JSONObject:
        """Return the request's body, without ``$schema`` if it describes a single entity (R21).

        Raises ``missing_body``.
        """
        if self.command.body is None:
            raise RegistryError("missing_body", subject=str(self.target))
        body = require_object(self.command.body, self.target, "the body")
        single = self.command.method is not Method.POST and not self.target.is_collection
        return {key: value for key, value in body.items() if key != "$schema"} if single else body

    def read_registry(self) -> Intent:
        body = self.require_body()
        only_maps = self.command.method is Method.POST
        groups: list[GroupIntent] = []
        attributes: JSONObject = {}
        for name, value in body.items():
            if name in self.model.groups:
                groups += self.read_groups(Xid((name,)), value)
            elif only_maps:
                raise RegistryError("groups_only", subject=str(self.target), name=name)
            else:
                attributes[name] = value
        return Intent(
            mode=self.mode,
            body=None
            if only_maps
            else self.drop_ignored(self.target, _drop_derived(attributes, self.model.groups), "registryid"),
            groups=tuple(groups),
            processed=(*(g.xid for g in groups), *_list_empty_maps(self.target, body)) if only_maps else (),
        )

    def read_groups(self, collection: Xid, entries: JSON) -> list[GroupIntent]:
        return [
            self.read_group(collection / check_entry_id(collection, key), body)
            for key, body in _map_entries(collection, entries)
        ]

    def read_group(self, xid: Xid, body: JSON, *, only_maps: bool = False) -> GroupIntent:
        group_type = self.model.groups[xid.group_type]
        resources: list[ResourceIntent] = []
        attributes: JSONObject = {}
        for name, value in require_object(body, xid, f'"{xid}"').items():
            if name in group_type.resources:
                resources += self.read_resources(xid / name, value)
            elif only_maps:
                raise RegistryError("resources_only", subject=str(xid), name=name)
            else:
                attributes[name] = value
        return GroupIntent(
            xid=xid,
            type=group_type,
            mode=self.mode,
            body=None
            if only_maps
            else self.drop_ignored(xid, _drop_derived(attributes, group_type.resources), f"{group_type.singular}id"),
            resources=tuple(resources),
        )

    def read_resources(self, collection: Xid, entries: JSON) -> list[ResourceIntent]:
        return [
            self.read_resource(collection / check_entry_id(collection, key), body)
            for key, body in _map_entries(collection, entries)
        ]

    def read_resource(self, xid: Xid, body: JSON, *, explicit: bool = False) -> ResourceIntent:
        attributes = dict(require_object(body, xid, f'"{xid}"'))
        meta = attributes.pop("meta", None)
        versions = attributes.pop("versions", None)
        intent = self.make_resource(
            xid,
            attributes=attributes,
            meta=None if meta is None else require_object(meta, xid / "meta", '"meta"'),
            versions=self.read_versions(xid / "versions", versions),
            explicit=explicit,
        )
        return replace(intent, has_versions=True) if versions is not None else intent

    def read_versions(self, collection: Xid, entries: JSON) -> tuple[VersionIntent, ...]:
        return tuple(
            VersionIntent(
                id=check_entry_id(collection, key),
                body=require_object(body, collection / key, f'"{key}"'),
                mode=self.mode,
            )
            for key, body in _map_entries(collection, entries)
        )

    def make_resource(
        self,
        xid: Xid,
        *,
        attributes: JSONObject | None = None,
        document: DocumentBody | None = None,
        meta: JSONObject | None = None,
        versions: tuple[VersionIntent, ...] = (),
        explicit: bool = False,
    ) -> ResourceIntent:
        group = self.model.groups[xid.group_type]
        resource_type = group.resources[xid.resource_type]
        id_name = f"{resource_type.singular}id"
        ids = (id_name, "versionid") if self.target.kind is Kind.VERSION else (id_name,)
        return ResourceIntent(
            xid=xid,
            type=resource_type,
            group=group,
            mode=WriteMode.MERGE if document is not None else self.mode,
            attributes=None if attributes is None else self.drop_ignored(xid, attributes, id_name),
            document=document,
            meta=None if meta is None else self.drop_ignored(xid, meta, id_name, *_DEFAULT_VERSION_ATTRIBUTES),
            versions=tuple(self.drop_ignored_of_version(xid, version, ids) for version in versions),
            explicit=explicit,
        )

    def drop_ignored_of_version(self, resource: Xid, version: VersionIntent, ids: tuple[str, ...]) -> VersionIntent:
        """Return ``version`` without the attributes that the flag ``ignore`` names."""
        body = self.drop_ignored(resource, version.body, *ids)
        return version if body is version.body else replace(version, body=body)

    def drop_ignored(self, xid: Xid, body: JSONObject, *names: str) -> JSONObject:
        """Return ``body`` without the attributes that the flag ``ignore`` names (R205, R206).

        ``names`` are the id attributes and default-version attributes that ``body`` may have. Ids are dropped only if
        ``xid`` is the target. In a request for one Resource every ``<RESOURCE>id`` is the Resource's own, also in its
        meta and Versions.
        """
        ignored = self.command.flags.ignore
        if not ignored:
            return body
        drop: set[str] = {
            name
            for name in ("epoch", *_DEFAULT_VERSION_ATTRIBUTES)
            if name in ignored and (name == "epoch" or name in names)
        }
        if "id" in ignored and xid == self._root:
            drop |= {name for name in names if name not in _DEFAULT_VERSION_ATTRIBUTES}
        return {name: value for name, value in body.items() if name not in drop}

    def wrap(self, *resources: ResourceIntent, group: GroupIntent | None = None, collection: bool = False) -> Intent:
        """Return an intent about Resources of one Group.

        The Group's own attributes stay the same unless ``group`` is passed. With ``collection`` the Resources are
        listed as processed.
        """
        xid = Xid(self.target.parts[:2])
        owner = group or GroupIntent(
            xid=xid, type=self.model.groups[xid.group_type], mode=self.mode, resources=resources
        )
        return Intent(
            mode=self.mode, groups=(owner,), processed=tuple(r.xid for r in owner.resources) if collection else ()
        )

    def read_group_collection(self) -> Intent:
        groups = tuple(self.read_groups(self.target, self.require_body()))
        return Intent(mode=self.mode, groups=groups, processed=tuple(g.xid for g in groups))

    def read_one_group(self) -> Intent:
        only_maps = self.command.method is Method.POST
        body = self.require_body()
        intent = self.wrap(group=self.read_group(self.target, body, only_maps=only_maps), collection=only_maps)
        empty = _list_empty_maps(self.target, body) if only_maps else ()
        return replace(intent, processed=(*intent.processed, *empty)) if empty else intent

    def read_resource_collection(self) -> Intent:
        return self.wrap(*self.read_resources(self.target, self.require_body()), collection=True)

    def read_one_resource(self) -> Intent:
        if self.command.method is Method.POST:
            return self.wrap(self.read_posted_version())
        document = self.command.document
        if document is not None:
            attributes = dict(document.attributes)
            return self.wrap(self.make_resource(self.target, attributes=attributes, document=document, explicit=True))
        return self.wrap(self.read_resource(self.target, self.require_body(), explicit=True))

    def read_posted_version(self) -> ResourceIntent:
        document = self.command.document
        body = dict(document.attributes) if document is not None else dict(self.require_body())
        body.pop("$schema", None)
        versionid = body.get("versionid")
        if versionid is not None:
            versionid = check_entry_id(self.target / "versions", _require_versionid(versionid, self.target))
        mode = WriteMode.MERGE if document is not None else WriteMode.REPLACE
        version = VersionIntent(id=versionid, body=body, mode=mode, document=document, of_resource=True)
        return self.make_resource(self.target, versions=(version,), explicit=True)

    def read_meta(self) -> Intent:
        return self.wrap(self.make_resource(self.target.resource, meta=self.require_body(), explicit=True))

    def read_version_collection(self) -> Intent:
        versions = self.read_versions(self.target, self.require_body())
        intent = self.make_resource(self.target.resource, versions=versions, explicit=True)
        return replace(self.wrap(intent), processed=tuple(self.target / str(v.id) for v in versions))

    def read_one_version(self) -> Intent:
        document = self.command.document
        version = VersionIntent(
            id=self.target.version_id,
            body=dict(document.attributes) if document is not None else self.require_body(),
            mode=WriteMode.MERGE if document is not None else self.mode,
            document=document,
        )
        return self.wrap(self.make_resource(self.target.resource, versions=(version,), explicit=True))


_BY_KIND: Final = {
    Kind.REGISTRY: _IntentReader.read_registry,
    Kind.GROUPS: _IntentReader.read_group_collection,
    Kind.GROUP: _IntentReader.read_one_group,
    Kind.RESOURCES: _IntentReader.read_resource_collection,
    Kind.RESOURCE: _IntentReader.read_one_resource,
    Kind.META: _IntentReader.read_meta,
    Kind.VERSIONS: _IntentReader.read_version_collection,
    Kind.VERSION: _IntentReader.read_one_version,
}


def _map_entries(collection: Xid, entries: JSON) -> list[tuple[str, JSON]]:
    """Return the entries of a nested map. A map that is absent or null has none and changes nothing (R50)."""
    if entries is None:
        return []
    return list(require_object(entries, collection, f'"{collection.parts[-1]}"').items())


def _list_empty_maps(owner: Xid, body: JSONObject) -> tuple[Xid, ...]:
    """Return the collections that a request sends as empty maps, because the response shows them too."""
    return tuple(owner / name for name, entries in body.items() if entries == {})


def _drop_derived(attributes: JSONObject, collections: JSON) -> JSONObject:
    """Return ``attributes`` without the read-only ``<COLLECTION>url`` and ``<COLLECTION>count`` (R50)."""
    derived = {f"{plural}{suffix}" for plural in collections for suffix in ("url", "count")}
    return {name: value for name, value in attributes.items() if name not in derived}


def _require_versionid(value: JSON, subject: Xid) -> str:
    if isinstance(value, str):
        return value
    raise RegistryError(
        "invalid_attribute", subject=str(subject), name="versionid", error_detail="it needs to be a string"
    )
