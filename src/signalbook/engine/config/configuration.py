"""Model and capabilities: compiled values, cached by the epochs of their documents, and the writes that change them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final, TypeAlias

from signalbook.engine import capabilities
from signalbook.engine.config.modelmigration import check_compliance, migrate
from signalbook.engine.write.apply import Change, ChangeAction, EventEntity
from signalbook.engine.write.commands import Command, ConfigCommand, Flags, Method
from signalbook.engine.write.context import Context
from signalbook.errors import RegistryError
from signalbook.model import Included, Loader, Model, compile_model
from signalbook.storage.settings import SettingsReader
from signalbook.storage.store import WriteTransaction
from signalbook.values import JSON, JSONObject
from signalbook.work import Postponed, compute_or_postpone
from signalbook.xid import ROOT, Xid

CAPABILITIES = "capabilities"
MODELSOURCE = "modelsource"
INCLUDED = "included"
"""The documents that the model source includes from elsewhere, as they were when the model came into force (R113)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The configuration of a registry: its model and its capabilities."""

    model: Model
    capabilities: JSONObject


class ConfigurationCache:
    """The last configuration, cached by the store's config epochs.

    Thread-safe, because it replaces one value as a whole.
    """

    def __init__(self) -> None:
        self._last: tuple[tuple[int, int], Configuration] | None = None

    def read(self, settings: SettingsReader) -> Configuration:
        """Return the configuration in ``settings``, which must not contain uncommitted changes of the configuration."""
        epochs = (settings.config_epoch(MODELSOURCE), settings.config_epoch(CAPABILITIES))
        last = self._last
        if last is not None and last[0] == epochs:
            return last[1]
        model = last[1].model if last is not None and last[0][0] == epochs[0] else None
        configuration = Configuration(
            model=model or compile_model(settings.config(MODELSOURCE) or {}, include=_make_loader(settings)),
            capabilities=settings.config(CAPABILITIES) or capabilities.list_initial(),
        )
        # Two threads may compile the same model at the same time; both results are equal.
        self._last = (epochs, configuration)
        return configuration


def _make_loader(settings: SettingsReader) -> Loader:
    """Return a loader of documents that were stored when the model came into force, so that a restart
    fetches nothing.
    """

    @cache
    def load_included() -> Included:
        return Included(documents=settings.config(INCLUDED) or {})

    return lambda name: load_included().load(name)


CONFIG_METHODS: Final = {CAPABILITIES: (Method.PUT, Method.PATCH), MODELSOURCE: (Method.PUT,)}
"""The methods that each configuration document accepts."""


def list_embedded(command: Command) -> list[str]:
    """Return the names of configuration documents in the body of a write to the Registry, without ignored ones."""
    body = command.body
    if command.target != ROOT or command.method is Method.POST or not isinstance(body, dict):
        return []
    return [name for name in (CAPABILITIES, MODELSOURCE) if name in body and name not in command.flags.ignore]


MakeContext: TypeAlias = Callable[[Flags, Xid], Context]


class ConfigurationWriter:
    """The configuration in one session, and the writes that change it. ``admin`` is as in ``Context``."""

    def __init__(self, transaction: WriteTransaction, configuration: Configuration, *, admin: bool) -> None:
        self._transaction = transaction
        self._admin = admin
        self._replaced: Model | None = None
        self.configuration = configuration

    def execute(self, command: ConfigCommand) -> list[Change]:
        """Put a configuration document in force. Raises ``not_available``, and errors in the document.

        After a change of the model, ``migrate`` must be called before the commit to update the stored entities.
        """
        return self._put_document(command, self.configuration.capabilities)

    def execute_embedded(self, command: Command) -> list[Change]:
        """Put capabilities and modelsource from the body of a write to the Registry in force, before its other parts
        (R60-R62).
        """
        before = self.configuration.capabilities
        changed: list[Change] = []
        for name in list_embedded(command):
            value = command.body[name]
            method = command.method if name == CAPABILITIES and value is not None else Method.PUT
            changed += self._put_document(
                ConfigCommand(name=name, method=method, body=value, included=command.included), before
            )
        return changed

    def switch(self, document: JSONObject | None) -> list[Change]:
        """Replace the capabilities by ``document``, even if clients may not.

        None restores the capabilities of a new server (see ``capabilities.list_initial``).
        """
        return self._put_capabilities(ConfigCommand(name=CAPABILITIES, method=Method.PUT, body=document))

    def migrate(self, context: MakeContext) -> list[Change]:
        """Check all stored entities against the new model and update them. Does nothing if the model did not change.

        This runs after the entities of the same request are written, because these may make the rest comply
        (core/model.md "Creating or Updating": "prior to completing the model update request"). ``context`` makes the
        context of the migration. Raises ``model_compliance_error``.
        """
        replaced, self._replaced = self._replaced, None
        if replaced is None:
            return []
        check_compliance(self._transaction.entities, self.configuration.model)
        return list(migrate(self._transaction, replaced, context(Flags(), ROOT)))

    def _put_document(self, command: ConfigCommand, before: JSONObject) -> list[Change]:
        """Put one document in force. ``before`` are the capabilities at the beginning of the request (R62)."""
        if not self._admin:
            capabilities.require_mutable(before, command.name)
        if command.name == CAPABILITIES:
            return self._put_capabilities(command)
        return self._put_model(command.body, command.included)

    def _put_capabilities(self, command: ConfigCommand) -> list[Change]:
        current = self.configuration.capabilities
        if command.body is None:
            new = capabilities.list_initial()
        elif command.method is Method.PATCH:
            new = capabilities.merge(current, command.body)
        else:
            new = capabilities.replace(command.body)
        self._transaction.settings.put_config(CAPABILITIES, new)
        self.configuration = replace(self.configuration, capabilities=new)
        changed = [name for name in new if new[name] != current[name]]
        return [_make_update(EventEntity.CAPABILITIES, *changed)] if changed else []

    def _put_model(self, source: JSON, included: Included) -> list[Change]:
        old, settings = self.configuration.model, self._transaction.settings
        if source is not None and not isinstance(source, dict):
            raise RegistryError("model_error", subject="/model", error_detail="a model needs to be a JSON object")
        new = compute_or_postpone("model", partial(compile_model, source or {}, include=included.load))
        if new is None:
            raise Postponed
        _check_singulars(old, new)
        if included.documents or settings.config_epoch(INCLUDED):
            settings.put_config(INCLUDED, dict(included.documents))
        settings.put_config(MODELSOURCE, new.source)
        self.configuration = replace(self.configuration, model=new)
        changed = [_make_update(EventEntity.MODELSOURCE)] if new.source != old.source else []
        if new.fingerprint == old.fingerprint:
            return changed
        self._replaced = self._replaced or old
        return [*changed, _make_update(EventEntity.MODEL)]


def _check_singulars(old: Model, new: Model) -> None:
    """Raise ``model_error`` if a type gets another singular, because ids are named after it (core/model.md)."""
    for plural, group in new.groups.items():
        before = old.groups.get(plural)
        if before is None:
            continue
        pairs = {f"groups.{plural}": (before.singular, group.singular)}
        for name, resource_type in group.resources.items():
            if name in before.resources:
                pairs[f"groups.{plural}.resources.{name}"] = (before.resources[name].singular, resource_type.singular)
        for path, (old_singular, new_singular) in pairs.items():
            if old_singular != new_singular:
                detail = f'{path}.singular: is immutable; it is "{old_singular}", not "{new_singular}"'
                raise RegistryError("model_error", subject="/model", error_detail=detail)


def _make_update(entity: EventEntity, *changed: str) -> Change:
    return Change(xid=f"/{entity.value}", entity=entity, action=ChangeAction.UPDATED, changed=changed)
