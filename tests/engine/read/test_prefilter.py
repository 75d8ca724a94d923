import json
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.engine.conftest import model_of
from tests.examples import examples

from signalbook.engine.read.filters import FilterExpression, as_instant, parse_filter
from signalbook.engine.read.paths import find_values
from signalbook.engine.read.prefilter import store_conditions
from signalbook.model import compile_model
from signalbook.storage.dialect import FOLDING
from signalbook.values import dump_json
from signalbook.xid import Xid

MODEL = compile_model(model_of(attributes={"when": {"type": "timestamp"}, "*": {"type": "any"}}))
FOLDED = re.compile(f"[{FOLDING}]")
VERSIONS = Xid.parse("/dirs/d/files/f/versions")

LETTERS = st.text('aAbkKsSiIfF\u00df\u212a\u017f\ufb01\u0130\u00e4"\\\n/%_!*', max_size=6)
SCALARS = st.one_of(
    LETTERS,
    st.text(max_size=4),
    st.integers(-100, 100),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 5.0, 1e15, 1e16, 0.001, 0.0001]),
    st.booleans(),
    st.none(),
    st.sampled_from(["2024-05-05T00:00:00Z", "5", "true"]),
)
NAMES = st.sampled_from(["a", "b", "when"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))


def expression(text: str) -> FilterExpression:
    parsed = parse_filter([text], VERSIONS, MODEL, subject="/")
    assert parsed is not None
    return parsed.alternatives[0][0]


def let_through(tested: FilterExpression, attributes: dict[str, Any]) -> bool:
    """Return True if the store's conditions can let the attributes through."""
    text = dump_json(attributes).decode()
    conditions = store_conditions(tested, MODEL, ("dirs", "files", "versions"))
    assert all(condition.column == "attributes" for condition in conditions)
    return all(
        any(str(value).lower() in text.lower() for value in condition.values) or FOLDED.search(text)
        for condition in conditions
    )


def passes(tested: FilterExpression, attributes: dict[str, Any]) -> bool:
    values = find_values(attributes, tested.steps)
    return tested.accepts(list(map(as_instant, values)) if tested.timestamp else values)


@settings(max_examples=examples(500))
@given(
    st.dictionaries(NAMES, VALUES, min_size=1, max_size=3),
    st.sampled_from(["a", "a.b", "b.a.b", "a[*]", "a.*", "a[0]", "when", "b[*].when"]),
    st.sampled_from(["", "=", "!=", "<", ">="]),
    SCALARS,
    st.sampled_from(["{}", "*{}", "{}*", "*{}*"]),
)
@example({"a": -0.0}, "a", "=", 0, "{}")
@example({"a": "\u212a"}, "a", "=", "k", "{}")
@example({"when": "2024-05-05T00:00:00Z"}, "when", "=", "2024-05-05T02:00:00+02:00", "{}")
def test_matches_are_not_dropped(
    attributes: dict[str, Any], path: str, operator: str, value: Any, pattern: str
) -> None:
    literal = value if isinstance(value, str) else json.dumps(value)
    text = (literal if operator in ("<", ">=") else pattern.format(literal)).replace(",", "")
    if operator in ("<", ">=") and ("*" in text or text == "null"):
        return
    tested = expression(f"{path}{operator}{text}" if operator else path)
    assert let_through(tested, attributes) or not passes(tested, attributes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name=foo", [("attributes", "contains", '"name":"foo"')]),
        ("name=f*bar", [("attributes", "contains", '"name":"f'), ("attributes", "contains", "bar")]),
        ("labels.stage=x", [("attributes", "contains", '"labels":'), ("attributes", "contains", '"stage":"x"')]),
        ("size>5", [("attributes", "contains", '"size":')]),
        ("name!=foo", []),
        ("name=null", []),
        ("versionid=V1", [("folded", "=", "v1")]),
        ("versionid=v*", [("folded", "contains", "v")]),
        ("epoch>=3", [("epoch", ">=", 3)]),
        ("epoch=x", []),
        ("createdat<1970-01-01T00:00:01Z", [("createdat", "<", 1_000_000)]),
        ("createdat=1971-0*", [("createdat", ">=", 31_536_000_000_000), ("createdat", "<", 63_072_000_000_000)]),
        ("createdat=9999*", []),
        ("createdat=*Z", []),
        ("isdefault=true", [("folded", "default")]),
        ("isdefault=false", []),
        ("isdefault>true", []),
        ("fileid=f", []),
    ],
)  # fmt: skip
def test_store_conditions_of_a_filter(text: str, expected: list[tuple[Any, ...]]) -> None:
    conditions = store_conditions(expression(text), MODEL, ("dirs", "files", "versions"))
    assert [(condition.column, condition.relation, *condition.values) for condition in conditions] == expected
