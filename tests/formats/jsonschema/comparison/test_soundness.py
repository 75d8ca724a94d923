"""No two schemas are called compatible that are not (G-30): pairs that test_reasons.py rarely or never makes."""

from random import Random
from typing import Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.formats.jsonschema.comparison.makers import NAMES, Guide, Maker

from signalbook.formats import SchemaError
from signalbook.formats.jsonschema import FORMAT
from signalbook.formats.jsonschema.comparison import compare
from signalbook.values import JSON, JSONObject, dump_json

_NAMES: Final = st.sampled_from(NAMES)
_MEMBER: Final[st.SearchStrategy[JSON]] = st.sampled_from([True, {"type": "string"}, {"const": 1}, {"enum": [1, "a"]}])
_OBJECT: Final[st.SearchStrategy[JSON]] = st.fixed_dictionaries(
    {},
    optional={
        "properties": st.dictionaries(_NAMES, _MEMBER, min_size=1, max_size=2),
        "required": st.lists(_NAMES, min_size=1, max_size=1),
        "additionalProperties": _MEMBER,
    },
)
CLOSED: Final[st.SearchStrategy[JSONObject]] = st.fixed_dictionaries(
    {"unevaluatedProperties": st.just(False)},
    optional={
        "properties": st.dictionaries(_NAMES, _MEMBER, min_size=1, max_size=2),
        "required": st.lists(_NAMES, min_size=1, max_size=1),
        "anyOf": st.lists(_OBJECT, min_size=1, max_size=2),
        "oneOf": st.lists(_OBJECT, min_size=1, max_size=2),
        "if": _OBJECT,
        "then": _OBJECT,
        "else": _OBJECT,
        "not": _OBJECT,
        "dependentSchemas": st.dictionaries(_NAMES, _OBJECT, min_size=1, max_size=2),
        "dependencies": st.dictionaries(_NAMES, _OBJECT, min_size=1, max_size=2),
    },
)
OBJECTS: Final = st.dictionaries(_NAMES, st.sampled_from([1, "a", None]), max_size=3)


FORMATS: Final = [f"JsonSchema/draft{version}" for version in ("-06", "-07", "/2019-09", "/2020-12")]


def check(reader: JSON, writer: JSON, formats: tuple[str, str], values: list[JSON]) -> None:
    try:
        new, old = FORMAT.parse(dump_json(reader), formats[0]), FORMAT.parse(dump_json(writer), formats[1])
    except SchemaError:
        return
    assert compare(new.document, new.document) == []
    if compare(new.document, old.document) == []:
        for value in values:
            assert not old.validator.is_valid(value) or new.validator.is_valid(value), value


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=examples(30))
@given(st.data(), CLOSED, CLOSED, st.lists(OBJECTS, min_size=30, max_size=30))
def test_comparison_of_closed_objects_is_sound(
    data: st.DataObject, schema: JSONObject, second: JSONObject, values: list[JSON]
) -> None:
    """The result of their conditional parts depends on the value."""
    names = data.draw(st.lists(st.sampled_from(sorted(schema)), unique=True))
    other = {**{name: schema[name] for name in schema if name not in names}, **second}
    for reader, writer in ((other, schema), (schema, other)):
        check(reader, writer, ("JsonSchema/draft/2020-12", "JsonSchema/draft/2020-12"), values)


def test_comparison_across_drafts_is_sound(pairs: int) -> None:
    for seed in range(pairs):
        dice = Random(seed)
        maker = Maker(dice, wild=True)
        writer = maker.document()
        reader = maker.changed(writer)
        guide = Guide(dice, writer, reader)
        check(reader, writer, (dice.choice(FORMATS), dice.choice(FORMATS)), [guide.value() for _ in range(20)])
