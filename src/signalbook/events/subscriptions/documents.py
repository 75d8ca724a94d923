"""Subscriptions as JSON documents, read and shown (CloudEvents subscriptions/spec.md 3.2.1; D-26, D-28).

There are two forms: the specification's, and the older one of those who speak the draft APIs, with one ``filter`` and
the protocol ``HTTPS``. What is stored is the first; either is read wherever a subscription is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any, Final
from urllib.parse import urlsplit

from signalbook.events import filters
from signalbook.events.dialects import API_PATHS, of_source
from signalbook.events.sinks import base
from signalbook.events.sinks.base import SinkPolicy
from signalbook.events.subscription import (
    HTTP,
    Credential,
    Subscription,
    SubscriptionError,
    missing_secrets,
    read_credential,
    with_known_secrets,
)
from signalbook.events.subscriptions.masking import left_masks, with_known_values
from signalbook.events.subscriptions.store import ShownSubscription
from signalbook.values import JSON, Finding, JSONObject

OLD_TYPE: Final = "application/cloudevents-subscription+json"
"""The media type of the older form."""

_HTTPS: Final = "HTTPS"
_KNOWN: Final = (
    *("id", "source", "types", "filters", "filter", "config", "sink", "sinkcredential", "protocol", "protocolsettings"),
    "status",
)
MOST_TYPES: Final = 256
LONGEST: Final = 4096
"""Characters in a text."""
_FARTHEST: Final = 2**63 - 1
_DIGITS: Final = 19
_OTHER_NAMES: Final = {
    "AMQP": {"linkName": "linkname", "linkProperties": "linkproperties"},
    "KAFKA": {"ackmode": "acks"},
}
"""Names that settings have in the specification's OpenAPI document and not in its text (D-30)."""

Check = Callable[[Subscription], None]
"""Raises ``SubscriptionError`` if a protocol cannot do what a subscription asks of it."""


def checks(policy: SinkPolicy) -> Check:
    """Return the check of each protocol for its subscriptions."""
    return lambda subscription: base.find_sink(subscription.protocol).check(subscription, policy)


class InvalidSubscription(SubscriptionError):
    """A document that is no subscription: every fault with its place."""

    def __init__(self, faults: Iterable[Finding]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{fault.path}: {fault.message}" for fault in self.faults))


def read(document: JSON, *, root: str, check: Check) -> Subscription:
    """The subscription in ``document``, for the registry at the URL ``root``; it has no id yet, maybe not all secrets.

    Raises ``InvalidSubscription``.
    """
    if not isinstance(document, dict):
        raise InvalidSubscription([_fault("", "type", "a subscription is an object")])
    reading = _Reading(document, root)
    subscription = reading.subscription()
    faults = list(reading.faults)
    wrong = {fault.path[1:].partition("/")[0] for fault in faults}
    if not wrong & {"protocol", "protocolsettings", "sink"}:
        # Without its secrets nothing can be said of a credential: that is for when they are there.
        whole = "sinkcredential" not in wrong and not list(missing_secrets(subscription))
        faults += _told(check, subscription if whole else replace(subscription, credential=None))
    if faults:
        raise InvalidSubscription(faults)
    return subscription


def complete(subscription: Subscription, known: Subscription | None, *, check: Check) -> Subscription:
    """``subscription`` with the secrets that are ``known``, if it may have them. Raises ``InvalidSubscription``."""
    whole = with_known_secrets(with_known_values(subscription, known), known)
    faults = [*missing_secrets(whole), *left_masks(whole)] or list(_told(check, whole))
    if faults:
        raise InvalidSubscription(faults)
    return whole


def show(entry: ShownSubscription, *, old: bool = False) -> JSONObject:
    """A subscription as it is shown, in the ``old`` form or the specification's, with the ``status`` of deliveries."""
    return {**describe(entry.subscription, old=old), "status": asdict(entry.state)}


def describe(subscription: Subscription, *, old: bool = False) -> JSONObject:
    """A subscription without what its deliveries do to it: the same as long as nobody updates it. No secrets."""
    shown: JSONObject = {"id": subscription.id}
    for name in ("source", "types", "filters", "config"):
        if value := getattr(subscription, name):
            shown[name] = value
    shown |= {"sink": subscription.sink, "protocol": subscription.protocol}
    if subscription.credential is not None:
        credential = subscription.credential
        shown["sinkcredential"] = {"credentialtype": credential.credentialtype, **credential.members}
    if subscription.protocolsettings:
        shown["protocolsettings"] = subscription.protocolsettings
    return _older(shown) if old else shown


def _older(shown: JSONObject) -> JSONObject:
    """Translate the older form with a single filter; HTTP is recognised by the scheme of the sink."""
    wanted = shown.pop("filters", ())
    if wanted:
        shown["filter"] = wanted[0] if len(wanted) == 1 else {"all": list(wanted)}
    if shown["protocol"] == HTTP and urlsplit(shown["sink"]).scheme == "https":
        shown["protocol"] = _HTTPS
    return shown


class _Reading:
    """The reading of one document, with its findings so far. A member with a finding counts as absent."""

    def __init__(self, document: JSONObject, root: str) -> None:
        self._document = document
        self._root = root
        self.faults: list[Finding] = []

    def subscription(self) -> Subscription:
        """Return the subscription that can be made of the document."""
        for name in self._document:
            if name not in _KNOWN:
                message = f"there is no such member; there are {', '.join(_KNOWN)}"
                self._wrong(f"/{name[:100]}", "unknown", message)
        protocol = self._protocol()
        return Subscription(
            id="",
            protocol=protocol,
            sink=self._text("sink", required=True),
            source=self._source(),
            types=self._types(),
            filters=tuple(self._filters()),
            config=self._config(),
            protocolsettings=_renamed(self._object("protocolsettings"), _OTHER_NAMES.get(protocol, {})),
            credential=self._credential(),
            root=self._root,
        )

    def _protocol(self) -> str:
        protocol = self._text("protocol", required=True)
        return HTTP if protocol == _HTTPS else protocol

    def _source(self) -> str:
        source = self._text("source")
        if source and of_source(source, self._root) is None:
            known = ", ".join(f"{self._root}{path}" for path in ("/", *API_PATHS))
            self._wrong("/source", "unknown", f"no events are from there; sources are {known}")
        return source

    def _types(self) -> tuple[str, ...]:
        types = self._document.get("types", [])
        if not isinstance(types, list) or len(types) > MOST_TYPES:
            self._wrong("/types", "type", f"it takes an array of at most {MOST_TYPES} texts")
            return ()
        for index, value in enumerate(types):
            if not isinstance(value, str) or not value:
                self._wrong(f"/types/{index}", "type", "it is a text, and not empty")
        return tuple(types)

    def _filters(self) -> Iterator[JSON]:
        """Yield the filters that must hold, from either member."""
        if "filter" in self._document and "filters" in self._document:
            self._wrong("/filter", "value", "there is filters too: give one of them")
            return
        if "filter" in self._document:
            name, wanted = "filter", self._document["filter"]
            wanted = [wanted] if isinstance(wanted, dict) else wanted
        else:
            name, wanted = "filters", self._document.get("filters", [])
        if name == "filter" and not isinstance(self._document["filter"], dict):
            self._wrong("/filter", "type", "it takes a filter, an object")
        elif not isinstance(wanted, list):
            self._wrong("/filters", "type", "it takes an array of filters")
        else:
            self.faults += _filter_faults(wanted, name)
            yield from wanted

    def _config(self) -> JSONObject:
        config = self._object("config")
        for name in config:
            if name != "after":
                self._wrong(f"/config/{name[:100]}", "unknown", "there is no such member; there is after")
        if "after" in config:
            after = _position(config["after"])
            if after is None:
                self._wrong("/config/after", "value", "it is a position of the change feed, a whole number from 0")
                return {}
            return {"after": after}
        return {}

    def _credential(self) -> Credential | None:
        if "sinkcredential" not in self._document:
            return None
        credential, faults = read_credential(self._document["sinkcredential"])
        self.faults += faults
        return credential

    def _object(self, name: str) -> JSONObject:
        value = self._document.get(name, {})
        if isinstance(value, dict):
            return value
        self._wrong(f"/{name}", "type", "it takes an object")
        return {}

    def _text(self, name: str, *, required: bool = False) -> str:
        if name not in self._document:
            if required:
                self._wrong(f"/{name}", "required", "it is required")
            return ""
        value = self._document[name]
        if isinstance(value, str) and 0 < len(value) <= LONGEST:
            return value
        self._wrong(f"/{name}", "type", f"it is a text of 1 to {LONGEST} characters")
        return ""

    def _wrong(self, path: str, rule: str, message: str) -> None:
        self.faults.append(_fault(path, rule, message))


def _filter_faults(wanted: list[JSON], name: str) -> list[Finding]:
    """Return the findings of each filter, or, if there are none, that all together are too many."""
    whole = _filter_fault(wanted, name)
    if whole is None:
        return []
    single = [_filter_fault([one], name, index) for index, one in enumerate(wanted[: filters.MAX_FILTERS])]
    return [fault for fault in single if fault] or [whole]


def _filter_fault(wanted: list[JSON], name: str, index: int = 0) -> Finding | None:
    try:
        filters.parse(wanted)
    except filters.FilterError as error:
        path, _, message = str(error).partition(": ")
        place = f"/{name}/{index}" if name == "filters" else f"/{name}"
        return _fault(f"{place}{path.removeprefix('/0')}", "filter", message)
    return None


def _told(check: Check, subscription: Subscription) -> Iterator[Finding]:
    """Yield the findings of a protocol about a subscription."""
    try:
        check(subscription)
    except SubscriptionError as error:
        path, _, message = str(error).partition(": ")
        yield _fault(path, "protocol", message)


def _renamed(settings: JSONObject, names: dict[str, str]) -> JSONObject:
    return {names.get(name, name): value for name, value in settings.items()}


def _position(value: Any) -> int | None:
    """A number, or a number in a text: the OpenAPI document of the specification has no others in ``config``."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _FARTHEST:
        return value
    return None


def _fault(path: str, rule: str, message: str) -> Finding:
    return Finding(path=path, rule=rule, message=message)
