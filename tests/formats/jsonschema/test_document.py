import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from signalbook.formats import Scalar, SchemaError, Struct
from signalbook.formats.base import UnresolvedReferences
from signalbook.formats.compatibility import SchemaText
from signalbook.formats.jsonschema import FORMAT
from signalbook.formats.jsonschema.document import check_weight, find_fragment, load, lookup, make_uri, resolve_uri
from signalbook.values import JSON, Finding, JSONObject, dump_json

DRAFT_07 = "JsonSchema/draft-07"


@pytest.mark.parametrize(
    ("document", "path", "rule"),
    [
        (b"", "", "empty"),  # G-23
        (b"{", "", "json"),
        (b'{"a":1,}', "", "json"),
        (b"3", "", "metaschema"),
        (b'{"type":"foo"}', "/type", "metaschema"),
        (b'{"properties":{"a":{"minLength":"x"}}}', "/properties/a/minLength", "metaschema"),
        (b'{"$schema":"https://json-schema.org/draft/2020-12/schema"}', "/$schema", "$schema"),  # G-14
        (b'{"$ref":"#/definitions/none"}', "", "schema"),
        (b'{"pattern":"("}', "", "schema"),
        (b'{"pattern":"(?:(?:(?:a{100}){100}){100}){100}"}', "", "schema"),
        (b"[" * 500 + b"]" * 500, "", "json"),
        (b'{"items":' * 200 + b"{}" + b"}" * 200, "", "json"),
        (b'{"title":"\xff"}', "", "json"),
    ],
)
def test_broken_documents_are_distinguished(document: bytes, path: str, rule: str) -> None:
    """Each finding has a path (G-19)."""
    findings = FORMAT.check(document, DRAFT_07)
    assert [(finding.path, finding.rule) for finding in findings] == [(path, rule)]
    with pytest.raises(SchemaError):
        FORMAT.parse(document, DRAFT_07)


@pytest.mark.parametrize("document", [b"{}", b"true", b'{"$ref":"#/a","a":{}}'])
def test_sound_documents_have_no_findings(document: bytes) -> None:
    assert FORMAT.check(document, DRAFT_07) == []


def test_references_to_others_are_a_warning() -> None:
    """A document is checked by itself: other documents need not be at hand."""
    (finding,) = FORMAT.check(b'{"$ref":"other.json","not":{"$ref":"http://example.com/x#/a"}}', DRAFT_07)
    assert (finding.severity, finding.rule) == ("warning", "import")
    assert (
        "/other.json, http://example.com/x" in finding.message or "http://example.com/x, /other.json" in finding.message
    )


def test_all_references_that_lead_nowhere_are_named() -> None:
    """References of another document are reported at the reference to that document."""
    documents = {"/b.json": b'{"$ref":"c.json"}'}
    document = b'{"anyOf":[{"$ref":"a.json"},{"$ref":"b.json"},{"$ref":"b.json#/x"}]}'
    with pytest.raises(UnresolvedReferences) as caught:
        FORMAT.parse(document, DRAFT_07, resolve=documents.get)
    findings = sorted((finding.path, finding.message.partition(":")[0]) for finding in caught.value.findings)
    assert [message for _, message in findings] == ["cannot use /a.json", "cannot use /c.json"]
    assert findings[0][0] == "/anyOf/0"


def test_a_document_found_by_path_may_call_itself_something_else() -> None:
    """Two references to one document: by the path that it has here, and by its $id."""
    other = b'{"$id":"https://example.org/a","properties":{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}'
    document = b'{"properties":{"p":{"$ref":"a.json"},"q":{"$ref":"https://example.org/a"}}}'
    documents = {"/a.json": other, "https://example.org/a": other}
    schema = FORMAT.parse(document, "JsonSchema/draft/2020-12", resolve=documents.get)
    assert not schema.validate({"p": {"x": 1}, "q": {"x": 1}})
    assert [len(schema.validate({name: {"x": "s"}})) for name in "pq"] == [1, 1]


@pytest.mark.parametrize(
    ("document", "names"),
    [
        (b'{"$id":"https://example.org/a#"}', ("https://example.org/a",)),
        (b'{"id":"urn:example:a"}', ("urn:example:a",)),
        (b'{"$id":"a/b.json"}', ("/a/b.json",)),
        (b'{"$id":"#a"}', ()),
        (b'{"$id":5}', ()),
        (b"true", ()),
        (b"{", ()),
    ],
)
def test_identities_of_a_document_are_found(document: bytes, names: tuple[str, ...]) -> None:
    assert FORMAT.identities(document) == names


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9/x.json", "file:///etc/passwd", "https://h.example/a#/b", "x"])
def test_references_never_leave_the_process(uri: str) -> None:
    """No resolver is used, and the document is missing (K-39)."""
    with pytest.raises(SchemaError, match="no such document"):
        FORMAT.parse(dump_json({"properties": {"a": {"$ref": uri}}}), DRAFT_07)


@pytest.mark.parametrize("name", ["$ref", "$dynamicRef", "$recursiveRef", "\\u0024ref", "$re\\u0066"])
def test_all_spellings_of_references_are_found(name: str) -> None:
    """Documents without a reference in their text are not searched for references."""
    with pytest.raises(SchemaError, match="no such document"):
        FORMAT.parse(b'{"%s":"x.json"}' % name.encode(), "JsonSchema/draft/2020-12")


def test_references_go_through_the_resolver() -> None:
    documents = {
        "/schemagroups/g/schemas/b": b'{"definitions":{"n":{"$ref":"c"}}}',
        "/schemagroups/g/schemas/c": b'{"type":"null"}',
    }
    requested: list[str] = []

    def resolve(uri: str) -> bytes | None:
        requested.append(uri)
        return documents.get(uri)

    document = dump_json({"items": {"$ref": "/schemagroups/g/schemas/b#/definitions/n"}})
    schema = FORMAT.parse(document, DRAFT_07, resolve=resolve)
    assert requested == list(documents)
    assert schema.validate([None]) == []
    assert [finding.path for finding in schema.validate([None, 1])] == ["/1"]


def test_relative_references_follow_the_id() -> None:
    document = dump_json({"$id": "http://example.com/a/b.json", "$ref": "c.json"})
    schema = FORMAT.parse(document, DRAFT_07, resolve={"http://example.com/a/c.json": b'{"type":"null"}'}.get)
    assert schema.validate(1)


def test_a_broken_document_referred_to_is_named() -> None:
    document = dump_json({"properties": {"a": {"$ref": "b.json"}}})
    with pytest.raises(SchemaError, match=r"cannot use /b\.json: .*not JSON") as caught:
        FORMAT.parse(document, DRAFT_07, resolve=lambda _: b"{")
    assert caught.value.findings[0].path == "/properties/a"


def test_documents_with_inner_ids_keep_their_references() -> None:
    inner = {"$id": "http://example.com/a", "type": "integer"}
    document = {"definitions": {"a": inner}, "$ref": "http://example.com/a"}
    schema = FORMAT.parse(dump_json(document), DRAFT_07)
    assert (schema.validate(1), bool(schema.validate("x"))) == ([], True)


def test_documents_are_read_once() -> None:
    document = dump_json({"definitions": {"a": {}, "b": {}}})
    assert load(document, DRAFT_07, None) is load(document, DRAFT_07, None)


def test_no_pattern_hangs_a_worker() -> None:
    """Backtracking is bounded: an hour of it would be over in an instant here."""
    schema = FORMAT.parse(dump_json({"pattern": "^(?=a)(a+)+\\1$"}), DRAFT_07)
    before = time.process_time()
    assert schema.validate("a" * 5000 + "!")
    assert time.process_time() - before < 60


_patterns = st.sampled_from(["^a+$", "(", "[", "a{1000000}", "(?<=a+)b", "(?!x)", "\\d", "{", "^P[0-9]{9}$", "x" * 5])
_names = st.sampled_from(["a", "id", "pattern", "$id", "$anchor", "$schema", "$ref", "patternProperties", "type"])
_schemas = st.recursive(
    st.one_of(
        st.fixed_dictionaries(
            {},
            optional={
                "pattern": _patterns,
                "$id": st.sampled_from(["::::", "a b", "https://x.example/s", "#a"]),
                "id": st.sampled_from(["::::", "a b"]),
                "$anchor": st.sampled_from(["a", "b"]),
                "$schema": st.sampled_from(["http://json-schema.org/draft-07/schema#", "urn:x"]),
                "$comment": _patterns,
                "const": st.sampled_from(['"pattern": "("', {"pattern": "("}, 1e300, 10**30]),
                "maxLength": st.sampled_from([1, 2.0, 10**25]),
                "multipleOf": st.sampled_from([1, 0.1, 1e-9]),
                "format": st.sampled_from(["date", "nothing"]),
                "contentMediaType": st.sampled_from(["application/json", "x/y"]),
                "enum": st.just(["$a", "\\"]),
            },
        ),
        st.booleans(),
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(_names, inner, max_size=3),
            "patternProperties": st.dictionaries(_patterns, inner, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "definitions": st.dictionaries(_names, inner, max_size=2),
            "required": st.just(["pattern", "id"]),
        },
    ),
    max_leaves=6,
)


@settings(max_examples=examples(300))
@given(schema=_schemas, version=st.sampled_from(["draft-04", "draft-07", "2020-12"]))
def test_parsed_schema_has_a_validator(schema: JSON, version: str) -> None:
    """A validator that waits until it is needed is one that could have been made at once."""
    try:
        parsed = FORMAT.parse(dump_json(schema), f"JsonSchema/{version}")
    except SchemaError:
        return
    assert isinstance(parsed.validate({"a": "x"}), list)


def test_a_validator_is_made_when_something_is_to_be_validated() -> None:
    """Only few of thousands of schemas are ever used."""
    plain = dump_json({"properties": {"id": {"type": "string", "pattern": "^P[0-9]{9}$"}}, "required": ["id"]})
    assert load(plain, DRAFT_07, None).certain
    assert [finding.path for finding in FORMAT.parse(plain, DRAFT_07).validate({"id": "Q"})] == ["/id"]
    assert not load(plain.replace(b"[0-9]", b"[a"), DRAFT_07, None).certain


@pytest.mark.parametrize(
    "more", [{}, {"properties": {"a": {"$ref": "#/definitions/a"}}}, {"$id": "http://example.com/a"}]
)
@pytest.mark.parametrize("format", ["JsonSchema/draft-04", "JsonSchema/draft-07", "JsonSchema/draft/2020-12"])
def test_the_format_holds_where_the_schema_uri_is_another_thing(format: str, more: JSONObject) -> None:
    """All schemas of Iglu name Snowplow's self-describing one, which includes draft-04; G-14 does not mention it."""
    uri = "http://iglucentral.com/schemas/com.snowplowanalytics.self-desc/schema/jsonschema/1-0-0#"
    document = dump_json({"$schema": uri, "self": {"vendor": "a"}, "required": ["a"], "definitions": {"a": {}}, **more})
    schema = FORMAT.parse(document, format)
    assert (schema.format, [f.rule for f in schema.validate({})]) == (format, ["required"])
    for findings in (schema.warnings, FORMAT.check(document, format)):
        assert [(f.path, f.rule, f.severity) for f in findings] == [("/$schema", "$schema", "warning")]
    with pytest.raises(SchemaError, match="self-desc"):
        FORMAT.parse(document, "JsonSchema")
    assert FORMAT.check(dump_json({"$schema": uri, "type": "nonsense"}), format)[0].severity == "error"


@pytest.mark.parametrize("inside", [False, True])
def test_schema_without_a_known_version_is_read(inside: bool) -> None:
    """The schemas have columns and can be compared, as the document itself or as a referenced document."""
    meta = {"$schema": "http://iglucentral.com/schemas/com.snowplowanalytics.self-desc/schema/jsonschema/1-0-0#"}

    def text(kind: str) -> SchemaText:
        inner = dump_json({**meta, "type": "object", "properties": {"n": {"type": kind}}})
        outer = dump_json({"allOf": [{"$ref": "n.json"}]}) if inside else inner
        return SchemaText(document=outer, format="JsonSchema/draft-04", resolve=lambda _: inner)

    whole, number = text("integer"), text("number")
    schema = FORMAT.parse(whole.document, whole.format, resolve=whole.resolve)
    shape = schema.shape()
    assert isinstance(shape, Struct)
    assert [(field.name, field.shape) for field in shape.fields] == [("n", Scalar(kind="int64"))]
    assert FORMAT.differences(number, whole) == []
    assert [difference.rule for difference in FORMAT.differences(whole, number)] == ["type_narrowed"]


@pytest.mark.parametrize(
    ("base", "reference", "document"),
    [
        ("https://example.com/a", "#/b", "https://example.com/a"),
        ("https://example.com/a", "b#/c", "https://example.com/b"),
        ("urn:a:b", "#/c", "urn:a:b"),
        ("https://example.com/x/a", "/y", "https://example.com/y"),
        ("https://example.com/a", "", "https://example.com/a"),
    ],
)
def test_references_become_absolute(base: str, reference: str, document: str) -> None:
    assert resolve_uri(base, reference) == document


def test_pointers_are_followed() -> None:
    assert lookup({"a/b": [{"~": 3}]}, "/a~1b/0/~0") == 3
    assert lookup([1], "/1") is True
    assert lookup({}, "/none") is True
    assert lookup(5, "") == 5


def test_fragments_are_quoted_both_ways() -> None:
    uri = make_uri("https://example.com/a", "/x y/ü$")
    assert " " not in uri
    assert find_fragment(uri) == "/x y/ü$"


BASE = "https://example.com/a"


def weigh(root: JSON, pointer: str = "", further_documents: dict[str, JSON] | None = None) -> list[Finding]:
    documents = {
        BASE: root,
        **{f"https://example.com/{name}": other for name, other in (further_documents or {}).items()},
    }
    return check_weight(documents, BASE, pointer)


def doubling(lines: int, keyword: str = "allOf") -> dict[str, Any]:
    last = {f"a{lines}": {"type": "integer"}}
    refs = {f"a{i}": {keyword: [{"$ref": f"#/definitions/a{i + 1}"}] * 2} for i in range(lines)}
    return {"$ref": "#/definitions/a0", "definitions": {**refs, **last}}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_doubling_is_refused(keyword: str) -> None:
    assert weigh(doubling(8, keyword)) == []
    assert [finding.rule for finding in weigh(doubling(40, keyword))] == ["weight"]


def test_doubling_below_properties_is_refused() -> None:
    twice = [{"properties": {"x": {"$ref": "#/definitions/b"}}}] * 2
    levels = {f"b{i}": {"allOf": [{"properties": {"x": {"$ref": f"#/definitions/b{i + 1}"}}}] * 2} for i in range(40)}
    assert weigh({"$ref": "#/definitions/b0", "definitions": levels})
    assert weigh({"allOf": twice, "definitions": {"b": {"allOf": twice}}}) == []  # recursion is remembered


def test_width_is_no_weight() -> None:
    wide = {"properties": {f"p{i}": {"$ref": "#/definitions/a"} for i in range(5000)}, "definitions": {"a": {}}}
    assert weigh(wide) == []


def test_long_chains_are_refused() -> None:
    chain = {f"a{i}": {"items": {"$ref": f"#/definitions/a{i + 1}"}} for i in range(1000)}
    assert [f.rule for f in weigh({"$ref": "#/definitions/a0", "definitions": chain})] == ["depth"]


def test_definitions_count_without_being_used() -> None:
    """A deep link may lead anywhere."""
    unused = {"definitions": doubling(40)["definitions"]}
    assert weigh(unused)
    assert weigh({"messages": unused["definitions"]}) == []
    assert weigh({"messages": {"x": {"allOf": [{"$ref": "#/deep"}]}}, "deep": {}, **unused}, "/messages/x") == []


def test_doubling_across_documents_is_refused() -> None:
    further_documents = {f"b{i}": {"allOf": [{"$ref": f"b{i + 1}"}] * 2} for i in range(40)}
    assert weigh({"$ref": "b0"}, further_documents=further_documents)


@pytest.mark.parametrize("keyword", ["$anchor", "$dynamicAnchor"])
def test_anchors_have_the_weight_of_their_target(keyword: str) -> None:
    """A reference to an anchor used to count as a reference to the whole document."""
    places = {f"d{i}": {keyword: f"a{i}", "type": "string"} for i in range(400)}
    flat = {"$defs": places, "properties": {f"p{i}": {"$ref": f"#a{i}"} for i in range(400)}}
    assert weigh(flat) == []
    doubled = {f"d{i}": {keyword: f"a{i}", "allOf": [{"$ref": f"#a{i + 1}"}] * 2} for i in range(40)}
    assert [finding.rule for finding in weigh({"$ref": "#a0", "$defs": doubled})] == ["weight"]


def test_anchors_of_one_name_count_as_the_heaviest() -> None:
    heavy = {"$id": "other", "not": {"$anchor": "a", "anyOf": [{}] * 100_001}}
    for parts in ({"x": heavy, "y": {"$anchor": "a"}}, {"x": {"$anchor": "a"}, "y": heavy}):
        assert [finding.rule for finding in weigh({"$ref": "#a", "parts": parts})] == ["weight"]


def test_anchors_of_older_drafts() -> None:
    places = {f"d{i}": {"$id": f"#a{i}"} for i in range(400)}
    assert weigh({"definitions": places, "properties": {f"p{i}": {"$ref": f"#a{i}"} for i in range(400)}}) == []
