import pytest

from signalbook.formats.xsd.paths import is_bounded, is_path


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


@pytest.mark.parametrize("xpath", ["a", ".", ".//a", "a/b", "p:a/*", "p:*", "child::a/b", "a | .//b/c", ". / a"])
def test_selectors_are_paths(xpath: str) -> None:
    assert is_path(xpath, field=False)
    assert is_path(xpath, field=True)


@pytest.mark.parametrize("xpath", ["@a", ".//@a", "a/@p:b", "attribute::a", "a|@b", "@*"])
def test_fields_may_end_in_attributes(xpath: str) -> None:
    assert is_path(xpath, field=True)
    assert not is_path(xpath, field=False)


@pytest.mark.parametrize(
    "xpath",
    ["", "/a", "a//b", "a[1]", "..", "@a/b", "a:b:c", "a!", "a|", "count(a)", "/".join(["a:a:a:a"] * 30), "a" * 1001],
)
def test_all_else_is_no_path(xpath: str) -> None:
    assert not is_path(xpath, field=True)
