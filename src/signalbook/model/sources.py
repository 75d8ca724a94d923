"""Model sources: those shipped with Signalbook, and ``$include`` and ``$includes`` in any source.

See docs/decisions/011-default-model.md; core/model.md "Includes in the xRegistry Model Data".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Final, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from signalbook.model.findings import ModelFinding
from signalbook.model.paths import DotPath
from signalbook.values import JSON, MAX_DEPTH, JSONObject, dump_json, parse_json, step_into

Loader: TypeAlias = Callable[[str], JSON]

# Includes can multiply documents, so that a small source could become a huge model.
MAX_NODES: Final = 200_000
MAX_DOCUMENTS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Included:
    """The documents that a model source includes, fetched in advance. ``failures`` has the reasons for missing ones."""

    documents: Mapping[str, JSON] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    def load(self, name: str) -> JSON:
        """Return the document ``name``. Raises ``LookupError`` if it was not fetched. Usable as a ``Loader``."""
        if name in self.documents:
            return self.documents[name]
        raise LookupError(self.failures.get(name, _NOT_FETCHED))


_NOT_FETCHED: Final = "documents elsewhere are included by a server that may fetch them (setting allow_fetch)"


def gather(source: JSONObject, load: Loader) -> Included:
    """Load all documents that ``source`` includes, directly or indirectly.

    Model updates run in a transaction and must not wait for a network there (R113).
    """
    documents: dict[str, JSON] = {}
    failures: dict[str, str] = {}

    def fetch(name: str) -> JSON:
        try:
            documents[name] = load(name)
        except (OSError, ValueError, LookupError) as error:
            failures[name] = str(error) or type(error).__name__
            raise
        return documents[name]

    expand(source, fetch)
    return Included(documents=documents, failures=failures)


class _Failure(Exception):
    """Raised for an include that cannot be resolved. The text is the reason."""


def expand(source: JSONObject, load: Loader | None, base: str = "") -> tuple[JSONObject, list[ModelFinding]]:
    """Return ``source`` with every include resolved, and findings about includes that failed.

    ``load`` fetches a document by its name: the reference without fragment, resolved against the including document
    (``base`` is the name of ``source`` itself). Without ``load`` only references into the same document work. Local
    keys override included ones, and earlier includes override later ones (core R112).
    """
    expansion = _Expansion(source, load, base)
    return expansion.expand_object(source, base, (), ()), expansion.findings


class _Expansion:
    def __init__(self, source: JSONObject, load: Loader | None, base: str) -> None:
        self.load = load
        self.documents: dict[str, JSON] = {base: source}
        self.findings: list[ModelFinding] = []
        self.nodes = 0
        self.full = False

    def expand_value(self, value: JSON, document: str, path: DotPath, trail: tuple[str, ...]) -> JSON:
        if isinstance(value, dict):
            return self.expand_object(value, document, path, trail)
        if isinstance(value, list):
            self.nodes += len(value)
            return [self.expand_value(item, document, (*path, index), trail) for index, item in enumerate(value)]
        return value

    def expand_object(self, value: JSONObject, document: str, path: DotPath, trail: tuple[str, ...]) -> JSONObject:
        self.nodes += 1
        if self.nodes > MAX_NODES or len(path) > MAX_DEPTH:
            if not self.full:
                self.findings.append(ModelFinding(path=path, message="the model is too large or too deep"))
            self.full, self.nodes = True, MAX_NODES
            return {}
        included: JSONObject = {}
        for reference in self.read_references(value, path):
            try:
                further = self.include(reference, document, path, trail)
            except _Failure as failure:
                self.findings.append(ModelFinding(path=path, message=f'cannot include "{reference}": {failure}'))
            else:
                included |= {key: item for key, item in further.items() if key not in included}
        return included | {
            key: self.expand_value(item, document, (*path, key), trail)
            for key, item in value.items()
            if key not in ("$include", "$includes")
        }

    def read_references(self, value: JSONObject, path: DotPath) -> Iterable[str]:
        single, several = value.get("$include"), value.get("$includes")
        if "$include" in value and "$includes" in value:
            self.findings.append(ModelFinding(path=path, message="takes $include or $includes, not both"))
            return ()
        references = several if "$includes" in value else [single] if "$include" in value else []
        if not isinstance(references, list) or not all(isinstance(item, str) for item in references):
            self.findings.append(
                ModelFinding(path=path, message="$include takes a string, $includes an array of strings")
            )
            return ()
        return references

    def include(self, reference: str, document: str, path: DotPath, trail: tuple[str, ...]) -> JSONObject:
        name, pointer = urldefrag(reference)
        name = urljoin(document, name) if name else document
        key = f"{name}#{pointer.strip('/')}"
        if key in trail:
            raise _Failure("it includes itself")
        if len(trail) >= MAX_DEPTH:
            raise _Failure(f"includes are nested deeper than {MAX_DEPTH}")
        target = _resolve(self.load_document(name), pointer)
        if not isinstance(target, dict):
            raise _Failure("it is not an object")
        return self.expand_object(target, name, path, (*trail, key))

    def load_document(self, name: str) -> JSON:
        if name not in self.documents:
            if self.load is None:
                raise _Failure("only references into the same document (#/...) are allowed here")
            if len(self.documents) > MAX_DOCUMENTS:
                raise _Failure(f"a model may include at most {MAX_DOCUMENTS} documents")
            try:
                self.documents[name] = self.load(name)
            except (OSError, ValueError, LookupError) as error:
                raise _Failure(str(error) or type(error).__name__) from None
        return self.documents[name]


def _resolve(document: JSON, pointer: str) -> JSON:
    """Return the value at a JSON Pointer in a URI fragment (RFC 6901). Published models may omit the leading slash."""
    for token in unquote(pointer).removeprefix("/").split("/") if pointer.strip("/") else ():
        try:
            document = step_into(document, token)
        except LookupError:
            raise _Failure(f'there is no "{token}" in it') from None
    return document


_FILES: Final = {"default": "default.json", "spec": "spec/cloudevents/model.json"}
BUILTIN: Final = (*_FILES, "empty")


def builtin(name: str) -> JSONObject:
    """Return a built-in model source by name, which the caller may change.

    ``default`` is Signalbook's model for endpoints, messages and schemas, ``spec`` is the specification's model, and
    ``empty`` has no types.

    Raises ``KeyError`` for another name.
    """
    if name not in BUILTIN:
        raise KeyError(f"there is no built-in model {name!r}; there are: {', '.join(BUILTIN)}")
    source: JSONObject = parse_json(_load_shipped(_FILES[name])) if name in _FILES else {}
    return source


@cache
def _load_shipped(file: str) -> bytes:
    source, _ = expand(_load(file), _load, file)
    return dump_json(source)


def _load(name: str) -> JSON:
    return parse_json((resources.files("signalbook.model") / "data" / name).read_bytes())
