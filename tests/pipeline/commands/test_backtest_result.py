"""Sums of comparisons that merge, and a comment that messages cannot break out of."""

from dataclasses import replace

from signalbook.pipeline.commands.backtest_result import Backtest, ChangedVerdict, VerdictChanges
from signalbook.pipeline.report import HELD


def example(number: int, producer: str = "/p", id: str = "") -> ChangedVerdict:
    violations = (("/a", "type", "no"), ("/b", "type", "no"))
    return ChangedVerdict(
        definition="/d", producer=producer, id=id or str(number), source="f", position=number, violations=violations
    )


def changes(count: int) -> VerdictChanges:
    result = VerdictChanges()
    for number in range(count):
        result.record(example(number))
    return result


def test_parts_merge_and_examples_are_few() -> None:
    result = Backtest(accepted=1, doubtful=2, broken=changes(3))
    result.add(Backtest(refused=4, broken=changes(4), mended=changes(1)))
    assert (result.messages, result.broken.messages, len(result.broken.examples)) == (15, 7, 5)
    assert result.broken.rules == {"type at /a": 7, "type at /b": 7}
    assert result.to_json()["mended"]["by_message"] == {"/d": 1}


def test_number_of_kept_producers_and_rules_is_bounded() -> None:
    result = VerdictChanges()
    for number in range(3 * HELD):
        change_example = example(number, producer=f"/p{number}")
        path = f"/items/{number}/price" if number % 2 else f"/{number}"
        result.record(replace(change_example, violations=((path, "type", "no"),)))
    result.add(result)
    assert result.messages == 6 * HELD
    assert max(len(result.producers), len(result.rules)) <= HELD
    assert result.rules["type at /items/*/price"] == 3 * HELD


def test_a_comment_keeps_hostile_texts_in_their_cells() -> None:
    result = Backtest()
    result.broken.record(example(1, producer="a`|b\n# [x](y)", id="`\u001b[0m"))
    comment = result.to_markdown()
    assert "| `a'\\|b # [x](y)` | 1 |" in comment
    assert not any(line.startswith("# ") for line in comment.splitlines())
    assert "\u001b" not in comment


def test_doubtful_messages_are_mentioned() -> None:
    assert "Of 2 landed messages too little is known" in Backtest(doubtful=2).to_markdown()
