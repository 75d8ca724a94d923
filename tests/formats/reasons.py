"""Verdicts and reasons of comparisons, judged by values that the validators of a format are asked about.

A test makes a pair of schemas for each seed. Of a compatible pair no value may be accepted by the writer's schema and
rejected by the reader's. Each difference of any other pair has to have such a value, which the difference describes.
"""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from signalbook.formats.compatibility import Difference

# Whether a difference describes a value that the writer accepts and the reader rejects.
Describes = Callable[[Difference, Any], bool]


@dataclass
class Tally:
    """The number of pairs by verdict, and of reasons by how they turned out, with what turned out wrong.

    Reasons of the rule ``undecided``, and of the rules ``skipped``, describe no value: they are only counted.
    """

    skipped: Collection[str] = ()
    counts: Counter[str] = field(default_factory=Counter)
    uncertain: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(
        self,
        pair: str,
        differences: list[Difference],
        rejections: Iterable[Any],
        describes: Describes,
        *,
        strict: bool = True,
    ) -> None:
        """Judge one pair: ``rejections`` are values that the writer accepts and the reader rejects.

        Unless ``strict``, reasons that no value was found for are counted, but not wrong: the search is not exhaustive.
        """
        self.counts["pairs"] += 1
        open_reasons = [difference for difference in differences if difference.rule not in ("undecided", *self.skipped)]
        self.uncertain.update(
            difference.rule for difference in differences if difference.rule in ("undecided", *self.skipped)
        )
        self.counts["compatible" if not differences else "different" if open_reasons else "undecided"] += 1
        if differences and not open_reasons:
            return
        self.counts["reasons"] += len(open_reasons)
        for rejection in rejections:
            if not differences:
                self.wrong.append(f"unsound: {pair}: {rejection}")
                self.counts["unsound"] += 1
                return
            open_reasons = [difference for difference in open_reasons if not describes(difference, rejection)]
            if not open_reasons:
                return
        for difference in open_reasons:
            self.counts["untrue" if strict else "unproven"] += 1
            if strict:
                self.wrong.append(f"untrue: {pair}: {difference}")


def judge_pairs(judge: Callable[[Random, Tally], None], pairs: int, skipped: Collection[str] = ()) -> None:
    """Judge one pair for each seed, write the counts, and fail if a verdict is unsound or a reason untrue."""
    tally = Tally(skipped)
    for seed in range(pairs):
        judge(Random(seed), tally)
    sys.stdout.write(f"{dict(tally.counts)}, not described: {dict(tally.uncertain)}\n")
    assert not tally.wrong, "\n".join(tally.wrong[:20])
