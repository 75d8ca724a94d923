"""Check definitions, and after a change check only the definitions that the change can affect.

Checking a definition looks up entities: the definition itself, its bases, its schema and the imports of the schema. The
xids of these entities are recorded. As long as none of them has changed, another check would look up the same entities
and have the same result, so the old verdict is used.
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

# Represents the names of all schemas among the recorded xids. No xid is equal to it.
_ALL_NAMES: Final = "names"
_MISSING: Final = object()
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entities:
    """The entities that definitions can look up, in the form of ``Snapshot``."""

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
    # Compare the JSON text, because 1, 1.0 and true are equal in Python, and the order of members affects findings.
    return before is not _MISSING and now is not _MISSING and dump_json(before) == dump_json(now)


class Lookups:
    """A recorder of the xids that are looked up. ``noted`` is the set of recorded xids."""

    def __init__(self) -> None:
        self.noted: set[str] = set()
        # Lookups of imports by schema document: a schema is parsed only once, not for each definition that uses it.
        self._by_document: dict[str, set[str]] = {}

    def track(self, entities: Mapping[str, V]) -> Mapping[str, V]:
        """Return a view of ``entities`` that records each lookup."""
        return _Noting(entities, self)

    def track_names(self, names: SchemaNames) -> SchemaNames:
        """Return a view of ``names`` that records each lookup."""
        return _NotingNames(names, self)

    def track_imports(self, imported: ImportLookup) -> ImportLookup:
        """Return a function like ``imported`` that records its lookups for the schema that contains the import."""

        def resolve(uri: str, xid: str) -> bytes | None:
            outer, self.noted = self.noted, self._by_document.setdefault(xid, set())
            try:
                return imported(uri, xid)
            finally:
                self.noted = outer

        return resolve

    def of_document(self, xid: str) -> set[str]:
        """Return the xids that were looked up for the imports of the schema document ``xid``."""
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
        raise TypeError("a check of one definition goes over all")  # recorded xids could not represent this

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
    """The verdicts on definitions, and the entities for which they are valid."""

    entities: Entities
    known: Mapping[str, KnownVerdict]

    @property
    def verdicts(self) -> dict[str, DefinitionVerdict]:
        """The verdicts by xid."""
        return {xid: known_verdict.verdict for xid, known_verdict in self.known.items()}


def check(
    source: DefinitionSource, policy: Policy, entities: Entities, lookups: Lookups, before: CheckedDefinitions | None
) -> CheckedDefinitions:
    """Return the verdicts on all definitions of ``source``.

    ``source`` reads from ``entities``, and must record each lookup in ``lookups``. ``before`` is the result of an
    earlier check with the same policy, or None. Its verdicts are used for definitions whose recorded entities have not
    changed.
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
