"""Members without a column: what the fast path keeps of them is what the slow path keeps, and all there was."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from tests.examples import examples

from signalbook.formats import is_lossy
from signalbook.formats.jsonschema import FORMAT, JsonSchema
from signalbook.pipeline import rescue
from signalbook.pipeline.native import PayloadSpans
from signalbook.pipeline.processing.json_plans import build_json_decoder
from signalbook.pipeline.report import MOST_PATHS
from signalbook.values import JSON, JSONObject, dump_json, parse_json

NAMES = st.sampled_from(["a", "b", "é", "a/b", "~", "", "long name of a member"])
# No declared member is called like these.
EXTRA = st.sampled_from(["x", "x y", "\u0416", 'quote"', "back\\slash", "tab\t"])
VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
# Of a schema, a conforming value, what of that columns hold, and the rest.
Case = tuple[JSONObject, JSON, JSON, JSON]


@st.composite
def scalars(draw: st.DrawFn) -> Case:
    kind, values = draw(st.sampled_from([("integer", st.integers(-9, 9)), ("string", st.text(max_size=3))]))
    value: JSON = draw(values)
    return {"type": kind}, value, value, UNSET


def kept(members: dict[str, JSON]) -> JSON:
    return {name: member for name, member in members.items() if member is not UNSET} or UNSET


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Case]) -> Case:
    members = draw(st.dictionaries(NAMES, inner, min_size=1, max_size=3))
    schema: JSONObject = {"type": "object", "properties": {name: case[0] for name, case in members.items()}}
    if draw(st.booleans()):
        schema["minProperties"] = 1  # which the native module leaves to others
    more = draw(st.dictionaries(EXTRA, VALUES, max_size=2))
    value, held, rests = ({name: case[part] for name, case in members.items()} for part in (1, 2, 3))
    order = draw(st.permutations([*value, *more]))
    return schema, {name: (value | more)[name] for name in order}, held, kept(rests | more)


@st.composite
def lists(draw: st.DrawFn, inner: st.SearchStrategy[Case]) -> Case:
    schema, value, held, rescued = draw(inner)
    # The same item, whole and without what no column has, in some order.
    full = draw(st.lists(st.booleans(), max_size=3))
    rests = [rescued if is_full and rescued is not UNSET else None for is_full in full]
    while rests and rests[-1] is None:
        rests.pop()
    items = [value if is_full else held for is_full in full]
    return {"type": "array", "items": schema}, items, [held] * len(full), rests or UNSET


@st.composite
def maps(draw: st.DrawFn, inner: st.SearchStrategy[Case]) -> Case:
    schema, value, held, rescued = draw(inner)
    keys = draw(st.lists(NAMES, unique=True, max_size=2))
    document: JSONObject = {"type": "object", "additionalProperties": schema}
    return document, dict.fromkeys(keys, value), dict.fromkeys(keys, held), kept(dict.fromkeys(keys, rescued))


CASES = objects(st.recursive(scalars(), lambda inner: objects(inner) | lists(inner) | maps(inner), max_leaves=6))


def parse(schema: JSONObject) -> JsonSchema:
    return FORMAT.parse(dump_json(schema), "JsonSchema/draft-07")


def natively(schema: JsonSchema, *payloads: bytes) -> tuple[list[JSON], list[int]]:
    """The rescues of payloads that are taken, and the numbers of the others."""
    arrays, refused = build_json_decoder(schema, schema.shape())(PayloadSpans.of_list(payloads))
    return [UNSET if text is None else parse_json(text) for text in arrays[-1].to_pylist()], refused


@settings(max_examples=examples(300))
@given(CASES)
def test_held_and_rescued_values_are_complete(case: Case) -> None:
    document, value, held, expected = case
    schema = parse(document)
    assert is_lossy(schema.shape())
    assert rescue.find_rescued(schema.shape(), value) == expected
    spaced = dump_json(value, indent=1)
    native_rests, refused = natively(schema, b'{"none": of them}', dump_json(value), spaced)
    assert (native_rests, refused) == ([expected, expected], [0])
    assert rescue.restore(held, expected) == value


NOTE: JSONObject = {"type": "object", "properties": {"t": {"type": "string"}}}
ORDER: JSONObject = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "ship": {"type": "object", "properties": {"city": {"type": "string"}}},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        "notes": {"type": "object", "additionalProperties": NOTE},
        "any": {},
    },
}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b'{"id": "1"}', None),
        (b'{"id": "1", "any": {"x": 1}}', None),
        (b'{"id": "1", "gift": true}', '{"gift":true}'),
        (b'{"ship": {"city": "c", "zip": 1.50}, "x":{"y" : [ ]}}', '{"ship":{"zip":1.50},"x":{"y" : [ ]}}'),
        (b'{"lines": [{"sku": "a"}, {"sku": "b", "q": 2}, {}]}', '{"lines":[null,{"q":2}]}'),
        (b'{"notes": {"k": {"t": "t"}, "l": {"by": null}}}', '{"notes":{"l":{"by":null}}}'),
        (b'{"g\\u00e9": 1}', '{"g\\u00e9":1}'),
        (b"{}", None),
    ],
)
def test_places_are_kept(payload: bytes, expected: str | None) -> None:
    arrays, refused = build_json_decoder(parse(ORDER), parse(ORDER).shape())(PayloadSpans.of_list([payload]))
    assert refused == []
    assert arrays[-1].to_pylist() == [expected]


@pytest.mark.parametrize(
    "payload",
    [
        b'{"x": 1, "x": 2}',
        b'{"x": {"y": 1, "\\u0079": 2}}',
        b'{"any": [{"y": 1, "y": 2}]}',
        b'{"lines": [{"q": 1, "q": 1}]}',
        b'{"x": [' + b",".join([b"{" + b",".join(b'"%d":0' % n for n in [*range(40), 39]) + b"}"]) + b"]}",
    ],
)
def test_names_that_come_twice_are_for_the_slow_path(payload: bytes) -> None:
    schema = parse(ORDER)
    sound = b'{"x": 1}'
    assert natively(schema, sound, payload, sound) == ([{"x": 1}, {"x": 1}], [1])


def test_closed_objects_have_nothing_to_rescue() -> None:
    closed: JSONObject = {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "string"}}}
    assert not is_lossy(parse(closed).shape())
    outer = {**closed, "properties": {"list": {"type": "array", "items": closed}}}
    assert not is_lossy(parse(outer).shape())
    assert is_lossy(parse({**closed, "properties": {"a": ORDER}}).shape())


def test_paths_are_counted_once_for_each_message() -> None:
    paths = rescue.RescuedPaths(parse(ORDER).shape())
    texts = [None, '{"a/b":{"c":1}}', '{"lines":[{"q":1},null,{"q":2}],"a/b":1}']
    texts.append('{"notes":{"k":{"by":1},"l":{"by":2}}}')
    counts = paths.count(pa.array(texts, pa.string()))
    assert counts == {"/a~1b": 2, "/lines/*/q": 1, "/notes/*/by": 1}
    assert paths.count(pa.nulls(3, pa.string())) == {}


def test_paths_are_bounded() -> None:
    paths = rescue.RescuedPaths(parse(ORDER).shape())
    counts = paths.count(pa.array([dump_json({f"x{n}": n}) for n in range(1000)], pa.string()))
    assert len(counts) == MOST_PATHS + 1
    assert counts[""] == 1000 - MOST_PATHS
    long = paths.count(pa.array([dump_json({"é" * 9999: 1})], pa.string()))
    assert [*long] == ["/" + "é" * 199]
