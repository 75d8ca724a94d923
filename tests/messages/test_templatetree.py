from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages.uritemplates import TemplateTree, parse_template

TEMPLATES = st.lists(st.sampled_from(["a", "b", "{x}", "a{x}", "{x}b", "a{x}b"]), min_size=1, max_size=4).map("/".join)
TEXTS = st.lists(st.sampled_from(["", "a", "b", "ab", "aab", "c"]), min_size=1, max_size=4).map("/".join)


@given(st.sets(TEMPLATES, max_size=12), TEXTS)
def test_the_tree_misses_no_template_that_fits(templates: set[str], text: str) -> None:
    """K-14: what is found is a superset of what fits; templates that are one placeholder are not filed."""
    tree: TemplateTree[str] = TemplateTree("/")
    filed = [parse_template(each) for each in templates if not parse_template(each).whole]
    for template in filed:
        tree.add(template, template.text)
    fitting = {template.text for template in filed if template.match(text) is not None}
    assert fitting <= set(tree.find(text))


def test_literal_segments_tell_templates_apart() -> None:
    """K-14: topics such as those of Sparkplug"""
    tree: TemplateTree[int] = TemplateTree("/")
    for number in range(1000):
        tree.add(parse_template(f"plant/{{line}}/sensor-{number}/{{id}}"), number)
    assert tree.find("plant/7/sensor-42/x") == [42]
