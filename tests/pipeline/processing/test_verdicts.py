"""What is said of rejected payloads, many at once, is what the validator says of each."""

import gc
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch
from weakref import ref

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.formats.jsonschema.cases import cases
from tests.pipeline.processing.payloads import amid_others
from tests.pipeline.processing.test_json_plans import WHOLE, parse, spoilt

from signalbook.formats.jsonschema import JsonSchema
from signalbook.messages import Contract, parse_flags
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.native import PayloadSpans
from signalbook.pipeline.processing.decoding import find_decoder
from signalbook.pipeline.processing.json_plans import build_json_decoder
from signalbook.pipeline.processing.verdicts import NO_VERDICT, Reasons, find_reasons, load_reasons
from signalbook.values import Finding, JSONError, dump_json, parse_json


def said(reasons_: Reasons, payloads: Sequence[bytes]) -> list[tuple[Finding, ...]]:
    """Return the findings of each payload; a payload without findings has an empty tuple."""
    numbers, violations = reasons_.of(amid_others(list(payloads)))
    return [() if number == NO_VERDICT else violations[number] for number in numbers.tolist()]


def test_kept_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signalbook.pipeline.processing.verdicts._MAX_KEYS", 10)
    schema = parse({"type": "object", "properties": {"a": {"type": "integer"}}})
    reasons_ = Reasons(schema)
    payloads = PayloadSpans.of_list([dump_json({"a": f"x{number}"}) for number in range(100)])
    assert reasons_.find_broken(payloads).all()
    assert len(reasons_._broken) <= 10


def test_answers_go_with_their_schema() -> None:
    """A stream whose definitions change would keep all of them."""
    schema = parse(WHOLE)
    assert said(load_reasons(schema), [b"1"]) == [expected(schema, b"1")]
    build_json_decoder(schema, schema.shape())
    assert find_decoder(schema) is not None
    reference = ref(schema)
    del schema
    gc.collect()
    assert reference() is None


def expected(schema: JsonSchema, payload: bytes) -> tuple[Finding, ...]:
    try:
        return tuple(schema.validate(parse_json(payload, exact=True)))
    except JSONError:
        return ()


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(cases(), st.data())
def test_findings_equal_those_of_the_validator(case: tuple[dict[str, Any], Any], data: st.DataObject) -> None:
    """K-41, for any schema."""
    schema, payload = parse(case[0]), dump_json(case[1])
    payloads = [payload, *data.draw(st.lists(spoilt(payload), max_size=8))]
    reasons_ = Reasons(schema)
    for _ in range(2):  # asked, and known
        assert said(reasons_, payloads) == [expected(schema, payload_) for payload_ in payloads]


PLAIN: dict[str, Any] = {name: part for name, part in WHOLE["properties"].items() if name != "code"}
OPEN = parse(WHOLE | {"properties": PLAIN})
CLOSED = parse(
    {
        "allOf": [
            {"$ref": "#/definitions/base", "required": ["nothing"]},
            {"required": ["flag"], "properties": {"other": {"type": "integer"}}},
        ],
        "definitions": {"base": {**WHOLE, "properties": PLAIN, "additionalProperties": False}},
    }
)
MEMBERS: dict[str, list[Any]] = {
    "id": ["P01", "P02", "x", 1, None, "P01\n"],
    "size": [{"l": 1}, {"l": 2.0, "m": [1]}, {"l": 0}, {}, [], {"l": "1"}, {"l": 2**64}, None],
    "weight": [1, None, 0.5, 0, -1.5, 1e-7, True, "1", [1], 2**70],
    "status": ["new", None, "lost", 3, {"a": "ü\u0007"}],
    "codes": [[1, 2], [], [1, "x", None], [1, 2, 3, 4], ["a"] * 5, {"a": 1}],
    "stops": [[{"at": "x"}], [{"at": 1}, {}, {"at": []}], [1]],
    "flag": [True, 0, "true"],
    "labels": [{"a": "b"}, {"a": "long", "~/": "long", "é": 1}, [], "x"],
    "extra": [1, {"a": [None]}],
    "nothing": [None, 0, {}],
    "other": [1, "x", {"a": 1}],
    "more": [1, {"b": [2]}],
}
PAYLOADS = st.fixed_dictionaries({}, optional={name: st.sampled_from(found) for name, found in MEMBERS.items()})


@settings(max_examples=examples(150))
@given(st.sampled_from([OPEN, CLOSED]), st.lists(PAYLOADS, min_size=1, max_size=20), st.randoms())
def test_cache_keys_contain_all_relevant_parts(schema: JsonSchema, values: list[dict[str, Any]], random: Any) -> None:
    """Payloads that break the same amid other members, and in another order, share their answers."""
    reasons_ = known[schema]
    for value in values:
        members = list(value.items())
        random.shuffle(members)
        payload = dump_json(dict(members))
        assert said(reasons_, [payload]) == [expected(schema, payload)]


known = {schema: Reasons(schema) for schema in (OPEN, CLOSED)}


@pytest.mark.parametrize("schema", [OPEN, CLOSED])
def test_the_validator_is_asked_once(schema: JsonSchema) -> None:
    payloads = [dump_json({"id": "x", "size": {"l": 1}, "extra": n, "flag": True, "nothing": None}) for n in range(50)]
    reasons_ = Reasons(schema)
    with patch.object(JsonSchema, "validate", autospec=True, side_effect=JsonSchema.validate) as validate:
        texts = said(reasons_, payloads)
    assert len(set(texts)) == 1
    assert texts[0]
    assert validate.call_count == 1


@pytest.mark.parametrize(
    "more",
    [
        {"properties": PLAIN | {"either": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}},
        {"dependencies": {"flag": ["extra"]}},
        {"properties": PLAIN | {"step": {"type": "number", "multipleOf": 0.5}}},
        {"properties": PLAIN | {"code": {"type": ["string", "integer"]}}},
    ],
)
def test_rules_about_more_than_one_value_have_no_keys(more: dict[str, Any]) -> None:
    schema = parse(WHOLE | {"properties": PLAIN} | more)
    payloads = [dump_json({"id": "P01", "size": {}, "flag": flag, "step": 0.3, "either": []}) for flag in (True, False)]
    with patch.object(JsonSchema, "validate", autospec=True, side_effect=JsonSchema.validate) as validate:
        assert said(Reasons(schema), payloads) == [expected(schema, payload) for payload in payloads]
    assert validate.call_count == 4


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a/b": {"type": "integer"}, "a": {"properties": {"b": {"type": "integer"}}, "type": "object"}}},
        {"additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}}},
    ],
)
def test_a_slash_in_a_name_is_no_step_of_a_path(schema: dict[str, Any]) -> None:
    parsed = parse({"type": "object", **schema})
    payloads = [b'{"a/b":"x"}', b'{"a":{"b":"x"}}', b'{"a/b":{"c":"x"}}', b'{"a":{"b/c":"x"}}']
    assert said(Reasons(parsed), payloads) == [expected(parsed, payload) for payload in payloads]


def test_odd_payloads_have_no_answer() -> None:
    odd = [
        *(b"", b"{", b"\xff", b'{"id":1,"id":2}{', b'{"id":' + b"[" * 70 + b"]" * 70 + b"}"),
        b'"' + b"x" * 2**20 + b'"',
    ]
    assert said(Reasons(OPEN), odd) == [()] * len(odd)


def test_some_policies_do_not_reject_violations(parcels: Any) -> None:
    snapshot = Snapshot.of_documents([("parcels", parcels.catalogue())])

    def of(*flags: str) -> Reasons | None:
        contract: Contract = snapshot.compile(parse_flags(flags))
        return find_reasons(contract.definitions["/messagegroups/parcels/messages/parcel.accepted"])

    assert of() is not None
    for flag in ("on_schema_violation=tag", "on_duplicate_names=dead_letter", "wire_prefix=confluent"):
        assert of(flag) is None
