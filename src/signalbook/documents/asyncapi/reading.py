"""Read the parts of an AsyncAPI document in one form for 2.x and 3.x, with references followed and traits applied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from signalbook.documents.errors import DocumentError
from signalbook.documents.references import DocumentReader, below, name_of
from signalbook.values import JSON, JSONObject

_SUPPORTED_VERSION: Final = re.compile(r"(2\.[0-6]|3\.[01])\.[0-9]+(-[\w.-]+)?", re.ASCII)
_ACTIONS: Final = {"publish": "receive", "subscribe": "send"}
_TRAITS: Final = "traits"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMessage:
    """A Message Object with its traits applied. ``path`` is its place, and ``key`` its name there."""

    path: str
    key: str
    body: JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOperation:
    """An operation of the application on a channel: ``send`` or ``receive``."""

    path: str
    action: str
    body: JSONObject
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChannel:
    """A channel: its address, the names of its servers, and the places of its messages."""

    path: str
    key: str
    address: str | None
    body: JSONObject
    servers: tuple[str, ...]
    messages: tuple[str, ...]
    operations: tuple[ReadOperation, ...]


@dataclass(slots=True)
class AsyncApiReader(DocumentReader):
    """Reads the messages, channels and operations of ``document``.

    ``server_names`` are the names of servers by place.
    """

    family: str = "AS"
    messages: dict[str, ReadMessage] = field(default_factory=dict)
    server_names: dict[str, str] = field(default_factory=dict)

    @property
    def is_old(self) -> bool:
        """True for a document of AsyncAPI 2.x."""
        return str(self.document["asyncapi"]).startswith("2.")

    def check_version(self) -> None:
        """Raise ``DocumentError`` if the version of the document is not supported."""
        stated = self.document["asyncapi"]
        if not isinstance(stated, str) or not _SUPPORTED_VERSION.fullmatch(stated):
            raise DocumentError(f"/asyncapi: AsyncAPI 2.0 to 2.6, 3.0 and 3.1 are read, not {stated!r}")

    def read_bindings(self, body: JSONObject, path: str) -> JSONObject:
        """Return the Bindings Object of a part, with references followed, by protocol."""
        followed = self.follow(body.get("bindings"), below(path, "bindings"))
        if followed is None or followed[0] is None:
            return {}
        return {name: binding for name, binding, _ in self.members({"b": self.object(*followed)}, "b", path)}

    def with_traits(self, body: JSONObject, path: str) -> JSONObject:
        """Return a message or operation with its traits.

        In 2.x traits replace its members, in 3.0 they add missing ones.
        """
        merged = {name: value for name, value in body.items() if name != _TRAITS}
        self._resolve_headers(merged, path)
        for value, place in self.items(body, _TRAITS, path):
            if (followed := self.follow(value, place)) is None:
                continue
            trait = dict(self.object(*followed))
            self._resolve_headers(trait, followed[1])
            self.count_copied(trait)
            merged = merge_patch(merged, trait) if self.is_old else merge_patch(trait, merged)
        return merged

    def _resolve_headers(self, body: JSONObject, path: str) -> None:
        if "headers" in body:
            followed = self.follow(body.pop("headers"), below(path, "headers"))
            if followed is not None:
                body["headers"] = followed[0]

    def read_message(self, value: JSON, path: str, key: str) -> Iterator[str]:
        """Return the place of a message, which is read only once however often it is referred to."""
        followed = self.follow(value, path)
        if followed is None:
            return
        body, place = self.object(*followed), followed[1]
        for position, (alternative, where) in enumerate(self.items(body, "oneOf", place) if self.is_old else ()):
            yield from self.read_message(alternative, where, f"{key}-{position + 1}")
        if "oneOf" in body and self.is_old:
            return
        if place not in self.messages:
            name = name_of(place) if place != path else key
            whole = self.with_traits(body, place)
            self.messages[place] = ReadMessage(path=place, key=name, body=whole)
        yield place

    def read_channels(self) -> list[ReadChannel]:
        """Return all channels with their messages, and the other messages of ``components``."""
        self.server_names = {place: key for key, _, place in self.members(self.document, "servers", "")}
        read = self._read_old_channel if self.is_old else self._read_channel
        operations = {} if self.is_old else self._read_operations()
        channels = [read(*member, operations) for member in self.members(self.document, "channels", "")]
        components = self.object(self.document.get("components"), "/components")
        for key, value, path in self.entries(components, "messages", "/components"):
            list(self.read_message(value, path, key))
        return channels

    def _read_channel(self, key: str, body: JSONObject, path: str, operations: Any) -> ReadChannel:
        message_places: list[str] = []
        for name, value, place in self.entries(body, "messages", path):
            message_places += self.read_message(value, place, name)
        servers = [self._find_server_name(value, place) for value, place in self.items(body, "servers", path)]
        address = body.get("address")
        return ReadChannel(
            path=path, key=key, body=body, servers=tuple(servers), messages=tuple(message_places),
            address=None if address is None else self.text(body, "address", path),
            operations=tuple(operations.get(path, ())),
        )  # fmt: skip

    def _find_server_name(self, value: JSON, path: str) -> str:
        reference = value.get("$ref") if isinstance(value, dict) else None
        place = self.locate(reference, path) if isinstance(reference, str) else None
        if not place:
            raise DocumentError(f"{path}: must be a reference to a server of the document")
        return self.server_names.get(place) or name_of(place)

    def _read_operations(self) -> dict[str, list[ReadOperation]]:
        """Return the operations of 3.0 by the place of their channel."""
        by_channel: dict[str, list[ReadOperation]] = {}
        for _, body, path in self.members(self.document, "operations", ""):
            whole = self.with_traits(body, path)
            if whole.get("action") not in _ACTIONS.values():
                raise DocumentError(f"{path}/action: must be send or receive")
            channel = self.follow(whole.get("channel"), below(path, "channel"))
            if channel is None:
                continue
            self.object(*channel)
            read = ReadOperation(path=path, action=whole["action"], body=whole, messages=())
            by_channel.setdefault(channel[1], []).append(read)
        return by_channel

    def _read_old_channel(self, key: str, body: JSONObject, path: str, _: Any) -> ReadChannel:
        operations: list[ReadOperation] = []
        for name, action in _ACTIONS.items():
            if name in body:
                place = below(path, name)
                whole = self.with_traits(self.object(body[name], place), place)
                fallback = self.text(whole, "operationId", place) or f"{key}-{name}"
                value = whole.get("message")
                messages = () if value is None else tuple(self.read_message(value, below(place, "message"), fallback))
                operations.append(ReadOperation(path=place, action=action, body=whole, messages=messages))
        servers = [str(value) for value, _ in self.items(body, "servers", path)]
        message_places = dict.fromkeys(
            message_place for operation in operations for message_place in operation.messages
        )
        return ReadChannel(
            path=path, key=key, address=key, body=body, servers=tuple(servers), messages=tuple(message_places),
            operations=tuple(operations),
        )  # fmt: skip


def merge_patch(target: JSON, patch: JSON) -> JSON:
    """Apply a JSON Merge Patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
