"""What a selection of entities by their content is: a way through collections, and tests on the way.

The tests are a first sieve: they may let more through than was asked for, never less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Part: TypeAlias = Literal["own", "shown", "default"]
"""A row of a step: the entity's own; of a Resource the one whose meta and Versions it shows, or its default Version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A test of one column of one step's row.

    ``relation`` is one of ``= < <= > >=`` with one value, or ``contains``: the text has one of ``values`` in it,
    whatever their case. A text with characters whose lower case is ASCII and which are not contains everything.
    ``default`` has no value: the folded id is that of the default Version of the Resource on the way.
    """

    step: int
    part: Part
    column: str
    relation: str
    values: tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Steps from the entity with key ``parent`` through the collections ``types``.

    Step number ``resource``, that of Resources if it is on the way, follows cross references, one hop: what lies
    beneath is the target's. ``rows`` are the steps whose rows are wanted, of a Resource its target and default Version
    too; ``attributes`` those of which no more is wanted, of a Resource its default Version's. A way comes back if it
    passes all tests of one of ``alternatives``. ``after`` is an id of the first step to start behind.
    """

    parent: int
    types: tuple[str, ...]
    resource: int | None = None
    rows: frozenset[int] = frozenset()
    attributes: frozenset[int] = frozenset()
    alternatives: tuple[tuple[Condition, ...], ...] = ((),)
    after: str | None = None
