"""Refusals."""

from __future__ import annotations

from signalbook.access.actions import Action
from signalbook.errors import SignalbookError
from signalbook.xid import Xid


class Unauthenticated(SignalbookError):
    """Credentials that are needed and missing, or that prove nothing; the message says what is wrong with them."""


class AuthenticationUnavailable(SignalbookError):
    """Credentials that cannot be checked at present, since their issuer does not answer."""


class CredentialsNeeded(Unauthenticated):
    """Nothing was presented, where not everybody may do what is asked for."""

    def __init__(self, what: str = "this registry is not open to everybody") -> None:
        super().__init__(f"{what}: send credentials")


class Forbidden(SignalbookError):
    """``action`` on ``xid`` is not allowed to whoever asks, be there anything or not."""

    def __init__(self, action: Action, xid: Xid) -> None:
        super().__init__(f"you may not {action.word} {xid}")
        self.action = action
        self.xid = xid
