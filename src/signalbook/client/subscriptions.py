"""The subscriptions of a server: who is told of changes, and how that goes (CloudEvents subscriptions/spec.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypedDict, Unpack
from urllib.parse import quote

import httpx

from signalbook.client.answers import BadAnswer, json_object
from signalbook.client.transport import Transport
from signalbook.values import JSON, JSONError, JSONObject, dump_json, parse_json

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
        url, seen = PATH, set()
        while url:
            if url in seen:
                raise BadAnswer(f"{url}: a page names itself, or one before it, as the next")
            seen.add(url)
            answer = self._transport.send("GET", url)
            yield from _objects(answer)
            url = self._transport.next_page(answer)

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


def _objects(answer: httpx.Response) -> list[JSONObject]:
    try:
        found = parse_json(answer.content)
    except JSONError as error:
        raise BadAnswer(f"{answer.url}: these are no subscriptions ({error})") from None
    if not isinstance(found, list) or not all(isinstance(member, dict) for member in found):
        raise BadAnswer(f"{answer.url}: these are no subscriptions: it answers without a list of objects")
    return found
