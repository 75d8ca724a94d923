"""Attributes of entities as values for pages, with the model's descriptions, and with links to referenced entities.

The amount of text is limited: an entity may have a megabyte of attributes, a page has 200 KB. Truncated values are
marked, and are complete in the JSON view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import msgspec

from signalbook.model import Attribute, Model
from signalbook.values import JSON, JSONObject, dump_json
from signalbook.xid import Xid, XidError

_MAX_VALUE_CHARS: Final = 2000
_DEEPEST: Final = 5
_MOST_MEMBERS: Final = 100
_ALL: Final = 40_000
_REFERENCES: Final = frozenset({"uri", "url", "xid", "urirelative", "urlrelative", "uriabsolute", "urlabsolute"})
_SCHEMES: Final = frozenset({"http", "https"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A value on a page. ``cut`` is True if the value is truncated.

    ``kind`` is text; json, which has several lines; time, with the timestamp in ``href``; link, to the page of an
    entity at ``href`` below ``/ui``; away, a link to another site; list or object, which have ``members``. ``title``
    is the exact time of a time that is shown relative to now.
    """

    kind: str
    text: str = ""
    href: str = ""
    title: str = ""
    members: tuple[Member, ...] = ()
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A named value: an attribute, a key of a map, or an item of an array, with the model's description of it."""

    name: str
    value: Shown
    type: str = ""
    description: str = ""


@dataclass(kw_only=True)
class AttributeValues:
    """Builds the shown values of one page, as long as there is room. ``root`` is the URL of the registry."""

    model: Model
    root: str
    room: int = field(default=_ALL)

    def members(
        self, values: JSONObject, definitions: Mapping[str, Attribute], leave_out: Iterable[str]
    ) -> tuple[Member, ...]:
        """Return the attributes of an entity as members, in the given order."""
        out = frozenset(leave_out)
        return tuple(
            self._render_member(name, value, definitions.get(name)) for name, value in values.items() if name not in out
        )

    def render(self, value: JSON, attribute: Attribute | None = None, depth: int = 0) -> Shown:
        """Return a value for a page. ``attribute`` is its definition in the model."""
        kind = attribute.type if attribute is not None else "any"
        match value:
            case dict() if depth < _DEEPEST and kind != "any":
                return self._render_object(value, attribute, depth)
            case list() if depth < _DEEPEST and all(isinstance(element, (str, int, float, bool)) for element in value):
                item = attribute.item if attribute is not None else None
                return self._list((self.render(element, item, depth + 1) for element in value), len(value))
            case list() if depth < _DEEPEST and kind == "array":
                item = attribute.item if attribute is not None else None
                return self._list((self.render(element, item, depth + 1) for element in value), len(value))
            case dict() | list():
                return self._render_json(value)
            case str():
                return self._render_text(value, kind)
            case _:
                return Shown(kind="text", text=dump_json(value).decode())

    def link(self, reference: str) -> str | None:
        """Return the path below ``/ui`` of the page of the referenced entity; None if it is no entity of
        this registry."""
        path = reference.removeprefix(self.root).removeprefix("#").removesuffix("$details")
        try:
            xid = Xid.parse(path)
        except XidError:
            return None
        is_known = self.model.group_type(xid) is not None
        if not is_known or (xid.resource_type and self.model.resource_type(xid) is None):
            return None
        return str(xid)

    def _render_member(self, name: str, value: JSON, attribute: Attribute | None, depth: int = 0) -> Member:
        described = str(attribute.definition.get("description", "")) if attribute is not None else ""
        return Member(
            name=name[:_MAX_VALUE_CHARS],
            value=self.render(value, attribute, depth),
            type=_describe_type(attribute),
            description=described[:_MAX_VALUE_CHARS],
        )

    def _render_object(self, value: JSONObject, attribute: Attribute | None, depth: int) -> Shown:
        inner = attribute.attributes if attribute is not None else None
        definitions = inner.active(value) if inner is not None else {}
        item = attribute.item if attribute is not None else None
        members: list[Member] = []
        for name, member_value in value.items():
            if len(members) == _MOST_MEMBERS or self.room <= 0:
                break
            members.append(self._render_member(name, member_value, definitions.get(name, item), depth + 1))
        return Shown(kind="object", members=tuple(members), cut=len(members) < len(value))

    def _list(self, items: Iterator[Shown], length: int) -> Shown:
        members: list[Member] = []
        for item in items:
            members.append(Member(name="", value=item))
            if len(members) == _MOST_MEMBERS or self.room <= 0:
                break
        return Shown(kind="list", members=tuple(members), cut=len(members) < length)

    def _render_json(self, value: JSON) -> Shown:
        text = msgspec.json.format(dump_json(value), indent=2).decode()
        visible_text = self._take_text(text, 4 * _MAX_VALUE_CHARS)
        return Shown(kind="json", text=visible_text, cut=len(visible_text) < len(text))

    def _render_text(self, text: str, kind: str) -> Shown:
        visible_text = self._take_text(text, _MAX_VALUE_CHARS)
        if len(visible_text) < len(text):
            return Shown(kind="text", text=visible_text, cut=True)
        if kind in _REFERENCES and (href := self.link(text)) is not None:
            return Shown(kind="link", text=text, href=href)
        if kind in _REFERENCES and _is_away(text):
            return Shown(kind="away", text=text, href=text)
        return moment(text) if kind == "timestamp" else Shown(kind="text", text=text)

    def _take_text(self, text: str, most: int) -> str:
        visible_text = text[: max(0, min(most, self.room))]
        self.room -= len(visible_text) + 20
        return visible_text


def moment(text: str) -> Shown:
    """Return a timestamp for people, to the minute in UTC; its ``href`` is the complete timestamp."""
    day, _, time = text.partition("T")
    return Shown(kind="time", text=f"{day} {time[:5]}" if time.endswith("Z") else text, href=text)


def _is_away(text: str) -> bool:
    """Return True if a link may lead there: never by a scheme that runs something."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in _SCHEMES and bool(parts.netloc)


def _describe_type(attribute: Attribute | None) -> str:
    """Return the type in the model's words: ``map of string``."""
    if attribute is None:
        return ""
    return f"{attribute.type} of {attribute.item.type}" if attribute.item is not None else attribute.type
