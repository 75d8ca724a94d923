"""The compiled model: the Group and Resource types, and the attributes of their entities (core section (b))."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from signalbook import values
from signalbook.errors import RegistryError
from signalbook.model.attributes import AttributeSet, compile_attributes
from signalbook.model.constraints import Constraints, Ground, compile_constraints, narrow
from signalbook.model.findings import ModelFinding, ModelPosition, ValueFinding, model_findings_to_error
from signalbook.model.language import DocumentType, FullModel, compile_typemap, complete
from signalbook.model.paths import DotPath, format_path, pick
from signalbook.model.sources import MAX_NODES, Loader, expand
from signalbook.model.spec_attributes import (
    SpecTable,
    group_attributes,
    meta_attributes,
    registry_attributes,
    resource_attributes,
    version_attributes,
)
from signalbook.model.types import SCALARS, EntityTypes
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind, Xid


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResourceType:
    """A Resource type with all its aspects. If it is imported into another Group type, both share the same object.

    ``origin`` is the path where it is defined (such as ``/messagegroups/messages``). ``attributes`` are those of
    Versions. ``type_of`` returns the form in which a document with a content type is shown in JSON.
    """

    origin: str
    plural: str
    singular: str
    maxversions: int
    setversionid: bool
    hasdocument: bool
    versionmode: str
    singleversionroot: bool
    validateformat: bool
    validatecompatibility: bool
    strictvalidation: bool
    attributes: AttributeSet
    resourceattributes: AttributeSet
    metaattributes: AttributeSet
    matchversions: tuple[DotPath, ...]
    type_of: Callable[[str], DocumentType]
    document: JSONObject

    def mismatched(self, versions: Iterable[JSONObject]) -> tuple[str, ...]:
        """Return the paths of ``matchversions`` attributes whose values differ between ``versions`` (core R81).

        Attributes that the specification calls case-insensitive (``format``) compare without regard to case.
        """
        versions = list(versions)
        return tuple(
            format_path(path)
            for path in self.matchversions
            if len({values.canonical_json(self._comparable(path, pick(version, path))) for version in versions}) > 1
        )

    def _comparable(self, path: DotPath, value: JSON) -> JSON:
        caseless = len(path) == 1 and self.attributes[str(path[0])].caseless
        return value.casefold() if caseless and isinstance(value, str) else value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupType:
    """A Group type. ``constraints`` are those of the type. A Group may narrow them further."""

    plural: str
    singular: str
    attributes: AttributeSet
    resources: Mapping[str, ResourceType]
    constraints: Constraints
    document: JSONObject
    ground: Ground

    def narrowed(self, instance: JSONObject | None) -> tuple[Constraints, tuple[ValueFinding, ...]]:
        """Return the constraints in force in a Group whose own (checked) constraints are ``instance``, and findings
        about these.

        With findings, the constraints of the type are returned.
        """
        if not instance:
            return self.constraints, ()
        findings: list[ModelFinding] = []
        merged = narrow(
            self.document.get("constraints", {}),
            instance,
            self.ground,
            ModelPosition(findings=findings, path=("constraints",)),
        )
        if findings:
            return self.constraints, tuple(
                ValueFinding(code="invalid_attribute", path=format_path(finding.path), message=finding.message)
                for finding in findings
            )
        return compile_constraints(merged), ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """A compiled model source. Immutable, so it can be shared between threads."""

    source: JSONObject
    document: JSONObject
    types: EntityTypes
    attributes: AttributeSet
    groups: Mapping[str, GroupType]
    fingerprint: str = field(repr=False)

    def group_type(self, xid: Xid | str) -> GroupType | None:
        """Return the Group type of ``xid``, which may also be a plural name. None if there is no such type."""
        return self.groups.get(xid.group_type if isinstance(xid, Xid) else xid)

    def resource_type(self, xid: Xid | str) -> ResourceType | None:
        """Return the Resource type of ``xid``, which may also be a text such as ``/schemagroups/schemas``, or None."""
        if isinstance(xid, Xid):
            group, resource = xid.group_type, xid.resource_type
        else:
            group, _, resource = xid.removeprefix("/").partition("/")
        group_type = self.groups.get(group)
        return group_type.resources.get(resource) if group_type else None

    def documented_type(self, xid: Xid) -> ResourceType | None:
        """Return the type of a Resource or Version if its type has documents, else None."""
        resource_type = self.resource_type(xid) if xid.kind in (Kind.RESOURCE, Kind.VERSION) else None
        return resource_type if resource_type is not None and resource_type.hasdocument else None


def compile_model(source: JSONObject, *, include: Loader | None = None, base: str = "") -> Model:
    """Compile a model source (core/model.md). A ``$schema`` at the top is allowed.

    ``include`` fetches documents named by ``$include``. References are resolved against the including document, and
    ``base`` is the URL or path of the source itself. Without ``include`` only references into the source itself work.
    Raises one ``RegistryError`` with every finding and its path. The first finding decides whether it is
    ``model_error``, ``model_required_true``, ``model_scalar_default`` or ``invalid_attribute``.
    """
    if not isinstance(source, dict):
        raise RegistryError("model_error", subject="/model", error_detail="a model source is an object")
    text = values.dump_json(source)
    # Each node takes at least one byte, so a source of at most this size without includes cannot be too large.
    if len(text) <= MAX_NODES and b'"$include' not in text:
        return _compile_text(text, text)
    expanded, findings = expand(source, include, base)
    if not findings:
        return _compile_text(text, values.dump_json(expanded))
    complete(expanded, ModelPosition(findings=findings))
    raise model_findings_to_error(findings)


# A model is compiled once to check it and again after it is read from the store, and different stores mostly have the
# same model. Compiling the default model takes a tenth of a second.
@lru_cache(maxsize=4)
def _compile_text(source: bytes, expanded: bytes) -> Model:
    findings: list[ModelFinding] = []
    full = complete(values.parse_json(expanded), ModelPosition(findings=findings))
    if findings:
        raise model_findings_to_error(findings)
    return _build_model(values.parse_json(source), full)


def _build_model(source: JSONObject, full: FullModel) -> Model:
    """Return the compiled model. ``source`` must not be shared with others; ``full`` is its full model."""
    groups: JSONObject = full.document.get("groups", {})
    resources: dict[str, ResourceType] = {}
    for plural, group in groups.items():
        for name, resource in group.get("resources", {}).items():
            origin = full.types.groups[plural][name]
            if origin not in resources:
                resources[origin] = _build_resource_type(origin, resource, full.types)
    return Model(
        source=source,
        document=full.document,
        types=full.types,
        attributes=compile_attributes(full.document["attributes"], full.types, spec=registry_attributes(groups)),
        groups={plural: _build_group_type(group, resources, full.types) for plural, group in groups.items()},
        fingerprint=values.fingerprint(full.document),
    )


def _build_group_type(document: JSONObject, resources: Mapping[str, ResourceType], types: EntityTypes) -> GroupType:
    plural, singular = document["plural"], document["singular"]
    own_resources = {name: resources[types.groups[plural][name]] for name in document.get("resources", {})}
    versions = {name: resource["attributes"] for name, resource in document.get("resources", {}).items()}
    return GroupType(
        plural=plural,
        singular=singular,
        attributes=compile_attributes(document["attributes"], types, spec=group_attributes(singular, own_resources)),
        resources=own_resources,
        constraints=compile_constraints(document.get("constraints", {})),
        document=document,
        ground=Ground(group=document["attributes"], resources=versions, types=types),
    )


def _build_resource_type(origin: str, document: JSONObject, types: EntityTypes) -> ResourceType:
    singular = document["singular"]

    def compiled(name: str, spec: SpecTable) -> AttributeSet:
        return compile_attributes(document[name], types, spec=spec)

    return ResourceType(
        origin=origin,
        plural=document["plural"],
        singular=singular,
        maxversions=document["maxversions"],
        setversionid=document["setversionid"],
        hasdocument=document["hasdocument"],
        versionmode=document["versionmode"],
        singleversionroot=document["singleversionroot"],
        validateformat=document["validateformat"],
        validatecompatibility=document["validatecompatibility"],
        strictvalidation=document["strictvalidation"],
        attributes=compiled("attributes", version_attributes(singular, hasdocument=document["hasdocument"])),
        resourceattributes=compiled("resourceattributes", resource_attributes(singular)),
        metaattributes=compiled("metaattributes", meta_attributes(singular)),
        matchversions=tuple(_find_matching(document["attributes"], ())),
        type_of=compile_typemap(document.get("typemap", {})),
        document=document,
    )


def _find_matching(definitions: JSONObject, path: DotPath) -> Iterable[DotPath]:
    for name, definition in definitions.items():
        if definition.get("matchversions") and definition["type"] in SCALARS:
            yield (*path, name)
        yield from _find_matching(definition.get("attributes", {}), (*path, name))
