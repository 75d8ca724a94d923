"""Model and capabilities: compiled values, cached by the epochs of their documents, and the writes that change them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, TypeAlias

from signalbook.engine.config import capabilities
from signalbook.engine.config.modelmigration import check_compliance, migrate
from signalbook.engine.write.apply import Action, Change, Entity
from signalbook.engine.write.commands import Command, ConfigCommand, Flags, Method
from signalbook.engine.write.workingcopies import Context
from signalbook.errors import RegistryError
from signalbook.model import Included, Loader, Model, compile_model
from signalbook.storage.base import SettingsReader, WriteTransaction
from signalbook.values import JSON, JSONObject
from signalbook.xid import ROOT, Xid

CAPABILITIES = "capabilities"
MODELSOURCE = "modelsource"
INCLUDED = "included"
"""What the model source includes from elsewhere, as it was when the model was put in force (R113)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What governs a registry beside its entities."""

    model: Model
    capabilities: JSONObject


class ConfigurationCache:
    """The configuration last seen, by the store's config epochs. Safe between threads: it swaps one whole value."""

    def __init__(self) -> None:
        self._last: tuple[tuple[int, int], Configuration] | None = None

    def read(self, settings: SettingsReader) -> Configuration:
        """The configuration in ``settings``, which must not have uncommitted changes to it."""
        epochs = (settings.config_epoch(MODELSOURCE), settings.config_epoch(CAPABILITIES))
        last = self._last
        if last is not None and last[0] == epochs:
            return last[1]
        model = last[1].model if last is not None and last[0][0] == epochs[0] else None
        found = Configuration(
            model=model or compile_model(settings.config(MODELSOURCE) or {}, include=_kept(settings)),
            capabilities=settings.config(CAPABILITIES) or capabilities.everything(),
        )
        # Two threads may compile the same model at once: either result will do.
        self._last = (epochs, found)
        return found


def _kept(settings: SettingsReader) -> Loader:
    """What was fetched when the model was put in force: a restart fetches nothing."""

    @cache
    def included() -> Included:
        return Included(documents=settings.config(INCLUDED) or {})

    return lambda name: included().load(name)


CONFIG_METHODS: Final = {CAPABILITIES: (Method.PUT, Method.PATCH), MODELSOURCE: (Method.PUT,)}
"""Which writes each configuration document takes."""


MakeContext: TypeAlias = Callable[[Flags, Xid], Context]


class ConfigurationWriter:
    """The configuration in one session, and the writes that change it. ``admin`` is as in ``Context``."""

    def __init__(self, transaction: WriteTransaction, configuration: Configuration, *, admin: bool) -> None:
        self._transaction = transaction
        self._admin = admin
        self._migrated: list[Change] = []
        self.configuration = configuration

    def execute(self, command: ConfigCommand, context: MakeContext) -> list[Change]:
        """Put a configuration document in force. Raises ``not_available`` and what is wrong with the document.

        ``context`` makes what a migration is decided by, when the new model is in force.
        """
        return self._change(command, self.configuration.capabilities, context)

    def execute_embedded(self, command: Command, context: MakeContext) -> list[Change]:
        """Capabilities and modelsource in the body of a write to the Registry come first (R60-R62)."""
        body = command.body
        if command.target != ROOT or command.method is Method.POST or not isinstance(body, dict):
            return []
        before = self.configuration.capabilities
        changed: list[Change] = []
        for name in (CAPABILITIES, MODELSOURCE):
            if name in body and name not in command.flags.ignore:
                method = command.method if name == CAPABILITIES and body[name] is not None else Method.PUT
                part = ConfigCommand(name=name, method=method, body=body[name], included=command.included)
                changed += self._change(part, before, context)
        return changed

    def switch(self, wanted: JSONObject | None) -> list[Change]:
        """Put these capabilities in force, None for all there are, whether clients may or not."""
        return self._change_capabilities(ConfigCommand(name=CAPABILITIES, method=Method.PUT, body=wanted))

    def take_migrated(self) -> list[Change]:
        """What model migrations changed since this was last called."""
        migrated, self._migrated = self._migrated, []
        return migrated

    def _change(self, command: ConfigCommand, before: JSONObject, context: MakeContext) -> list[Change]:
        """Put one document in force; ``before`` are the capabilities the request began with (R62)."""
        if not self._admin:
            capabilities.require_mutable(before, command.name)
        if command.name == CAPABILITIES:
            return self._change_capabilities(command)
        return self._change_model(command.body, command.included, context)

    def _change_capabilities(self, command: ConfigCommand) -> list[Change]:
        current = self.configuration.capabilities
        if command.body is None:
            wanted = capabilities.everything()
        elif command.method is Method.PATCH:
            wanted = capabilities.merge(current, command.body)
        else:
            wanted = capabilities.replace(command.body)
        self._transaction.settings.put_config(CAPABILITIES, wanted)
        self.configuration = replace(self.configuration, capabilities=wanted)
        changed = [name for name in wanted if wanted[name] != current[name]]
        return [_updated(Entity.CAPABILITIES, *changed)] if changed else []

    def _change_model(self, source: JSON, included: Included, context: MakeContext) -> list[Change]:
        old, entities, settings = self.configuration.model, self._transaction.entities, self._transaction.settings
        if source is not None and not isinstance(source, dict):
            raise RegistryError("model_error", subject="/model", error_detail="a model needs to be a JSON object")
        new = compile_model(source or {}, include=included.load)
        if included.documents or settings.config_epoch(INCLUDED):
            settings.put_config(INCLUDED, dict(included.documents))
        settings.put_config(MODELSOURCE, new.source)
        self.configuration = replace(self.configuration, model=new)
        changed = [_updated(Entity.MODELSOURCE)] if new.source != old.source else []
        if new.fingerprint == old.fingerprint:
            return changed
        check_compliance(entities, new)
        # Migrated entities come before the model in the order of events: whoever reads them finds both in force.
        self._migrated += migrate(entities, old, context(Flags(), ROOT))
        return [*changed, _updated(Entity.MODEL)]


def _updated(entity: Entity, *changed: str) -> Change:
    return Change(xid=f"/{entity.value}", entity=entity, action=Action.UPDATED, changed=changed)
