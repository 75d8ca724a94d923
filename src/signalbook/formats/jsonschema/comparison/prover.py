"""Prove that all values of one schema are values of another, or explain why that could not be proven.

The assumptions about a value are a set of literals: schemas that hold and schemas that do not. To prove that a schema
holds for every such value, each of its keywords is compared with the facts that follow from the literals. If that
fails, the values are divided into cases. Nothing is guessed: what cannot be proven is a difference.

Schemas may contain themselves. While a question is being answered, it may be assumed to be true for a part of the
value, because values are finite (induction over their size), but not for the value itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final

import jsonschema_rs

from signalbook import work
from signalbook.formats.base import MAX_FINDINGS, format_pointer
from signalbook.formats.compatibility import Difference
from signalbook.formats.jsonschema import regexes
from signalbook.formats.jsonschema.comparison.applicators import COMBINED, DELEGATING, UNIONS, Proof, Rule
from signalbook.formats.jsonschema.comparison.assertions import ARRAYS, OBJECTS, SCALARS, count_members, is_possible
from signalbook.formats.jsonschema.comparison.facts import (
    MAX_EXACT,
    SMALL_TYPES,
    TYPE_BY_KEYWORD,
    Facts,
    Literals,
    Options,
    gather_facts,
    json_type,
    make_member_term,
    make_tag_term,
    make_type_term,
)
from signalbook.formats.jsonschema.comparison.resolution import TermLibrary
from signalbook.formats.jsonschema.comparison.terms import UNEVALUATED, Sameness, Term, resolve_target
from signalbook.formats.jsonschema.comparison.witnesses import COUNT_KEYWORDS, find_witness, needs_witness
from signalbook.formats.jsonschema.comparison.wording import (
    describe_difference,
    format_first,
    is_definite,
    make_undecided,
)
from signalbook.formats.jsonschema.dialects import DIALECTS, compile_validator
from signalbook.formats.jsonschema.document import JsonSchemaDocument, make_uri
from signalbook.values import JSON, dump_json, parse_json

# The maximum number of questions, and of questions that are open at the same time.
MAX_STEPS: Final = 40_000
MAX_DEPTH: Final = 48
# The units of a request's work limit for each step.
_WORK_PER_STEP: Final = 20
# The number of comparisons with the writer's terms for each step.
_LOOKS_PER_STEP: Final = 10
_MAX_STEPS_FOR_EMPTY: Final = 200
_MAX_CASES: Final = 4
_MAX_SPLITS: Final = 8
# If less than this fraction (1/n) of the cases remains unsolved, the split is good enough to stop searching.
_GOOD_SPLIT: Final = 4
_MAX_REFUSED: Final = 12
_NO_END: Final = 1 << 30
RULES: Final[dict[str, Rule]] = {**SCALARS, **ARRAYS, **OBJECTS, **COMBINED}
Question = tuple[Literals, Term]
# The maximum number of values of a member that distinguishes alternatives: each value becomes a case.
_MAX_VALUES: Final = 32
_MAX_LISTED_VALUES: Final = 5_000
# The maximum number of comparisons between listed values for one question; the validators make all of them.
_MAX_TRIALS: Final = 1_000_000
# Keywords that mean the same in all drafts after they were converted to terms.
_INDEPENDENT: Final = frozenset({*SCALARS} - {"never", "type", "enum", "const", "content"})


def list_more_splits(proof: Proof, facts: Facts, term: Term, keyword: str) -> list[Options]:
    """Return further ways to split the values: by JSON type, and by members that distinguish the reader's alternatives.

    For ``unevaluated...`` keywords, split by the writer's alternatives instead, because the members that are evaluated
    depend on which alternatives hold.
    """
    if keyword in UNEVALUATED:
        closed = (other for other in facts.terms if UNEVALUATED & other.keywords.keys())
        items = (item for other in closed for item in other.keywords.get("anyOf", ()))
        return [(frozenset({(item, True)}), frozenset({(item, False)})) for item in items]
    if keyword not in UNIONS:
        return []
    splits: list[Options] = []
    if len(facts.types) > 1:
        splits.append(tuple(frozenset({(make_type_term(name), True)}) for name in sorted(facts.types)))
    return splits + [
        options for name in _list_tags(term.keywords[keyword]) if (options := _split_by_value(proof, facts, name))
    ]


def _list_tags(items: tuple[Term, ...]) -> list[str]:
    """Return the names of members for which some alternative lists the values."""
    names: dict[str, None] = {}
    for item in items:
        for name, member in resolve_target(item).keywords.get("properties", {}).items():
            if {"const", "enum"} & resolve_target(member).keywords.keys():
                names[name] = None
    return list(names)


def _split_by_value(proof: Proof, facts: Facts, name: str) -> Options:
    values = proof.derive_facts(facts.describe_member(name)).values
    if values is None or not 1 < len(values) <= _MAX_VALUES or "object" not in facts.types:
        return ()
    options: Options = tuple(frozenset({(make_tag_term(name, key), True)}) for key in values)
    return options if name in facts.required else (*options, frozenset({(make_member_term(name), False)}))


def is_accepted(facts: Facts, term: Term) -> bool:
    """Return True if the reader certainly accepts every listed value."""
    return _find_refused(facts, term) == []


def check_listed_values(facts: Facts, term: Term, keyword: str) -> list[Difference] | None:
    """Return the listed values that ``keyword`` alone refuses, as a difference; None if it cannot
    be evaluated alone.
    """
    if keyword in _INDEPENDENT:
        check = _compile_keyword(keyword, dump_json(term.keywords[keyword]))
        refused = [value for value in (facts.values or {}).values() if not regexes.is_valid(check, value)]
        if not refused:
            return []
        return [describe_difference("value_refused", term, keyword, values=format_first(refused), broken=keyword)]
    is_union = len(term.keywords) == 1 and keyword in UNIONS
    refused_all = _find_refused(facts, term) if is_union or keyword in ARRAYS or keyword in OBJECTS else None
    if not refused_all:
        return None
    if is_union:
        return [describe_difference("alternative_removed", term, keyword, old=refused_all[0])]
    # The keyword's own rule knows less about the values than the validator, but the validator gives no reason.
    return [describe_difference("enum_narrowed", term, old=refused_all, values=format_first(refused_all))]


@lru_cache(maxsize=1024)
def _compile_keyword(keyword: str, value: bytes) -> jsonschema_rs.Validator:
    return compile_validator(DIALECTS[-1], {keyword: parse_json(value)}, None)


def _find_refused(facts: Facts, term: Term) -> list[JSON] | None:
    """Return the listed values that the reader refuses; None if the validator cannot be used or
    needs too many steps.
    """
    values = facts.values or {}
    trials = term.listed_count + sum(other.listed_count for other, _ in facts.literals)
    if len(values) > _MAX_LISTED_VALUES or len(values) * trials > _MAX_TRIALS or term.accepts is None:
        return None
    return [
        value
        for value in values.values()
        if not all(_passes(facts, term, spelling) for spelling in _list_spellings(value))
    ]


def _none_is_written(facts: Facts) -> bool:
    """Return True if the writer's schemas certainly refuse each of the listed values."""
    values = facts.values or {}
    trials = sum(other.listed_count for other, _ in facts.literals)
    if (
        len(values) > _MAX_LISTED_VALUES
        or len(values) * trials > _MAX_TRIALS
        or any(other.year == 2013 for other, _ in facts.literals)
    ):
        return False
    checks = [(other.accepts, holds) for other, holds in facts.literals if other.accepts is not None]
    return all(any(accepts(value) != holds for accepts, holds in checks) for value in values.values())


def _passes(facts: Facts, term: Term, value: JSON) -> bool:
    """Return True if the reader accepts ``value`` or the writer refuses it, as far as their validators can decide."""
    assert term.accepts is not None
    if any(other.accepts is not None and other.accepts(value) != holds for other, holds in facts.literals):
        return True
    return term.accepts(value)


def _list_spellings(value: JSON) -> list[JSON]:
    """Return the spellings of ``value``: 1 may be written as 1.0, which is not an integer in draft-04."""
    return [_spell(value, int), _spell(value, float)] if _is_numeric(value) else [value]


def _is_numeric(value: JSON) -> bool:
    return isinstance(value, (list, dict)) or json_type(value) == "number"


def _spell(value: JSON, number_type: type[int] | type[float]) -> JSON:
    if isinstance(value, list):
        return [_spell(item, number_type) for item in value]
    if isinstance(value, dict):
        return {name: _spell(item, number_type) for name, item in value.items()}
    exact = json_type(value) == "number" and abs(value) < MAX_EXACT and value == int(value)
    return number_type(value) if exact else value


class Prover:
    """A prover that caches its answers. After ``steps`` steps every new answer is ``undecided``."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.steps = steps
        self.is_same = Sameness()
        self.trial = 0
        self.level = 0
        # The questions that are being answered, with the level at which they were asked and their index among these.
        self.open: dict[Question, tuple[int, int]] = {}
        # The same for sets of literals that are being checked for a contradiction.
        self.open_empty: dict[Literals, tuple[int, int]] = {}
        self.proven: set[Question] = set()
        # Questions that are proven if an open question is proven: the level, and the index of the first such open
        # question.
        self.supposed: dict[Question, tuple[int, int]] = {}
        # The questions of ``supposed`` in the order in which they were answered. A question may occur twice.
        self.conclusions: list[Question] = []
        self.leans_on = _NO_END
        self.failed: dict[Question, list[Difference]] = {}
        self.refuted: set[Question] = set()
        self.known_empty: dict[Literals, bool] = {}
        self.known_facts: dict[Literals, Facts] = {}

    @property
    def spent(self) -> bool:
        """True if no steps are left."""
        return self.steps <= 0

    @property
    def depth(self) -> int:
        """The number of questions that are being answered."""
        return len(self.open) + len(self.open_empty)

    def spend(self, steps: int) -> bool:
        """Count ``steps`` of work. Return False if no steps are left."""
        self.steps -= steps
        work.spend(steps * _WORK_PER_STEP)
        return not self.spent

    def derive_facts(self, literals: Literals) -> Facts:
        """Return the facts that follow from ``literals``; no facts at all if no steps are left."""
        if literals not in self.known_facts:
            if self.spent:
                return Facts(literals=literals)
            self.known_facts[literals] = facts = gather_facts(literals)
            looks = len(facts.terms) + len(facts.refused) + facts.work
            self.steps -= 1 + looks // 16
            work.spend(_WORK_PER_STEP + looks)
        return self.known_facts[literals]

    def compare(self, literals: Literals, term: Term) -> list[Difference]:
        """Return why ``term`` may refuse a value for which ``literals`` hold; empty if it certainly
        accepts all of them.
        """
        term = resolve_target(term)
        if not term.keywords:
            return []
        question = (literals, term)
        answer = self._find_answer(question)
        if answer is not None:
            return answer
        if self.spent or self.depth >= MAX_DEPTH:
            return [make_undecided(term, "the schemas are too large or too deep to compare")]
        self.steps -= 1
        work.spend(_WORK_PER_STEP)
        return self._ask(question)

    def _find_answer(self, question: Question) -> list[Difference] | None:
        if question in self.proven:
            return []
        if question in self.failed:
            return self.failed[question]
        if self.trial and question in self.refuted:
            return [make_undecided(question[1], "it was tried before")]
        # Induction: an open question may be assumed to be true, but only for a smaller part of the value (the question
        # was asked at a lower level), or if it was already assumed at this level.
        level, place = self.supposed.get(question, (_NO_END, 0))
        if level > self.level:
            level, place = self.open.get(question, (_NO_END, 0))
            level += 1
        if level <= self.level:
            self.leans_on = min(self.leans_on, place)
            return []
        if question in self.open:
            return [make_undecided(question[1], "the schema refers to itself without getting anywhere")]
        return None

    def _ask(self, question: Question) -> list[Difference]:
        place, mark, leant = self.depth, len(self.conclusions), self.leans_on
        self.open[question] = (self.level, place)
        self.leans_on = _NO_END
        differences = self._decide(*question)[:MAX_FINDINGS]
        del self.open[question]
        # ``leans_on`` is the earliest open question that the answer assumes. If that is this question or a later one,
        # the induction is complete. Otherwise the answer holds only if the earlier question is proven.
        if differences:
            self._forget(question, differences, mark)
        elif self.leans_on >= place:
            self._settle(question, mark)
        else:
            self.supposed[question] = (self.level, self.leans_on)
            self.conclusions.append(question)
        self.leans_on = min(leant, self.leans_on if self.leans_on < place else _NO_END)
        return differences

    def _forget(self, question: Question, differences: list[Difference], mark: int) -> None:
        """Cache the answer to a question that was refuted, and discard the conclusions since ``mark``."""
        self._forget_supposed(mark)
        if self.trial:
            self.refuted.add(question)
        else:
            self.failed[question] = differences

    def _forget_supposed(self, mark: int) -> None:
        """Discard the conclusions since ``mark``, because they may depend on an assumption that turned out wrong."""
        while len(self.conclusions) > mark:
            self.supposed.pop(self.conclusions.pop(), None)

    def _settle(self, question: Question, mark: int) -> None:
        """Cache ``question`` and the conclusions since ``mark`` as proven, because they no longer
        depend on open questions.
        """
        self.proven.add(question)
        self.proven.update(self.conclusions[mark:])
        self._forget_supposed(mark)

    def compare_part(self, literals: Literals, term: Term) -> list[Difference]:
        """Return the result of ``compare`` for a member, an item or a name of the current value."""
        self.level += 1
        try:
            return self.compare(literals, term)
        finally:
            self.level -= 1

    def proves(self, literals: Literals, term: Term) -> bool:
        """Return True if ``term`` certainly accepts every value for which ``literals`` hold."""
        self.trial += 1
        try:
            return not self.compare(literals, term)
        finally:
            self.trial -= 1

    def proves_part(self, literals: Literals, term: Term) -> bool:
        """Return the result of ``proves`` for a member, an item or a name of the current value."""
        self.level += 1
        try:
            return self.proves(literals, term)
        finally:
            self.level -= 1

    def _decide(self, literals: Literals, term: Term) -> list[Difference]:
        facts = self.derive_facts(literals)
        # Each of the writer's terms is compared with each of the reader's: thousands of both make millions of
        # comparisons.
        self.steps -= len(facts.terms) // _LOOKS_PER_STEP
        # Nothing has to be proven if both sides have the same schema or if no value is possible.
        if not facts.types or any(self.is_same(other, term) for other in facts.terms):
            return []
        differences: list[Difference] = []
        for keyword in term.keywords:
            if keyword in RULES:
                differences += self._check_keyword(facts, term, keyword)
            if differences and (
                self.trial or len(differences) >= MAX_FINDINGS or differences[-1].rule in ("type_changed", "undecided")
            ):
                break
        # Check this last, because it is costly and rarely true: contradictory literals satisfy every schema.
        if not differences or self.is_empty(literals):
            return []
        if facts.circular or term.circular:
            return [make_undecided(term, "the schema refers to itself without getting anywhere")]
        return differences

    def _check_keyword(self, facts: Facts, term: Term, keyword: str) -> list[Difference]:
        if keyword in UNIONS and facts.splits and not self._is_kept(facts, term, keyword):
            # One alternative that accepts all of the writer's values is rare, and the search multiplies the numbers of
            # both.
            differences = [make_undecided(term, "no alternative takes all values, several may together", keyword)]
        else:
            differences = self._check_case(facts, term, keyword)
        if not differences or keyword in DELEGATING:
            return differences
        # A keyword for objects cannot be violated if no value is an object.
        if (
            keyword in TYPE_BY_KEYWORD
            and len(facts.types) > 1
            and self.is_empty(facts.literals | {(make_type_term(TYPE_BY_KEYWORD[keyword]), True)})
        ):
            return []
        return self._check_by_cases(facts, term, keyword, differences, _MAX_CASES)

    def _check_case(self, facts: Facts, term: Term, keyword: str) -> list[Difference]:
        """Check one keyword with the facts, without splitting them into cases."""
        self.steps -= 1
        if TYPE_BY_KEYWORD.get(keyword, "") not in facts.types | {""} or self._is_kept(facts, term, keyword):
            return []
        if facts.values is not None and is_accepted(facts, term):
            return []
        if facts.values is not None and (refused := check_listed_values(facts, term, keyword)) is not None:
            return refused
        return RULES[keyword](self, facts, term)

    def _is_kept(self, facts: Facts, term: Term, keyword: str) -> bool:
        """Return True if the writer has ``keyword`` with the same value."""
        if keyword in UNEVALUATED:
            return False
        part = term.extract_keyword(keyword)
        return any(
            keyword in other.keywords and self.is_same(other.extract_keyword(keyword), part) for other in facts.terms
        )

    def _check_by_cases(
        self, facts: Facts, term: Term, keyword: str, differences: list[Difference], depth: int
    ) -> list[Difference]:
        """Split ``facts`` into cases, by the split that leaves the fewest cases unsolved, and
        return their differences.
        """
        best: list[tuple[Facts, list[Difference]]] | None = None
        for split in self._list_splits(facts, term, keyword) if depth else ():
            results = [(case, self._check_case(case, term, keyword)) for case in self._list_cases(facts, split)]
            if self.spent:
                return [*(difference for _, result in results for difference in result), *differences]
            failing = [(case, result) for case, result in results if result and not self.is_empty(case.literals)]
            if not failing:
                return []
            # A split that solves no case would only multiply the work at the next depth.
            promising = len(failing) < len(split) or keyword in UNIONS
            if promising and (best is None or len(failing) < len(best)):
                best = failing
            if len(failing) * _GOOD_SPLIT < len(results):
                break
        if best is None:
            return self._confirm(facts, term, keyword, differences)
        return [
            difference
            for case, result in best
            for difference in self._check_by_cases(case, term, keyword, result, depth - 1)
        ]

    def _confirm(self, facts: Facts, term: Term, keyword: str, differences: list[Difference]) -> list[Difference]:
        """Return ``differences`` if they are certain or a value was found that shows them; otherwise an undecided
        difference.
        """
        if self.trial or not is_definite(differences) or not needs_witness(facts, term, keyword):
            return differences
        witness = find_witness(self, facts, term, keyword)
        if not witness:
            return [make_undecided(term, "no value was found that is refused", keyword)]
        if keyword in COUNT_KEYWORDS:
            return [describe_difference(differences[0].rule, term, keyword, old=len(witness[0]))]
        return differences

    def _list_cases(self, facts: Facts, split: Options) -> Iterator[Facts]:
        for option in split:
            if self.spent:
                return
            case = self.derive_facts(facts.literals | option)
            if case.types:
                yield case

    def _list_splits(self, facts: Facts, term: Term, keyword: str) -> Iterator[Options]:
        yield from facts.splits[:_MAX_SPLITS]
        yield from list_more_splits(self, facts, term, keyword)[:_MAX_SPLITS]

    def is_empty(self, literals: Literals) -> bool:
        """Return True if certainly no value exists for which ``literals`` hold."""
        if literals in self.known_empty:
            return self.known_empty[literals]
        if literals in self.open_empty:
            # A value that needs a part like itself would be infinite, so no such value exists (induction over the size
            # of values).
            level, place = self.open_empty[literals]
            if level < self.level:
                self.leans_on = min(self.leans_on, place)
            return level < self.level
        if self.spent or self.depth >= MAX_DEPTH:
            return False
        place, mark = self.depth, len(self.conclusions)
        self.open_empty[literals] = (self.level, place)
        leant, self.leans_on = self.leans_on, _NO_END
        is_empty = self._check_empty(literals)
        del self.open_empty[literals]
        if self.leans_on <= place:
            self._forget_supposed(mark)
        if self.leans_on >= place:
            self.leans_on = _NO_END
        if not is_empty or self.leans_on == _NO_END:
            self.known_empty[literals] = is_empty
        self.leans_on = min(leant, self.leans_on)
        return is_empty

    def _is_part_empty(self, literals: Literals) -> bool:
        """Return the result of ``is_empty`` for a part of the current value."""
        self.level += 1
        try:
            return self.is_empty(literals)
        finally:
            self.level -= 1

    def _check_empty(self, literals: Literals) -> bool:
        """Search for a contradiction with few steps, because usually there is none."""
        # The rest of the steps is reserved, so that this search cannot use up what the proof needs.
        reserved = 0 if len(self.open_empty) > 1 else max(0, self.steps - _MAX_STEPS_FOR_EMPTY)
        self.steps -= reserved + 1
        is_empty = self._has_contradiction(self.derive_facts(literals))
        self.steps = max(0, self.steps) + reserved
        return is_empty

    def _has_contradiction(self, facts: Facts) -> bool:
        if not facts.types or (facts.values is not None and _none_is_written(facts)):
            return True
        impossible: dict[str, Callable[[Facts], bool]] = {"array": self._has_no_array, "object": self._has_no_object}
        if all(type_name in impossible and impossible[type_name](facts) for type_name in facts.types):
            return True
        if len(facts.refused) <= _MAX_REFUSED and any(self.proves(facts.literals, term) for term in facts.refused):
            return True
        return any(
            all(self.is_empty(facts.literals | option) for option in split) for split in facts.splits[:_MAX_CASES]
        )

    def _has_no_array(self, facts: Facts) -> bool:
        if facts.unique and not facts.prefix and self._has_fewer_values(facts.describe_item(0), facts.size.low):
            return True
        sure = min(facts.size.low, facts.prefix + 1)
        items = frozenset() if facts.prefix else facts.describe_item(0)
        contained = [
            items | {(term.keywords["contains"], True)}
            for term in facts.contains
            if term.keywords.get("minContains", 1)
        ]
        return any(map(self._is_part_empty, [*contained, *(facts.describe_item(index) for index in range(sure))]))

    def _has_fewer_values(self, literals: Literals, count: int) -> bool:
        """Return True if certainly fewer than ``count`` values exist for which ``literals`` hold."""
        facts = self.derive_facts(literals)
        if facts.values is not None:
            return len(facts.values) < count
        small_types = facts.types & SMALL_TYPES.keys()
        few = sum(len(SMALL_TYPES[type_name]) for type_name in small_types) < count
        return few and all(
            self._is_part_empty(literals | {(make_type_term(type_name), True)})
            for type_name in facts.types - small_types
        )

    def _has_no_object(self, facts: Facts) -> bool:
        if facts.count.low > len(facts.required):
            maximum = count_members(self, facts)
            if maximum is not None and maximum < facts.count.low:
                return True
        return any(
            not is_possible(self, facts, name) or self._is_part_empty(facts.describe_member(name))
            for name in sorted(facts.required)
        )


def compare(reader: JsonSchemaDocument, writer: JsonSchemaDocument, *, steps: int = MAX_STEPS) -> list[Difference]:
    """Return up to ``MAX_FINDINGS`` reasons why ``reader`` may refuse a value that ``writer`` allows.

    ``steps`` limits the work; what has not been proven by then is a difference.
    """
    readers, writers = TermLibrary(reader), TermLibrary(writer)
    new, old = readers.refer("#"), writers.refer("#")
    if regexes.are_slow([*reader.documents.values(), *writer.documents.values()]):
        return [make_undecided(new, "there are texts that are too long for patterns of this size")]
    if resolve_target(new).keywords or resolve_target(old).keywords:
        return compare_terms([(new, old)], steps)
    pairs = list(_list_definitions(readers, writers))
    removed = [
        describe_difference("definition_removed", new, old=old.raw, name=new.path)
        for new, old in pairs
        if "opaque" in new.keywords
    ]
    differences = compare_terms([(new, old) for new, old in pairs if "opaque" not in new.keywords], steps)
    return [*removed, *differences][:MAX_FINDINGS]


def compare_terms(pairs: Iterable[tuple[Term, Term]], steps: int = MAX_STEPS) -> list[Difference]:
    """Return up to ``MAX_FINDINGS`` differences between pairs of a reader's and a writer's term."""
    prover = Prover(steps)
    unique: dict[tuple[str, str, str], Difference] = {}
    for new, old in pairs:
        try:
            differences = prover.compare(frozenset({(resolve_target(old), True)}), new)
        except RecursionError:
            differences = [make_undecided(new, "the schemas are nested too deep to compare")]
        if differences and prover.spent:
            # A difference that was found before the limit may be a case that was left unsolved.
            differences = [make_undecided(new, f"the comparison reached its limit of {steps} steps")]
        unique |= {(difference.path, difference.rule, difference.message): difference for difference in differences}
    return list(unique.values())[:MAX_FINDINGS]


def _list_definitions(readers: TermLibrary, writers: TermLibrary) -> Iterator[tuple[Term, Term]]:
    """Yield pairs of definitions with the same name, for documents whose top level only collects definitions."""
    root = writers.document.root
    for keyword in ("definitions", "$defs"):
        for name in root.get(keyword, ()) if isinstance(root, dict) else ():
            uri = make_uri("", format_pointer((keyword, name)))
            yield readers.refer(uri), writers.refer(uri)
