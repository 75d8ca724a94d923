"""The registry's messages as both drafts see them: which versions they have, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from signalbook.cncf.ids import version_number
from signalbook.cncf.messagecatalog.metaschemas import format_of
from signalbook.engine import numbers
from signalbook.engine.listing import Listed, Page, Position
from signalbook.engine.references import named
from signalbook.engine.view import View, ViewOptions
from signalbook.engine.view_tree import Node
from signalbook.errors import RegistryError
from signalbook.messages.definitions.inheritance import materialise
from signalbook.messages.definitions.normalise import BASE_NAMES
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind, Xid

BATCH: Final = 500
"""Members of a collection that are looked at in one go."""


class Catalog:
    """``view`` as a catalog. ``root`` is the URL of the registry.

    Raises ``not_found`` for whatever is not there, and ``api_not_found`` if the model has no messages.
    """

    def __init__(self, view: View, root: str, max_bytes: int) -> None:
        groups = view.model.groups.get("messagegroups")
        if groups is None or "messages" not in groups.resources:
            detail = "the model of this registry has no messages"
            raise RegistryError("api_not_found", subject="/messagecatalog", detail=detail)
        self.view = view
        self._root = root
        self.options = ViewOptions(max_bytes=max_bytes)

    def group(self, xid: Xid) -> JSONObject:
        """A group as xRegistry has it."""
        return self.view.entity(xid, self.options)

    def format(self, xid: Xid) -> str:
        """The format of a group."""
        return format_of(self.group(xid))

    def latest(self, xid: Xid) -> JSONObject:
        """The version of a message with the highest number (A-18)."""
        found = self.find_latest(xid)
        if found is None:
            raise RegistryError("not_found", subject=str(xid), detail="none of its versions has a number")
        return found

    def find_latest(self, xid: Xid) -> JSONObject | None:
        """As ``latest``, None where no version has a number (J-10)."""
        number = numbers.latest(self.view, xid)
        return None if number is None else self.version(xid / "versions" / str(number))

    def version(self, xid: Xid) -> JSONObject:
        """A version of a message, completed by the message it derives from (J-18)."""
        return self._completed(self.view.entity(xid, self.options))

    def numbers(self, xid: Xid) -> list[int]:
        """The numbers of a message's versions, rising."""
        return numbers.listed(self.view, xid)

    def versions(self, xid: Xid) -> list[JSONObject]:
        """The versions of a message that have numbers, the newest first."""
        shown = self.view.collection(xid / "versions", self.options)
        numbered = {version_number(versionid): version for versionid, version in shown.items()}
        return [self._completed(numbered[number]) for number in sorted(filter(None, numbered), reverse=True)]

    def newest(self, xid: Xid, most: int) -> Iterator[JSONObject]:
        """What is stored of a message's versions with the ``most`` highest numbers, the newest first."""
        row = self.view.reader.get(xid)
        if row is None:
            return
        for first in range(row.versioncounter, max(row.versioncounter - most, 0), -BATCH):
            wanted = [str(number) for number in range(first, max(first - BATCH, 0), -1)]
            rows = {each.xid.id: each for each in self.view.reader.children([row.key], "versions", ids=wanted)}
            yield from ({**rows[each].attributes, "versionid": each} for each in wanted if each in rows)

    def page(self, collection: Xid, page: Page) -> tuple[list[Xid], Listed[Node]]:
        """The groups of the catalog, or the definitions of a group, that are seen on a page, by id."""
        listed = self.view.listed(collection, self.options, page)
        return [node.xid for node in listed.members if self._is_seen(node)], listed

    def members(self, collection: Xid, after: str = "") -> Iterator[Xid]:
        """All that ``page`` shows behind the folded id ``after``."""
        position = Position(id=after) if after else None
        while True:
            xids, listed = self.page(collection, Page(limit=BATCH, after=position, total=0 if position else None))
            yield from xids
            if listed.following is None:
                return
            position = listed.following

    def _completed(self, version: JSONObject) -> JSONObject:
        if any(version.get(name) for name in BASE_NAMES):
            return {**materialise(version, self._base).definition, "messageid": version["messageid"]}
        return version

    def _is_seen(self, node: Node) -> bool:
        """A definition is seen if it has a version with a number (J-10)."""
        default = node.row.defaultversionid
        if node.xid.kind is Kind.GROUP or (default is not None and version_number(default) is not None):
            return True
        try:
            return numbers.latest(self.view, node.xid) is not None
        except RegistryError:  # a cross reference to nothing
            return False

    def _base(self, reference: str) -> Mapping[str, JSON] | None:
        xid = named(reference, self._root)
        if xid is None or self.view.model.resource_type(xid) is None:
            return None
        try:
            return self.view.entity(xid, self.options)
        except RegistryError:
            return None
