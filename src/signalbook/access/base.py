"""The basic types of access control: actions, roles, identities and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from signalbook.errors import SignalbookError
from signalbook.xid import Xid


class Action(IntFlag):
    """An action on an xid, or a combination of several actions."""

    LIST = 1
    """See the ids of a collection."""
    READ = 2
    CREATE = 4
    """Create a Group or a Resource."""
    UPDATE = 8
    """Change an existing entity: its attributes, meta and documents, or add Versions to it."""
    DELETE = 16
    """Remove a Group, a Resource or Versions of it."""
    CONFIGURE = 32
    """Change the model and the capabilities, and start background tasks of the server."""
    SUBSCRIBE = 64
    """Subscribe to events."""
    REPORT = 128
    """Report what a pipeline did, and read such reports."""
    ADMINISTER = 256
    """Change the access policy, and create tokens."""
    AUDIT = 512
    """Read the audit log."""

    @property
    def word(self) -> str:
        """The name of a single action in documents, in lower case."""
        return str(self.name).lower()


NOTHING: Final = Action(0)
EVERYTHING: Final = Action(sum(Action))
WHOLE: Final = Action.CONFIGURE | Action.ADMINISTER | Action.AUDIT
"""Actions on the registry as a whole. A rule cannot limit them to a part of the registry."""
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
    """Return the names of the actions, in the order of ``Action``."""
    return [action.word for action in actions]


ANYONE: Final = "anyone"
"""The principal that every caller has, including anonymous callers."""
AUTHENTICATED: Final = "authenticated"
"""The principal that every caller with valid credentials has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A caller: its ``subject`` and ``groups``. An empty subject without a token is an anonymous caller.

    ``issuer`` is the issuer of the JWT that named the subject. ``token`` is the id of the API token that was presented,
    and ``scopes`` the actions to which it is limited; None means all actions. ``session`` is the id of the login
    session, if there is one, and ``displayname`` the name that pages show for the subject.
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
        """The name of the identity in logs and the audit log."""
        return self.subject or (f"token:{self.token}" if self.token else "anonymous")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOrigin:
    """The origin of a request: the address of its ``peer``, and the client address that a trusted proxy forwarded.

    ``api`` is the path of the API and ``method`` the method of the request.
    """

    peer: str = ""
    forwarded: str = ""
    api: str = ""
    method: str = ""

    @property
    def address(self) -> str:
        """The client's address as far as it is known: the forwarded address, else the peer's."""
        return self.forwarded or self.peer


ANONYMOUS: Final = Identity()


class Unauthenticated(SignalbookError):
    """Credentials are required and missing, or invalid. The message says what is wrong with them.

    ``token`` is the id of the API token that the credentials claim to be, or "".
    """

    def __init__(self, message: str, *, token: str = "") -> None:
        super().__init__(message)
        self.token = token


class AuthenticationUnavailable(SignalbookError):
    """Credentials cannot be checked at present, because their issuer does not respond."""


class CredentialsNeeded(Unauthenticated):
    """An anonymous request needs credentials."""

    def __init__(self, reason: str = "this registry is not open to everybody") -> None:
        super().__init__(f"{reason}: send credentials")


_DONE_TO: Final = {Action.SUBSCRIBE: "subscribe to", Action.REPORT: "make or read reports of"}
"""The phrases that error messages use for actions whose name is not a verb that an xid can follow."""


class Forbidden(SignalbookError):
    """The caller may not do ``action`` on ``xid``, whether the entity exists or not.

    ``why`` says which right is missing, or which part of the request needs it. It reveals nothing about existing
    entities.
    """

    def __init__(self, action: Action, xid: Xid, why: str = "") -> None:
        verb = _DONE_TO.get(action)
        act = f"{action.word} {xid}" if verb is None else f"{verb} {xid if xid.parts else 'anything here'}"
        super().__init__(f"you may not {act}: {why}" if why else f"you may not {act}")
        self.action = action
        self.xid = xid
