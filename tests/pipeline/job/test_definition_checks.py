"""What changed concerns the definitions that look it up, and a check of those alone says what one of all says."""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from signalbook.errors import SignalbookError
from signalbook.messages import Policy, parse_flags
from signalbook.messages.definitions.source import DefinitionVerdict
from signalbook.pipeline.job.definition_checks import CheckedDefinitions, Entities, Lookups, check
from signalbook.pipeline.job.documents import read_documents
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.values import JSONObject

EVENT: JSONObject = {"envelope": "CloudEvents/1.0"}
MESSAGE_GROUPS = ["/messagegroups/a", "/messagegroups/b", "/endpoints/a"]
SCHEMA_GROUPS = ["/schemagroups/a", "/schemagroups/b"]
MESSAGES = [f"{group}/messages/{name}" for group in MESSAGE_GROUPS for name in "mn"]
SCHEMAS = [f"{group}/schemas/{name}" for group in SCHEMA_GROUPS for name in "xyz"]
JSON, PROTOBUF = "JsonSchema/draft-07", "Protobuf/3"
OBJECT = (JSON, {"type": "object", "properties": {"p": {"type": "string"}}})
LEADING = (JSON, {"properties": {"p": {"$ref": "/schemagroups/a/schemas/y"}}})
LEADING_ON = (JSON, {"properties": {"p": {"$ref": "/schemagroups/b/schemas/x#/properties/p"}}})
FILE = (PROTOBUF, 'syntax = "proto3"; message P { string s = 1; }')
IMPORTING = (PROTOBUF, 'syntax = "proto3"; import "file.proto"; message Q { P p = 1; }')
IMPORTING_BY_XID = (PROTOBUF, 'syntax = "proto3"; import "schemagroups/b/schemas/z.proto"; message Q { P p = 1; }')
WRONG = [(JSON, {"type": 5}), (JSON, "not JSON"), (PROTOBUF, "message"), ("Runes/1", "x")]
DOCUMENTS: list[tuple[str, Any]] = [OBJECT, LEADING, LEADING_ON, FILE, IMPORTING, IMPORTING_BY_XID, *WRONG]


def _schema(document: tuple[str, Any], **more: Any) -> JSONObject:
    return {"format": document[0], "schema": document[1], **more}


def _inline(document: tuple[str, Any]) -> JSONObject:
    return {"dataschemaformat": document[0], "dataschema": document[1]}


REFERENCES: list[JSONObject] = [
    *({"dataschemauri": xid} for xid in (*SCHEMAS, f"{SCHEMAS[4]}/versions/2")),
    *map(_inline, DOCUMENTS),
]
BASES: list[JSONObject] = [
    {"basemessageuri": xid} for xid in (*MESSAGES, f"{MESSAGES[0]}/versions/1", f"{MESSAGES[3]}/versions/2")
]
# A document in which nearly all is sound and depends on something: of that an edit makes something else.
START: JSONObject = {
    "messagegroups": {
        "a": {
            "messages": {
                "m": {**EVENT, "envelopemetadata": {"type": {"value": "t"}}, "dataschemauri": SCHEMAS[0]},
                "n": {**BASES[0], **_inline(LEADING_ON)},
            }
        },
        "b": {
            "messages": {"m": {**EVENT, "dataschemauri": SCHEMAS[2]}, "n": {**BASES[1], "protocol": "KAFKA"}},
        },
    },
    "endpoints": {
        "a": {
            "messages": {"m": {**EVENT, **_inline(IMPORTING_BY_XID)}, "n": {**EVENT, **_inline(IMPORTING)}},
        }
    },
    "schemagroups": {
        "a": {"schemas": {"x": _schema(LEADING), "y": _schema(LEADING_ON), "z": _schema(IMPORTING)}},
        "b": {"schemas": {"x": _schema(OBJECT), "y": _schema(FILE, name="file"), "z": _schema(FILE)}},
    },
}


def _definition(parts: list[JSONObject]) -> JSONObject:
    definition: JSONObject = {}
    for part in parts:
        definition |= part
    return definition


PARTS: st.SearchStrategy[JSONObject] = st.one_of(
    st.just(EVENT),
    st.sampled_from(REFERENCES),
    st.sampled_from(BASES),
    st.sampled_from(
        [
            {"envelopemetadata": {"type": {"value": "t"}}},
            {"envelopemetadata": {"type": {"value": 5}}},
            {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}},
            {"protocol": "HTTP", "protocoloptions": {"path": 5}},
        ]
    ),
)
DEFINITIONS = st.lists(PARTS, min_size=1, max_size=4).map(_definition)
NAMES = st.sampled_from([{}, {}, {"name": "file"}, {"name": "file.proto"}, {"labels": {"confluent.id": "7"}}])
VERSIONS = st.sampled_from(DOCUMENTS).map(_schema)


def _resources(versions: st.SearchStrategy[JSONObject], xids: list[str]) -> st.SearchStrategy[Any]:
    named_versions = st.builds(lambda version, more: {**version, **more}, versions, NAMES)
    return st.one_of(
        named_versions,
        st.dictionaries(st.sampled_from("12"), named_versions, min_size=1).map(
            lambda versions_: {"versions": versions_}
        ),
        st.builds(
            lambda versions, chosen: {"versions": versions, "meta": {"defaultversionid": chosen}},
            st.dictionaries(st.sampled_from("12"), named_versions, min_size=1),
            st.sampled_from("12"),
        ),
        st.sampled_from(xids).map(lambda xid: {"xref": xid}),
        st.sampled_from([5, None, {"versions": {"1": 5}}]),
    )


EDITS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(MESSAGES), _resources(DEFINITIONS, MESSAGES)),
    st.tuples(st.just("put"), st.sampled_from(SCHEMAS), _resources(VERSIONS, SCHEMAS)),
    st.tuples(st.just("remove"), st.sampled_from([*MESSAGES, *SCHEMAS]), st.none()),
    st.tuples(st.just("rename"), st.sampled_from(MESSAGE_GROUPS), st.sampled_from(MESSAGE_GROUPS)),
    st.tuples(st.just("rename"), st.sampled_from(SCHEMA_GROUPS), st.sampled_from(SCHEMA_GROUPS)),
    st.tuples(st.just("label"), st.sampled_from(SCHEMA_GROUPS), st.sampled_from(["", "a", "b"])),
)
POLICIES = [
    parse_flags([]),
    parse_flags(["strict_delivery=true"]),
    parse_flags(["/messagegroups/a:on_broken_definition=stop"]),
]


def edited(document: JSONObject, edit: tuple[str, str, Any]) -> JSONObject:
    """A copy of ``document`` with one thing changed."""
    document = deepcopy(document)
    action, xid, value = edit
    kind, name, *below = xid.strip("/").split("/")
    group = document.setdefault(kind, {}).setdefault(name, {})
    match action:
        case "put":
            group.setdefault(below[0], {})[below[1]] = value
        case "remove":
            group.get(below[0], {}).pop(below[1], None)
        case "label":
            group["labels"] = {"protobuf.root": value}
        case "rename":
            document[kind].pop(name)
            other_kind, other = value.strip("/").split("/")
            document.setdefault(other_kind, {})[other] = group
    return document


def outcome(load: Callable[[], Snapshot], policy: Policy) -> Any:
    """Return the result of reading and checking definitions."""
    try:
        checked = load().check(policy)
    except SignalbookError as error:
        return str(error)
    return checked.fingerprint, checked.outlines, checked.left_out, checked.doubts, checked.to_json()


_ORIGINS = count()


def load_anew(path: Path) -> Snapshot:
    """Return the snapshot of a file, without what was read of it before."""
    return replace(Snapshot.of_registry(str(path), read_documents(str(path))), origin=(next(_ORIGINS),))


WRITERS = st.sampled_from(
    [
        json.dumps,
        partial(json.dumps, indent=1, ensure_ascii=False),
        lambda document: json.dumps(document)[:-1],
        lambda document: json.dumps(document).replace('{"a":', '{"a": {"messages": {"x": {"n": 1e999}}}, "a":', 1),
        lambda document: json.dumps(document).replace('"schema"', '"sch\\u0065ma"'),
    ]
)
BATCHES = st.tuples(st.lists(EDITS, min_size=1, max_size=2), st.just(json.dumps) | WRITERS)


@settings(max_examples=examples(150))
@given(st.lists(EDITS, max_size=3), st.lists(BATCHES, min_size=1, max_size=5), st.sampled_from(POLICIES))
def test_incremental_check_equals_a_full_check(first: list[Any], batches: list[Any], policy: Policy) -> None:
    document = START
    with TemporaryDirectory() as folder:
        path = Path(folder) / "definitions.json"
        for edits, write in ((first, json.dumps), *batches):
            for edit in edits:
                document = edited(document, edit)
            path.write_text(write(document))
            anew = outcome(lambda: load_anew(path), policy)
            assert outcome(lambda: Snapshot.load(str(path)), policy) == anew


def checks(document: JSONObject, before: CheckedDefinitions | None = None) -> tuple[CheckedDefinitions, set[str]]:
    """The check of all definitions, and the xids of those whose verdicts are new."""
    snapshot = Snapshot.of_documents([("d", document)])
    lookups = Lookups()
    noting = replace(snapshot, messages=lookups.track(snapshot.messages), schemas=lookups.track(snapshot.schemas))
    source = replace(noting._build_source(), imports=lookups.track_imports(noting.find_import))
    entities = Entities(messages=snapshot.messages, schemas=snapshot.schemas, names=snapshot.names)
    checked = check(source, Policy(), entities, lookups, before)
    earlier: Mapping[str, Any] = {} if before is None else before.known
    return checked, {xid for xid, verdict in checked.known.items() if verdict is not earlier.get(xid)}


G, S = "/messagegroups/g/messages", "/schemagroups/g/schemas"


def _chained() -> JSONObject:
    """Two definitions of one schema that refers to another, one that derives from one of them, and one by itself."""
    schemas = {
        "outer": {"format": JSON, "schema": {"properties": {"p": {"$ref": f"{S}/inner"}}}},
        "inner": {"format": JSON, "schema": {"type": "string"}},
        "other": {"format": JSON, "schema": {"type": "integer"}},
    }
    typed = {**EVENT, "dataschemauri": f"{S}/outer"}
    messages = {
        "one": {**typed, "envelopemetadata": {"type": {"value": "one"}}},
        "two": {**typed, "envelopemetadata": {"type": {"value": "two"}}},
        "derived": {
            "basemessageuri": "/messagegroups/g/messages/one",
            "dataschemauri": "/schemagroups/g/schemas/other",
        },
        "alone": {**EVENT, "dataschemauri": f"{S}/later"},
    }
    return {"messagegroups": {"g": {"messages": messages}}, "schemagroups": {"g": {"schemas": schemas}}}


@pytest.mark.parametrize(
    ("edit", "again"),
    [
        (("put", f"{S}/inner", {"format": JSON, "schema": {"type": 5}}), ["one", "two"]),
        (("put", f"{S}/other", {"format": JSON, "schema": {"type": 5}}), ["derived"]),
        (("put", f"{S}/later", {"format": JSON, "schema": True}), ["alone"]),
        (("put", f"{G}/one", {**EVENT, "envelopemetadata": {"type": {"value": "1"}}}), ["one", "derived"]),
        (("put", f"{G}/alone", 5), ["alone"]),
        (("put", f"{G}/fresh", EVENT), ["fresh"]),
        (("remove", f"{G}/one", None), ["derived"]),
        (("put", f"{S}/unused", {"format": JSON, "schema": {}}), []),
    ],
    ids=str,
)
def test_only_dependents_of_a_change_are_checked_again(edit: Any, again: list[str]) -> None:
    before, first = checks(_chained())
    assert first == before.known.keys()
    now, rechecked = checks(edited(_chained(), edit), before)
    assert rechecked == {f"{G}/{name}" for name in again}
    assert now.verdicts == checks(edited(_chained(), edit))[0].verdicts


@pytest.mark.parametrize(("old", "new"), [(1, 1.0), (1, True), (0, False), ({"a": 1, "b": 2}, {"b": 2, "a": 1})])
def test_equal_python_values_of_different_types_are_a_change(old: Any, new: Any) -> None:
    def entities(value: Any) -> Entities:
        return Entities(messages={G: {"value": value}}, schemas={}, names=())

    assert entities(new).find_changed(entities(old)) == {G}
    assert entities(old).find_changed(entities(old)) == set()


def test_verdicts_are_not_taken_from_another_registry(parcels: Any) -> None:
    """Checks of snapshots that nobody says the origin of may stand on each other: by what changed, and no more."""
    document = parcels.catalogue()
    spoilt = edited(document, ("put", "/schemagroups/parcels/schemas/parcel", {"format": JSON, "schema": {"type": 5}}))
    outcomes = [
        Snapshot.of_documents([("d", snapshot_document)]).check(Policy())
        for snapshot_document in (document, spoilt, document)
    ]
    assert [len(snapshot_document.left_out) for snapshot_document in outcomes] == [0, 2, 0]
    assert outcomes[0].outlines == outcomes[2].outlines
    assert all(
        isinstance(snapshot_document, DefinitionVerdict) for snapshot_document in checks(document)[0].verdicts.values()
    )
