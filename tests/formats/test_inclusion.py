import pytest

from signalbook.formats.inclusion import Clause, find_refutations, make_difference

BAD = make_difference("bad", "type_changed", "a", "b", "they differ")
WHY = make_difference("either", "undecided", None, None, "none of them")


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ({"a": []}, []),
        ({"a": [Clause((), BAD)]}, ["bad"]),
        ({"a": [Clause(("b",))], "b": [Clause((), BAD)]}, ["bad"]),
        # what depends on itself alone holds
        ({"a": [Clause(("b",))], "b": [Clause(("a",))]}, []),
        ({"a": [Clause(("b",)), Clause(("c",))], "b": [Clause(("a",))], "c": [Clause((), BAD)]}, ["bad"]),
        # one of several is enough
        ({"a": [Clause(("b", "c"), WHY)], "b": [], "c": [Clause((), BAD)]}, []),
        ({"a": [Clause(("b", "b"), WHY)], "b": [Clause((), BAD)]}, ["either"]),
        ({"a": [Clause(("b", "c"))], "b": [Clause((), BAD)], "c": [Clause((), WHY)]}, ["bad", "either"]),
        ({"a": [Clause(("b",))], "b": [Clause(("b", "c"))], "c": [Clause((), BAD)]}, []),
    ],
)
def test_refutations_of_clauses(clauses: dict[str, list[Clause[str]]], expected: list[str]) -> None:
    assert [refutation.path for refutation in find_refutations("a", clauses.__getitem__, max_clauses=100)] == expected


def test_long_chain_is_not_recursive() -> None:
    def examine(number: int) -> list[Clause[int]]:
        return [Clause((number + 1,))] if number < 20_000 else [Clause((), BAD)]

    assert find_refutations([0], examine, max_clauses=100_000) == [BAD]
    (refutation,) = find_refutations([0], examine, max_clauses=1_000)
    assert (refutation.rule, "1000 steps" in refutation.message) == ("undecided", True)
