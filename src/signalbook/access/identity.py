"""Who makes a request, as far as it was proved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

ANYONE: Final = "anyone"
"""The principal that everybody is, also who says nothing of himself."""
AUTHENTICATED: Final = "authenticated"
"""The principal that everybody is who proved to be somebody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The ``subject`` and its ``groups``; no subject is an anonymous caller.

    ``issuer`` is that of the JWT they were read from, and ``token`` the id of the API token that came instead, whose
    ``scopes`` are the actions it is narrowed to: None is all of them.
    """

    subject: str = ""
    groups: frozenset[str] = frozenset()
    issuer: str = ""
    token: str = ""
    scopes: frozenset[str] | None = None

    @property
    def principals(self) -> Iterator[str]:
        """What rules may call it, such as ``group:payments``."""
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
        """What people know it by, in logs and the audit."""
        return self.subject or (f"token:{self.token}" if self.token else "anonymous")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOrigin:
    """Where a request came from: the address of its peer, and the one that a trusted proxy forwards.

    ``api`` is the path of the API that it came by, ``method`` what it wanted there.
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
