"""What a credential may hold, and which of it nobody may read back (subscriptions/spec.md 3.2.3; D-31)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from signalbook.events.subscriptions.subscription import Credential, Subscription
from signalbook.values import JSON, Finding, JSONObject, parse_timestamp

PLACE: Final = "/sinkcredential"
_LONGEST: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """The members of one ``credentialtype``, beside those that every type may have."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


TYPES: Final[Mapping[str, Type]] = {
    "PLAIN": Type(required=("identifier", "secret")),
    "ACCESSTOKEN": Type(required=("accesstoken",), optional=("accesstokenexpiresutc", "accesstokentype")),
    "REFRESHTOKEN": Type(
        required=("refreshtoken", "refreshtokenendpoint"),
        optional=("accesstoken", "accesstokenexpiresutc", "accesstokentype"),
    ),
    "SIGNATURE": Type(required=("signingsecret",)),
}
"""Those of the specification, and one for sinks that want nothing but signed deliveries."""

SECRETS: Final = frozenset({"secret", "accesstoken", "refreshtoken", "signingsecret"})
_EVERYWHERE: Final = ("signingsecret",)


def read(document: JSON) -> tuple[Credential | None, list[Finding]]:
    """The credential in a subscription's document, its secrets not yet complete, and what is wrong with it."""
    if not isinstance(document, dict):
        return None, [_fault("", "type", "it takes an object")]
    kind = document.get("credentialtype")
    if not isinstance(kind, str) or kind not in TYPES:
        return None, [_fault("/credentialtype", "value", f"it is one of {', '.join(TYPES)}")]
    faults = list(_faults(document, TYPES[kind]))
    texts = {name: value for name, value in document.items() if name != "credentialtype" and isinstance(value, str)}
    shown = {name: value for name, value in texts.items() if name not in SECRETS}
    secret = {name: value for name, value in texts.items() if name in SECRETS}
    return Credential(credentialtype=kind, members=shown, secrets=secret), faults


def completed(subscription: Subscription, known: Subscription | None) -> Subscription:
    """``subscription`` with the secrets that it leaves out, taken from what is ``known`` of it.

    Only if they go where they went before: who may update a subscription must not have its secrets sent elsewhere.
    """
    new = subscription.credential
    if new is None or known is None or known.credential is None or _goes_to(subscription) != _goes_to(known):
        return subscription
    return replace(subscription, credential=replace(new, secrets={**known.credential.secrets, **new.secrets}))


def missing(subscription: Subscription) -> Iterator[Finding]:
    """The secrets that have to be there and are not."""
    credential = subscription.credential
    if credential is None:
        return
    for name in TYPES[credential.credentialtype].required:
        if name in SECRETS and name not in credential.secrets:
            message = "it is required, and again when sink, protocol or type of the credential change"
            yield _fault(f"/{name}", "required", message)


def bound(subscription: Subscription) -> JSON:
    """What the secrets of a subscription belong to: nothing else may be sent them."""
    return [subscription.id, *_goes_to(subscription)]


def _goes_to(subscription: Subscription) -> tuple[str, ...]:
    credential = subscription.credential
    assert credential is not None
    endpoint = credential.members.get("refreshtokenendpoint", "")
    return (subscription.protocol, subscription.sink, credential.credentialtype, endpoint)


def _faults(document: JSONObject, type: Type) -> Iterator[Finding]:
    known = (*type.required, *type.optional, *_EVERYWHERE)
    for name, value in document.items():
        if name == "credentialtype":
            continue
        if name not in known:
            yield _fault(f"/{name}", "unknown", f"there is no such member; there are {', '.join(dict.fromkeys(known))}")
        elif not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
            yield _fault(f"/{name}", "type", f"it is a text of 1 to {_LONGEST} characters")
        elif name in _CHECKS and not _CHECKS[name](value):
            yield _fault(f"/{name}", "value", "it is a timestamp such as 2030-12-19T06:00:00Z")
    for name in type.required:
        if name not in SECRETS and name not in document:
            yield _fault(f"/{name}", "required", "it is required")


def _is_timestamp(text: str) -> bool:
    try:
        parse_timestamp(text)
    except ValueError:
        return False
    return True


_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {"accesstokenexpiresutc": _is_timestamp}


def _fault(path: str, rule: str, message: str) -> Finding:
    # The value is never repeated: it may be a secret that is in the wrong place.
    return Finding(path=f"{PLACE}{path}", rule=rule, message=message)
