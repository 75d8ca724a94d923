"""Which XPath expressions of strangers are run."""

from __future__ import annotations

import pytest

from signalbook.formats.xsd.expressions import is_bounded


@pytest.mark.parametrize(
    "test",
    [
        "", "@a > 0", "a = b", "count(item) <= @max", "not(a) or b/c = 'x to y'", "sum(item/@price) = @total",
        "$value > 1", "item[@n = 1]/x", "*[1]", "string-length(.) < 5", "xs:date(@from) le xs:date(@until)",
        "if-then = 1", "a and (b or c)", "starts-with(@a, 'some // text')", "o:item/o:price gt 1.5",
    ],
)  # fmt: skip
def test_comparisons_of_children_are_bounded(test: str) -> None:
    assert is_bounded(test)


@pytest.mark.parametrize(
    "test",
    [
        "1 to 1000000000", "count(1 to 9)", "for $i in a return $i", "some $i in a satisfies $i", "//a", "a//b", "..",
        "a/..", "/a", "(/a)", "a[b[c]]", "matches(@a, '(a+)+')", "replace(a, b, c)", "doc('file:///etc/passwd')",
        "ancestor::a", "if (a) then b else c", "unparsed-text('x')", "collection()", "'unended", "a" * 1001,
        "current-date()", "fn:doc('x')",
    ],
)  # fmt: skip
def test_all_else_is_not(test: str) -> None:
    assert not is_bounded(test)
