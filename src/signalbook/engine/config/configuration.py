"""Model and capabilities: compiled values, cached by the epochs of their documents, and the writes that change them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Final

from signalbook.engine.config import capabilities
from signalbook.engine.config.migration import check_compliance, migrate
from signalbook.engine.write.changes import Action, Change, Entity
from signalbook.engine.write.commands import Command, ConfigCommand, Flags, Method
from signalbook.engine.write.context import Context
from signalbook.engine.write.load import WriteLoader
from signalbook.errors import RegistryError
from signalbook.model import Included, Loader, Model, compile_model
from signalbook.storage.base import Reader, Writer
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

    def read(self, reader: Reader) -> Configuration:
        """The configuration in ``reader``, which must not have uncommitted changes to it."""
        epochs = (reader.config_epoch(MODELSOURCE), reader.config_epoch(CAPABILITIES))
        last = self._last
        if last is not None and last[0] == epochs:
            return last[1]
        model = last[1].model if last is not None and last[0][0] == epochs[0] else None
        found = Configuration(
            model=model or compile_model(reader.config(MODELSOURCE) or {}, include=_kept(reader)),
            capabilities=reader.config(CAPABILITIES) or capabilities.everything(),
        )
        self._last = (epochs, found)
        return found


def _kept(reader: Reader) -> Loader:
    """What was fetched when the model was put in force: a restart fetches nothing."""

    @cache
    def included() -> Included:
        return Included(documents=reader.config(INCLUDED) or {})

    return lambda name: included().load(name)


CONFIG_METHODS: Final = {CAPABILITIES: (Method.PUT, Method.PATCH), MODELSOURCE: (Method.PUT,)}
"""Which writes each configuration document takes."""


class ConfigurationWriter:
    """The configuration in one session, and the writes that change it.

    ``admin`` and ``compatibility`` are as in ``Context``.
    """

    def __init__(
        self, writer: Writer, configuration: Configuration, *, now: datetime, admin: bool, compatibility: str | None
    ) -> None:
        self._writer = writer
        self._now = now
        self._admin = admin
        self._compatibility = compatibility
        self._migrated: list[Change] = []
        self.configuration = configuration

    def context(self, loader: WriteLoader, flags: Flags, target: Xid) -> Context:
        """What a command is decided by under the present configuration."""
        return Context(
            model=self.configuration.model,
            capabilities=self.configuration.capabilities,
            flags=flags,
            target=target,
            now=self._now,
            documents=loader.content,
            resolve=loader.resolve,
            admin=self._admin,
            compatibility=self._compatibility,
        )

    def execute(self, command: ConfigCommand) -> list[Change]:
        """Put a configuration document in force. Raises ``not_available`` and what is wrong with the document."""
        return self._change(command, self.configuration.capabilities)

    def execute_embedded(self, command: Command) -> list[Change]:
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
                changed += self._change(part, before)
        return changed

    def switch(self, wanted: JSONObject | None) -> list[Change]:
        """Put these capabilities in force, None for all there are, whether clients may or not."""
        return self._change_capabilities(ConfigCommand(name=CAPABILITIES, method=Method.PUT, body=wanted))

    def take_migrated(self) -> list[Change]:
        """What model migrations changed since this was last called."""
        migrated, self._migrated = self._migrated, []
        return migrated

    def _change(self, command: ConfigCommand, before: JSONObject) -> list[Change]:
        """Put one document in force; ``before`` are the capabilities the request began with (R62)."""
        if not self._admin:
            capabilities.require_mutable(before, command.name)
        if command.name == CAPABILITIES:
            return self._change_capabilities(command)
        return self._change_model(command.body, command.included)

    def _change_capabilities(self, command: ConfigCommand) -> list[Change]:
        current = self.configuration.capabilities
        if command.body is None:
            wanted = capabilities.everything()
        elif command.method is Method.PATCH:
            wanted = capabilities.merge(current, command.body)
        else:
            wanted = capabilities.replace(command.body)
        self._writer.put_config(CAPABILITIES, wanted)
        self.configuration = replace(self.configuration, capabilities=wanted)
        changed = [name for name in wanted if wanted[name] != current[name]]
        return [_updated(Entity.CAPABILITIES, *changed)] if changed else []

    def _change_model(self, source: JSON, included: Included) -> list[Change]:
        old = self.configuration.model
        if source is not None and not isinstance(source, dict):
            raise RegistryError("model_error", subject="/model", error_detail="a model needs to be a JSON object")
        new = compile_model(source or {}, include=included.load)
        if included.documents or self._writer.config_epoch(INCLUDED):
            self._writer.put_config(INCLUDED, dict(included.documents))
        self._writer.put_config(MODELSOURCE, new.source)
        self.configuration = replace(self.configuration, model=new)
        changed = [_updated(Entity.MODELSOURCE)] if new.source != old.source else []
        if new.fingerprint == old.fingerprint:
            return changed
        check_compliance(self._writer, new)
        # Migrated entities come before the model in the order of events: whoever reads them finds both in force.
        self._migrated += migrate(self._writer, old, self.context(WriteLoader(self._writer), Flags(), ROOT))
        return [*changed, _updated(Entity.MODEL)]


def _updated(entity: Entity, *changed: str) -> Change:
    return Change(xid=f"/{entity.value}", entity=entity, action=Action.UPDATED, changed=changed)
