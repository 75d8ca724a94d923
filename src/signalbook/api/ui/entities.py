"""The page of an entity of any type: its description, attributes, document, and members."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from signalbook.access.base import Action
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.ui.attributes import AttributeValues, Member, Shown, moment
from signalbook.api.ui.comparison import link
from signalbook.api.ui.documents import ShownDocument, render_document
from signalbook.api.ui.explanations import COMPATIBILITIES
from signalbook.api.ui.flow import Flow, build_flow, has_flow
from signalbook.api.ui.listing import (
    ENDPOINTS,
    MOST_SORTED,
    Label,
    Listing,
    build_labels,
    find_creatable,
    list_first_members,
)
from signalbook.api.ui.names import find_names
from signalbook.api.ui.pages import Page, UIRequest, build_crumbs
from signalbook.api.xregistry.requests import explain_dangling_xref
from signalbook.confluent.naming import GROUPS
from signalbook.engine.capabilities import can_compare, is_mutable
from signalbook.engine.read.nodes import NOTHING, Inline
from signalbook.engine.read.pages import parse_sort
from signalbook.engine.read.paths import list_collections
from signalbook.engine.read.view import View, ViewOptions
from signalbook.model import Attribute, AttributeSet, Model
from signalbook.values import JSONObject, format_count, now
from signalbook.xid import Kind, Xid

_SHOWN_MEMBERS: Final = 20
_SHOWN_VERSIONS: Final = 10
_LABELS: Final = 40
_USERS: Final = 10
"""The number of users that a page lists."""
_MAX_USER_LINKS: Final = 200
"""The number of links that a page follows to count the users."""
_TITLE: Final = 200
_MAX_DESCRIPTION_CHARS: Final = 4000
_HEAD: Final = frozenset(
    {
        *("self", "shortself", "xid", "epoch", "name", "description", "documentation", "labels", "icon", "deprecated"),
        *("createdat", "modifiedat"),
    }
)
"""Attributes that are shown in the head of the page or in its sections."""
_OF_RESOURCES: Final = frozenset(
    {
        *("isdefault", "versionid", "meta", "metaurl", "defaultversionid", "defaultversionurl", "defaultversionsticky"),
        *("readonly", "xref", "ancestorid"),
    }
)
"""Attributes shown in the head for Resources and Versions only: in a model, Groups may have attributes with these
names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A fact in the head of an entity's page, such as its id, its default version, or the time of its last change."""

    name: str
    value: Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """An action on an entity, such as a form for callers that may use it. ``href`` is below ``/ui``."""

    text: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLink:
    """An entity that refers to this one. ``words`` describe how an endpoint is used and reached."""

    kind: str
    text: str
    href: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompatibilityRule:
    """The compatibility rule of a Resource; ``name`` is empty if it has none.

    ``href`` is the URL of the form that changes it, empty for callers that may not.
    """

    name: str
    meaning: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The head of an entity's page. ``deprecated`` has the details of a deprecation, ``compatibility`` is None for
    entities that have no compatibility rule and need none.

    ``more_users`` is the number of further entities that use the entity. ``dangling`` is the reason why a cross
    reference shows nothing. ``related`` is True if the entity has a page of relations, ``tried`` if a change of its
    document can be tried. ``compared`` are links from a Version to its comparisons with its ancestor and with the
    default Version.
    """

    kind: str
    title: str
    xid: str
    description: str
    documentation: Shown | None
    labels: tuple[Label, ...]
    deprecated: tuple[Member, ...] | None
    compatibility: CompatibilityRule | None
    dangling: str
    facts: tuple[Fact, ...]
    edits: tuple[Edit, ...]
    related: bool
    tried: bool
    users: tuple[UserLink, ...]
    more_users: int
    compared: tuple[Edit, ...]
    json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPage:
    """The content of a page for an entity without additional sections."""

    entity: EntityContent


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityContent:
    """The common content of an entity's page: head, ``attributes``, those of its ``meta``, document, members.

    ``through`` are the message groups whose messages pass through an endpoint. ``flow`` is the flow of events through
    a message group or endpoint.
    """

    heading: Heading
    attributes: tuple[Member, ...]
    meta: tuple[Member, ...]
    document: ShownDocument | None
    versions: Listing | None
    listings: tuple[Listing, ...]
    through: tuple[UserLink, ...]
    flow: Flow | None


def page(view: View, request: UIRequest, xid: Xid) -> Page:
    """Return the page of a Group, a Resource, its meta or a Version."""
    entity = build_entity_content(view, request, xid)
    content = EntityPage(entity=entity)
    return Page(
        template="entity.html",
        title=entity.heading.title,
        content=content,
        crumbs=build_crumbs(xid),
        live=has_flow(xid),
    )


def build_entity_content(
    view: View, request: UIRequest, xid: Xid, *, leave_out: frozenset[str] = frozenset()
) -> EntityContent:
    """Return the content of an entity's page. The attributes in ``leave_out`` are shown in other sections."""
    entity = _read_entity(view, request, xid)
    values = AttributeValues(model=view.model, root=request.base_url)
    return EntityContent(
        heading=build_heading(view, values, xid, entity, request.settings.confluent_group),
        attributes=_render_attributes(view.model, values, xid, entity, leave_out),
        meta=_render_meta(view.model, values, xid, entity),
        document=load_document(view, xid),
        versions=_list_versions(view, xid, entity),
        listings=tuple(_list_members(view, xid)),
        through=tuple(_list_message_groups(view, values, xid, entity)),
        flow=build_flow(view, request, now(), xid) if has_flow(xid) else None,
    )


def _read_entity(view: View, request: UIRequest, xid: Xid) -> JSONObject:
    inline = Inline(names={"meta": NOTHING}) if xid.kind is Kind.RESOURCE else NOTHING
    return view.render_entity(xid, ViewOptions(base_url=request.base_url, inline=inline))


def build_heading(view: View, values: AttributeValues, xid: Xid, entity: JSONObject, default_group: str) -> Heading:
    """Return the head of an entity's page; ``entity`` is its JSON, a Resource with its meta.

    ``default_group`` is the Group of the default context of the Confluent API.
    """
    meta = entity.get("meta", {}) if xid.kind is Kind.RESOURCE else {}
    deprecated = entity.get("deprecated", meta.get("deprecated"))
    documentation = str(entity.get("documentation", ""))
    kind = view.model.resource_type(xid) or view.model.group_type(xid)
    singular = kind.singular if kind is not None else "registry"
    collection = xid.resource.parent if xid.resource_id else xid.parent
    users = tuple(_list_users(view, xid))
    return Heading(
        kind=f"{singular} {xid.kind}" if xid.kind in (Kind.VERSION, Kind.META) else singular,
        title=build_title(xid, str(entity.get("name") or ""))[:_TITLE],
        xid=str(xid),
        description=str(entity.get("description", ""))[:_MAX_DESCRIPTION_CHARS],
        documentation=values.render(documentation, _URL) if documentation else None,
        labels=build_labels({**meta.get("labels", {}), **entity.get("labels", {})}, collection, _LABELS),
        deprecated=None if deprecated is None else _render_deprecation(view.model, values, xid, deprecated),
        compatibility=_find_compatibility_rule(view, xid, entity, meta, default_group),
        dangling=explain_dangling_xref(view, xid),
        facts=tuple(_list_facts(xid, entity, meta)),
        edits=tuple(_list_edits(view, xid, meta)),
        related=xid.kind is not Kind.META,
        tried=view.model.documented_type(xid) is not None,
        users=users[:_USERS],
        more_users=len(users[_USERS:]),
        compared=tuple(_list_comparisons(view, xid, entity)),
        json=_build_json_path(view.model, xid),
    )


def build_title(xid: Xid, name: str = "") -> str:
    """Return the title of an entity. The title of a Version or meta includes the name or id of its Resource."""
    if xid.kind is Kind.VERSION:
        return f"{name or xid.resource_id}, version {xid.id}"
    if xid.kind is Kind.META:
        return f"{name or xid.resource_id}, for all versions"
    return name or xid.id


def _render_deprecation(model: Model, values: AttributeValues, xid: Xid, deprecated: JSONObject) -> tuple[Member, ...]:
    """Return the details of a deprecation, with dates and links as the model has them."""
    kind = model.resource_type(xid)
    attribute_set = model.groups[xid.group_type].attributes if kind is None else kind.metaattributes
    attribute = attribute_set.active({"deprecated": deprecated}).get("deprecated")
    details = attribute.attributes if attribute is not None else None
    members = values.members(deprecated, details.active(deprecated) if details is not None else {}, ())
    return tuple(replace(member, type="", description="") for member in members)


def _list_users(view: View, xid: Xid) -> Iterator[UserLink]:
    """Yield the entities that refer to a Group or Resource, endpoints first, because they carry messages."""
    if xid.kind not in (Kind.GROUP, Kind.RESOURCE):
        return
    user_xids = [dependent.xid for dependent in view.find_direct_dependents(xid, _MAX_USER_LINKS)]
    rows = view.reader.get_many(
        [user for user in user_xids if user.group_type == ENDPOINTS and user.kind is Kind.GROUP]
    )
    user_xids.sort(key=lambda user: user not in rows)
    names = find_names(view, set(user_xids[:_USERS]))
    for user in user_xids:
        kind = view.model.resource_type(user) or view.model.group_type(user)
        attributes = rows[user].attributes if user in rows else {}
        usage = attributes.get("usage")
        words = (str(attributes.get("protocol") or ""), *(map(str, usage) if isinstance(usage, list) else ()))
        yield UserLink(
            kind=kind.singular if kind is not None else "entity",
            text=build_title(user, names.get(user, ""))[:_TITLE],
            href=str(user),
            words=", ".join(word[:_TITLE] for word in words if word),
        )


def _list_comparisons(view: View, xid: Xid, entity: JSONObject) -> Iterator[Edit]:
    if xid.kind is not Kind.VERSION:
        return
    ancestor, resource = str(entity.get("ancestorid", xid.id)), view.reader.get(xid.resource)
    if ancestor != xid.id:
        yield Edit(text=f"What changed since version {ancestor}", href=link(xid.resource, ancestor, xid.id))
    default = None if resource is None else resource.defaultversionid
    if default not in (None, xid.id):
        href = link(xid.resource, xid.id, str(default))
        yield Edit(text=f"What the default version, {default}, has instead", href=href)


def _list_message_groups(view: View, values: AttributeValues, xid: Xid, entity: JSONObject) -> Iterator[UserLink]:
    """Yield the existing message groups of an endpoint, each with its number of messages."""
    references = entity.get("messagegroups")
    if xid.kind is not Kind.GROUP or xid.group_type != ENDPOINTS or not isinstance(references, list):
        return
    links = [values.link(str(reference)) for reference in references[:_USERS]]
    rows = view.reader.get_many([Xid.parse(link) for link in links if link is not None])
    counts = view.reader.counts([row.key for row in rows.values()])
    for group, row in rows.items():
        count = counts.get((row.key, "messages"), 0)
        yield UserLink(
            kind="message group",
            text=build_title(group, str(row.attributes.get("name") or ""))[:_TITLE],
            href=str(group),
            words=format_count(count, "message"),
        )


def _list_facts(xid: Xid, entity: JSONObject, meta: JSONObject) -> Iterator[Fact]:
    yield Fact(name="id", value=Shown(kind="text", text=xid.id))
    if "name" in entity and xid.kind is not Kind.META:
        yield Fact(name="name", value=Shown(kind="text", text=str(entity["name"])[:_TITLE]))
    if (version := meta.get("defaultversionid")) is not None:
        yield Fact(name="default version", value=Shown(kind="link", text=version, href=f"{xid}/versions/{version}"))
    if meta.get("defaultversionsticky"):
        yield Fact(name="stays", value=Shown(kind="text", text="the default, whatever is newer"))
    if xid.kind is Kind.VERSION:
        ancestor = str(entity.get("ancestorid", ""))
        yield Fact(name="ancestor", value=Shown(kind="link", text=ancestor, href=f"{xid.parent}/{ancestor}"))
        default = "yes" if entity.get("isdefault") else "no"
        yield Fact(name="default version", value=Shown(kind="text", text=default))
    target = entity.get("xref") if xid.kind is Kind.META else meta.get("xref")
    if target is not None:
        yield Fact(name="refers to", value=Shown(kind="link", text=str(target), href=str(target)))
    for name, text in (("createdat", "created"), ("modifiedat", "changed")):
        if name in entity:
            yield Fact(name=text, value=moment(str(entity[name])))
    if "epoch" in entity:
        yield Fact(name="epoch", value=Shown(kind="text", text=str(entity["epoch"])))


def _list_edits(view: View, xid: Xid, meta: JSONObject) -> Iterator[Edit]:
    """Yield links to the forms that change an entity or create Resources in a Group, as far as the caller may use them.

    ``meta`` is the meta of a Resource, empty for other entities.
    """
    if _can_change(view, xid, meta):
        yield from _list_changes(view.model, xid, meta)
    for plural, kind in view.model.groups[xid.group_type].resources.items() if xid.kind is Kind.GROUP else ():
        if find_creatable(view, xid / plural, kind.singular):
            yield Edit(text=f"New {kind.singular}", href=f"/-/edit{xid}/{plural}")


def _can_change(view: View, xid: Xid, meta: JSONObject) -> bool:
    mutable = is_mutable(view.capabilities, "entities") and not (meta.get("readonly") or meta.get("xref"))
    return mutable and view.access.may(Action.UPDATE, xid.resource)


def can_have_rule(model: Model, xid: Xid) -> bool:
    """Return True if Versions are compared by a rule in the Resource ``xid``, or in Resources of its collection."""
    resource_type = model.resource_type(xid)
    return resource_type is not None and resource_type.validatecompatibility


def _find_compatibility_rule(
    view: View, xid: Xid, entity: JSONObject, meta: JSONObject, default_group: str
) -> CompatibilityRule | None:
    """Return the compatibility rule of a Resource.

    None if it has no rule and needs none: its Versions cannot be compared, or are compared by a level of the Confluent
    API.
    """
    if not meta or not can_have_rule(view.model, xid):
        return None
    name, format_name = str(meta.get("compatibility", "")), str(entity.get("format", ""))
    comparable = any(can_compare(view.capabilities, format_name, rule_name) for rule_name in COMPATIBILITIES)
    if not name and (not comparable or _has_confluent_level(view, xid, entity, default_group)):
        return None
    href = f"/-/edit{xid}/meta#field-compatibility" if _can_change(view, xid, meta) else ""
    return CompatibilityRule(name=name, meaning=COMPATIBILITIES.get(name.casefold(), ""), href=href)


def _has_confluent_level(view: View, xid: Xid, entity: JSONObject, default_group: str) -> bool:
    """Return True if a level that was set through the Confluent API applies to the Versions of a Resource."""
    return xid.group_type == GROUPS and Subjects(view, default_group).find_stated_rule(xid, entity) is not None


def _list_changes(model: Model, xid: Xid, meta: JSONObject) -> Iterator[Edit]:
    """Yield the forms that change an entity."""
    if xid.kind is Kind.RESOURCE:
        yield Edit(text="Edit", href=f"/-/edit{xid}/versions/{meta['defaultversionid']}")
        yield Edit(text="New version", href=f"/-/edit{xid}/versions")
        text = f"{'Compatibility, default' if can_have_rule(model, xid) else 'Default'} version and deprecation"
        yield Edit(text=text, href=f"/-/edit{xid}/meta")
    else:
        yield Edit(text="Edit", href=f"/-/edit{xid}")


def _build_json_path(model: Model, xid: Xid) -> str:
    """Return the path of the entity's JSON below the root of the registry."""
    return f"{xid}$details" if model.documented_type(xid) is not None else str(xid)


def _render_attributes(
    model: Model, values: AttributeValues, xid: Xid, entity: JSONObject, leave_out: frozenset[str]
) -> tuple[Member, ...]:
    attribute_set = find_attributes(model, xid)
    return values.members(entity, attribute_set.active(entity), _list_left_out(model, xid) | leave_out)


def find_attributes(model: Model, xid: Xid) -> AttributeSet:
    """Return the model's attributes of an entity."""
    kind = model.resource_type(xid)
    if kind is None:
        return model.groups[xid.group_type].attributes
    return kind.metaattributes if xid.kind is Kind.META else kind.attributes


def _list_left_out(model: Model, xid: Xid) -> set[str]:
    """Return names that are no attributes of the model, or are shown elsewhere on the page."""
    kind = model.resource_type(xid)
    names = list_collections(model, xid.parts[0::2]) if xid.kind in (Kind.GROUP, Kind.RESOURCE) else ()
    derived = {f"{name}{suffix}" for name in names for suffix in ("", "url", "count")}
    ids = {f"{kind.singular}id"} if kind is not None else {f"{model.groups[xid.group_type].singular}id"}
    return {*_HEAD, *derived, *ids, *(() if kind is None else _OF_RESOURCES)}


def _render_meta(model: Model, values: AttributeValues, xid: Xid, entity: JSONObject) -> tuple[Member, ...]:
    kind = model.resource_type(xid)
    meta = entity.get("meta") if xid.kind is Kind.RESOURCE else None
    if kind is None or meta is None:
        return ()
    return values.members(meta, kind.metaattributes.active(meta), {*_HEAD, *_OF_RESOURCES, f"{kind.singular}id"})


def load_document(view: View, xid: Xid) -> ShownDocument | None:
    """Return the document of a Resource or Version, or None if it has no document."""
    if view.model.documented_type(xid) is None:
        return None
    document = view.load_document(xid, ViewOptions())
    if document.is_dangling:
        return None
    if document.url is not None:
        return ShownDocument(note="It is kept elsewhere.", away=document.url)
    contenttype, format_name = (
        (document.contenttype or "")[:_TITLE],
        str(document.attributes.get("format", ""))[:_TITLE],
    )
    return render_document(document.content, contenttype=contenttype, format=format_name)


def _list_members(view: View, xid: Xid) -> Iterator[Listing]:
    """Yield the first Resources of a Group, of each type."""
    for plural in list_collections(view.model, xid.parts[0::2]) if xid.kind is Kind.GROUP else ():
        yield list_first_members(view, xid / plural, _SHOWN_MEMBERS)


def _list_versions(view: View, xid: Xid, entity: JSONObject) -> Listing | None:
    """Return the newest Versions of a Resource."""
    if xid.kind is not Kind.RESOURCE or "versionscount" not in entity:
        return None
    below = xid / "versions"
    sort = "createdat=desc" if entity["versionscount"] <= MOST_SORTED else None
    return list_first_members(view, below, _SHOWN_VERSIONS, parse_sort(sort, below, view.model, subject=str(below)))


_URL: Final = Attribute(name="documentation", type="url", definition={}, check=lambda value, _: value, branches={})
