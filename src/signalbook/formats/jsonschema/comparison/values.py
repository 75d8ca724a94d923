"""Where the values that may be written can be listed, the validator tells which of them the reader accepts."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import jsonschema_rs

from signalbook.formats.compatibility import Difference
from signalbook.formats.jsonschema.comparison.combined import UNIONS
from signalbook.formats.jsonschema.comparison.explain import difference, some
from signalbook.formats.jsonschema.comparison.facts import Facts, json_type
from signalbook.formats.jsonschema.comparison.scalars import SCALARS
from signalbook.formats.jsonschema.comparison.term import Term
from signalbook.formats.jsonschema.dialect import DIALECTS
from signalbook.formats.jsonschema.document import compiled
from signalbook.values import JSON, dump_json, parse_json

_MAX_VALUES: Final = 5_000
_EXACT: Final = 2**53
# Keywords that mean the same in all drafts, once they are terms.
_ALONE: Final = frozenset({*SCALARS} - {"never", "type", "enum", "const", "content"})


def accepted(facts: Facts, term: Term) -> bool:
    """Whether the reader surely accepts every listed value."""
    return _refused(facts, term) == []


def refused_values(facts: Facts, term: Term, keyword: str) -> list[Difference] | None:
    """What one keyword alone refuses of the listed values; ``None`` if it cannot be asked."""
    if keyword in _ALONE:
        check = _keyword(keyword, dump_json(term.says[keyword]))
        refused = [value for value in (facts.values or {}).values() if not check.is_valid(value)]
        return [difference("value_refused", term, keyword, values=some(refused), broken=keyword)] if refused else []
    refused_all = _refused(facts, term) if len(term.says) == 1 and keyword in UNIONS else None
    return [difference("alternative_removed", term, keyword, old=refused_all[0])] if refused_all else None


@lru_cache(maxsize=1024)
def _keyword(keyword: str, said: bytes) -> jsonschema_rs.Validator:
    return compiled(DIALECTS[-1], {keyword: parse_json(said)}, None)


def _refused(facts: Facts, term: Term) -> list[JSON] | None:
    """The listed values that the reader refuses; ``None`` if it cannot be asked."""
    values = facts.values or {}
    if term.accepts is None or len(values) > _MAX_VALUES:
        return None
    return [value for value in values.values() if not all(_passes(facts, term, way) for way in _spellings(value))]


def _passes(facts: Facts, term: Term, value: JSON) -> bool:
    """Whether the reader accepts a value, or the writer does not, as far as its schemas can be asked."""
    assert term.accepts is not None
    if any(known.accepts is not None and known.accepts(value) != holds for known, holds in facts.known):
        return True
    return term.accepts(value)


def _spellings(value: JSON) -> list[JSON]:
    """1 may be written as 1.0, which is no integer to draft-04."""
    return [_spelled(value, int), _spelled(value, float)] if _numeric(value) else [value]


def _numeric(value: JSON) -> bool:
    return isinstance(value, (list, dict)) or json_type(value) == "number"


def _spelled(value: JSON, kind: type[int] | type[float]) -> JSON:
    if isinstance(value, list):
        return [_spelled(item, kind) for item in value]
    if isinstance(value, dict):
        return {name: _spelled(item, kind) for name, item in value.items()}
    exact = json_type(value) == "number" and abs(value) < _EXACT and value == int(value)
    return kind(value) if exact else value
