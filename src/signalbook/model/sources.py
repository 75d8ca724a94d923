"""Where model sources come from: those that ship with Signalbook (docs/decisions/011-default-model.md), and files."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from signalbook.model.faults import model_faults_to_error
from signalbook.model.includes import Loader, expand
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


def read_source(path: Path) -> JSONObject:
    """The model source in a file, with what it includes from other files: one document that needs none of them.

    Raises ``OSError`` or ``ValueError`` when the file itself cannot be read as a JSON object, and ``RegistryError``
    when an include cannot be resolved.
    """
    source = parse_json(path.read_bytes())
    if not isinstance(source, dict):
        raise ValueError(f"{path} does not hold a JSON object")
    return _resolved(source, _load_file, path.resolve().as_uri())


def _load_file(uri: str) -> JSON:
    parts = urlsplit(uri)
    if parts.scheme != "file":
        raise ValueError("a model file includes other files only")
    return parse_json(Path(url2pathname(parts.path)).read_bytes())


@cache
def _default() -> bytes:
    return dump_json(_resolved(_load("default.json"), _load, "default.json"))


def _load(name: str) -> JSON:
    return parse_json((resources.files("signalbook.model") / "data" / name).read_bytes())


def _resolved(source: JSONObject, load: Loader, base: str) -> JSONObject:
    expanded, faults = expand(source, load, base)
    if faults:
        raise model_faults_to_error(faults)
    return expanded
