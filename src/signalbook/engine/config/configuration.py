"""Model and capabilities as compiled values, kept for as long as their documents stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from signalbook.engine.config import capabilities
from signalbook.model import Included, Loader, Model, compile_model
from signalbook.storage.base import SettingsReader
from signalbook.values import JSONObject

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
        self._last = (epochs, found)
        return found


def _kept(settings: SettingsReader) -> Loader:
    """What was fetched when the model was put in force: a restart fetches nothing."""

    @cache
    def included() -> Included:
        return Included(documents=settings.config(INCLUDED) or {})

    return lambda name: included().load(name)
