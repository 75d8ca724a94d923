"""The policy in force. It is stored in the database, or read from a file that is checked for changes
(``access_file``)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Final

from signalbook.access import audit, tokens
from signalbook.access.base import Action, Identity
from signalbook.access.decisions import Access
from signalbook.access.policy import InvalidPolicy, Policy, identity_of, read_policy
from signalbook.documents import DocumentError, read_document
from signalbook.errors import SignalbookError
from signalbook.settings import SettingError, Settings
from signalbook.storage.audit import AuditEntry
from signalbook.storage.base import StorageError
from signalbook.storage.settings import SettingsReader
from signalbook.storage.store import KeyValueStore, ReadTransaction, Store, WriteTransaction
from signalbook.values import JSON, JSONObject
from signalbook.xid import ROOT

CONFIG: Final = "access"
"""The name of the configuration document that holds the stored policy."""
MAX_BYTES: Final = 16 * 1024 * 1024
MAX_DEPTH: Final = 8
OPEN: Final = "open"

_LOG: Final = logging.getLogger("signalbook.access")
_FILE_KEY: Final = "access_file"
"""The key under which the last usable policy of a file is stored. A server process that starts while the file is
unusable uses it."""

_Mark = tuple[int, int, int]


class PolicyRefused(SignalbookError):
    """A valid policy that is rejected nevertheless. The message says why and what to do."""


def check_access_settings(settings: Settings) -> None:
    """Raise ``SettingError`` if ``access`` has an invalid value or contradicts ``access_file``."""
    if settings.access not in ("", OPEN):
        raise SettingError(f'access is "{OPEN}" or empty, not {settings.access!r}')
    if settings.access and settings.access_file:
        raise SettingError(f"access is {OPEN}, and access_file a policy: leave out one of them")


def read_policy_file(path: Path) -> Policy:
    """Read the policy in a file. Raises ``DocumentError``, ``InvalidPolicy``."""
    document, _ = read_document(path, max_bytes=MAX_BYTES, max_depth=MAX_DEPTH, unique=True)
    return read_policy(document)


class AccessControl:
    """The access policy in force. Create one per process; it is thread-safe.

    If ``settings.access_file`` is set, the policy comes from that file instead of the store. If the file becomes
    unusable, the previous policy stays in force. Raises ``SettingError`` if the file is unusable at the start and no
    earlier version of it was stored, and for an unknown value of ``access``.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        check_access_settings(settings)
        self._open = settings.access == OPEN
        self._store = store
        self._lock = threading.Lock()
        self._policy: Policy | None = None
        self._generation: Hashable = object()  # equal to none of a store
        self._compiled: tuple[int, Policy | None] = (-1, None)
        self._file = _PolicyFile(store, settings) if settings.access_file else None
        self._seconds = settings.reload_seconds
        self._looked = time.monotonic()
        if self._file is not None:
            self._policy = self._file.begin()

    @property
    def open(self) -> bool:
        """True if the setting ``access`` opens the registry to everybody."""
        return self._open

    def is_stale(self, generation: Hashable) -> bool:
        """Return True if ``policy(generation)`` would have to read the store or the file. Does no I/O."""
        if self._open:
            return False
        if self._file is not None:
            return 0 < self._seconds <= time.monotonic() - self._looked
        return generation != self._generation

    def policy(self, generation: Hashable) -> Policy | None:
        """Return the policy in force, given the store's current ``generation``, or None if there is no policy.

        Do not call this inside a transaction. Raises ``StorageError``, and ``SignalbookError`` if the stored policy
        cannot be used: then every request is refused.
        """
        if self.is_stale(generation):
            with self._lock:
                if self.is_stale(generation):
                    self._renew(generation)
        return self._policy

    def current(self) -> Policy | None:
        """Return the current policy. While access is open, return the stored policy, which is not in force. Raises as
        ``policy``."""
        if not self._open:
            return self.policy(self._store.generation())
        with self._store.read() as transaction:
            return self.stored(transaction)

    def is_stored(self, transaction: ReadTransaction) -> bool:
        """Return True if a policy is stored, usable or not."""
        return transaction.settings.config(CONFIG) is not None

    def stored(self, transaction: ReadTransaction) -> Policy | None:
        """Return the stored policy, or None. A policy file takes precedence over it. Raises as ``policy``."""
        return self._load_stored(transaction)[1]

    def count_changes(self) -> int:
        """Return how often the policy in force has changed, counting changes in the store and of the file."""
        with self._store.read() as transaction:
            file_state = transaction.settings.get(_FILE_KEY) or {}
            return transaction.settings.config_epoch(CONFIG) + int(file_state.get("number", 0))

    def identity(self, names: Iterable[str]) -> Identity:
        """Return the identity that rules call by these ``names``. If one is an existing token, include its subject and
        groups.

        Raises ``ValueError``, which says what is wrong with the names, and ``StorageError``.
        """
        named_identity = identity_of(names)
        if not named_identity.token:
            return named_identity
        with self._store.read() as transaction:
            stored = transaction.tokens.get(named_identity.token)
        return named_identity if stored is None else tokens.identity(stored)

    def check_closed(self) -> None:
        """Raise ``PolicyRefused`` while access is open: nobody is authenticated, so policy and tokens must not be
        changed."""
        if self._open:
            raise PolicyRefused(
                "while access is open, policy and tokens are changed on the server alone, "
                "by signalbook access set --db and signalbook token --db"
            )

    def put(self, transaction: WriteTransaction, policy: Policy, *, by: Access) -> None:
        """Store ``policy``. From the commit on it is in force on all servers. ``by`` are the rights of the caller.

        Raises ``PolicyRefused`` if a file is the policy, or if the new policy would leave the registry without an
        administrator or take this right from ``by``. Raises ``Forbidden`` if ``by`` has lost this right since it was
        read.
        """
        if self._file is not None:
            raise PolicyRefused(f"the policy is the file {self._file.path.name}: change that (setting access_file)")
        if not by.unrestricted:
            before = self.stored(transaction)
            if before is not None:
                before.access(by.identity).require(Action.ADMINISTER, ROOT)
        check_lockout(policy, by)
        transaction.settings.put_config(CONFIG, policy.document)

    def _renew(self, generation: Hashable) -> None:
        if self._file is not None:
            self._policy = self._file.reload() or self._policy
            self._looked = time.monotonic()
            return
        with self._store.read() as transaction:
            self._compiled = self._load_stored(transaction)
        self._policy = self._compiled[1]
        # Set this last: a thread that sees it in ``is_stale`` returns ``_policy`` without the lock.
        self._generation = generation

    def _load_stored(self, transaction: ReadTransaction) -> tuple[int, Policy | None]:
        """Return the epoch and the stored policy. It is compiled only if the epoch has changed."""
        epoch, compiled = transaction.settings.config_epoch(CONFIG), self._compiled
        return compiled if epoch == compiled[0] else (epoch, _read_stored(transaction.settings))


def is_configured(transaction: ReadTransaction) -> bool:
    """Return True if a policy is or was stored, or was ever read from a file."""
    settings = transaction.settings
    return bool(settings.config_epoch(CONFIG) or settings.get(_FILE_KEY))


def check_lockout(policy: Policy, by: Access) -> None:
    """Raise ``PolicyRefused`` if under ``policy`` nobody could change it again, or the caller ``by`` could not."""
    if not policy.administrators:
        raise PolicyRefused(
            "nobody could change this policy: name an administrator by a rule such as "
            '{"who": ["subject:NAME"], "role": "administrator"}, and deny him nothing'
        )
    # The program itself is no caller that could be locked out.
    if not by.unrestricted and not policy.access(by.identity).may(Action.ADMINISTER, ROOT):
        raise PolicyRefused(
            f"{by.identity.name} could not change this policy back: keep a rule that lets you administer, "
            "or let another administrator put it"
        )


def _read_stored(settings: SettingsReader) -> Policy | None:
    document = settings.config(CONFIG)
    if document is None:
        return None
    try:
        return read_policy(document)
    except InvalidPolicy as error:
        raise SignalbookError(f"{error}\nit is stored in the database: replace it by signalbook access set") from None


class _PolicyFile:
    """The policy file ``settings.access_file``."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.path = Path(settings.access_file)
        self._store = store
        self._settings = settings
        self._mark: _Mark | None = None
        self._logged = ""

    def begin(self) -> Policy:
        """Return the policy in the file, or else its last usable version. Raises ``SettingError`` if there
        is neither."""
        try:
            return self._load()
        except SignalbookError as error:
            saved = KeyValueStore(self._store).get(_FILE_KEY) or {}
            if saved.get("file") != str(self.path.absolute()):
                raise SettingError(f"access_file {self.path}: {error}") from None
            self._log(error)
            return read_policy(saved["policy"])

    def reload(self) -> Policy | None:
        """Return the policy in the file if it changed and is usable, else None. An error of the file is logged once."""
        # If the mark cannot be read, try to read the file, which logs that it is missing.
        mark = self._read_mark()
        if mark is not None and mark == self._mark:
            return None
        try:
            policy = self._load()
        except SignalbookError as error:
            self._log(error)
            return None
        self._logged = ""
        _LOG.info("%s: a policy of %d rules is in force", self.path, len(policy.rules))
        return policy

    def _load(self) -> Policy:
        """Read the file, and store the policy for the next start. Raises ``DocumentError``, ``InvalidPolicy``."""
        # Read the mark before the file: if the file changes while it is read, the next check sees another mark.
        self._mark = self._read_mark()
        policy = read_policy_file(self.path)
        if self._read_mark() != self._mark:
            raise DocumentError(f"{self.path}: it is being written")
        self._keep(policy.document)
        return policy

    def _keep(self, document: JSON) -> None:
        """Store the policy for the next start, and record the change. Of several servers, the first one does it."""
        state = {"file": str(self.path.absolute()), "policy": document}
        try:
            # Usually nothing has changed, and then no write transaction should hold up other writers.
            if not state.items() <= (KeyValueStore(self._store).get(_FILE_KEY) or {}).items():
                with self._store.write() as transaction:
                    entries = self._replace(transaction, state)
                audit.log_entries(entries, self._settings)
        except StorageError as error:
            # The file is in force even if it cannot be stored.
            _LOG.warning("%s: it is in force, and could not be stored for the next start: %s", self.path, error)

    def _replace(self, transaction: WriteTransaction, state: JSONObject) -> list[AuditEntry]:
        before = transaction.settings.get(_FILE_KEY) or {}
        # Servers may have copies of the file at different paths.
        same = before.get("policy") == state["policy"]
        number = int(before.get("number", 0)) + (not same)
        transaction.settings.put(_FILE_KEY, {**state, "number": number})
        if same:
            return []
        return audit.record(transaction, self._settings, f"/{CONFIG}", api=_FILE_KEY, file=state["file"])

    def _read_mark(self) -> _Mark | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _log(self, error: SignalbookError) -> None:
        if str(error) != self._logged:
            self._logged = str(error)
            _LOG.error("%s: the policy stays as it was: %s", self.path, error)
