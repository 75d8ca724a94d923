"""Content models as regular expressions with occurrence ranges, and the comparison of two such models.

An expression is evaluated by partial derivatives: the elements that may come first, and the expression that remains
after each of them. Both models are traversed together from their starts; every pair of remaining expressions is visited
once. Expressions are numbers in a table, so that equal expressions have the same number. Steps are counted, because
ranges and nested groups multiply.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from xmlschema.validators import XsdAnyElement, XsdGroup

from signalbook.formats.compatibility import TooManySteps

Spend = Callable[[int], None]
_MAX_NESTING: Final = 200
# The maximum number of particles in an all-group that are tried in every order, which needs 2 ** 8 sets.
_MAX_ORDERED: Final = 8
_EMPTY: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WildcardNames:
    """The names that a wildcard allows: names in ``namespaces``, or if ``negated`` names in all other namespaces.

    ``excluded`` are single names that are not allowed. ``is_exact`` is False if further names are excluded by
    ``##defined`` or similar values.
    """

    negated: bool
    namespaces: frozenset[str]
    excluded: frozenset[str] = frozenset()
    is_exact: bool = True

    def __str__(self) -> str:
        listed = ", ".join(sorted(name or "no namespace" for name in self.namespaces))
        if self.negated:
            return "any namespace" + (f" but {listed}" if listed else "")
        return f"namespace {listed}"

    def allows(self, name: str) -> bool:
        """Return True if the expanded ``name`` is allowed. With ``##defined``, the result may be
        True for an excluded name.
        """
        return self.has_namespace(name[1:].partition("}")[0] if name[:1] == "{" else "") and name not in self.excluded

    def has_namespace(self, namespace: str) -> bool:
        return (namespace in self.namespaces) is not self.negated

    def overlaps(self, other: WildcardNames) -> bool:
        """Return True if both wildcards allow a common namespace."""
        if self.negated and other.negated:
            return True
        listed, other_names = (other, self) if self.negated else (self, other)
        return any(map(other_names.has_namespace, listed.namespaces))

    def is_within(self, wildcards: Iterable[WildcardNames], excluded: Iterable[str] = ()) -> bool:
        """Return True if every allowed name is allowed by one of ``wildcards`` or is in ``excluded``."""
        negated, namespaces = False, frozenset[str]()
        apart = {*excluded, *self.excluded}
        for other in wildcards:
            if not other.is_exact or not {name for name in other.excluded if self.allows(name)} <= apart:
                return False
            match negated, other.negated:
                case True, True:
                    namespaces &= other.namespaces
                case True, False:
                    namespaces -= other.namespaces
                case False, True:
                    negated, namespaces = True, other.namespaces - namespaces
                case _:
                    namespaces |= other.namespaces
        if self.negated:
            return negated and namespaces <= self.namespaces
        return all((namespace in namespaces) is not negated for namespace in self.namespaces)


def read_wildcard_names(wildcard: Any) -> WildcardNames:
    """Return the names that an ``xs:any`` or ``xs:anyAttribute`` allows."""
    excluded = frozenset(name for name in wildcard.not_qname if not name.startswith("##"))
    is_exact = len(excluded) == len(wildcard.not_qname)
    if wildcard.not_namespace:
        negated, namespaces = True, frozenset(wildcard.not_namespace)
    elif "##any" in wildcard.namespace:
        negated, namespaces = True, frozenset()
    elif "##other" in wildcard.namespace:
        negated, namespaces = True, frozenset({wildcard.target_namespace, ""})
    else:
        negated, namespaces = False, frozenset(wildcard.namespace)
    return WildcardNames(negated=negated, namespaces=namespaces, excluded=excluded, is_exact=is_exact)


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """An element with a name, or a wildcard with the ``names`` that it allows."""

    component: Any
    name: str
    names: WildcardNames | None = None


class Pair(NamedTuple):
    """The outcome that the reader accepts an element or wildcard only if ``writer`` is compatible with ``reader``."""

    writer: Leaf
    reader: Leaf


class Unexpected(NamedTuple):
    """The outcome that the writer may have an element or wildcard where the reader does not accept it.

    ``expected`` is what the reader accepts instead. ``repeated`` is True if the same element came before.
    """

    writer: Leaf
    expected: tuple[Leaf, ...]
    repeated: bool


class Incomplete(NamedTuple):
    """The outcome that the writer's content may end where the reader needs one of ``expected``."""

    expected: tuple[Leaf, ...]


Outcome = Pair | Unexpected | Incomplete
Step = tuple[Leaf, int]
_States = frozenset[int]


@dataclass(eq=False)
class ContentModel:
    """The expressions of one content model; ``start`` is the number of the whole expression.

    ``is_possible`` returns False for wildcards that no element can match; they are left out.
    """

    spend: Spend
    strict: bool
    is_possible: Callable[[Leaf], bool]
    _nodes: list[tuple[Any, ...]] = field(default_factory=lambda: [("empty",)])
    _is_nullable: list[bool] = field(default_factory=lambda: [True])
    _node_by_parts: dict[tuple[Any, ...], int] = field(default_factory=lambda: {("empty",): _EMPTY})
    _steps: dict[int, tuple[Step, ...]] = field(default_factory=dict)
    leaves: list[Leaf] = field(default_factory=list)
    start: int = _EMPTY
    is_partial: bool = False

    def is_nullable(self, node: int) -> bool:
        return self._is_nullable[node]

    def find_parts(self, node: int) -> tuple[Any, ...]:
        return self._nodes[node]

    def _add_node(self, parts: tuple[Any, ...], nullable: bool) -> int:
        if parts not in self._node_by_parts:
            self.spend(1)
            self._node_by_parts[parts] = len(self._nodes)
            self._nodes.append(parts)
            self._is_nullable.append(nullable)
        return self._node_by_parts[parts]

    def add_particle(self, particle: Any, depth: int = 0) -> int:
        """Add the expression for ``particle``, which is a group, an element or a wildcard, and return its number."""
        if depth > _MAX_NESTING:
            raise TooManySteps
        least, most = particle.min_occurs, particle.max_occurs
        if most == 0:
            return _EMPTY
        if not isinstance(particle, XsdGroup):
            return self.repeat(self._add_leaf_choice(particle), least, most)
        if particle.model == "all":
            return self.repeat(self._add_all(particle), least, most)
        inner = [self.add_particle(part, depth + 1) for part in particle]
        if particle.model == "choice":
            return self.repeat(self.add_choice(inner), least, most)
        node = _EMPTY
        for part in reversed(inner):
            node = self.add_sequence(part, node)
        return self.repeat(node, least, most)

    def _add_leaf_choice(self, particle: Any) -> int:
        if isinstance(particle, XsdAnyElement):
            leaf = Leaf(particle, "", read_wildcard_names(particle))
            return self._add_leaf(leaf) if self.is_possible(leaf) else self.add_choice([])
        return self.add_choice(
            [
                self._add_leaf(Leaf(element, str(element.name)))
                for element in list_elements(particle, strict=self.strict)
            ]
        )

    def _add_leaf(self, leaf: Leaf) -> int:
        self.leaves.append(leaf)
        return self._add_node(("leaf", leaf), nullable=False)

    def _add_all(self, group: Any) -> int:
        parts = [
            (self._add_leaf_choice(part), part.min_occurs, part.max_occurs) for part in group if part.max_occurs != 0
        ]
        return self.add_all(tuple(parts))

    def add_all(self, parts: tuple[tuple[int, int, int | None], ...]) -> int:
        """Add an all-group and return its number. Each part is an expression with its minimum and
        maximum occurrences.
        """
        return self._add_node(("all", *parts), all(least == 0 for _, least, _ in parts)) if parts else _EMPTY

    def add_choice(self, nodes: Iterable[int]) -> int:
        distinct = tuple(sorted(set(nodes)))
        if len(distinct) == 1:
            return distinct[0]
        return self._add_node(("choice", *distinct), any(map(self.is_nullable, distinct)))

    def add_sequence(self, first: int, second: int) -> int:
        """Add the sequence of two expressions and return its number. The first part of a sequence
        is never a sequence.
        """
        if second == _EMPTY or first == _EMPTY:
            return first or second
        heads = []
        while self._nodes[first][0] == "sequence":
            _, head, first = self._nodes[first]
            heads.append(head)
        self.spend(len(heads))
        for head in (first, *reversed(heads)):
            second = self._add_node(("sequence", head, second), self.is_nullable(head) and self.is_nullable(second))
        return second

    def repeat(self, node: int, least: int, most: int | None) -> int:
        if most == 0 or node == _EMPTY:
            return _EMPTY
        if (least, most) == (1, 1):
            return node
        least = 0 if self.is_nullable(node) else least
        return self._add_node(("repeat", node, least, most), least == 0)

    def list_steps(self, node: int) -> tuple[Step, ...]:
        """Return the possible first leaves of an expression, each with the expression that remains after the leaf."""
        if node not in self._steps:
            self._steps[node] = tuple(self._list_first_steps(node))
            self.spend(1 + len(self._steps[node]))
        return self._steps[node]

    def _list_first_steps(self, node: int) -> Iterator[Step]:
        while self._nodes[node][0] == "sequence":
            _, head, following = self._nodes[node]
            for leaf, remainder in self.list_steps(head):
                yield leaf, self.add_sequence(remainder, following)
            if not self.is_nullable(head):
                return
            node = following
        node_kind, *parts = self._nodes[node]
        if node_kind == "leaf":
            yield parts[0], _EMPTY
        elif node_kind == "choice":
            for part in parts:
                yield from self.list_steps(part)
        elif node_kind == "repeat":
            inner, least, most = parts
            again = self.repeat(inner, max(least - 1, 0), None if most is None else most - 1)
            for leaf, remainder in self.list_steps(inner):
                yield leaf, self.add_sequence(remainder, again)
        elif node_kind == "all":
            for at, (inner, least, most) in enumerate(parts):
                reduced = (inner, max(least - 1, 0), None if most is None else most - 1)
                remaining_parts = [*parts[:at], *([] if reduced[2] == 0 else [reduced]), *parts[at + 1 :]]
                for leaf, remainder in self.list_steps(inner):
                    yield leaf, self.add_sequence(remainder, self.add_all(tuple(remaining_parts)))

    def find_whole_all(self, writer: ContentModel) -> tuple[Any, ...] | None:
        """Return the particles of the all-group that is the whole model, or None if the model is not an all-group.

        An optional all-group counts only if its content is optional too, or if the writer's model is an optional
        all-group or cannot be empty.
        """
        kind, *parts = self._nodes[self.start]
        if _is_optional_all(self) and (
            self.is_nullable(parts[0]) or _is_optional_all(writer) or not writer.is_nullable(writer.start)
        ):
            kind, *parts = self._nodes[parts[0]]
        return tuple(parts) if kind == "all" else None

    def list_leaves(self, node: int) -> frozenset[Leaf]:
        """Return the leaves of a particle in an all-group: one leaf, or the members of a substitution group."""
        kind, *parts = self._nodes[node]
        if kind == "leaf":
            return frozenset(parts)
        return frozenset(leaf for part in parts for leaf in self.list_leaves(part))

    def loosen(self) -> ContentModel:
        """Return a model that allows more if the model is a large all-group: its particles in any number and order.

        All other models are returned unchanged.
        """
        kind, *parts = self._nodes[self.start]
        if kind != "all" or len(parts) <= _MAX_ORDERED:
            return self
        start = self.repeat(self.add_choice([inner for inner, _, _ in parts]), 0, None)
        return replace(self, start=start, is_partial=True)

    def count(self, node: int, weigh: Callable[[Leaf], tuple[int, int]]) -> tuple[int, float]:
        """Return the minimum and maximum of the sum of ``weigh`` over the leaves of content for the
        expression ``node``.
        """
        self.spend(1)
        kind, *parts = self._nodes[node]
        if kind == "leaf":
            return weigh(parts[0])
        if kind == "choice":
            counts = [self.count(part, weigh) for part in parts] or [(0, 0.0)]
            return min(least for least, _ in counts), max(most for _, most in counts)
        if kind == "repeat":
            return _multiply_counts(self.count(parts[0], weigh), parts[1], parts[2])
        if kind == "all":
            counts_of_parts = [_multiply_counts(self.count(inner, weigh), least, most) for inner, least, most in parts]
            return sum(least for least, _ in counts_of_parts), sum(most for _, most in counts_of_parts)
        total: tuple[int, float] = (0, 0)
        while kind == "sequence":
            least, most = self.count(parts[0], weigh)
            total = (total[0] + least, total[1] + most)
            node = parts[1]
            kind, *parts = self._nodes[node]
        if node == _EMPTY:
            return total
        least, most = self.count(node, weigh)
        return total[0] + least, total[1] + most


def _multiply_counts(count: tuple[int, float], least: int, most: int | None) -> tuple[int, float]:
    repetitions = float("inf") if most is None else most
    return count[0] * least, count[1] * repetitions if count[1] else 0


def build_model(
    group: Any, spend: Spend, *, strict: bool, is_possible: Callable[[Leaf], bool] = lambda _: True
) -> ContentModel:
    """Return the content model of ``group``. Raises ``TooManySteps``.

    If ``strict`` is True, substitutes that may be blocked are left out.
    """
    content_model = ContentModel(spend, strict, is_possible)
    content_model.start = content_model.add_particle(group)
    return content_model


def list_elements(particle: Any, *, strict: bool) -> list[Any]:
    """Return the elements that may stand at the place of ``particle``: the declared element and its substitutes.

    If ``strict`` is True, substitutes that may be blocked are left out.
    """
    declared = particle.ref if particle.ref is not None else particle
    elements = [] if declared.abstract else [declared]
    block = declared.block
    if (particle.ref is None and declared.parent is not None) or "substitution" in block:
        return elements
    for other in particle.iter_substitutes():
        if not other.abstract and not (strict and block and other.type is not declared.type):
            elements.append(other)
    return elements


def compare_models(writer: ContentModel, reader: ContentModel) -> Iterator[Outcome]:
    """Yield the outcomes that must hold, or that show why the reader's model does not allow all
    content of the writer's.
    """
    if reader.find_whole_all(writer) is not None:
        yield from _compare_counts(writer, reader)
        return
    writer = writer.loosen()
    start = (frozenset({writer.start}), frozenset({reader.start}))
    waiting: deque[tuple[_States, _States, str]] = deque([(*start, "")])
    seen = {start}
    while waiting:
        old, new, before = waiting.popleft()
        expected = [step for node in new for step in reader.list_steps(node)]
        written = [step for node in old for step in writer.list_steps(node)]
        writer.spend(1 + len(expected) + len(written))
        if any(map(writer.is_nullable, old)) and not any(map(reader.is_nullable, new)):
            yield Incomplete(tuple(leaf for leaf, _ in expected))
        writer_names = {leaf.name for leaf, _ in written}
        for steps in _group_steps(written):
            leaf = steps[0][0]
            fits = list(_list_fitting(leaf, expected, writer_names))
            if not fits or (leaf.names is not None and not _is_covered(leaf.names, fits, writer_names)):
                yield Unexpected(leaf, tuple(reader_leaf for reader_leaf, _ in expected), leaf.name == before != "")
            for writer_leaf in dict.fromkeys(writer_leaf for writer_leaf, _ in steps):
                yield from (
                    Pair(writer_leaf, reader_leaf)
                    for reader_leaf in dict.fromkeys(reader_leaf for reader_leaf, _ in fits)
                )
            for pair in _list_remainders(writer, reader, (old, steps), (new, fits)):
                if pair not in seen:
                    seen.add(pair)
                    waiting.append((*pair, leaf.name))


def _group_steps(steps: list[Step]) -> Iterable[list[Step]]:
    """Return the steps grouped by element name or wildcard. After a group, the content may continue
    after any of its steps.
    """
    groups: dict[object, list[Step]] = {}
    for step in steps:
        groups.setdefault(step[0].name or step[0], []).append(step)
    return groups.values()


def _list_fitting(leaf: Leaf, expected: list[Step], writer_names: set[str]) -> Iterator[Step]:
    """Yield the expected steps that accept ``leaf``. Elements with its name take precedence over wildcards.

    If ``leaf`` is a wildcard, yield all steps that overlap with it, except elements whose name is in ``writer_names``.
    """
    if leaf.names is None:
        exact = [step for step in expected if step[0].names is None and step[0].name == leaf.name]
        allowing = (step for step in expected if step[0].names is not None and step[0].names.allows(leaf.name))
        yield from exact or allowing
        return
    for step in expected:
        other = step[0]
        if other.names is None:
            if leaf.names.allows(other.name) and other.name not in writer_names:
                yield step
        elif leaf.names.overlaps(other.names):
            yield step


def _is_covered(names: WildcardNames, fits: list[Step], writer_names: set[str]) -> bool:
    elements = {leaf.name for leaf, _ in fits if leaf.names is None}
    return names.is_within((leaf.names for leaf, _ in fits if leaf.names is not None), elements | writer_names)


def _list_remainders(
    writer: ContentModel, reader: ContentModel, old: tuple[_States, list[Step]], new: tuple[_States, list[Step]]
) -> Iterator[tuple[_States, _States]]:
    """Yield the pairs of expression sets that remain after the writer's ``steps`` and the reader's fitting steps."""
    (states, steps), (reader_states, fits) = old, new
    writer_rest = frozenset(node for _, node in steps)
    if steps[0][0].names is not None:
        for group in _group_steps(fits):
            yield writer_rest, frozenset(node for _, node in group)
    elif fits:
        writer_counter = _find_single_counter(writer, states, steps)
        reader_counter = _find_single_counter(reader, reader_states, fits)
        if writer_counter is None or reader_counter is None:
            yield writer_rest, frozenset(node for _, node in fits)
            return
        # Both counters decrease together, and nothing changes until one of them reaches its end, so jump there.
        jump = max(1, min((bound for bound in (*writer_counter[:2], *reader_counter[:2]) if bound), default=1) - 1)
        yield (
            frozenset({_advance_counter(writer, writer_counter, jump)}),
            frozenset({_advance_counter(reader, reader_counter, jump)}),
        )


Counter = tuple[int, int | None, int, int]


def _find_single_counter(model: ContentModel, states: _States, steps: list[Step]) -> Counter | None:
    """Return the counter of the only expression with its only step; None if there are several."""
    return _find_counter(model, next(iter(states)), steps[0][0]) if len(states) == len(steps) == 1 else None


def _find_counter(model: ContentModel, node: int, leaf: Leaf) -> Counter | None:
    """Return the counter of an expression that starts with repetitions of ``leaf``, or None.

    A counter has the minimum, the maximum, the expression of the leaf, and the expression that follows.
    """
    kind, *parts = model.find_parts(node)
    head, following = parts if kind == "sequence" else (node, _EMPTY)
    kind, *parts = model.find_parts(head)
    if kind != "repeat" or model.find_parts(parts[0]) != ("leaf", leaf):
        return None
    return parts[1], parts[2], parts[0], following


def _advance_counter(model: ContentModel, counter: Counter, jump: int) -> int:
    least, most, inner, following = counter
    return model.add_sequence(
        model.repeat(inner, max(least - jump, 0), None if most is None else most - jump), following
    )


def _compare_counts(writer: ContentModel, reader: ContentModel) -> Iterator[Outcome]:
    """Yield the outcomes for an all-group of the reader, in which only the number of each particle matters."""
    particles = [(reader.list_leaves(node), least, most) for node, least, most in reader.find_whole_all(writer) or ()]
    steps: list[Step] = [(leaf, _EMPTY) for leaves, _, _ in particles for leaf in leaves]
    # If both models may be empty, count only the content that is not empty.
    both_optional = reader.find_parts(reader.start)[0] == "repeat" and writer.find_parts(writer.start)[0] == "repeat"
    start = writer.find_parts(writer.start)[1] if both_optional and _is_optional_all(writer) else writer.start
    fits: dict[Leaf, frozenset[Leaf]] = {}
    writer_names = {leaf.name for leaf in writer.leaves} - {""}
    for leaf in writer.leaves:
        writer.spend(len(steps))
        fitting = list(_list_fitting(leaf, steps, writer_names))
        fits[leaf] = frozenset(other for other, _ in fitting)
        if not fitting or (leaf.names is not None and not _is_covered(leaf.names, fitting, writer_names)):
            yield Unexpected(leaf, tuple(other for other, _ in steps), repeated=False)
        yield from (Pair(leaf, other) for other, _ in fitting)
    for leaves, least, most in particles:
        certain = {other for other, leaves_found in fits.items() if leaves_found and leaves_found <= leaves}
        possible = [other for other, leaves_found in fits.items() if leaves_found & leaves]
        low, high = writer.count(start, _make_weigher(certain, {*possible}))
        if low < least:
            yield Incomplete(tuple(leaves))
        if most is not None and high > most:
            yield Unexpected(possible[0], tuple(leaves), repeated=True)


def _is_optional_all(model: ContentModel) -> bool:
    kind, *parts = model.find_parts(model.start)
    return kind == "repeat" and (parts[1], parts[2]) == (0, 1) and model.find_parts(parts[0])[0] == "all"


def _make_weigher(certain: set[Leaf], possible: set[Leaf]) -> Callable[[Leaf], tuple[int, int]]:
    return lambda leaf: (int(leaf in certain), int(leaf in possible))
