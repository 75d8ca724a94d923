import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages import uritemplates
from signalbook.messages.uritemplates import TemplateError, TemplateTree, parse_template

NAMES = st.text("abcXYZ019_", min_size=1, max_size=4)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("/depots/{depot}", "/depots/7", {"depot": "7"}),
        ("{tenant}/{device}", "a/b", {"tenant": "a", "device": "b"}),
        ("{x}", "any/thing at all", {"x": "any/thing at all"}),  # K-16: exactly one placeholder
        ("a{x}b", "aXXb", {"x": "XX"}),
        ("{a}-{b}", "1-2-3", {"a": "1", "b": "2-3"}),
        ("/v/{x}/v/{x}", "/v/1/v/1", {"x": "1"}),  # F-27 within one template
        ("plain", "plain", {}),
        ("é{x}", "é1", {"x": "1"}),
    ],
)
def test_a_template_captures_what_its_placeholders_stand_for(text: str, value: str, expected: dict[str, str]) -> None:
    """K-15, K-16, F-26"""
    assert parse_template(text).match(value) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("/depots/{depot}", "/depots/7/8"),  # no placeholder spans a slash
        ("/depots/{depot}", "/depots/"),  # nor stands for nothing
        ("/depots/{depot}", "/Depots/7"),  # literals are case-sensitive
        ("/depots/{depot}", "x/depots/7"),
        ("/v/{x}/v/{x}", "/v/1/v/2"),
        ("{x}", ""),
        ("a.c", "abc"),
    ],
)
def test_a_template_refuses_the_rest(text: str, value: str) -> None:
    """Texts that a template does not match are rejected (K-16)."""
    assert parse_template(text).match(value) is None


@pytest.mark.parametrize("text", ["{+x}", "{a,b}", "{x*}", "{x:3}", "{a-b}", "{", "}", "{}", "{a}{", "a}b{c}", "{é}"])
def test_only_level_1_is_accepted(text: str) -> None:
    """Operators of higher levels are rejected (F-26)."""
    with pytest.raises(TemplateError, match="level 1"):
        parse_template(text)


def test_a_template_has_a_bounded_length() -> None:
    with pytest.raises(TemplateError, match="longer"):
        parse_template("x" * (uritemplates.MAX_TEMPLATE + 1))


@pytest.mark.parametrize(("text", "expected"), [("{a}", True), ("x{a-b}", False), ("", False), ("{a-b}{c}", True)])
def test_a_text_with_a_well_formed_placeholder_is_a_template(text: str, expected: bool) -> None:
    """A text is a template only if it has a valid placeholder (F-28)."""
    assert uritemplates.is_template(text) is expected


@pytest.mark.parametrize(
    ("encoded", "value", "expected"),
    [(True, "a%20b", "a b"), (True, "a%FFb", "a%FFb"), (False, "a%20b", "a%20b"), (True, "a%2520b", "a%20b")],
)
def test_values_in_uris_are_decoded_once(encoded: bool, value: str, expected: str) -> None:
    """Percent-encoded values are decoded exactly once (K-16)."""
    assert parse_template("/x/{v}/y", encoded=encoded).match(f"/x/{value}/y") == {"v": expected}


@pytest.mark.parametrize("separator", ["/", "."])
def test_the_separator_bounds_placeholders(separator: str) -> None:
    """The separator is "." in NATS subjects (K-16)."""
    template = parse_template("a{x}", separator=separator)
    assert template.match(f"ab{separator}c") is None


def test_expansion_encodes_all_but_unreserved_characters() -> None:
    """K-17, K-18"""
    assert parse_template("/t/{x}").expand({"x": "a/b +#é~"}) == "/t/a%2Fb%20%2B%23%C3%A9~"


@pytest.mark.parametrize("context", [{}, {"x": ""}])
def test_expansion_needs_every_value(context: dict[str, str]) -> None:
    """A missing value is an error (K-18)."""
    with pytest.raises(TemplateError, match=r"\{x\}"):
        parse_template("/t/{x}").expand(context)


@given(st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=5))
def test_expanded_template_matches_its_values(pairs: list[tuple[str, str]]) -> None:
    """An expanded value contains no slash, so slashes separate values (K-16, K-18, K-55)."""
    context = dict(pairs)
    template = parse_template("/" + "/".join(f"{{{name}}}" for name in context))
    assert template.match(template.expand(context)) == context


@given(st.text("ab/{}x%", max_size=30), st.text("ab/{}x%", max_size=60))
def test_any_text_is_a_template_or_an_error(text: str, value: str) -> None:
    try:
        template = parse_template(text)
    except TemplateError:
        return
    captured = template.match(value)
    assert captured is None or set(captured) == set(template.names)


def test_hostile_values_do_not_make_matching_search() -> None:
    """Thirty placeholders, a value that nearly fits: exponential if groups were not atomic."""
    template = parse_template("".join(f"{{p{i}}}a" for i in range(30)) + "!")
    assert template.match("a" * 5000) is None


def test_unify_names_the_placeholder_in_conflict() -> None:
    """Conflicting values are reported with the name of the placeholder (F-27)."""
    context = {"a": "1"}
    assert uritemplates.unify(context, {"b": "2"}) is None
    assert uritemplates.unify(context, {"a": "3"}) == "a"
    assert context == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("text", "separator", "value", "expanded"),
    [("a.{x}", ".", "b.c", "a.b%2Ec"), ("{x}", ".", "b.c", "b.c"), ("a/{x}", "/", "b.c", "a/b.c")],
)
def test_a_value_does_not_end_its_placeholder(text: str, separator: str, value: str, expanded: str) -> None:
    """A dot is not percent-encoded, but ends a word of a subject (K-16, K-18)."""
    template = parse_template(text, separator=separator)
    assert template.expand({"x": value}) == expanded
    assert template.match(expanded) == {"x": value}


def test_half_a_character_has_no_form_in_a_uri() -> None:
    """A lone surrogate cannot be encoded in a URI (K-18)."""
    with pytest.raises(TemplateError, match="half a character"):
        parse_template("/{x}").expand({"x": "\ud800"})


TEMPLATES = st.lists(st.sampled_from(["a", "b", "{x}", "a{x}", "{x}b", "a{x}b"]), min_size=1, max_size=4).map("/".join)
TEXTS = st.lists(st.sampled_from(["", "a", "b", "ab", "aab", "c"]), min_size=1, max_size=4).map("/".join)


@given(st.sets(TEMPLATES, max_size=12), TEXTS)
def test_tree_finds_every_matching_template(templates: set[str], text: str) -> None:
    """The found templates include all matching ones; templates that are one placeholder are not in the tree (K-14)."""
    tree: TemplateTree[str] = TemplateTree("/")
    filed = [parse_template(filed_text) for filed_text in templates if not parse_template(filed_text).whole]
    for template in filed:
        tree.add(template, template.text)
    fitting = {template.text for template in filed if template.match(text) is not None}
    assert fitting <= set(tree.find(text))


def test_literal_segments_distinguish_templates() -> None:
    """The topics are like those of Sparkplug (K-14)."""
    tree: TemplateTree[int] = TemplateTree("/")
    for number in range(1000):
        tree.add(parse_template(f"plant/{{line}}/sensor-{number}/{{id}}"), number)
    assert tree.find("plant/7/sensor-42/x") == [42]
