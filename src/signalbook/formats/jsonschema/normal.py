"""JSON Schema in normal form: for each JSON type, the values of that type that the schema allows.

Types never overlap, so ``allOf`` becomes an intersection type by type. ``anyOf`` and ``oneOf`` become a union if the
alternatives concern different types (null or an object, text or a number). If the form cannot express a schema, it has
``exact=False`` and accepts more than the schema, never less. Columns and decoders are derived from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final, TypeVar

from signalbook.values import JSON

T = TypeVar("T", str, int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Numbers between bounds; ``values``, if set, is the closed set of allowed integers.

    ``step`` is an integer ``multipleOf``. For a fractional ``multipleOf``, such as 0.01, ``scale`` is the number of its
    decimal places.
    """

    integer: bool = False
    low: int | float | None = None
    low_open: bool = False
    high: int | float | None = None
    high_open: bool = False
    step: int | None = None
    scale: int = 0
    values: frozenset[int] | None = None
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Strings:
    """Strings with lengths in code points; ``values``, if set, is the closed set of strings.
    ``format`` is an annotation.
    """

    low: int = 0
    high: int | None = None
    patterns: tuple[str, ...] = ()
    values: frozenset[str] | None = None
    format: str = ""
    exact: bool = True

    @property
    def free(self) -> bool:
        """True if any string is allowed."""
        return self == Strings(format=self.format)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """Arrays of ``low`` to ``high`` items; None means no maximum."""

    item: NormalForm
    low: int = 0
    high: int | None = None
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """Objects with ``properties``. Any other member must conform to ``extra``; None means that there may be no others.

    Every required name is in ``properties``. ``low`` and ``high`` limit the number of members. If there are
    ``alternatives``, each object also conforms to at least one of them. If ``complete``, every object that conforms to
    an alternative conforms to the schema.
    """

    properties: Mapping[str, NormalForm]
    required: frozenset[str] = frozenset()
    extra: NormalForm | None
    low: int = 0
    high: int | None = None
    exact: bool = True
    alternatives: tuple[Objects, ...] = field(default=(), compare=False)
    complete: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NormalForm:
    """The allowed values by type; None (or ``False``, or no booleans) means that no value of the type is allowed.

    ``uris`` name the schemas that together define the form, for a validator if the form is not exact.
    """

    null: bool = False
    booleans: frozenset[bool] = frozenset()
    numbers: Numbers | None = None
    strings: Strings | None = None
    arrays: Arrays | None = None
    objects: Objects | None = None
    exact: bool = True
    uris: tuple[str, ...] = ()
    description: str = ""

    @property
    def never(self) -> bool:
        """True if no value is allowed."""
        facets = (self.numbers, self.strings, self.arrays, self.objects)
        return not self.null and not self.booleans and all(facet is None for facet in facets)

    @property
    def kinds(self) -> int:
        """The number of allowed types, not counting null."""
        facets = (self.booleans or None, self.numbers, self.strings, self.arrays, self.objects)
        return sum(facet is not None for facet in facets)

    @property
    def here_exact(self) -> bool:
        """True if the form completely defines the value itself. Its items and members have their own forms."""
        facets = (self.numbers, self.strings, self.arrays, self.objects)
        return self.exact and all(facet is None or facet.exact for facet in facets)


BOTH: Final = frozenset({False, True})
NEVER: Final = NormalForm()


def _build_any() -> NormalForm:
    # This is the only form that refers to itself: as its own item and its own member.
    node = NormalForm(null=True, booleans=BOTH, numbers=Numbers(), strings=Strings())
    object.__setattr__(node, "arrays", Arrays(item=node))
    object.__setattr__(node, "objects", Objects(properties=MappingProxyType({}), extra=node))
    return node


ANY: Final = _build_any()
# The objects without any constraint.
_FREE: Final = Objects(properties={}, extra=ANY)


def make_unknown(*uris: str) -> NormalForm:
    """Return the form that allows any value, marked as inexact, for the schemas at ``uris``."""
    return replace(ANY, exact=False, uris=uris)


def make_objects(
    properties: Mapping[str, NormalForm],
    required: Iterable[str],
    extra: NormalForm | None,
    *,
    low: int = 0,
    high: int | None = None,
    exact: bool = True,
) -> Objects | None:
    """Return ``Objects`` in which required members are declared and impossible members are left out.

    None means that no object conforms.
    """
    if extra is not None and extra.never:
        extra = None
    needed = frozenset(required)
    members = {**properties, **dict.fromkeys(sorted(needed - properties.keys()), extra or NEVER)}
    impossible = {name for name, node in members.items() if node.never}
    if impossible & needed:
        return None
    possible = {name: node for name, node in members.items() if name not in impossible}
    exact = exact and not (impossible and extra is not None)  # the form cannot exclude a name from extra members
    return Objects(properties=possible, required=needed, extra=extra, low=low, high=high, exact=exact)


def intersect_all(nodes: Sequence[NormalForm]) -> NormalForm:
    """Return the form of the values that all of ``nodes`` (at least one) allow.

    The order of members and the description of earlier nodes take precedence.
    """
    return _join_in_pairs(nodes, intersect)


def _join_in_pairs(nodes: Sequence[NormalForm], join: Callable[[NormalForm, NormalForm], NormalForm]) -> NormalForm:
    """Combine all nodes pair by pair: combining them one after another would copy the first node's
    members each time.
    """
    while len(nodes) > 1:
        pairs = [join(a, b) for a, b in zip(nodes[::2], nodes[1::2], strict=False)]
        nodes = [*pairs, nodes[-1]] if len(nodes) % 2 else pairs
    return nodes[0]


@lru_cache(maxsize=4096)
def intersect(a: NormalForm, b: NormalForm) -> NormalForm:
    """Return the form of the values that both forms allow; order of members and description are those of ``a``.

    Results are cached by identity, because definitions with many references would multiply the work otherwise.
    """
    if a is ANY or b is ANY:
        return b if a is ANY else a
    return NormalForm(
        null=a.null and b.null,
        booleans=a.booleans & b.booleans,
        numbers=_intersect_numbers(a.numbers, b.numbers),
        strings=_intersect_strings(a.strings, b.strings),
        arrays=_intersect_arrays(a.arrays, b.arrays),
        objects=_intersect_objects(a.objects, b.objects),
        exact=a.exact and b.exact,
        uris=tuple(dict.fromkeys((*a.uris, *b.uris))),
        description=a.description or b.description,
    )


def _intersect_numbers(a: Numbers | None, b: Numbers | None) -> Numbers | None:
    if a is None or b is None:
        return None
    low, low_open = max(
        ((n.low, n.low_open) for n in (a, b)), key=lambda p: (-math.inf if p[0] is None else p[0], p[1])
    )
    high, high_open = min(
        ((n.high, n.high_open) for n in (a, b)), key=lambda p: (math.inf if p[0] is None else p[0], not p[1])
    )
    numbers = Numbers(
        integer=a.integer or b.integer,
        low=low,
        low_open=low_open,
        high=high,
        high_open=high_open,
        step=math.lcm(a.step or 1, b.step or 1) if a.step or b.step else None,
        scale=max(a.scale, b.scale),
        values=_intersect_values(a.values, b.values),
        exact=a.exact and b.exact,
    )
    if numbers.values is None:
        return numbers
    values = frozenset(value for value in numbers.values if is_within(value, numbers))
    return Numbers(integer=True, values=values, exact=numbers.exact) if values else None


def is_within(value: int, numbers: Numbers) -> bool:
    """Return True if ``value`` satisfies the bounds and the step of ``numbers``."""
    low, high = numbers.low, numbers.high
    return (
        (low is None or value > low or (value == low and not numbers.low_open))
        and (high is None or value < high or (value == high and not numbers.high_open))
        and (not numbers.step or value % numbers.step == 0)
    )


def find_ends(numbers: Numbers) -> tuple[int | None, int | None]:
    """Return the smallest and the largest integer within the bounds of ``numbers``; None where there is no bound."""
    low = None if numbers.low is None else math.ceil(numbers.low)
    high = None if numbers.high is None else math.floor(numbers.high)
    if low is not None and numbers.low_open and low == numbers.low:
        low += 1
    if high is not None and numbers.high_open and high == numbers.high:
        high -= 1
    return low, high


def _intersect_strings(a: Strings | None, b: Strings | None) -> Strings | None:
    if a is None or b is None:
        return None
    low, high = max(a.low, b.low), _choose_least(a.high, b.high)
    values = _intersect_values(a.values, b.values)
    if values is not None:
        values = frozenset(value for value in values if low <= len(value) and (high is None or len(value) <= high))
    patterns = tuple(dict.fromkeys((*a.patterns, *b.patterns)))
    exact = a.exact and b.exact and not (patterns and values is not None)
    if values is not None:
        return Strings(values=values, exact=exact) if values else None
    return Strings(low=low, high=high, patterns=patterns, format=a.format or b.format, exact=exact)


def _intersect_arrays(a: Arrays | None, b: Arrays | None) -> Arrays | None:
    if a is None or b is None:
        return None
    item = intersect(a.item, b.item)
    return Arrays(item=item, low=max(a.low, b.low), high=_choose_least(a.high, b.high), exact=a.exact and b.exact)


def _intersect_objects(a: Objects | None, b: Objects | None) -> Objects | None:
    if a is None or b is None:
        return None
    names = dict.fromkeys((*a.properties, *b.properties))
    extra = None if a.extra is None or b.extra is None else intersect(a.extra, b.extra)
    joined = make_objects(
        {name: intersect(_find_member(a, name), _find_member(b, name)) for name in names},
        a.required | b.required,
        extra,
        low=max(a.low, b.low),
        high=_choose_least(a.high, b.high),
        exact=a.exact and b.exact,
    )
    alternatives = a.alternatives or b.alternatives  # one of the two lists is sufficient
    if joined is None or not alternatives:
        return joined
    complete = (a.complete and b == _FREE) or (b.complete and a == _FREE)
    return replace(joined, alternatives=alternatives, complete=complete)


def _find_member(part: Objects, name: str) -> NormalForm:
    return part.properties.get(name) or part.extra or NEVER


def _choose_least(a: int | None, b: int | None) -> int | None:
    return min((n for n in (a, b) if n is not None), default=None)


def _intersect_values(a: frozenset[T] | None, b: frozenset[T] | None) -> frozenset[T] | None:
    return (a & b) if a is not None and b is not None else (b if a is None else a)


def unite(nodes: Sequence[NormalForm], *, once: bool) -> NormalForm:
    """Return the form of the values that at least one of ``nodes`` allows, or with ``once`` exactly one (``oneOf``)."""
    return _join_in_pairs(nodes, partial(_unite_two, once=once))


def _unite_two(a: NormalForm, b: NormalForm, *, once: bool) -> NormalForm:
    if (a is ANY or b is ANY) and not once:
        return ANY
    overlap = once and ((a.null and b.null) or bool(a.booleans & b.booleans))
    return NormalForm(
        null=a.null or b.null,
        booleans=a.booleans | b.booleans,
        numbers=_unite_numbers(a.numbers, b.numbers, once),
        strings=_unite_strings(a.strings, b.strings, once),
        arrays=a.arrays if b.arrays is None else b.arrays if a.arrays is None else Arrays(item=ANY, exact=False),
        objects=_unite_objects(a.objects, b.objects, once),
        exact=a.exact and b.exact and not overlap,
        description=a.description or b.description,
    )


def _unite_objects(a: Objects | None, b: Objects | None, once: bool) -> Objects | None:
    if a is None or b is None:
        return b if a is None else a
    ours, theirs = a.alternatives or (a,), b.alternatives or (b,)
    complete = all(part.complete if part.alternatives else part.exact for part in (a, b))
    if once:
        few = len(ours) * len(theirs) <= _MOST_PAIRS
        complete = complete and few and all(_exclude(part, other) for part in ours for other in theirs)
    return Objects(
        properties=MappingProxyType({}), extra=ANY, exact=False, alternatives=(*ours, *theirs), complete=complete
    )


# The maximum number of pairs of alternatives to compare.
_MOST_PAIRS: Final = 10_000


def _exclude(a: Objects, b: Objects) -> bool:
    """Return True if no object conforms to both, because a member required by both must have different values."""
    for name in a.required & b.required:
        ours, theirs = find_closed_values(a.properties[name]), find_closed_values(b.properties[name])
        if ours is not None and theirs is not None and not ours & theirs:
            return True
    return False


def find_closed_values(node: NormalForm) -> frozenset[JSON] | None:
    """Return the closed set of scalar values that ``node`` allows, or None if the set is not closed."""
    numbers, strings = node.numbers, node.strings
    if node.arrays or node.objects or (numbers and numbers.values is None) or (strings and strings.values is None):
        return None
    values: set[JSON] = {*node.booleans, *((numbers and numbers.values) or ()), *((strings and strings.values) or ())}
    return frozenset(values | {None} if node.null else values)


def _unite_numbers(a: Numbers | None, b: Numbers | None, once: bool) -> Numbers | None:
    if a is None or b is None:
        return b if a is None else a
    if a.values is not None and b.values is not None:
        exact = a.exact and b.exact and not (once and a.values & b.values)
        return Numbers(integer=True, values=a.values | b.values, exact=exact)
    return Numbers(integer=a.integer and b.integer, exact=not once and a == b == Numbers(integer=a.integer))


def _unite_strings(a: Strings | None, b: Strings | None, once: bool) -> Strings | None:
    if a is None or b is None:
        return b if a is None else a
    if a.values is not None and b.values is not None:
        return Strings(values=a.values | b.values, exact=a.exact and b.exact and not (once and a.values & b.values))
    return Strings(format=a.format if a.format == b.format else "", exact=not once and a.free and b.free)
