"""Shows that all values of one schema are values of another, or says why that could not be shown.

What is known of a value is a set of literals: schemas that hold and schemas that do not. To show that a schema holds of
every such value, each of its keywords is compared with the facts that follow; where that fails, the values are divided
into cases. Nothing is ever guessed: what cannot be shown is a difference.

Schemas may contain themselves. A question that is being answered may be taken for answered when it comes up again about
a part of the value, since values are finite (induction over their size), but not about the value itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final

import jsonschema_rs

from signalbook import work
from signalbook.formats.base import MAX_FINDINGS, pointer
from signalbook.formats.compatibility import Difference
from signalbook.formats.jsonschema import regexes
from signalbook.formats.jsonschema.comparison.assertions import ARRAYS, OBJECTS, SCALARS, count_members, is_possible
from signalbook.formats.jsonschema.comparison.combined import COMBINED, PASSED_ON, UNIONS, Proof, Rule
from signalbook.formats.jsonschema.comparison.differences import difference, is_definite, some, undecided
from signalbook.formats.jsonschema.comparison.facts import (
    KINDS,
    MAX_EXACT,
    SMALL,
    Facts,
    Known,
    Options,
    gather,
    has,
    json_type,
    tagged,
    typed,
)
from signalbook.formats.jsonschema.comparison.resolution import Library
from signalbook.formats.jsonschema.comparison.terms import UNEVALUATED, Sameness, Term, target
from signalbook.formats.jsonschema.comparison.witnesses import COUNTED, find_witness, needs_witness
from signalbook.formats.jsonschema.document import DIALECTS, JsonSchemaDocument, compiled, uri_of
from signalbook.values import JSON, dump_json, parse_json

# Questions asked, and how deep they may lead.
MAX_STEPS: Final = 40_000
MAX_DEPTH: Final = 48
# What a step is to the work of the request.
_WORK: Final = 20
# Looks at the writer's terms that count as one step.
_LOOKS: Final = 10
_MAX_FOR_NONE: Final = 200
_MAX_CASES: Final = 4
_MAX_SPLITS: Final = 8
# Of so many cases no more than one is left: the values were divided well.
_FEW: Final = 4
_MAX_REFUSED: Final = 12
_NO_END: Final = 1 << 30
RULES: Final[dict[str, Rule]] = {**SCALARS, **ARRAYS, **OBJECTS, **COMBINED}
Question = tuple[Known, Term]
# A member tells alternatives apart only with few values: each of them is a case.
_MAX_VALUES: Final = 32
_MAX_LISTED: Final = 5_000
# Comparisons of listed values with listed values for one question; the validators make all of them.
_MAX_TRIED: Final = 1_000_000
# Keywords that mean the same in all drafts, once they are terms.
_ALONE: Final = frozenset({*SCALARS} - {"never", "type", "enum", "const", "content"})


def more_splits(proof: Proof, facts: Facts, term: Term, keyword: str) -> list[Options]:
    """Divide by JSON type, and by the value of each member that tells the reader's alternatives apart.

    What alternatives of the writer look at depends on which of them hold: several may.
    """
    if keyword in UNEVALUATED:
        closed = (other for other in facts.terms if UNEVALUATED & other.says.keys())
        items = (item for other in closed for item in other.says.get("anyOf", ()))
        return [(frozenset({(item, True)}), frozenset({(item, False)})) for item in items]
    if keyword not in UNIONS:
        return []
    found: list[Options] = []
    if len(facts.types) > 1:
        found.append(tuple(frozenset({(typed(name), True)}) for name in sorted(facts.types)))
    return found + [options for name in _tags(term.says[keyword]) if (options := _by_value(proof, facts, name))]


def _tags(items: tuple[Term, ...]) -> list[str]:
    """Members that have listed values in some alternative."""
    names: dict[str, None] = {}
    for item in items:
        for name, member in target(item).says.get("properties", {}).items():
            if {"const", "enum"} & target(member).says.keys():
                names[name] = None
    return list(names)


def _by_value(proof: Proof, facts: Facts, name: str) -> Options:
    values = proof.facts(facts.member(name)).values
    if values is None or not 1 < len(values) <= _MAX_VALUES or "object" not in facts.types:
        return ()
    options: Options = tuple(frozenset({(tagged(name, key), True)}) for key in values)
    return options if name in facts.required else (*options, frozenset({(has(name), False)}))


def accepted(facts: Facts, term: Term) -> bool:
    """Return True if the reader certainly accepts every listed value."""
    return _refused(facts, term) == []


def refused_values(facts: Facts, term: Term, keyword: str) -> list[Difference] | None:
    """Return what one keyword alone refuses of the listed values; ``None`` if it cannot be evaluated alone."""
    if keyword in _ALONE:
        check = _keyword(keyword, dump_json(term.says[keyword]))
        refused = [value for value in (facts.values or {}).values() if not regexes.is_valid(check, value)]
        return [difference("value_refused", term, keyword, values=some(refused), broken=keyword)] if refused else []
    is_union = len(term.says) == 1 and keyword in UNIONS
    refused_all = _refused(facts, term) if is_union or keyword in ARRAYS or keyword in OBJECTS else None
    if not refused_all:
        return None
    if is_union:
        return [difference("alternative_removed", term, keyword, old=refused_all[0])]
    # The keyword's own rule knows less of the values than the validator, which does not say what they break.
    return [difference("enum_narrowed", term, old=refused_all, values=some(refused_all))]


@lru_cache(maxsize=1024)
def _keyword(keyword: str, said: bytes) -> jsonschema_rs.Validator:
    return compiled(DIALECTS[-1], {keyword: parse_json(said)}, None)


def _refused(facts: Facts, term: Term) -> list[JSON] | None:
    """The listed values that the reader refuses; ``None`` if it cannot be asked."""
    values = facts.values or {}
    tried = term.listed + sum(known.listed for known, _ in facts.known)
    if len(values) > _MAX_LISTED or len(values) * tried > _MAX_TRIED or term.accepts is None:
        return None
    return [value for value in values.values() if not all(_passes(facts, term, way) for way in _spellings(value))]


def _none_is_written(facts: Facts) -> bool:
    """Return True if what is known refuses each of the listed values."""
    values = facts.values or {}
    tried = sum(known.listed for known, _ in facts.known)
    if len(values) > _MAX_LISTED or len(values) * tried > _MAX_TRIED or any(one.year == 2013 for one, _ in facts.known):
        return False
    asked = [(known.accepts, holds) for known, holds in facts.known if known.accepts is not None]
    return all(any(accepts(value) != holds for accepts, holds in asked) for value in values.values())


def _passes(facts: Facts, term: Term, value: JSON) -> bool:
    """Return True if the reader accepts a value or the writer does not, as far as their schemas can tell."""
    assert term.accepts is not None
    if any(known.accepts is not None and known.accepts(value) != holds for known, holds in facts.known):
        return True
    return term.accepts(value)


def _spellings(value: JSON) -> list[JSON]:
    """Return the spellings of a value: 1 may be written as 1.0, which is not an integer to draft-04."""
    return [_spelled(value, int), _spelled(value, float)] if _numeric(value) else [value]


def _numeric(value: JSON) -> bool:
    return isinstance(value, (list, dict)) or json_type(value) == "number"


def _spelled(value: JSON, kind: type[int] | type[float]) -> JSON:
    if isinstance(value, list):
        return [_spelled(item, kind) for item in value]
    if isinstance(value, dict):
        return {name: _spelled(item, kind) for name, item in value.items()}
    exact = json_type(value) == "number" and abs(value) < MAX_EXACT and value == int(value)
    return kind(value) if exact else value


class Prover:
    """Answers questions, remembering what it found. Once ``MAX_STEPS`` are spent every answer is: undecided."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.steps = steps
        self.same = Sameness()
        self.trial = 0
        self.level = 0
        # Questions being answered, with the level they were asked at and their place among all that are open.
        self.open: dict[Question, tuple[int, int]] = {}
        # The same of values that may be impossible.
        self.open_empty: dict[Known, tuple[int, int]] = {}
        self.proven: set[Question] = set()
        # Proven as long as an open question turns out well: the level, and the place of the first such question.
        self.supposed: dict[Question, tuple[int, int]] = {}
        self.leans_on = _NO_END
        self.failed: dict[Question, list[Difference]] = {}
        self.refuted: set[Question] = set()
        self.none: dict[Known, bool] = {}
        self.known_facts: dict[Known, Facts] = {}

    @property
    def spent(self) -> bool:
        """True if the steps are used up."""
        return self.steps <= 0

    @property
    def depth(self) -> int:
        """The number of questions that are open."""
        return len(self.open) + len(self.open_empty)

    def spend(self, steps: int) -> bool:
        """Account for work; false once there is none left to be had."""
        self.steps -= steps
        work.spend(steps * _WORK)
        return not self.spent

    def facts(self, known: Known) -> Facts:
        """The facts that follow; none once all work is spent."""
        if known not in self.known_facts:
            if self.spent:
                return Facts(known=known)
            self.known_facts[known] = found = gather(known)
            looks = len(found.terms) + len(found.refused) + found.work
            self.steps -= 1 + looks // 16
            work.spend(_WORK + looks)
        return self.known_facts[known]

    def differences(self, known: Known, term: Term) -> list[Difference]:
        """Return why not every value with ``known`` facts is one of ``term``; empty if each certainly is."""
        term = target(term)
        if not term.says:
            return []
        question = (known, term)
        answer = self._answered(question)
        if answer is not None:
            return answer
        if self.spent or self.depth >= MAX_DEPTH:
            return [undecided(term, "the schemas are too large or too deep to compare")]
        self.steps -= 1
        work.spend(_WORK)
        return self._ask(question)

    def _answered(self, question: Question) -> list[Difference] | None:
        if question in self.proven:
            return []
        if question in self.failed:
            return self.failed[question]
        if self.trial and question in self.refuted:
            return [undecided(question[1], "it was tried before")]
        # Induction: a question that is open further up may be taken for answered, but only about a smaller part of the
        # value (a lower level), or where it was supposed at this very level already.
        level, place = self.supposed.get(question) or self.open.get(question) or (_NO_END, 0)
        if level < self.level or (question in self.supposed and level == self.level):
            self.leans_on = min(self.leans_on, place)
            return []
        if question in self.open:
            return [undecided(question[1], "the schema refers to itself without getting anywhere")]
        return None

    def _ask(self, question: Question) -> list[Difference]:
        place, mark, leant = self.depth, len(self.supposed), self.leans_on
        self.open[question] = (self.level, place)
        self.leans_on = _NO_END
        found = self._decide(*question)[:MAX_FINDINGS]
        del self.open[question]
        # ``leans_on`` is the earliest open question that the answer supposes. If that is this one or a later one, the
        # induction is closed; else the answer holds only as long as the earlier question turns out well.
        if found:
            self._forget(question, found, mark)
        elif self.leans_on >= place:
            self._settle(question, mark)
        else:
            self.supposed.pop(question, None)  # so that it comes last
            self.supposed[question] = (self.level, self.leans_on)
        self.leans_on = min(leant, self.leans_on if self.leans_on < place else _NO_END)
        return found

    def _forget(self, question: Question, found: list[Difference], mark: int) -> None:
        """Keep the answer to a question that was refuted."""
        self._forget_supposed(mark)
        if self.trial:
            self.refuted.add(question)
        else:
            self.failed[question] = found

    def _forget_supposed(self, mark: int) -> None:
        """Forget the conclusions since ``mark``, because they may rely on a question that is no longer open."""
        while len(self.supposed) > mark:
            self.supposed.popitem()

    def _settle(self, question: Question, mark: int) -> None:
        """Keep the answer to a question that relies on nothing open."""
        self.proven.add(question)
        while len(self.supposed) > mark:
            self.proven.add(self.supposed.popitem()[0])

    def below(self, known: Known, term: Term) -> list[Difference]:
        """The same of a part of the value at hand."""
        self.level += 1
        try:
            return self.differences(known, term)
        finally:
            self.level -= 1

    def proves(self, known: Known, term: Term) -> bool:
        """Return True if every such value certainly is one of ``term``."""
        self.trial += 1
        try:
            return not self.differences(known, term)
        finally:
            self.trial -= 1

    def proves_below(self, known: Known, term: Term) -> bool:
        """The same of a part of the value at hand."""
        self.level += 1
        try:
            return self.proves(known, term)
        finally:
            self.level -= 1

    def _decide(self, known: Known, term: Term) -> list[Difference]:
        facts = self.facts(known)
        # Each of the writer's terms is looked at for each of the reader's: thousands of both are millions of looks.
        self.steps -= len(facts.terms) // _LOOKS
        # The same schema on both sides needs no proof; neither does anything about values that there are none of.
        if not facts.types or any(self.same(other, term) for other in facts.terms):
            return []
        found: list[Difference] = []
        for keyword in term.says:
            if keyword in RULES:
                found += self._keyword(facts, term, keyword)
            if found and (self.trial or len(found) >= MAX_FINDINGS or found[-1].rule in ("type_changed", "undecided")):
                break
        # Asked last, as it is costly and rarely so: values that contradict themselves meet any schema.
        if not found or self.empty(known):
            return []
        if facts.circular or term.circular:
            return [undecided(term, "the schema refers to itself without getting anywhere")]
        return found

    def _keyword(self, facts: Facts, term: Term, keyword: str) -> list[Difference]:
        if keyword in UNIONS and facts.splits and not self._kept(facts, term, keyword):
            # One alternative for all of the writer's is rare, and looking for it takes their numbers multiplied.
            found = [undecided(term, "no alternative takes all values, several may together", keyword)]
        else:
            found = self._case(facts, term, keyword)
        if not found or keyword in PASSED_ON:
            return found
        # A keyword of objects is kept where no value is an object.
        if keyword in KINDS and len(facts.types) > 1 and self.empty(facts.known | {(typed(KINDS[keyword]), True)}):
            return []
        return self._by_cases(facts, term, keyword, found, _MAX_CASES)

    def _case(self, facts: Facts, term: Term, keyword: str) -> list[Difference]:
        """Check one keyword by the facts, without dividing them."""
        self.steps -= 1
        if KINDS.get(keyword, "") not in facts.types | {""} or self._kept(facts, term, keyword):
            return []
        if facts.values is not None and accepted(facts, term):
            return []
        if facts.values is not None and (refused := refused_values(facts, term, keyword)) is not None:
            return refused
        return RULES[keyword](self, facts, term)

    def _kept(self, facts: Facts, term: Term, keyword: str) -> bool:
        """Return True if the writer has the same keyword with the same value."""
        if keyword in UNEVALUATED:
            return False
        part = term.part(keyword)
        return any(keyword in other.says and self.same(other.part(keyword), part) for other in facts.terms)

    def _by_cases(
        self, facts: Facts, term: Term, keyword: str, found: list[Difference], depth: int
    ) -> list[Difference]:
        """Divide what is known into cases, by what leaves the fewest of them unsolved."""
        best: list[tuple[Facts, list[Difference]]] | None = None
        for split in self._splits(facts, term, keyword) if depth else ():
            results = [(case, self._case(case, term, keyword)) for case in self._cases(facts, split)]
            if self.spent:
                return [*(one for _, result in results for one in result), *found]
            failing = [(case, result) for case, result in results if result and not self.empty(case.known)]
            if not failing:
                return []
            # A split that solves no case at all would only multiply the work one level down.
            promising = len(failing) < len(split) or keyword in UNIONS
            if promising and (best is None or len(failing) < len(best)):
                best = failing
            if len(failing) * _FEW < len(results):
                break
        if best is None:
            return self._shown(facts, term, keyword, found)
        return [one for case, result in best for one in self._by_cases(case, term, keyword, result, depth - 1)]

    def _shown(self, facts: Facts, term: Term, keyword: str, found: list[Difference]) -> list[Difference]:
        """Return the differences if a value shows them, which is needed only where the facts leave much open."""
        if self.trial or not is_definite(found) or not needs_witness(facts, term, keyword):
            return found
        witness = find_witness(self, facts, term, keyword)
        if not witness:
            return [undecided(term, "no value was found that is refused", keyword)]
        if keyword in COUNTED:
            return [difference(found[0].rule, term, keyword, old=len(witness[0]))]
        return found

    def _cases(self, facts: Facts, split: Options) -> Iterator[Facts]:
        for option in split:
            if self.spent:
                return
            case = self.facts(facts.known | option)
            if case.types:
                yield case

    def _splits(self, facts: Facts, term: Term, keyword: str) -> Iterator[Options]:
        yield from facts.splits[:_MAX_SPLITS]
        yield from more_splits(self, facts, term, keyword)[:_MAX_SPLITS]

    def empty(self, known: Known) -> bool:
        """Return True if there certainly is no such value."""
        if known in self.none:
            return self.none[known]
        if known in self.open_empty:
            # A value that needs a part like itself never ends: there is none, by induction over the size of values.
            level, place = self.open_empty[known]
            if level < self.level:
                self.leans_on = min(self.leans_on, place)
            return level < self.level
        if self.spent or self.depth >= MAX_DEPTH:
            return False
        place, mark = self.depth, len(self.supposed)
        self.open_empty[known] = (self.level, place)
        leant, self.leans_on = self.leans_on, _NO_END
        found = self._sparingly(known)
        del self.open_empty[known]
        if self.leans_on <= place:
            self._forget_supposed(mark)
        if self.leans_on >= place:
            self.leans_on = _NO_END
        if not found or self.leans_on == _NO_END:
            self.none[known] = found
        self.leans_on = min(leant, self.leans_on)
        return found

    def _empty_below(self, known: Known) -> bool:
        """The same of a part of the value at hand."""
        self.level += 1
        try:
            return self.empty(known)
        finally:
            self.level -= 1

    def _sparingly(self, known: Known) -> bool:
        """Look for a contradiction, but not for long: mostly there is none."""
        # The rest of the steps is held back meanwhile, so that looking here cannot use up what the proof needs.
        kept = 0 if len(self.open_empty) > 1 else max(0, self.steps - _MAX_FOR_NONE)
        self.steps -= kept + 1
        found = self._empty(self.facts(known))
        self.steps = max(0, self.steps) + kept
        return found

    def _empty(self, facts: Facts) -> bool:
        if not facts.types or (facts.values is not None and _none_is_written(facts)):
            return True
        impossible: dict[str, Callable[[Facts], bool]] = {"array": self._no_array, "object": self._no_object}
        if all(kind in impossible and impossible[kind](facts) for kind in facts.types):
            return True
        if len(facts.refused) <= _MAX_REFUSED and any(self.proves(facts.known, term) for term in facts.refused):
            return True
        return any(all(self.empty(facts.known | option) for option in split) for split in facts.splits[:_MAX_CASES])

    def _no_array(self, facts: Facts) -> bool:
        if facts.unique and not facts.prefix and self._has_fewer_values(facts.item(0), facts.size.low):
            return True
        sure = min(facts.size.low, facts.prefix + 1)
        items = frozenset() if facts.prefix else facts.item(0)
        wanted = [items | {(term.says["contains"], True)} for term in facts.contains if term.says.get("minContains", 1)]
        return any(map(self._empty_below, [*wanted, *(facts.item(index) for index in range(sure))]))

    def _has_fewer_values(self, known: Known, count: int) -> bool:
        """Return True if there certainly are fewer than ``count`` values."""
        facts = self.facts(known)
        if facts.values is not None:
            return len(facts.values) < count
        kinds = facts.types & SMALL.keys()
        few = sum(len(SMALL[kind]) for kind in kinds) < count
        return few and all(self._empty_below(known | {(typed(kind), True)}) for kind in facts.types - kinds)

    def _no_object(self, facts: Facts) -> bool:
        if facts.count.low > len(facts.required):
            most = count_members(self, facts)
            if most is not None and most < facts.count.low:
                return True
        return any(
            not is_possible(self, facts, name) or self._empty_below(facts.member(name))
            for name in sorted(facts.required)
        )


def compare(reader: JsonSchemaDocument, writer: JsonSchemaDocument, *, steps: int = MAX_STEPS) -> list[Difference]:
    """Return up to ``MAX_FINDINGS`` reasons why ``reader`` does not accept every value that ``writer`` allows.

    ``steps`` limits the work. Whatever has not been shown by then is a difference.
    """
    readers, writers = Library(reader), Library(writer)
    new, old = readers.refer("#"), writers.refer("#")
    if regexes.are_slow([*reader.documents.values(), *writer.documents.values()]):
        return [undecided(new, "there are texts that are too long for patterns of this size")]
    if target(new).says or target(old).says:
        return compare_terms([(new, old)], steps)
    pairs = list(_definitions(readers, writers))
    gone = [
        difference("definition_removed", new, old=old.raw, name=new.path) for new, old in pairs if "opaque" in new.says
    ]
    return [*gone, *compare_terms([(new, old) for new, old in pairs if "opaque" not in new.says], steps)][:MAX_FINDINGS]


def compare_terms(pairs: Iterable[tuple[Term, Term]], steps: int = MAX_STEPS) -> list[Difference]:
    """The same of parts of documents: pairs of what reads and what writes."""
    prover = Prover(steps)
    found: dict[tuple[str, str, str], Difference] = {}
    for new, old in pairs:
        try:
            differences = prover.differences(frozenset({(target(old), True)}), new)
        except RecursionError:
            differences = [undecided(new, "the schemas are nested too deep to compare")]
        if differences and prover.spent:
            # What was found by then may only be a case that was left unsolved.
            differences = [undecided(new, f"the comparison reached its limit of {steps} steps")]
        found |= {(one.path, one.rule, one.message): one for one in differences}
    return list(found.values())[:MAX_FINDINGS]


def _definitions(readers: Library, writers: Library) -> Iterator[tuple[Term, Term]]:
    """Definitions of a document whose top level says nothing: it is a collection that others refer to."""
    root = writers.document.root
    for keyword in ("definitions", "$defs"):
        for name in root.get(keyword, ()) if isinstance(root, dict) else ():
            uri = uri_of("", pointer((keyword, name)))
            yield readers.refer(uri), writers.refer(uri)
