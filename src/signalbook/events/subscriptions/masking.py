"""Mask secrets in a subscription outside its credential: values of HTTP headers, and parameters in the URL of its sink.

They are sealed in the store with the secrets of the credential. Stored and shown documents have a mask in their place.
A client that sends a mask back leaves the value unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from signalbook.events.subscription import HTTP, Subscription
from signalbook.values import Finding, dump_json, parse_json

MASK: Final = "***"
_PARAMETER: Final = re.compile(r"(?<=[?&])([^=&#]*)=([^&#]+)")
_REVEALING: Final = re.compile(r"token|secret|passw|pwd|key|sig|auth|cred|code|sas|session", re.IGNORECASE)
"""Parts of the names of secret parameters, including Azure's ``code`` and ``sig``. Masking too many does no harm."""
_SINK: Final = "sink"
_HEADERS_MEMBER: Final = "protocolsettings.headers"


def mask_sink(sink: str) -> str:
    """Return a URL without the values of parameters that look like secrets."""
    return _PARAMETER.sub(lambda match: f"{match[1]}={MASK}" if _REVEALING.search(match[1]) else match[0], sink)


def mask(subscription: Subscription) -> Subscription:
    """Return the subscription with masks in place of header values and secret parameters, to be stored and shown.

    Its ``credential`` is not changed.
    """
    settings = subscription.protocolsettings
    if headers := _find_headers(subscription):
        settings = {**settings, "headers": dict.fromkeys(headers, MASK)}
    return replace(subscription, sink=mask_sink(subscription.sink), protocolsettings=settings)


def extract_secrets(subscription: Subscription) -> dict[str, str]:
    """Return the values that ``mask`` replaces, to be sealed. ``reveal`` restores them."""
    secrets = {}
    if mask_sink(subscription.sink) != subscription.sink:
        secrets[_SINK] = subscription.sink
    if headers := _find_headers(subscription):
        secrets[_HEADERS_MEMBER] = dump_json(dict(headers)).decode()
    return secrets


def reveal(subscription: Subscription, secrets: Mapping[str, str]) -> tuple[Subscription, dict[str, str]]:
    """Return the subscription without masks, and the members of ``secrets`` that belong to its credential."""
    credential_secrets = dict(secrets)
    sink = credential_secrets.pop(_SINK, subscription.sink)
    settings = subscription.protocolsettings
    if _HEADERS_MEMBER in credential_secrets:
        settings = {**settings, "headers": parse_json(credential_secrets.pop(_HEADERS_MEMBER))}
    return replace(subscription, sink=sink, protocolsettings=settings), credential_secrets


def with_known_values(subscription: Subscription, stored: Subscription | None) -> Subscription:
    """Return ``subscription`` with the values of ``stored`` in place of masks, if both have one protocol and sink."""
    if stored is None or stored.protocol != subscription.protocol:
        return subscription
    if mask_sink(stored.sink) != mask_sink(subscription.sink):
        return subscription
    old = dict(_PARAMETER.findall(stored.sink))

    def whole_parameter(match: re.Match[str]) -> str:
        return f"{match[1]}={old[match[1]]}" if _is_mask(match) else match[0]

    sink = _PARAMETER.sub(whole_parameter, subscription.sink)
    settings, before = subscription.protocolsettings, _find_headers(stored)
    if headers := _find_headers(subscription):
        whole = {name: before.get(name, value) if value == MASK else value for name, value in headers.items()}
        settings = {**settings, "headers": whole}
    return replace(subscription, sink=sink, protocolsettings=settings)


def find_left_masks(subscription: Subscription) -> Iterator[Finding]:
    """Yield a finding for each mask whose value is unknown."""
    message = f"{MASK} stands for a value that is not shown, and there is none to take: give it"
    if any(map(_is_mask, _PARAMETER.finditer(subscription.sink))):
        yield Finding(path="/sink", rule="value", message=message)
    for name, value in _find_headers(subscription).items():
        if value == MASK:
            yield Finding(path=f"/protocolsettings/headers/{name}", rule="value", message=message)


def _is_mask(parameter: re.Match[str]) -> bool:
    return parameter[2] == MASK and _REVEALING.search(parameter[1]) is not None


def _find_headers(subscription: Subscription) -> Mapping[str, str]:
    headers = subscription.protocolsettings.get("headers")
    return headers if subscription.protocol == HTTP and isinstance(headers, dict) else {}
