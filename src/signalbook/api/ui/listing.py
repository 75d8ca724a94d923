"""Pages of collections: filtered by text or label, sorted, with the engine's cursors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final
from urllib.parse import urlencode

from signalbook.access.base import Action
from signalbook.api.kernel.paging import PageCursor
from signalbook.api.ui.attributes import Shown, moment
from signalbook.api.ui.comparison import VersionChoice, build_choice, link
from signalbook.api.ui.pages import Page, UIRequest, build_crumbs
from signalbook.engine.capabilities import is_mutable
from signalbook.engine.read.filters import Filter, FilterExpression, Operand, Operator
from signalbook.engine.read.nodes import NOTHING, EntityNode, Inline
from signalbook.engine.read.pages import ListedPage, PageRequest, Position, Sort, parse_sort
from signalbook.engine.read.view import View, ViewOptions
from signalbook.model import GroupType, Model, ResourceType
from signalbook.values import JSON, JSONObject, format_count, format_timestamp
from signalbook.xid import Kind, Xid

ENDPOINTS: Final = "endpoints"
"""The Group type of the default model whose Groups can use the messages of message groups."""
PAGE: Final = 50
MOST_SORTED: Final = 20_000
"""The maximum number of members of a collection that can be sorted, since each page has to read all of them."""
_LONGEST_QUERY: Final = 200
_LINE: Final = 240
_WORD: Final = 40
_CHIPS: Final = 4
_HISTORY: Final = 25
_WORD_ATTRIBUTES: Final = ("envelope", "protocol", "format", "dataschemaformat", "usage")
"""Short attributes that distinguish members. Each is shown as a column if the model has it."""
_SORTS: Final = {
    Kind.GROUPS: (("", "by id"), ("name", "by name"), ("modifiedat=desc", "newest change first")),
    Kind.RESOURCES: (("", "by id"), ("name", "by name"), ("modifiedat=desc", "newest change first")),
    Kind.VERSIONS: (("createdat=desc", "newest first"), ("", "by id"), ("createdat", "oldest first")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A label of an entity. ``href`` lists the members of the collection with the same label."""

    name: str
    value: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A member of a collection. ``words`` are its columns, ``counts`` the numbers of its members.

    ``ancestor`` is the id of a Version's ancestor, if that is another Version, and ``compared`` the path of their
    comparison.
    """

    href: str
    id: str
    name: str
    description: str
    marks: tuple[str, ...]
    labels: tuple[Label, ...]
    words: tuple[str, ...]
    counts: tuple[tuple[str, str], ...]
    changed: Shown
    ancestor: str = ""
    compared: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A sort order that the reader can choose."""

    value: str
    text: str
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """A change of a Resource or its Versions: author, action and time."""

    when: Shown
    who: str
    action: str
    xids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page of a collection. ``time`` is the heading of the last column. ``pages`` are links to other pages.

    ``creates`` is the kind of member that the form of the collection creates; it is empty without the right to do so.
    ``choice`` is the form to compare two Versions. ``history`` has the latest changes with their authors, for callers
    that may see them.
    """

    plural: str
    singular: str
    description: str
    href: str
    json: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    total: int
    time: str = "changed"
    text: str = ""
    label: str = ""
    sorts: tuple[Choice, ...] = ()
    unsortable: bool = False
    pages: tuple[tuple[str, str], ...] = ()
    choice: VersionChoice | None = None
    creates: str = ""
    history: tuple[HistoryLine, ...] = ()

    @property
    def filtered(self) -> bool:
        """True if members are left out."""
        return bool(self.text or self.label)


def page(view: View, request: UIRequest, xid: Xid) -> Page:
    """Return the page of a collection."""
    content = _build_listing(view, request, xid)
    return Page(template="listing.html", title=content.plural, content=content, crumbs=build_crumbs(xid))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """The selection of a collection in a request."""

    text: str
    label: str
    sort: str

    @classmethod
    def of(cls, request: UIRequest, xid: Xid, count: int) -> _Selection:
        choices = [value for value, _ in _SORTS[xid.kind]] if count <= MOST_SORTED else [""]
        sort = request.query.get("sort", choices[0])
        return cls(
            text=request.query.get("q", "").strip()[:_LONGEST_QUERY],
            label=request.query.get("label", "").strip()[:_LONGEST_QUERY],
            sort=sort if sort in choices else choices[0],
        )

    def scope(self, xid: Xid) -> list[JSON]:
        """Return the values that a cursor is valid for."""
        return ["ui", str(xid), self.text, self.label, self.sort]

    def query(self) -> Iterator[tuple[str, str]]:
        """Yield the parameters of a URL."""
        for name, value in (("q", self.text), ("label", self.label), ("sort", self.sort)):
            if value:
                yield name, value


def _build_listing(view: View, request: UIRequest, xid: Xid) -> Listing:
    count = int(view.render_entity(xid.owner, ViewOptions()).get(f"{xid.parts[-1]}count", 0))
    selection = _Selection.of(request, xid, count)
    place = _choose_page(request, xid, selection)
    chosen = _build_filter(xid, view.model, selection)
    sort = parse_sort(selection.sort or None, xid, view.model, subject=request.subject)
    listed = _load_members(view, xid, place, chosen, sort)
    rows = _read_members(view, xid, listed)
    total = listed.total if listed.total is not None else place.total
    rendered = _render_listing(view.model, xid, rows, len(rows) if total is None else total)
    sorts = tuple(Choice(value=v, text=t, chosen=v == selection.sort) for v, t in _SORTS[xid.kind])
    return replace(
        rendered,
        text=selection.text,
        label=selection.label,
        sorts=sorts,
        unsortable=count > MOST_SORTED,
        pages=_list_pages(xid, selection, listed),
        creates=find_creatable(view, xid, rendered.singular),
        choice=build_choice(view, xid.owner) if xid.kind is Kind.VERSIONS and count > 1 else None,
        history=_list_history(view, xid.owner) if xid.kind is Kind.VERSIONS else (),
    )


def find_creatable(view: View, collection: Xid, singular: str) -> str:
    """Return the kind of entity that the form of a collection creates, or "" without the right to create one."""
    if collection.kind is Kind.VERSIONS or not is_mutable(view.capabilities, "entities"):
        return ""
    return singular if view.access.allows_somewhere(Action.CREATE, collection) else ""


def _list_history(view: View, of: Xid) -> tuple[HistoryLine, ...]:
    return tuple(
        HistoryLine(
            when=moment(format_timestamp(entry.time)),
            who=entry.who[:_LINE],
            action=entry.action,
            xids=tuple(xid for xid in entry.xids if f"{xid}/".casefold().startswith(f"{of}/".casefold()))[:_CHIPS],
        )
        for entry in view.list_audit_entries(of, _HISTORY)
    )


def list_first_members(view: View, xid: Xid, most: int, sort: Sort | None = None) -> Listing:
    """Return the first few members of a collection, to show them with their owner."""
    listed = _load_members(view, xid, PageRequest(limit=most), None, sort)
    rows = _read_members(view, xid, listed)
    return _render_listing(view.model, xid, rows, len(rows) if listed.total is None else listed.total)


def _load_members(
    view: View, xid: Xid, place: PageRequest, chosen: Filter | None, sort: Sort | None
) -> ListedPage[EntityNode]:
    return view.list_members(xid, ViewOptions(filter=chosen, sort=sort), place)


def _read_members(view: View, xid: Xid, listed: ListedPage[EntityNode]) -> list[JSONObject]:
    inline = Inline(names={"meta": NOTHING}) if xid.kind is Kind.RESOURCES else NOTHING
    return list(view.render_members(xid, listed, ViewOptions(inline=inline)).values())


def _render_listing(model: Model, xid: Xid, rows: list[JSONObject], total: int) -> Listing:
    kind = find_member_type(model, xid)
    columns = tuple(word for word in _WORD_ATTRIBUTES if word in kind.attributes and any(word in row for row in rows))
    return Listing(
        plural=xid.parts[-1],
        singular="version" if xid.kind is Kind.VERSIONS else kind.singular,
        description=str(kind.document.get("description", "")) if xid.kind is not Kind.VERSIONS else "",
        href=str(xid),
        json=str(xid),
        columns=columns,
        rows=tuple(_render_row(xid, row, columns, kind) for row in rows),
        total=total,
        time="created" if xid.kind is Kind.VERSIONS else "changed",
    )


def find_member_type(model: Model, collection: Xid) -> GroupType | ResourceType:
    """Return the type of the members of a collection; for Versions the type of their Resource."""
    group = model.groups[collection.group_type]
    return group.resources[collection.resource_type] if collection.resource_type else group


def _find_id_name(model: Model, collection: Xid) -> str:
    return "versionid" if collection.kind is Kind.VERSIONS else f"{find_member_type(model, collection).singular}id"


def _render_row(xid: Xid, member: JSONObject, columns: Iterable[str], entity_type: GroupType | ResourceType) -> Row:
    own_id = str(member.get("versionid" if xid.kind is Kind.VERSIONS else f"{entity_type.singular}id", ""))
    meta = member.get("meta", {}) if xid.kind is Kind.RESOURCES else {}
    counts = ((name.removesuffix("count"), number) for name, number in member.items() if name.endswith("count"))
    ancestor = str(member.get("ancestorid", own_id)) if xid.kind is Kind.VERSIONS else own_id
    return Row(
        href=f"{xid}/{own_id}",
        id=own_id,
        name=str(member.get("name", ""))[:_LINE],
        description=str(member.get("description", ""))[:_LINE],
        marks=_list_marks(xid, member, meta),
        labels=build_labels({**meta.get("labels", {}), **member.get("labels", {})}, xid, _CHIPS),
        words=tuple(_format_word(member.get(word, "")) for word in columns),
        counts=tuple((name, _count(xid, number, member)) for name, number in counts if isinstance(number, int)),
        changed=moment(str(member.get("createdat" if xid.kind is Kind.VERSIONS else "modifiedat", ""))),
        ancestor="" if ancestor == own_id else ancestor,
        compared="" if ancestor == own_id else link(xid.owner, ancestor, own_id),
    )


def _format_word(value: JSON) -> str:
    """Return the text of a column for an attribute, which may have several values."""
    return (", ".join(map(str, value)) if isinstance(value, list) else str(value))[:_WORD]


def _count(xid: Xid, number: int, member: JSONObject) -> str:
    """Return the number of members as text. For an endpoint without messages of its own, return the number of its
    message groups instead."""
    through = member.get("messagegroups")
    if number or xid.group_type != ENDPOINTS or not isinstance(through, list) or not through:
        return str(number)
    return f"of {format_count(len(through), 'group')}"


def _list_marks(xid: Xid, member: JSONObject, meta: JSONObject) -> tuple[str, ...]:
    deprecated = "deprecated" in member or "deprecated" in meta
    default = xid.kind is Kind.VERSIONS and member.get("isdefault")
    return ("deprecated",) * bool(deprecated) + ("default",) * bool(default)


def build_labels(label_values: JSONObject, collection: Xid, most: int) -> tuple[Label, ...]:
    """Return the first labels of a member of a collection."""
    return tuple(
        Label(
            name=str(name),
            value=str(value)[:_LINE],
            href=f"{collection}?{urlencode({'label': f'{name}={value}'[:_LONGEST_QUERY]})}",
        )
        for name, value in islice(label_values.items(), most)
    )


def _build_filter(xid: Xid, model: Model, selection: _Selection) -> Filter | None:
    """Return a filter by label, and by text in id, name or description; None if neither is requested."""
    if not (selection.text or selection.label):
        return None
    name, _, value = selection.label.partition("=")
    labelled = (_build_equal(xid, ("labels", name), value.replace("*", r"\*")),) if selection.label else ()
    if not selection.text:
        return Filter((labelled,))
    text = f"*{selection.text.replace('*', chr(92) + '*')}*"
    return Filter(
        tuple(
            (_build_equal(xid, (attribute_name,), text), *labelled)
            for attribute_name in (_find_id_name(model, xid), "name", "description")
        )
    )


def _build_equal(xid: Xid, steps: tuple[str, ...], text: str) -> FilterExpression:
    return FilterExpression(
        types=(xid.parts[-1],),
        steps=steps,
        operator=Operator.EQUAL,
        operand=Operand(text),
        timestamp=False,
        ending=f"={text}",
    )


def _choose_page(request: UIRequest, xid: Xid, selection: _Selection) -> PageRequest:
    """Return the requested page. Raises ``bad_request`` for a cursor of another collection."""
    text = request.query.get("cursor", "")
    if not text:
        return PageRequest(limit=PAGE)
    form = tuple[bool, str, JSON] | bool
    cursor = PageCursor.read(text, selection.scope(xid), form, subject=request.subject, advice="begin again without it")
    place = cursor.after if isinstance(cursor.after, tuple) else None
    return PageRequest(
        limit=PAGE,
        after=Position(id=place[1], value=place[2]) if place else None,
        total=cursor.total,
        backward=place[0] if place else cursor.after,
    )


def _list_pages(xid: Xid, selection: _Selection, listed: ListedPage[EntityNode]) -> tuple[tuple[str, str], ...]:
    """Return links to other pages, with their words."""
    places: list[tuple[str, JSON]] = []
    if listed.preceding is not None:
        places += [("first", False), ("previous", [True, listed.preceding.id, listed.preceding.value])]
    if listed.following is not None:
        places += [("next", [False, listed.following.id, listed.following.value]), ("last", True)]
    total = listed.total or 0
    return tuple((name, f"{xid}?{_build_query(total, after, xid, selection)}") for name, after in places)


def _build_query(total: int, after: JSON, xid: Xid, selection: _Selection) -> str:
    cursor = PageCursor(limit=PAGE, total=total, after=after).text(selection.scope(xid))
    return urlencode([*selection.query(), ("cursor", cursor)])
