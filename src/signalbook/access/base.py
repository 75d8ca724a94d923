"""What access is about: actions and the roles that name them, identities, and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from signalbook.errors import SignalbookError
from signalbook.xid import Xid


class Action(IntFlag):
    """Something that is done to an xid, or several such things."""

    LIST = 1
    """See the ids of a collection."""
    READ = 2
    CREATE = 4
    """Make a Group or a Resource."""
    UPDATE = 8
    """Change what there is: its attributes, meta and documents, and new Versions of it."""
    DELETE = 16
    """Remove a Group, a Resource or Versions of it."""
    CONFIGURE = 32
    """Change the model and the capabilities, and start what the server does by itself."""
    SUBSCRIBE = 64
    """Have events delivered."""
    REPORT = 128
    """Report what a pipeline did, and read such reports."""
    ADMINISTER = 256
    """Change who may do what, and make tokens."""
    AUDIT = 512
    """Read who did what, and what was refused to whom."""

    @property
    def word(self) -> str:
        """The name of a single action in documents."""
        return str(self.name).lower()


NOTHING: Final = Action(0)
EVERYTHING: Final = Action(sum(Action))
WHOLE: Final = Action.CONFIGURE | Action.ADMINISTER | Action.AUDIT
"""Actions on the registry as a whole. A rule cannot limit them to a part of it."""
WRITES: Final = Action.CREATE | Action.UPDATE | Action.DELETE
ACTIONS: Final = {action.word: action for action in Action}

_READER: Final = Action.LIST | Action.READ
ROLES: Final = {
    "reader": _READER,
    "writer": _READER | Action.CREATE | Action.UPDATE,
    "owner": _READER | WRITES | Action.SUBSCRIBE | Action.REPORT,
    "auditor": Action.AUDIT,
    "administrator": EVERYTHING,
}


def words(actions: Action) -> list[str]:
    """The actions by name, in their order."""
    return [action.word for action in actions]


ANYONE: Final = "anyone"
"""The principal that everybody is, also who says nothing of himself."""
AUTHENTICATED: Final = "authenticated"
"""The principal that everybody is who proved to be somebody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The ``subject`` and its ``groups``; no subject is an anonymous caller.

    ``issuer`` is that of the JWT they were read from, and ``token`` the id of the API token that came instead, whose
    ``scopes`` are the actions it is narrowed to: None is all of them. ``session`` is the id of the session it is of,
    if it is of one, and ``displayname`` what pages call the subject there.
    """

    subject: str = ""
    groups: frozenset[str] = frozenset()
    issuer: str = ""
    token: str = ""
    scopes: frozenset[str] | None = None
    session: str = ""
    displayname: str = ""

    @property
    def principals(self) -> Iterator[str]:
        """The names that rules may use for the identity, such as ``group:payments``."""
        yield ANYONE
        if self.subject or self.token:
            yield AUTHENTICATED
        if self.subject:
            yield f"subject:{self.subject}"
        if self.token:
            yield f"token:{self.token}"
        for group in self.groups:
            yield f"group:{group}"

    @property
    def name(self) -> str:
        """The name of the identity in logs and the audit."""
        return self.subject or (f"token:{self.token}" if self.token else "anonymous")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOrigin:
    """The origin of a request: the address of its peer, and the one that a trusted proxy forwards.

    ``api`` is the path of the API and ``method`` the method of the request.
    """

    peer: str = ""
    forwarded: str = ""
    api: str = ""
    method: str = ""

    @property
    def address(self) -> str:
        """The address of whoever made it, as far as that is known."""
        return self.forwarded or self.peer


ANONYMOUS: Final = Identity()


class Unauthenticated(SignalbookError):
    """Credentials that are needed and missing, or that prove nothing; the message says what is wrong with them.

    ``token`` is the id of the API token that they say they are.
    """

    def __init__(self, message: str, *, token: str = "") -> None:
        super().__init__(message)
        self.token = token


class AuthenticationUnavailable(SignalbookError):
    """Credentials that cannot be checked at present, since their issuer does not answer."""


class CredentialsNeeded(Unauthenticated):
    """The error for a request without credentials that anonymous callers must not make."""

    def __init__(self, reason: str = "this registry is not open to everybody") -> None:
        super().__init__(f"{reason}: send credentials")


_DONE_TO: Final = {Action.SUBSCRIBE: "subscribe to", Action.REPORT: "make or read reports of"}
"""Actions whose word is no verb that an xid can follow, in errors."""


class Forbidden(SignalbookError):
    """``action`` on ``xid`` is not allowed to whoever asks, be there anything or not.

    ``why`` is what the rules lack, or what of the request takes it, and tells nothing of what there is.
    """

    def __init__(self, action: Action, xid: Xid, why: str = "") -> None:
        verb = _DONE_TO.get(action)
        act = f"{action.word} {xid}" if verb is None else f"{verb} {xid if xid.parts else 'anything here'}"
        super().__init__(f"you may not {act}: {why}" if why else f"you may not {act}")
        self.action = action
        self.xid = xid
