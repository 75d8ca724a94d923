"""The check of definitions: where some have changed since the last one, of those alone that it may concern.

To check a definition is to look things up: itself, its bases, its schema, what that imports. Which xids it looked up is
noted. As long as there is the same under all of them as before, it would look up the same again and come to the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from signalbook.formats.references import ReferableSchema, SchemaNames
from signalbook.messages import Policy
from signalbook.messages.definitions.schemas import ImportLookup
from signalbook.messages.definitions.source import DefinitionSource, DefinitionVerdict
from signalbook.values import JSONObject, dump_json

# Stands for the names of all schemas, among the xids that were looked up: no xid is like it.
_ALL_NAMES: Final = "names"
_MISSING: Final = object()
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entities:
    """The entities that definitions look up, in the form of ``Snapshot``."""

    messages: Mapping[str, JSONObject | None]
    schemas: Mapping[str, JSONObject]
    names: Sequence[ReferableSchema]

    def find_changed(self, before: Entities) -> set[str]:
        """Return the xids of entities that were changed, added or removed."""
        changes = _compare_entities(before.messages, self.messages) | _compare_entities(before.schemas, self.schemas)
        return changes if before.names == self.names else changes | {_ALL_NAMES}


def _compare_entities(before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    return {
        xid for xid in before.keys() | now.keys() if not _is_same(before.get(xid, _MISSING), now.get(xid, _MISSING))
    }


def _is_same(before: Any, now: Any) -> bool:
    if before is now:
        return True
    # By their text: to Python 1, 1.0 and true are equal, and findings come in the order of members.
    return before is not _MISSING and now is not _MISSING and dump_json(before) == dump_json(now)


class Lookups:
    """Notes by which xids things are looked up in ``entities``."""

    def __init__(self) -> None:
        self.noted: set[str] = set()
        # What a schema refers to is looked up once, when it is parsed, and not for each definition that has it.
        self._by_document: dict[str, set[str]] = {}

    def track(self, entities: Mapping[str, V]) -> Mapping[str, V]:
        """Return ``entities``, with each lookup in them noted."""
        return _Noting(entities, self)

    def track_names(self, names: SchemaNames) -> SchemaNames:
        """Return ``names``, with each lookup in them noted."""
        return _NotingNames(names, self)

    def track_imports(self, imported: ImportLookup) -> ImportLookup:
        """Return ``imported``, with its lookups noted for the schema that has the reference."""

        def resolve(uri: str, xid: str) -> bytes | None:
            outer, self.noted = self.noted, self._by_document.setdefault(xid, set())
            try:
                return imported(uri, xid)
            finally:
                self.noted = outer

        return resolve

    def of_document(self, xid: str) -> set[str]:
        """Return the lookups behind the references of the schema document ``xid``."""
        return self._by_document.get(xid, set())


class _Noting(Mapping[str, V]):
    def __init__(self, entities: Mapping[str, V], lookups: Lookups) -> None:
        self._entities = entities
        self._lookups = lookups

    def __getitem__(self, xid: str) -> V:
        self._lookups.noted.add(xid)
        return self._entities[xid]

    def get(self, xid: Any, default: Any = None) -> Any:
        self._lookups.noted.add(xid)
        return self._entities.get(xid, default)

    def __contains__(self, xid: object) -> bool:
        self._lookups.noted.add(str(xid))
        return xid in self._entities

    def __iter__(self) -> Iterator[str]:
        raise TypeError("a check of one definition goes over all")  # which no note of xids would tell

    def __len__(self) -> int:
        return len(self._entities)


class _NotingNames(SchemaNames):
    def __init__(self, names: SchemaNames, lookups: Lookups) -> None:
        self._names = names
        self._lookups = lookups

    def find(self, name: str, group: str) -> str | None:
        self._lookups.noted.add(_ALL_NAMES)
        return self._names.find(name, group)


class KnownVerdict(NamedTuple):
    """A verdict, and the xids that were looked up for it."""

    verdict: DefinitionVerdict
    lookups: tuple[str, ...]


class CheckedDefinitions(NamedTuple):
    """The verdicts on some definitions, and among which entities they are true."""

    entities: Entities
    known: Mapping[str, KnownVerdict]

    @property
    def verdicts(self) -> dict[str, DefinitionVerdict]:
        """The verdicts by xid."""
        return {xid: known_verdict.verdict for xid, known_verdict in self.known.items()}


def check(
    source: DefinitionSource, policy: Policy, entities: Entities, lookups: Lookups, before: CheckedDefinitions | None
) -> CheckedDefinitions:
    """Return the verdicts on all definitions of ``source``, whose lookups in ``entities`` are noted in ``lookups``.

    Those of ``before``, by the same policy, stand where nothing is changed that they looked up.
    """
    changed, known_verdicts = (
        (set[str](), {}) if before is None else (entities.find_changed(before.entities), before.known)
    )
    schemas = source.contract_schemas()
    verdicts: dict[str, KnownVerdict] = {}
    for xid in source.definitions:
        standing = known_verdicts.get(xid)
        if standing is None or not changed.isdisjoint(standing.lookups):
            lookups.noted = {xid}
            verdict = source.verdict(xid, schemas, policy)
            standing = KnownVerdict(verdict, tuple(lookups.noted | lookups.of_document(verdict.document)))
        verdicts[xid] = standing
    return CheckedDefinitions(entities, verdicts)
