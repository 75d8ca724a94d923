"""The models that come with Signalbook, as model sources (see docs/decisions/010-default-model.md)."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

from signalbook.model.includes import expand
from signalbook.values import JSON, JSONObject, dump_json, parse_json

BUILTIN: Final = ("default", "empty")


def builtin(name: str) -> JSONObject:
    """A model source by name: ``default`` (endpoints, messages, schemas) or ``empty``. The caller's to change.

    Raises ``KeyError`` for another name.
    """
    if name not in BUILTIN:
        raise KeyError(f"there is no built-in model {name!r}; there are: {', '.join(BUILTIN)}")
    source: JSONObject = parse_json(_default()) if name == "default" else {}
    return source


@cache
def _default() -> bytes:
    """The default model as one self-contained document, so that it can be read back by any registry."""
    source, faults = expand(_load("default.json"), _load, "default.json")
    assert not faults, faults
    return dump_json(source)


def _load(name: str) -> JSON:
    return parse_json((resources.files("signalbook.model") / "data" / name).read_bytes())
