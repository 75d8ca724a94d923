"""Read and write subscriptions as JSON documents (CloudEvents subscriptions/spec.md 3.2.1; D-26, D-28).

There are two forms: that of the specification, and an older one for clients of the draft APIs, with a single ``filter``
and the protocol ``HTTPS``. Both are accepted everywhere. The form of the specification is stored.
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
    find_missing_secrets,
    read_credential,
    with_known_secrets,
)
from signalbook.events.subscriptions.masking import find_left_masks, with_known_values
from signalbook.events.subscriptions.store import ShownSubscription
from signalbook.values import JSON, Finding, JSONObject

OLD_TYPE: Final = "application/cloudevents-subscription+json"
"""The media type of the older form."""

_HTTPS: Final = "HTTPS"
_MEMBER_NAMES: Final = (
    *("id", "source", "types", "filters", "filter", "config", "sink", "sinkcredential", "protocol", "protocolsettings"),
    "status",
)
MOST_TYPES: Final = 256
LONGEST: Final = 4096
"""The maximum number of characters in a string."""
_FARTHEST: Final = 2**63 - 1
_MAX_DIGITS: Final = 19
_OTHER_NAMES: Final = {
    "AMQP": {"linkName": "linkname", "linkProperties": "linkproperties"},
    "KAFKA": {"ackmode": "acks"},
}
"""Names of settings that the specification's OpenAPI document spells differently than its text (D-30)."""

Check = Callable[[Subscription], None]
"""Raises ``SubscriptionError`` if a protocol cannot do what a subscription asks of it."""


def checks(policy: SinkPolicy) -> Check:
    """Return a function that checks a subscription with the sink factory of its protocol."""
    return lambda subscription: base.find_sink(subscription.protocol).check(subscription, policy)


class InvalidSubscription(SubscriptionError):
    """The error for an invalid document, with all findings in ``faults``."""

    def __init__(self, faults: Iterable[Finding]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{fault.path}: {fault.message}" for fault in self.faults))


def read(document: JSON, *, root: str, check: Check) -> Subscription:
    """Return the subscription in ``document``, for the registry at the URL ``root``.

    The subscription has no id yet, and may lack secrets. Raises ``InvalidSubscription``.
    """
    if not isinstance(document, dict):
        raise InvalidSubscription([_make_finding("", "type", "a subscription is an object")])
    reading = _Reading(document, root)
    subscription = reading.read_subscription()
    faults = list(reading.faults)
    wrong = {fault.path[1:].partition("/")[0] for fault in faults}
    if not wrong & {"protocol", "protocolsettings", "sink"}:
        # A credential cannot be checked without its secrets. ``complete`` checks it when they are known.
        whole = "sinkcredential" not in wrong and not list(find_missing_secrets(subscription))
        faults += _run_check(check, subscription if whole else replace(subscription, credential=None))
    if faults:
        raise InvalidSubscription(faults)
    return subscription


def complete(subscription: Subscription, stored: Subscription | None, *, check: Check) -> Subscription:
    """Return ``subscription`` with the secrets of its ``stored`` form, if they belong to the same sink.

    Raises ``InvalidSubscription`` if secrets are missing, or if the complete subscription is invalid.
    """
    whole = with_known_secrets(with_known_values(subscription, stored), stored)
    faults = [*find_missing_secrets(whole), *find_left_masks(whole)] or list(_run_check(check, whole))
    if faults:
        raise InvalidSubscription(faults)
    return whole


def show(entry: ShownSubscription, *, old: bool = False) -> JSONObject:
    """Return a subscription in the ``old`` form or the specification's, with the ``status`` of its deliveries."""
    return {**describe(entry.subscription, old=old), "status": asdict(entry.state)}


def describe(subscription: Subscription, *, old: bool = False) -> JSONObject:
    """Return a subscription as a document without secrets and without the status of deliveries.

    The document stays the same until the subscription is updated.
    """
    document: JSONObject = {"id": subscription.id}
    for name in ("source", "types", "filters", "config"):
        if value := getattr(subscription, name):
            document[name] = value
    document |= {"sink": subscription.sink, "protocol": subscription.protocol}
    if subscription.credential is not None:
        credential = subscription.credential
        document["sinkcredential"] = {"credentialtype": credential.credentialtype, **credential.members}
    if subscription.protocolsettings:
        document["protocolsettings"] = subscription.protocolsettings
    return _convert_to_older(document) if old else document


def _convert_to_older(document: JSONObject) -> JSONObject:
    """Convert ``document`` to the older form: one ``filter``, and the protocol ``HTTPS`` for https sinks."""
    filter_list = document.pop("filters", ())
    if filter_list:
        document["filter"] = filter_list[0] if len(filter_list) == 1 else {"all": list(filter_list)}
    if document["protocol"] == HTTP and urlsplit(document["sink"]).scheme == "https":
        document["protocol"] = _HTTPS
    return document


class _Reading:
    """The state of reading one document, with the findings so far. A member with a finding counts as absent."""

    def __init__(self, document: JSONObject, root: str) -> None:
        self._document = document
        self._root = root
        self.faults: list[Finding] = []

    def read_subscription(self) -> Subscription:
        """Return the subscription. Members with findings get their default values."""
        for name in self._document:
            if name not in _MEMBER_NAMES:
                message = f"there is no such member; there are {', '.join(_MEMBER_NAMES)}"
                self._report(f"/{name[:100]}", "unknown", message)
        protocol = self._read_protocol()
        return Subscription(
            id="",
            protocol=protocol,
            sink=self._read_text("sink", required=True),
            source=self._read_source(),
            types=self._read_types(),
            filters=tuple(self._read_filters()),
            config=self._read_config(),
            protocolsettings=_rename_settings(self._read_object("protocolsettings"), _OTHER_NAMES.get(protocol, {})),
            credential=self._read_credential(),
            root=self._root,
        )

    def _read_protocol(self) -> str:
        protocol = self._read_text("protocol", required=True)
        return HTTP if protocol == _HTTPS else protocol

    def _read_source(self) -> str:
        source = self._read_text("source")
        if source and of_source(source, self._root) is None:
            sources = ", ".join(f"{self._root}{path}" for path in ("/", *API_PATHS))
            self._report("/source", "unknown", f"no events are from there; sources are {sources}")
        return source

    def _read_types(self) -> tuple[str, ...]:
        types = self._document.get("types", [])
        if not isinstance(types, list) or len(types) > MOST_TYPES:
            self._report("/types", "type", f"it takes an array of at most {MOST_TYPES} texts")
            return ()
        for index, value in enumerate(types):
            if not isinstance(value, str) or not value:
                self._report(f"/types/{index}", "type", "it is a text, and not empty")
        return tuple(types)

    def _read_filters(self) -> Iterator[JSON]:
        """Yield the filters that must all hold, from the member ``filter`` or ``filters``."""
        if "filter" in self._document and "filters" in self._document:
            self._report("/filter", "value", "there is filters too: give one of them")
            return
        if "filter" in self._document:
            name, filter_list = "filter", self._document["filter"]
            filter_list = [filter_list] if isinstance(filter_list, dict) else filter_list
        else:
            name, filter_list = "filters", self._document.get("filters", [])
        if name == "filter" and not isinstance(self._document["filter"], dict):
            self._report("/filter", "type", "it takes a filter, an object")
        elif not isinstance(filter_list, list):
            self._report("/filters", "type", "it takes an array of filters")
        else:
            self.faults += _check_filters(filter_list, name)
            yield from filter_list

    def _read_config(self) -> JSONObject:
        config = self._read_object("config")
        for name in config:
            if name != "after":
                self._report(f"/config/{name[:100]}", "unknown", "there is no such member; there is after")
        if "after" in config:
            after = _parse_position(config["after"])
            if after is None:
                self._report("/config/after", "value", "it is a position of the change feed, a whole number from 0")
                return {}
            return {"after": after}
        return {}

    def _read_credential(self) -> Credential | None:
        if "sinkcredential" not in self._document:
            return None
        credential, faults = read_credential(self._document["sinkcredential"])
        self.faults += faults
        return credential

    def _read_object(self, name: str) -> JSONObject:
        value = self._document.get(name, {})
        if isinstance(value, dict):
            return value
        self._report(f"/{name}", "type", "it takes an object")
        return {}

    def _read_text(self, name: str, *, required: bool = False) -> str:
        if name not in self._document:
            if required:
                self._report(f"/{name}", "required", "it is required")
            return ""
        value = self._document[name]
        if isinstance(value, str) and 0 < len(value) <= LONGEST:
            return value
        self._report(f"/{name}", "type", f"it is a text of 1 to {LONGEST} characters")
        return ""

    def _report(self, path: str, rule: str, message: str) -> None:
        self.faults.append(_make_finding(path, rule, message))


def _check_filters(filter_list: list[JSON], name: str) -> list[Finding]:
    """Return the findings of each filter. If there are none, return the finding that there are too many filters."""
    whole = _check_filter(filter_list, name)
    if whole is None:
        return []
    single = [
        _check_filter([filter_document], name, index)
        for index, filter_document in enumerate(filter_list[: filters.MAX_FILTERS])
    ]
    return [fault for fault in single if fault] or [whole]


def _check_filter(filter_list: list[JSON], name: str, index: int = 0) -> Finding | None:
    try:
        filters.parse(filter_list)
    except filters.FilterError as error:
        path, _, message = str(error).partition(": ")
        place = f"/{name}/{index}" if name == "filters" else f"/{name}"
        return _make_finding(f"{place}{path.removeprefix('/0')}", "filter", message)
    return None


def _run_check(check: Check, subscription: Subscription) -> Iterator[Finding]:
    """Yield the finding of a protocol's ``check`` about a subscription, if there is one."""
    try:
        check(subscription)
    except SubscriptionError as error:
        path, _, message = str(error).partition(": ")
        yield _make_finding(path, "protocol", message)


def _rename_settings(settings: JSONObject, names: dict[str, str]) -> JSONObject:
    return {names.get(name, name): value for name, value in settings.items()}


def _parse_position(value: Any) -> int | None:
    """Return an integer from a number or a numeric string, or None.

    Strings are accepted because ``config`` has only strings in the OpenAPI document of the specification.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _FARTHEST:
        return value
    return None


def _make_finding(path: str, rule: str, message: str) -> Finding:
    return Finding(path=path, rule=rule, message=message)
