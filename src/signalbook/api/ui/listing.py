"""Collections, a page at a time: filtered by text or label, sorted, by the engine's positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final
from urllib.parse import urlencode

from signalbook.access.base import Action
from signalbook.api.kernel.paging import PageCursor
from signalbook.api.ui.attributes import Shown, moment
from signalbook.api.ui.charts import counted
from signalbook.api.ui.comparison import VersionChoice, choice, link
from signalbook.api.ui.pages import Page, UIRequest, crumbs
from signalbook.engine.capabilities import is_mutable
from signalbook.engine.read.filters import Filter, FilterExpression, Operand, Operator
from signalbook.engine.read.inlining import NOTHING, EntityNode, Inline
from signalbook.engine.read.paging import ListedPage, PageRequest, Position, Sort, parse_sort
from signalbook.engine.read.view import View, ViewOptions
from signalbook.model import GroupType, Model, ResourceType
from signalbook.values import JSON, JSONObject, format_timestamp
from signalbook.xid import Kind, Xid

ENDPOINTS: Final = "endpoints"
"""Groups whose messages may be those of message groups, in the default model."""
PAGE: Final = 50
MOST_SORTED: Final = 20_000
"""Members of a collection that may be sorted: each page of it reads all of them."""
_LONGEST_QUERY: Final = 200
_LINE: Final = 240
_WORD: Final = 40
_CHIPS: Final = 4
_HISTORY: Final = 25
_WORDS: Final = ("envelope", "protocol", "format", "dataschemaformat", "usage")
"""Attributes of one word that tell members apart, shown as a column where the model has them."""
_SORTS: Final = {
    Kind.GROUPS: (("", "by id"), ("name", "by name"), ("modifiedat=desc", "newest change first")),
    Kind.RESOURCES: (("", "by id"), ("name", "by name"), ("modifiedat=desc", "newest change first")),
    Kind.VERSIONS: (("createdat=desc", "newest first"), ("", "by id"), ("createdat", "oldest first")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A label of an entity; ``href`` lists those of its collection that have it too."""

    name: str
    value: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A member of a collection. ``words`` are its columns, ``counts`` the numbers of its members.

    Of a Version ``ancestor`` is the one that it came from, if that is another, and ``compared`` the comparison with
    it.
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
    """A way to sort."""

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
    """A page of a collection. ``time`` is the content of the last column; ``pages`` are links to others.

    ``creates`` is what the form for a new member creates, empty without the right. Any two Versions can be compared by
    a ``choice``; ``history`` names their authors for callers that may know.
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
    """The page of a collection."""
    content = _listing(view, request, xid)
    return Page(template="listing.html", title=content.plural, content=content, crumbs=crumbs(xid))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The selection of a collection in a request."""

    text: str
    label: str
    sort: str

    @classmethod
    def of(cls, request: UIRequest, xid: Xid, count: int) -> _Wanted:
        choices = [value for value, _ in _SORTS[xid.kind]] if count <= MOST_SORTED else [""]
        sort = request.query.get("sort", choices[0])
        return cls(
            text=request.query.get("q", "").strip()[:_LONGEST_QUERY],
            label=request.query.get("label", "").strip()[:_LONGEST_QUERY],
            sort=sort if sort in choices else choices[0],
        )

    def scope(self, xid: Xid) -> list[JSON]:
        """Return what a cursor is bound to."""
        return ["ui", str(xid), self.text, self.label, self.sort]

    def query(self) -> Iterator[tuple[str, str]]:
        """Yield the parameters of a URL."""
        for name, value in (("q", self.text), ("label", self.label), ("sort", self.sort)):
            if value:
                yield name, value


def _listing(view: View, request: UIRequest, xid: Xid) -> Listing:
    count = int(view.entity(xid.owner, ViewOptions()).get(f"{xid.parts[-1]}count", 0))
    wanted = _Wanted.of(request, xid, count)
    place = _place(request, xid, wanted)
    chosen = _filter(xid, view.model, wanted)
    sort = parse_sort(wanted.sort or None, xid, view.model, subject=request.subject)
    listed = _members(view, xid, place, chosen, sort)
    found = _read(view, xid, listed)
    total = listed.total if listed.total is not None else place.total
    shown = _shown(view.model, xid, found, len(found) if total is None else total)
    sorts = tuple(Choice(value=v, text=t, chosen=v == wanted.sort) for v, t in _SORTS[xid.kind])
    return replace(
        shown,
        text=wanted.text,
        label=wanted.label,
        sorts=sorts,
        unsortable=count > MOST_SORTED,
        pages=_pages(xid, wanted, listed),
        creates=creates(view, xid, shown.singular),
        choice=choice(view, xid.owner) if xid.kind is Kind.VERSIONS and count > 1 else None,
        history=_history(view, xid.owner) if xid.kind is Kind.VERSIONS else (),
    )


def creates(view: View, collection: Xid, singular: str) -> str:
    """Return what the form of a collection of Groups or Resources creates, empty without the right."""
    if collection.kind is Kind.VERSIONS or not is_mutable(view.capabilities, "entities"):
        return ""
    return singular if view.access.allows_somewhere(Action.CREATE, collection) else ""


def _history(view: View, of: Xid) -> tuple[HistoryLine, ...]:
    return tuple(
        HistoryLine(
            when=moment(format_timestamp(entry.time)),
            who=entry.who[:_LINE],
            action=entry.action,
            xids=tuple(each for each in entry.xids if f"{each}/".casefold().startswith(f"{of}/".casefold()))[:_CHIPS],
        )
        for entry in view.audited(of, _HISTORY)
    )


def first_members(view: View, xid: Xid, most: int, sort: Sort | None = None) -> Listing:
    """The first few members of a collection, to show them with their owner."""
    listed = _members(view, xid, PageRequest(limit=most), None, sort)
    found = _read(view, xid, listed)
    return _shown(view.model, xid, found, len(found) if listed.total is None else listed.total)


def _members(
    view: View, xid: Xid, place: PageRequest, chosen: Filter | None, sort: Sort | None
) -> ListedPage[EntityNode]:
    return view.listed(xid, ViewOptions(filter=chosen, sort=sort), place)


def _read(view: View, xid: Xid, listed: ListedPage[EntityNode]) -> list[JSONObject]:
    inline = Inline(names={"meta": NOTHING}) if xid.kind is Kind.RESOURCES else NOTHING
    return list(view.members(xid, listed, ViewOptions(inline=inline)).values())


def _shown(model: Model, xid: Xid, found: list[JSONObject], total: int) -> Listing:
    kind = member_type(model, xid)
    columns = tuple(word for word in _WORDS if word in kind.attributes and any(word in each for each in found))
    return Listing(
        plural=xid.parts[-1],
        singular="version" if xid.kind is Kind.VERSIONS else kind.singular,
        description=str(kind.document.get("description", "")) if xid.kind is not Kind.VERSIONS else "",
        href=str(xid),
        json=str(xid),
        columns=columns,
        rows=tuple(_row(xid, each, columns, kind) for each in found),
        total=total,
        time="created" if xid.kind is Kind.VERSIONS else "changed",
    )


def member_type(model: Model, collection: Xid) -> GroupType | ResourceType:
    """The type of the members of a collection; of Versions that of their Resource."""
    group = model.groups[collection.group_type]
    return group.resources[collection.resource_type] if collection.resource_type else group


def _id_name(model: Model, collection: Xid) -> str:
    return "versionid" if collection.kind is Kind.VERSIONS else f"{member_type(model, collection).singular}id"


def _row(xid: Xid, found: JSONObject, columns: Iterable[str], kind: GroupType | ResourceType) -> Row:
    own = str(found.get("versionid" if xid.kind is Kind.VERSIONS else f"{kind.singular}id", ""))
    meta = found.get("meta", {}) if xid.kind is Kind.RESOURCES else {}
    counts = ((name.removesuffix("count"), number) for name, number in found.items() if name.endswith("count"))
    ancestor = str(found.get("ancestorid", own)) if xid.kind is Kind.VERSIONS else own
    return Row(
        href=f"{xid}/{own}",
        id=own,
        name=str(found.get("name", ""))[:_LINE],
        description=str(found.get("description", ""))[:_LINE],
        marks=_marks(xid, found, meta),
        labels=labels({**meta.get("labels", {}), **found.get("labels", {})}, xid, _CHIPS),
        words=tuple(_word(found.get(word, "")) for word in columns),
        counts=tuple((name, _count(xid, number, found)) for name, number in counts if isinstance(number, int)),
        changed=moment(str(found.get("createdat" if xid.kind is Kind.VERSIONS else "modifiedat", ""))),
        ancestor="" if ancestor == own else ancestor,
        compared="" if ancestor == own else link(xid.owner, ancestor, own),
    )


def _word(value: JSON) -> str:
    """Return the text of a column for an attribute, which may have several values."""
    return (", ".join(map(str, value)) if isinstance(value, list) else str(value))[:_WORD]


def _count(xid: Xid, number: int, found: JSONObject) -> str:
    """Return the number of members. An endpoint without messages of its own has those of message groups."""
    through = found.get("messagegroups")
    if number or xid.group_type != ENDPOINTS or not isinstance(through, list) or not through:
        return str(number)
    return f"of {counted(len(through), 'group')}"


def _marks(xid: Xid, found: JSONObject, meta: JSONObject) -> tuple[str, ...]:
    deprecated = "deprecated" in found or "deprecated" in meta
    default = xid.kind is Kind.VERSIONS and found.get("isdefault")
    return ("deprecated",) * bool(deprecated) + ("default",) * bool(default)


def labels(given: JSONObject, collection: Xid, most: int) -> tuple[Label, ...]:
    """The first labels of a member of a collection."""
    return tuple(
        Label(
            name=str(name),
            value=str(value)[:_LINE],
            href=f"{collection}?{urlencode({'label': f'{name}={value}'[:_LONGEST_QUERY]})}",
        )
        for name, value in islice(given.items(), most)
    )


def _filter(xid: Xid, model: Model, wanted: _Wanted) -> Filter | None:
    """Members whose id, name or description has the text in it, and that have the label."""
    if not (wanted.text or wanted.label):
        return None
    name, _, value = wanted.label.partition("=")
    labelled = (_equal(xid, ("labels", name), value.replace("*", r"\*")),) if wanted.label else ()
    if not wanted.text:
        return Filter((labelled,))
    text = f"*{wanted.text.replace('*', chr(92) + '*')}*"
    return Filter(
        tuple((_equal(xid, (each,), text), *labelled) for each in (_id_name(model, xid), "name", "description"))
    )


def _equal(xid: Xid, steps: tuple[str, ...], text: str) -> FilterExpression:
    return FilterExpression(
        types=(xid.parts[-1],),
        steps=steps,
        operator=Operator.EQUAL,
        operand=Operand(text),
        timestamp=False,
        ending=f"={text}",
    )


def _place(request: UIRequest, xid: Xid, wanted: _Wanted) -> PageRequest:
    """Return the requested page. Raises ``bad_request`` for a cursor of another collection."""
    text = request.query.get("cursor", "")
    if not text:
        return PageRequest(limit=PAGE)
    form = tuple[bool, str, JSON] | bool
    cursor = PageCursor.read(text, wanted.scope(xid), form, subject=request.subject, advice="begin again without it")
    place = cursor.after if isinstance(cursor.after, tuple) else None
    return PageRequest(
        limit=PAGE,
        after=Position(id=place[1], value=place[2]) if place else None,
        total=cursor.total,
        backward=place[0] if place else cursor.after,
    )


def _pages(xid: Xid, wanted: _Wanted, listed: ListedPage[EntityNode]) -> tuple[tuple[str, str], ...]:
    """Return links to other pages, with their words."""
    places: list[tuple[str, JSON]] = []
    if listed.preceding is not None:
        places += [("first", False), ("previous", [True, listed.preceding.id, listed.preceding.value])]
    if listed.following is not None:
        places += [("next", [False, listed.following.id, listed.following.value]), ("last", True)]
    total = listed.total or 0
    return tuple((name, f"{xid}?{_query(total, after, xid, wanted)}") for name, after in places)


def _query(total: int, after: JSON, xid: Xid, wanted: _Wanted) -> str:
    cursor = PageCursor(limit=PAGE, total=total, after=after).text(wanted.scope(xid))
    return urlencode([*wanted.query(), ("cursor", cursor)])
