"""Sums of comparisons that merge, and a comment that messages cannot break out of."""

from __future__ import annotations

from dataclasses import replace

from signalbook.pipeline.commands.backtest_result import Backtest, ChangedVerdict, VerdictChanges
from signalbook.pipeline.reports.report import HELD


def example(number: int, producer: str = "/p", id: str = "") -> ChangedVerdict:
    violations = (("/a", "type", "no"), ("/b", "type", "no"))
    return ChangedVerdict(
        definition="/d", producer=producer, id=id or str(number), source="f", position=number, violations=violations
    )


def changes(count: int) -> VerdictChanges:
    found = VerdictChanges()
    for number in range(count):
        found.see(example(number))
    return found


def test_parts_merge_and_examples_are_few() -> None:
    found = Backtest(accepted=1, doubtful=2, broken=changes(3))
    found.add(Backtest(refused=4, broken=changes(4), mended=changes(1)))
    assert (found.messages, found.broken.messages, len(found.broken.examples)) == (15, 7, 5)
    assert found.broken.rules == {"type at /a": 7, "type at /b": 7}
    assert found.to_json()["mended"]["by_message"] == {"/d": 1}


def test_however_many_producers_and_paths_there_are_few_are_held() -> None:
    found = VerdictChanges()
    for number in range(3 * HELD):
        each = example(number, producer=f"/p{number}")
        path = f"/items/{number}/price" if number % 2 else f"/{number}"
        found.see(replace(each, violations=((path, "type", "no"),)))
    found.add(found)
    assert found.messages == 6 * HELD
    assert max(len(found.producers), len(found.rules)) <= HELD
    assert found.rules["type at /items/*/price"] == 3 * HELD


def test_a_comment_keeps_hostile_texts_in_their_cells() -> None:
    found = Backtest()
    found.broken.see(example(1, producer="a`|b\n# [x](y)", id="`\u001b[0m"))
    comment = found.to_markdown()
    assert "| `a'\\|b # [x](y)` | 1 |" in comment
    assert not any(line.startswith("# ") for line in comment.splitlines())
    assert "\u001b" not in comment


def test_what_is_doubtful_is_said() -> None:
    assert "Of 2 landed messages too little is known" in Backtest(doubtful=2).to_markdown()
