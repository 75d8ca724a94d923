"""The subscriptions of a server: who is told of changes, and how that goes (CloudEvents subscriptions/spec.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypedDict, Unpack
from urllib.parse import quote

from signalbook.client.answers import json_object, json_objects
from signalbook.client.transport import Transport
from signalbook.values import JSON, JSONObject, dump_json

PATH: Final = "/subscriptions"
_HEADERS: Final = {"Content-Type": "application/json"}


class Wanted(TypedDict, total=False):
    """What a subscription says beside its sink: all of it may be left out."""

    source: str
    types: list[str]
    filters: list[JSON]
    config: JSONObject
    protocolsettings: JSONObject
    sinkcredential: JSONObject


class Subscriptions:
    """``Client.subscriptions``: iterate over it for all there are, in the order they were created in.

    A subscription is a JSON object as the server shows it: with its ``id`` and the ``status`` of its deliveries, and
    without secrets. Every method raises as those of ``Client``.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def __iter__(self) -> Iterator[JSONObject]:
        """All of them, page after page."""
        for answer in self._transport.pages(PATH):
            yield from json_objects(answer, "subscriptions")

    def create(self, sink: str, *, protocol: str = "HTTP", **wanted: Unpack[Wanted]) -> JSONObject:
        """Have changes told to ``sink``. Returns the subscription."""
        return self.add({"sink": sink, "protocol": protocol, **wanted})

    def add(self, document: JSONObject) -> JSONObject:
        """Create the subscription that a document says. Returns it as it is now."""
        return json_object(self._transport.send("POST", PATH, content=dump_json(document), headers=_HEADERS))

    def get(self, id: str) -> JSONObject:
        """One of them."""
        return json_object(self._transport.send("GET", _path(id)))

    def replace(self, id: str, document: JSONObject) -> JSONObject:
        """Replace one, keeping its secrets if it leaves them out; what was given up is tried again."""
        return json_object(self._transport.send("PUT", _path(id), content=dump_json(document), headers=_HEADERS))

    def delete(self, id: str) -> None:
        """Have it told nothing more."""
        self._transport.send("DELETE", _path(id))


def _path(id: str) -> str:
    return f"{PATH}/{quote(id, safe='')}"
