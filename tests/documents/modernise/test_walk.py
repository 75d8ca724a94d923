import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import json_trees

from signalbook.documents.errors import Repair
from signalbook.documents.modernise import modernise
from signalbook.values import JSON

from .conftest import Mend

MESSAGE = {"format": "CloudEvents/1.0"}
LABELS = {"import.source": "x.json", "import.repairs": "I-6"}


@pytest.mark.parametrize(
    "document",
    [
        {"xid": "/messagegroups/m/messages/one", **MESSAGE},
        {"xid": "/messagegroups/m/messages/one/versions/1", **MESSAGE},
    ],
)
def test_parts_of_a_registry(document: JSON) -> None:
    modernised, _ = modernise(document, source="x.json")
    assert (modernised["envelope"], modernised["labels"]) == ("CloudEvents/1.0", LABELS)


@pytest.mark.parametrize(
    "document",
    [
        {"m": {"xid": "/messagegroups/m", **MESSAGE}},
        {"one": {"xid": "/messagegroups/m/messages/one", **MESSAGE}},
        {"1": {"xid": "/messagegroups/m/messages/one/versions/1", **MESSAGE}},
    ],
)
def test_collections(document: JSON) -> None:
    modernised, repairs = modernise(document, source="x.json")
    (entity,) = modernised.values()
    assert (entity["envelope"], repairs[0].path) == ("CloudEvents/1.0", f"{entity['xid']}#format")


def test_labels_record_repairs_and_source() -> None:  # L-38
    document: JSON = {"endpoints": {"e": {"usage": "consumer", "labels": {"a": "b"}}, "f": {"usage": ["consumer"]}}}
    modernised, _ = modernise(document, source="x.json")
    assert modernised["endpoints"]["e"]["labels"] == {"a": "b", **LABELS}
    assert "labels" not in modernised["endpoints"]["f"]
    assert document["endpoints"]["e"]["usage"] == "consumer"


def test_repaired_text_is_reported_by_every_group() -> None:  # L-37, L-38
    text = (Repair(line=3, message="took away a comment", rule="L-26"),)
    modernised, _ = modernise({"schemagroups": {"g": {}}, "dirs": {"d": {}}}, source="x.json", text=text)
    assert modernised["schemagroups"]["g"]["labels"] == modernised["dirs"]["d"]["labels"]
    assert modernised["dirs"]["d"]["labels"]["import.repairs"] == "L-26"


@pytest.mark.parametrize(
    ("body", "expected", "repairs"),
    [
        pytest.param({"xid": "/endpoints/e/messages/one"}, {}, ["xid [I-5]"], id="I-5 wrong parent"),
        pytest.param({"createdat": "2024-04-31T12:00:00Z"}, {}, ["createdat [I-5]"], id="I-5 no such day"),
        pytest.param({"createdat": "01-01-0000T00:00:00Z"}, {}, ["createdat [I-6]"], id="I-6 no date"),
        pytest.param({"createdtimeutc": "2024-04-30T12:00:00Z"}, {"createdat": "2024-04-30T12:00:00Z"},
                     ["createdtimeutc [I-6]"], id="I-6 stamps"),
        pytest.param({"deprecated": {"removal": "soon"}}, {"deprecated": {}}, ["deprecated.removal [I-5]"], id="I-5"),
        pytest.param({"docs": "https://h"}, {"documentation": "https://h"}, ["docs [rc2]"], id="rc2 docs"),
        pytest.param({"createdat": 7}, {"createdat": 7}, [], id="no text at all"),
    ],
)  # fmt: skip
def test_repairs_common_to_all_entities(mend: Mend, body: JSON, expected: JSON, repairs: list[str]) -> None:
    assert mend("/messagegroups/m/messages/one", body) == (expected, repairs)


def test_invalid_ids_are_replaced(mend: Mend) -> None:  # L-4
    group, repairs = mend("/messagegroups/m", {"messages": {"my message": {}, "a b": {}, "a_b": {}}})
    assert list(group["messages"]) == ["a b", "a_b", "my_message"]
    assert repairs == ["messages.my message [L-4]"]


def test_other_types_keep_their_names(mend: Mend) -> None:
    body = {"id": "x", "type": "schema", "format": "CloudEvents/1.0", "usage": "one", "config": {"protocol": "HTTP"}}
    assert mend("/dirs/d/files/f", body) == (body, [])


@pytest.mark.parametrize("document", [None, 1, "x", [], {"xid": "nonsense"}, {"schemagroups": {"g": 1}}])
def test_invalid_document_is_unchanged(document: JSON) -> None:
    assert modernise(document, source="x.json") == (document, ())


names = st.sampled_from(
    ["endpoints", "schemagroups", "messages", "versions", "meta", "xref", "format", "config", "usage", "uri", "id",
     "labels", "protocoloptions", "query", "envelopemetadata", "attributes", "type", "capabilities", "flags", "groups",
     "modelsource", "deprecated", "removal", "definitionGroups", "xid", "formats", "schema", "singular", "resources"]
)  # fmt: skip
words = st.sampled_from(["Kafka", "/schemagroups/g", "Protobuf/3", "}"])
trees = json_trees(st.none() | st.integers() | st.text(max_size=3) | words, names, size=4, leaves=25)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees)
def test_any_document_is_read_and_repaired_once(document: JSON) -> None:
    once, _ = modernise(document, source="x.json")
    assert modernise(once, source="x.json")[0] == once
