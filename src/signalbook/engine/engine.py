"""The registry as a whole: sessions that read, sessions that write, and the first contents of a new registry."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Final

from signalbook import tracing, values, work
from signalbook.access import audit, tokens
from signalbook.access.base import Action
from signalbook.access.control import OPEN, is_configured
from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.access.restricted import restrict_reader
from signalbook.access.sessions import PATH as SESSIONS
from signalbook.access.tokens import TokenRequest
from signalbook.engine import capabilities
from signalbook.engine.config.configuration import (
    CONFIG_METHODS,
    MODELSOURCE,
    Configuration,
    ConfigurationCache,
    ConfigurationWriter,
    list_embedded,
)
from signalbook.engine.config.modelmigration import fill_defaults
from signalbook.engine.read.view import View
from signalbook.engine.write.apply import (
    Change,
    ChangeAction,
    EventEntity,
    WriteResult,
    apply_tree,
    check_uris,
    coalesce,
    list_changes,
)
from signalbook.engine.write.commands import Command, ConfigCommand, Flags, Method, check_command, read_intent
from signalbook.engine.write.compatibility import list_doubts
from signalbook.engine.write.context import Context, Documents, Stored
from signalbook.engine.write.decide import CommandDecision
from signalbook.engine.write.domainrules import MAX_FINDINGS, check_domain_rules, make_domain_error
from signalbook.engine.write.load import WriteLoader, load_entities
from signalbook.engine.write.permission import WritePermission, list_actions
from signalbook.engine.write.quotas import check_quotas, check_sizes
from signalbook.engine.write.searchindex import DocumentDescription, complete_index, describe, mark_complete
from signalbook.engine.write.workingcopies import IdClash, WorkingTree
from signalbook.errors import RegistryError, SignalbookError
from signalbook.formats.compatibility import RULES
from signalbook.model import BUILTIN, builtin, compile_model
from signalbook.settings import SettingError, Settings
from signalbook.storage.audit import AuditEntry
from signalbook.storage.base import DuplicateId, Reader, Row
from signalbook.storage.index import IndexReader
from signalbook.storage.outbox import OutboxReader, Record
from signalbook.storage.store import Store, WriteTransaction
from signalbook.storage.tokens import StoredToken
from signalbook.values import Finding, JSONObject
from signalbook.xid import ROOT, Xid, XidError, check_id

PRUNED_AT_ONCE: Final = 1000
"""The maximum number of changes removed in one transaction. Writers have to wait until that transaction ends."""
_LOG: Final = logging.getLogger("signalbook.engine")
_ENTITIES_PER_LOG_LINE: Final = 5_000
"""The number of indexed entities between two log lines when a server starts."""
_STRICTNESS: Final = ("off", "warn", "reject")
_CHOICES: Final = {
    "domain_rules": _STRICTNESS,
    "incompatible_changes": _STRICTNESS,
    "default_compatibility": ("", *RULES),
}


class HistoryPruned(SignalbookError):
    """Raised if changes after a position are requested and some of these changes have already been pruned.

    ``position`` is the position of the last pruned change. All changes after ``position`` are still stored.
    """

    def __init__(self, position: int) -> None:
        super().__init__(
            f"changes up to position {position} are kept no longer: read the registry as it is now, then its changes "
            "from there on"
        )
        self.position = position


def read_changes(outbox: OutboxReader, after: int, limit: int) -> list[Record]:
    """Return up to ``limit`` committed changes after position ``after``, in commit order.

    Raises ``HistoryPruned`` if changes between ``after`` and the first returned change were pruned.
    """
    records = outbox.records(after, limit)
    # Positions may have gaps for other reasons than pruning. Without a gap nothing is missing. The last change is never
    # pruned.
    if records and records[0].position > after + 1 and after < (pruned := outbox.pruned()):
        raise HistoryPruned(pruned)
    return records


def prune(store: Store, *, before: datetime, upto: int) -> int:
    """Remove the oldest changes that are at or below position ``upto`` and were made before ``before``.

    The last change is always kept. Returns the number of removed changes, at most ``PRUNED_AT_ONCE``, and 0 once no
    more can be removed. Several processes may call this at the same time.
    """
    with store.read() as reading:
        records = reading.outbox.records(reading.outbox.pruned(), PRUNED_AT_ONCE + 1)
    old_records = list(takewhile(lambda record: record.position <= upto and record.time < before, records[:-1]))
    if old_records:
        with store.write() as writing:
            writing.outbox.prune(old_records[-1].position)
    return len(old_records)


def _log_indexing(count: int) -> None:
    """Log the number of indexed entities now and then, because a server starts only after all are indexed."""
    if count and count % _ENTITIES_PER_LOG_LINE == 0:
        _LOG.info("indexing what is stored, for search: %d entities are done; the server starts after that", count)


class Engine:
    """A registry in a store. Synchronous, and safe to use from several threads.

    A new store gets the Registry entity with ``settings.registry_id`` and the model ``settings.model``. The
    capabilities that ``settings.capabilities`` names replace the current ones even if these are not mutable, so that an
    operator can undo capabilities that lock everybody out. An empty setting keeps the current ones. Missing entries are
    added to the search index. With ``prepare=False`` nothing is created or changed: an existing store is opened as it
    is. Raises ``SettingError`` for a setting with an unknown choice, and ``SettingError`` or ``RegistryError`` if the
    id, the model or the capabilities cannot be used.
    """

    def __init__(self, store: Store, *, settings: Settings, prepare: bool = True) -> None:
        check_choices(settings)
        self._store = store
        self._settings = settings
        self._cache = ConfigurationCache()
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._notify_access: Callable[[], None] = lambda: None
        self._notify_audit: Callable[[Sequence[AuditEntry]], None] = lambda _: None
        if prepare:
            self._prepare()

    def _prepare(self) -> None:
        with self._store.read() as transaction:
            fresh = transaction.entities.get(ROOT) is None
        if fresh:
            self._create_registry(self._settings)
        complete_index(self._store, _log_indexing, root=self._settings.base_url)
        if self._settings.capabilities:
            self._switch(self._settings.capabilities)

    @contextmanager
    def reading(self, access: Access = UNRESTRICTED) -> Iterator[View]:
        """Open a view of the registry at one instant, limited to the entities that ``access`` can read."""
        with self._store.read() as transaction:
            now = self._cache.read(transaction.settings)
            yield View(transaction, now.model, now.capabilities, access)

    @property
    def store(self) -> Store:
        """The store of the registry."""
        return self._store

    @property
    def settings(self) -> Settings:
        """The settings of the server, some of which define rules for writes that go beyond the specification."""
        return self._settings

    def generation(self) -> Hashable:
        """Return ``Store.generation``: as long as the value is the same, the store has not changed."""
        return self._store.generation()

    @contextmanager
    def writing(self, *, admin: bool = False) -> Iterator[Session]:
        """Open a session that writes. The block's changes and their events are committed together when the block ends.

        If the block raises, nothing is committed. ``admin`` is for operators, not for clients (see ``Context``). Raises
        ``StorageBusy`` if other writers hold the store for too long.
        """
        with self._store.write() as transaction:
            session = Session(self, transaction, self._cache.read(transaction.settings), admin=admin)
            yield session
            session.finish()
        self._notify_listeners(session)

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        """Open a batch of sessions that are committed together when the block ends.

        Raises ``StorageBusy`` if other writers hold the store for too long.
        """
        with self._store.write() as transaction:
            batch = Batch(self, transaction, self._cache.read(transaction.settings))
            yield batch
        self._notify_listeners(batch)

    @contextmanager
    def trying(self) -> Iterator[Batch]:
        """Open a batch that is rolled back when the block ends, to learn the effects of writes without storing them."""
        with suppress(_Undone), self.batch() as batch:
            yield batch
            raise _Undone

    def listen(self, notify: Callable[[], None]) -> None:
        """Call ``notify`` after each commit of this engine.

        The committing thread waits for ``notify``, so it must be quick.
        """
        self._listeners += (notify,)

    def listen_to_access(self, notify: Callable[[], None]) -> None:
        """Call ``notify`` as ``listen`` does, but only after changes of the policy, tokens or user sessions.

        Only one function is called: a second call of this method replaces the first function.
        """
        self._notify_access = notify

    def listen_to_audit(self, notify: Callable[[Sequence[AuditEntry]], None]) -> None:
        """Call ``notify`` as ``listen`` does, with the audit entries that a commit wrote.

        It is not called if a commit wrote none. Only one function is called: a second call of this method replaces the
        first function.
        """
        self._notify_audit = notify

    def position(self) -> int:
        """Return the position of the last committed change, 0 if there is none."""
        with self._store.read() as transaction:
            return transaction.outbox.position()

    def read_changes(self, after: int, limit: int) -> list[Record]:
        """Return up to ``limit`` committed changes after position ``after``, in commit order.

        Raises ``HistoryPruned`` if some of these changes were pruned.
        """
        with self._store.read() as transaction:
            return read_changes(transaction.outbox, after, limit)

    def prune(self, *, before: datetime, upto: int) -> int:
        """Remove the oldest changes from the store: see the function ``prune``."""
        return prune(self._store, before=before, upto=upto)

    def _notify_listeners(self, writer: Session | Batch) -> None:
        for notify in self._listeners:
            notify()
        if writer.administered:
            self._notify_access()
        if writer.audited:
            self._notify_audit(writer.audited)

    def _create_registry(self, settings: Settings) -> None:
        try:
            check_id(settings.registry_id)
        except XidError as error:
            raise SettingError(f"registry_id {settings.registry_id!r}: {error}") from None
        source = load_model_source(settings.model)
        compile_model(source)
        with self._store.write() as transaction:
            entities = transaction.entities
            if entities.get(ROOT) is None:  # another process may have been faster
                now = values.now()
                attributes: JSONObject = {"registryid": settings.registry_id}
                (key,) = entities.reserve(1)
                root = Row(key=key, parent=0, xid=ROOT, epoch=1, createdat=now, modifiedat=now, attributes=attributes)
                entities.insert([root])
                transaction.settings.put_config(MODELSOURCE, source)
                mark_complete(transaction)

    def _switch(self, name: str) -> None:
        document = None if name == "all" else _load_document(name, "capabilities")
        with self.writing() as session:
            session.switch(document)


class Batch:
    """Sessions in one transaction, one after the other. A session that fails is undone alone.

    Each session sees the writes of the sessions before it.
    """

    def __init__(self, engine: Engine, transaction: WriteTransaction, configuration: Configuration) -> None:
        self._engine = engine
        self._transaction = transaction
        self._configuration = configuration
        self.audited: list[AuditEntry] = []
        self.administered = False

    def expect(self, xids: Collection[Xid]) -> None:
        """Load ``xids`` in few queries before the next sessions request them one by one.

        Missing entities are allowed.
        """
        by_collection: dict[Xid, list[Xid]] = {}
        for xid in xids:
            by_collection.setdefault(xid.parent, []).append(xid)
        several = {collection: members for collection, members in by_collection.items() if len(members) > 1}
        if several:
            self._transaction.entities.get_many({ROOT, *(collection.owner for collection in several)})
        for members in several.values():
            self._transaction.entities.get_many(members)

    @contextmanager
    def writing(self, access: Access = UNRESTRICTED) -> Iterator[Session]:
        """Open the next session as ``Engine.writing`` does, but do not commit yet. ``access`` as in ``Session``."""
        with self._transaction.savepoint():
            session = Session(self._engine, self._transaction, self._configuration, access=access)
            yield session
            session.finish()
        self.audited += session.audited
        self.administered |= session.administered
        # The cache holds only committed configurations, so the next session gets this session's configuration directly.
        self._configuration = session.configuration

    @contextmanager
    def trying(self, compatibility: str | None = None, access: Access = UNRESTRICTED) -> Iterator[Session]:
        """Open a session whose writes are rolled back when the block ends.

        ``compatibility`` is as in ``Context``, ``access`` as in ``Session``.
        """
        with suppress(_Undone), self._transaction.savepoint():
            yield Session(
                self._engine,
                self._transaction,
                self._configuration,
                compatibility=compatibility,
                access=access,
                trial=True,
            )
            raise _Undone


class _Undone(Exception):
    """Raised to roll back a transaction that only tried something."""


class Session:
    """Commands in one transaction. Each command sees the writes of the commands before it.

    ``transaction`` is the transaction of the store of ``engine``, for data that must be committed together with the
    registry. ``admin`` and ``compatibility`` are as in ``Context``.
    Entities that ``access`` cannot read are invisible, and a command that ``access`` does not allow raises
    ``Forbidden``. A ``trial`` is rolled back, so it needs only the right to read. ``correlationid`` identifies the
    interaction.
    """

    def __init__(
        self,
        engine: Engine,
        transaction: WriteTransaction,
        configuration: Configuration,
        *,
        admin: bool = False,
        compatibility: str | None = None,
        access: Access = UNRESTRICTED,
        trial: bool = False,
    ) -> None:
        self.transaction = transaction
        self.access = access
        self._permission = WritePermission(access, trial=trial)
        self._writer = transaction.entities
        self._engine = engine
        self._settings = engine.settings
        self._admin = admin
        self._changes: list[Change] = []
        self._recorded: list[audit.Done] = []
        self._about: dict[str, None] = {}
        self.audited: list[AuditEntry] = []
        """The audit entries that ``finish`` wrote."""
        self.administered = False
        """True if the session recorded an administrative action: it changed the policy or tokens, or ended sessions."""
        self.now: datetime = values.now()
        self._config = ConfigurationWriter(transaction, configuration, admin=admin)
        self._compatibility = compatibility
        self.correlationid = tracing.correlationid() or secrets.token_hex(16)

    @property
    def configuration(self) -> Configuration:
        """The model and capabilities in force, including this session's changes to them."""
        return self._config.configuration

    @property
    def view(self) -> View:
        """A view of the registry that includes this session's own writes."""
        return View(self.transaction, self.configuration.model, self.configuration.capabilities, self.access)

    def execute(self, command: Command | ConfigCommand) -> WriteResult:
        """Execute ``command``. Raises ``RegistryError``; the caller must then leave the session with that error."""
        result = self._configure(command) if isinstance(command, ConfigCommand) else self._write(command)
        self._changes += result.changes
        return result

    def switch(self, document: JSONObject | None) -> None:
        """Replace the capabilities by ``document``, even if clients may not.

        None restores the capabilities of a new server. Does nothing if these capabilities are in force already. Raises
        the same errors as a ``PUT``.
        """
        changed = self._config.switch(document)
        self._changes += self._apply_configuration(changed).changes if changed else ()

    @property
    def changes(self) -> list[Change]:
        """The changes so far, at most one for each subject (R297)."""
        return coalesce(self._changes)

    @property
    def doubts(self) -> tuple[Finding, ...]:
        """The findings about Versions written so far that could not be validated or compared, with the reasons."""
        written = [
            c.xid for c in self.changes if c.entity is EventEntity.VERSION and c.action is not ChangeAction.DELETED
        ]
        rows = self._writer.get_many([Xid.parse(xid) for xid in written])
        return tuple(islice((doubt for row in rows.values() for doubt in list_doubts(row)), MAX_FINDINGS))

    def record(self, action: Action, path: str, *, about: str = "") -> None:
        """Record for the audit that ``action`` was done to ``path``, which is not an entity (such as
        ``/subscriptions/x``).

        ``about`` is a text for the audit entry; an empty text adds nothing.
        """
        self._recorded.append((action, path))
        if about:
            self._about[about] = None
        self.administered |= action is Action.ADMINISTER

    def create_token(self, request: TokenRequest) -> tuple[StoredToken, str]:
        """Create an API token. Returns the stored token and its secret text, which is not stored.

        Raises ``TooManyTokens``.
        """
        stored, text = tokens.create(self.transaction.tokens, request, self.now)
        self.record(Action.ADMINISTER, f"{tokens.PATH}/{stored.id}", about=f"made {tokens.summarize(stored)}")
        return stored, text

    def revoke_token(self, id: str) -> bool:
        """Remove the API token with this ``id``. Returns False if there is none."""
        stored = self.transaction.tokens.get(id)
        if stored is None:
            return False
        self.record(Action.ADMINISTER, f"{tokens.PATH}/{id}", about=f"revoked, {tokens.summarize(stored)}")
        return self.transaction.tokens.remove(id)

    def end_sessions(self, subject: str) -> int:
        """End all explorer sessions of ``subject``. Returns the number of ended sessions."""
        ended = self.transaction.sessions.remove_of(subject)
        self.record(Action.ADMINISTER, SESSIONS, about=f"ended {ended} of {subject}")
        return ended

    def finish(self) -> None:
        """Write the changes to the outbox and the actions to the audit. Call this last, just before the commit.

        Raises ``Postponed`` if a check of what was written is missing.
        """
        work.stop_if_postponed()
        changes = self.changes if self._changes else []
        if changes:
            documents = [change.to_json() for change in changes]
            self.transaction.outbox.append(documents, time=self.now, correlationid=self.correlationid)
        actions = audit.select_recorded(
            self._settings, self.access, chain(list_actions(changes), self._recorded), self._is_governed
        )
        if actions:
            self.audited = audit.build_entries(
                self.access, actions, at=self.now, correlationid=self.correlationid, about=", ".join(self._about)
            )
            self.transaction.audit.append(self.audited)

    def _is_governed(self) -> bool:
        """Return True if an access policy is configured. Then actions of the program itself are recorded, too."""
        return self._settings.access != OPEN and is_configured(self.transaction)

    def _write(self, command: Command) -> WriteResult:
        check_command(command, self.configuration.model)
        if not self._admin:
            capabilities.require_mutable(self.configuration.capabilities, "entities")
        # The entities of a request are written under the model and the capabilities that the same request contains.
        if list_embedded(command):
            self._permission.check_configuration()
        configured = self._config.execute_embedded(command)
        loader = self._make_loader(command.base_url)
        context = self._make_context(command.flags, command.target, loader, command.accepted_rules)
        if command.method is Method.DELETE:
            self._permission.check_deletion(command)
            tree, deletion = loader.read_deletion(command, context)
            result = CommandDecision(command, tree, context).delete(deletion)
            self._permission.check_deleted_subjects(tree)
        else:
            intent = read_intent(command, context.model)
            self._permission.check_intent(intent)
            tree = loader.read_tree(command, intent, context)
            result = CommandDecision(command, tree, context).add(intent)
            self._permission.check_subjects(tree)
            # The least important findings come last, because the list may be cut off.
            findings = sorted((*context.findings, *self._check_domain_rules(tree, context)), key=_is_information)
            result = replace(result, findings=tuple(findings[:MAX_FINDINGS]))
        described = describe(tree, context.documents)
        work.stop_if_postponed()
        result = self._store(result, tree, context.documents, configured, command.base_url, described)
        if command.method is not Method.DELETE:
            self._permission.check_changes(intent, result.changes)
        return result

    def _check_domain_rules(self, tree: WorkingTree, context: Context) -> tuple[Finding, ...]:
        if self._settings.domain_rules == "off":
            return ()
        findings = check_domain_rules(tree, context)
        error = make_domain_error(findings) if self._settings.domain_rules == "reject" else None
        if error is not None:
            raise error
        return findings

    def _make_loader(self, base_url: str = "") -> WriteLoader:
        """Return a loader of what the caller can read.

        Hidden entities are not loaded, so that no error and no finding can mention them.
        """
        return WriteLoader(
            restrict_reader(self._writer, self.access),
            self.transaction.index,
            Stored(base_url),
            Documents(),
            everything=self._writer,
            open_snapshot=self._open_snapshot,
        )

    @contextmanager
    def _open_snapshot(self) -> Iterator[tuple[Reader, IndexReader]]:
        with self._engine.store.read() as reading:
            yield restrict_reader(reading.entities, self.access), reading.index

    def _make_context(
        self,
        flags: Flags,
        target: Xid,
        loader: WriteLoader | None = None,
        accepted_rules: frozenset[str] = frozenset(),
    ) -> Context:
        """Return the context in which a command is decided, under the current configuration."""
        return Context(
            model=self.configuration.model,
            capabilities=self.configuration.capabilities,
            flags=flags,
            target=target,
            now=self.now,
            loader=loader or self._make_loader(),
            admin=self._admin,
            compatibility=self._compatibility,
            settings=self._settings,
            access=self.access,
            accepted_rules=accepted_rules,
        )

    def _store(
        self,
        result: WriteResult,
        tree: WorkingTree,
        documents: Documents,
        configured: list[Change],
        root: str = "",
        described: Mapping[Xid, DocumentDescription] | None = None,
    ) -> WriteResult:
        if not self._admin:
            check_sizes(tree, self._settings.max_entity_bytes)
        try:
            apply_tree(tree, documents, self.transaction, root=self._settings.base_url, described=described)
        except DuplicateId as error:
            raise IdClash(error.xid) from None
        check_uris(tree, self._writer, root, self.access)
        if not self._admin:
            check_quotas(tree, self.transaction, self._settings)
        # Changes made by a migration come first among the events: a reader of the new model finds it already in force.
        # The limit on work does not apply here, because all stored entities are migrated, whatever the size of the
        # request.
        with work.unlimited():
            self._changes += self._config.migrate(self._make_context)
        names = [change.xid.removeprefix("/") for change in configured]
        return replace(result, changes=(*configured, *list_changes(tree, self.configuration.model, self.now, names)))

    def _configure(self, command: ConfigCommand) -> WriteResult:
        if command.method not in CONFIG_METHODS.get(command.name, ()):
            raise RegistryError("action_not_supported", subject=f"/{command.name}", action=command.method.value)
        if command.body is None:
            raise RegistryError("missing_body", subject=f"/{command.name}")
        self._permission.check_configuration()
        return self._apply_configuration(self._config.execute(command))

    def _apply_configuration(self, changes: list[Change]) -> WriteResult:
        """Store ``changes`` of the configuration and count them as an update of the Registry (R39)."""
        tree = load_entities(self._writer, (), ())
        tree.registry.touch(self.now)
        fill_defaults(tree.registry, self.configuration.model.attributes, self.now)
        return self._store(WriteResult(target=ROOT), tree, Documents(), changes)


def _is_information(finding: Finding) -> bool:
    return finding.severity == "info"


def check_choices(settings: Settings) -> None:
    """Raise ``SettingError`` if a setting about writes has a value that is not among its choices."""
    for name, choices in _CHOICES.items():
        value = getattr(settings, name)
        if value not in choices:
            listed = ", ".join(choice for choice in choices if choice)
            raise SettingError(f"{name} is {'empty or ' if '' in choices else ''}one of {listed}, not {value!r}")


def load_model_source(name: str) -> JSONObject:
    """Return the model document that the setting ``model`` names: a built-in model or a file."""
    return builtin(name) if name in BUILTIN else _load_document(name, "model")


def _load_document(name: str, setting: str) -> JSONObject:
    """Return the JSON object in the file ``name``.

    Raises ``SettingError``, which names ``setting``, if it cannot be read.
    """
    try:
        source = values.parse_json(Path(name).read_bytes())
    except OSError as error:
        raise SettingError(f"cannot read {setting} file {name}: {error.strerror}") from None
    except values.JSONError as error:
        raise SettingError(f"{setting} file {name} is not JSON: {error}") from None
    if not isinstance(source, dict):
        raise SettingError(f"{setting} file {name} needs to hold a JSON object")
    return source
