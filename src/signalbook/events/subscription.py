"""Represent a subscription: the events to deliver, and the sink for them (CloudEvents subscriptions/spec.md 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from signalbook.access.base import Identity
from signalbook.errors import SignalbookError
from signalbook.values import JSON, Finding, JSONObject, can_parse_timestamp

HTTP: Final = "HTTP"


class SubscriptionError(SignalbookError):
    """The error for an invalid subscription. The message begins with the path of the problem in its document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """The credential for a sink (D-31). ``secrets`` has the members that the API never returns."""

    credentialtype: str
    members: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A subscription (D-28). An event must match ``source``, ``types`` and ``filters``.

    Empty ``types`` or ``filters`` match every event; an empty ``source`` means the registry root. ``sink`` is a URI for
    ``protocol``. The protocol defines ``protocolsettings`` and ``credential``. ``root`` is the URL of the registry as
    the subscriber knows it; ``source`` and the sources of events begin with it. Only events that ``owner`` may read are
    delivered; None means that the subscription was created with open access. ``fault`` is the current reason why
    nothing can be delivered, such as unreadable secrets. ``revision`` changes with each write. ``sink`` and
    ``protocolsettings`` may contain secrets.
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
    """The members of one ``credentialtype``, in addition to members that every type may have."""

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
"""The types of the specification, and ``SIGNATURE`` for sinks that need only signed deliveries."""

SECRET_MEMBERS: Final = frozenset({"secret", "accesstoken", "refreshtoken", "signingsecret"})
_EVERYWHERE: Final = ("signingsecret",)


def read_credential(document: JSON) -> tuple[Credential | None, list[Finding]]:
    """Return the credential in the document of a subscription, and findings about it.

    The credential is None if the document is not an object or its type is unknown. Stored secrets that the document
    leaves out are not added yet.
    """
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
    """Return ``subscription`` with the secrets that it leaves out, taken from its ``stored`` form.

    Secrets are added only if the protocol, the sink, the type of the credential and its token endpoint are unchanged.
    Otherwise a caller who may update a subscription could have its secrets sent elsewhere.
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
    """Return the parts of a subscription to which its secrets are bound, so that no other sink can get them."""
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


_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {"accesstokenexpiresutc": can_parse_timestamp}


def _make_finding(path: str, rule: str, message: str) -> Finding:
    # Messages must not contain the value: it may be a secret in the wrong member.
    return Finding(path=f"{CREDENTIAL_PATH}{path}", rule=rule, message=message)
