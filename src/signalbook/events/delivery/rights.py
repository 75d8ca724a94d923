"""What the owners of subscriptions may have delivered, under the policy in force when it is delivered."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from signalbook import values
from signalbook.access.base import ANONYMOUS, Identity
from signalbook.access.control import AccessControl
from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.access.policy import Policy
from signalbook.access.restricted import is_delivered, is_shown
from signalbook.storage.outbox import Record
from signalbook.storage.store import Store


class DeliveryRights:
    """Decides by the policy of ``control`` who may receive a change. For one thread only.

    An owner needs the right to subscribe and to read. A subscription from before there was a policy has no known owner
    and gets what anyone can read. A token that is revoked or expired gets nothing.
    """

    def __init__(self, store: Store, control: AccessControl) -> None:
        self._store = store
        self._control = control
        self._policy: Policy | None = None
        self._generation: Hashable = None
        self._granted: dict[Identity, _Grant] = {}

    def renew(self) -> None:
        """Take policy and tokens as they are now. Raises ``StorageError``, and what ``AccessControl.policy`` raises."""
        if self._control.open:
            return
        generation = self._store.generation()
        if generation != self._generation or self._control.is_stale(generation):
            self._policy = self._control.policy(generation)
            self._granted.clear()
            self._generation = generation

    def allow(self, owner: Identity | None, record: Record) -> bool:
        """Return True if a change may be delivered to a subscription of ``owner``, which is None if unknown."""
        if self._policy is None:
            return True
        if owner is None:
            return is_shown(record, self._policy.access(ANONYMOUS))
        access = self._find_access(owner, self._policy)
        return access is not None and is_delivered(record, access)

    def key(self, owner: Identity | None) -> Hashable:
        """Equal as long as ``allow`` says the same."""
        if self._policy is None:
            return UNRESTRICTED.key
        access = self._find_access(owner or ANONYMOUS, self._policy)
        return (owner is None, access and access.key)

    def _find_access(self, owner: Identity, policy: Policy) -> Access | None:
        """Return the rights of ``owner``, or None if the token it subscribed with is gone."""
        if not owner.token:
            return policy.access(owner)
        grant = self._granted.get(owner)
        if grant is None:
            self._granted[owner] = grant = self._grant(owner)
        return policy.access(owner) if grant() else None

    def _grant(self, owner: Identity) -> _Grant:
        with self._store.read() as transaction:
            token = transaction.tokens.get(owner.token)
        if token is None:
            return lambda: False
        return lambda: token.expires is None or values.now() < token.expires


_Grant = Callable[[], bool]
"""Whether a token counts now."""
