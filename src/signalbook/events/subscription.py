"""A subscription: which events are wanted, and where they go (CloudEvents subscriptions/spec.md 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from signalbook.access.base import Identity
from signalbook.errors import SignalbookError
from signalbook.values import JSON, Finding, JSONObject, parse_timestamp

HTTP: Final = "HTTP"


class SubscriptionError(SignalbookError):
    """A subscription that cannot be; the message begins with the place of the fault in its document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """The credential for a sink (D-31). ``secrets`` holds the members that nobody may read back."""

    credentialtype: str
    members: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A subscription (D-28). ``source`` and ``types`` narrow what ``filters`` let pass; empty ones do not.

    ``sink`` is a URI of the ``protocol``; ``protocolsettings`` and ``credential`` are that protocol's, too. ``root`` is
    the registry's URL as the subscriber knows it: ``source`` is below it, and so is the source of the events.
    Deliveries have the rights of ``owner``, None if it was made with open access. ``fault`` is the reason why nothing
    can be delivered at present, such as unreadable secrets. ``revision`` changes with each write. Sinks and settings
    may hold secrets.
    """

    id: str
    protocol: str
    sink: str = field(repr=False)
    source: str = ""
    types: tuple[str, ...] = ()
    filters: tuple[JSON, ...] = ()
    config: JSONObject = field(default_factory=dict)
    protocolsettings: JSONObject = field(default_factory=dict, repr=False)
    credential: Credential | None = None
    root: str = ""
    owner: Identity | None = None
    revision: int = 0
    fault: str = ""


CREDENTIAL_PATH: Final = "/sinkcredential"
_MAX_MEMBER_CHARS: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialType:
    """The members of one ``credentialtype``, beside those that every type may have."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


CREDENTIAL_TYPES: Final[Mapping[str, CredentialType]] = {
    "PLAIN": CredentialType(required=("identifier", "secret")),
    "ACCESSTOKEN": CredentialType(required=("accesstoken",), optional=("accesstokenexpiresutc", "accesstokentype")),
    "REFRESHTOKEN": CredentialType(
        required=("refreshtoken", "refreshtokenendpoint"),
        optional=("accesstoken", "accesstokenexpiresutc", "accesstokentype"),
    ),
    "SIGNATURE": CredentialType(required=("signingsecret",)),
}
"""Those of the specification, and one for sinks that want nothing but signed deliveries."""

SECRET_MEMBERS: Final = frozenset({"secret", "accesstoken", "refreshtoken", "signingsecret"})
_EVERYWHERE: Final = ("signingsecret",)


def read_credential(document: JSON) -> tuple[Credential | None, list[Finding]]:
    """The credential in a subscription's document, its secrets not yet complete, and what is wrong with it."""
    if not isinstance(document, dict):
        return None, [_make_finding("", "type", "it takes an object")]
    kind = document.get("credentialtype")
    if not isinstance(kind, str) or kind not in CREDENTIAL_TYPES:
        return None, [_make_finding("/credentialtype", "value", f"it is one of {', '.join(CREDENTIAL_TYPES)}")]
    faults = list(_check_members(document, CREDENTIAL_TYPES[kind]))
    texts = {name: value for name, value in document.items() if name != "credentialtype" and isinstance(value, str)}
    members = {name: value for name, value in texts.items() if name not in SECRET_MEMBERS}
    secret = {name: value for name, value in texts.items() if name in SECRET_MEMBERS}
    return Credential(credentialtype=kind, members=members, secrets=secret), faults


def with_known_secrets(subscription: Subscription, stored: Subscription | None) -> Subscription:
    """``subscription`` with the secrets that it leaves out, taken from what is ``stored`` of it.

    Only if they go where they went before: who may update a subscription must not have its secrets sent elsewhere.
    """
    new = subscription.credential
    if new is None or stored is None or stored.credential is None or _goes_to(subscription) != _goes_to(stored):
        return subscription
    return replace(subscription, credential=replace(new, secrets={**stored.credential.secrets, **new.secrets}))


def find_missing_secrets(subscription: Subscription) -> Iterator[Finding]:
    """Yield a finding for each required secret that is missing."""
    credential = subscription.credential
    if credential is None:
        return
    for name in CREDENTIAL_TYPES[credential.credentialtype].required:
        if name in SECRET_MEMBERS and name not in credential.secrets:
            message = "it is required, and again when sink, protocol or type of the credential change"
            yield _make_finding(f"/{name}", "required", message)


def secret_binding(subscription: Subscription) -> JSON:
    """Return the parts of a subscription that its secrets belong to: no other sink may get them."""
    return [subscription.id, *_goes_to(subscription)]


def _goes_to(subscription: Subscription) -> tuple[str, ...]:
    credential = subscription.credential
    if credential is None:
        return (subscription.protocol, subscription.sink)
    endpoint = credential.members.get("refreshtokenendpoint", "")
    return (subscription.protocol, subscription.sink, credential.credentialtype, endpoint)


def _check_members(document: JSONObject, type: CredentialType) -> Iterator[Finding]:
    allowed = (*type.required, *type.optional, *_EVERYWHERE)
    for name, value in document.items():
        if name == "credentialtype":
            continue
        if name not in allowed:
            yield _make_finding(
                f"/{name}", "unknown", f"there is no such member; there are {', '.join(dict.fromkeys(allowed))}"
            )
        elif not isinstance(value, str) or not 0 < len(value) <= _MAX_MEMBER_CHARS:
            yield _make_finding(f"/{name}", "type", f"it is a text of 1 to {_MAX_MEMBER_CHARS} characters")
        elif name in _CHECKS and not _CHECKS[name](value):
            yield _make_finding(f"/{name}", "value", "it is a timestamp such as 2030-12-19T06:00:00Z")
    for name in type.required:
        if name not in SECRET_MEMBERS and name not in document:
            yield _make_finding(f"/{name}", "required", "it is required")


def _is_timestamp(text: str) -> bool:
    try:
        parse_timestamp(text)
    except ValueError:
        return False
    return True


_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {"accesstokenexpiresutc": _is_timestamp}


def _make_finding(path: str, rule: str, message: str) -> Finding:
    # The value is never repeated: it may be a secret that is in the wrong place.
    return Finding(path=f"{CREDENTIAL_PATH}{path}", rule=rule, message=message)
