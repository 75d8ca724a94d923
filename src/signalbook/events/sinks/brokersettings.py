"""Protocol settings and credentials of brokers, read and checked (subscriptions/spec.md 3.2.2; D-30, D-31)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from signalbook.events.subscriptions.subscription import Subscription, SubscriptionError

PLAIN: Final = "PLAIN"
_LONGEST: Final = 4096
_MOST: Final = 64


class Settings:
    """The ``protocolsettings`` of a subscription; ``names`` are all that its protocol knows.

    Everything raises ``SubscriptionError`` with the place of the fault.
    """

    def __init__(self, subscription: Subscription, names: Sequence[str]) -> None:
        self._values = subscription.protocolsettings
        unknown = next((name for name in self._values if name not in names), None)
        if unknown is not None:
            known = ", ".join(names)
            raise wrong(unknown, f"{subscription.protocol} has no such setting; there are {known}")

    def text(self, name: str, default: str = "") -> str:
        """A string without control characters; not empty if it is there."""
        value = self._values.get(name, default)
        if not isinstance(value, str) or len(value) > _LONGEST or not value.isprintable():
            raise wrong(name, f"it is a string of up to {_LONGEST} printable characters")
        if name in self._values and not value:
            raise wrong(name, "it is empty")
        return value

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of these strings, the first unless another is said; a whole number is taken as it is written."""
        value = self._values.get(name, choices[0])
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or value not in choices:
            raise wrong(name, f"it is {', '.join(choices)}")
        return value

    def whole(self, name: str, least: int, most: int) -> int | None:
        """A whole number, None if it is not there."""
        value = self._values.get(name)
        if value is None and name not in self._values:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise wrong(name, f"it is a whole number from {least} to {most}")
        return value

    def flag(self, name: str) -> bool:
        """A boolean, false if it is not there."""
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise wrong(name, "it is true or false")
        return value

    def texts(self, name: str) -> Mapping[str, str]:
        """An object of strings."""
        value: Any = self._values.get(name, {})
        if not isinstance(value, dict) or len(value) > _MOST:
            raise wrong(name, f"it is an object of at most {_MOST} names and values")
        for key, content in value.items():
            if not isinstance(content, str) or not key or len(key) + len(content) > _LONGEST:
                raise wrong(f"{name}/{key[:128]}", f"it is a string of up to {_LONGEST} characters")
            if not (key + content).isprintable():
                raise wrong(f"{name}/{key[:128]}", "control characters mean nothing here")
        return value


def wrong(name: str, detail: str) -> SubscriptionError:
    """That a setting is not what it has to be."""
    return SubscriptionError(f"/protocolsettings/{name[:128]}: {detail}")


def user(subscription: Subscription) -> tuple[str, str]:
    """Name and password, empty without a credential. Raises ``SubscriptionError`` for another kind of credential."""
    credential = subscription.credential
    if credential is None:
        return "", ""
    if credential.credentialtype != PLAIN:
        raise SubscriptionError(f"/sinkcredential/credentialtype: {subscription.protocol} knows {PLAIN}")
    name = credential.members.get("identifier", "")
    password = credential.secrets.get("secret", "")
    for member, value in (("identifier", name), ("secret", password)):
        if not value or len(value) > _LONGEST or "\0" in value:
            raise SubscriptionError(f"/sinkcredential/{member}: it is a string of 1 to {_LONGEST} characters")
    return name, password
