"""The sources that a server follows, as the setting ``follow`` names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from signalbook.replication.link import within
from signalbook.replication.scope import Scope, ScopeError
from signalbook.settings import SettingError
from signalbook.uris import is_address, without_user
from signalbook.values import digest


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedSource:
    """A registry at ``url``, and what of it is copied."""

    url: str
    scope: Scope

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``URL``, ``URL#XID`` or, for a Group under another name, ``URL#XID=NAME``. Raises ``SettingError``."""
        url, _, part = text.partition("#")
        xid, _, name = part.partition("=")
        if not is_address(url):
            raise SettingError(f"follow: {text!r} does not begin with the URL of a registry")
        try:
            scope = Scope.parse(xid or "/", [f"{xid.strip('/')}={name}"] if name else ())
        except ScopeError as error:
            raise SettingError(f"follow: {text!r}: {error}") from None
        return cls(url=url.rstrip("/"), scope=scope)

    @property
    def shown(self) -> str:
        """It as the setting says it, but for a user and a password."""
        renamed = "".join(f"={new}" for new in self.scope.renames.values())
        part = f"#{self.scope.xid}{renamed}" if self.scope.xid.parts else ""
        return f"{without_user(self.url)}{part}"

    @property
    def name(self) -> str:
        """What tells it from others, for notes."""
        return digest(self.shown.encode())[:16]

    def speaks(self, source: str) -> bool:
        """Whether an event with this ``source`` is from there: from its root, or from a door below it."""
        return within(source, without_user(self.url))
