"""Decide which changes the owners of subscriptions may receive, under the policy at the time of delivery."""

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
    """Decides with the policy of ``control`` which changes an owner may receive. For one thread only.

    An owner needs the rights to subscribe and to read. A subscription that was created with open access has no owner,
    and gets changes that anyone can read. An owner whose token is revoked or expired gets nothing.
    """

    def __init__(self, store: Store, control: AccessControl) -> None:
        self._store = store
        self._control = control
        self._policy: Policy | None = None
        self._generation: Hashable = None
        self._granted: dict[Identity, _Grant] = {}

    def renew(self) -> None:
        """Load the current policy and tokens. Raises ``StorageError``, and the errors of ``AccessControl.policy``."""
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
        """Return a key that stays the same while ``allow`` decides the same for ``owner``."""
        if self._policy is None:
            return UNRESTRICTED.key
        access = self._find_access(owner or ANONYMOUS, self._policy)
        return (owner is None, access and access.key)

    def _find_access(self, owner: Identity, policy: Policy) -> Access | None:
        """Return the rights of ``owner``, or None if the token it subscribed with is revoked or expired."""
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
"""Returns True if a token is valid now."""
