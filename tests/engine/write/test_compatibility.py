import random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.conftest import Make, Registry, model_of

from signalbook.engine.engine import Engine
from signalbook.engine.write import compatibility, load
from signalbook.engine.write.apply import WriteResult
from signalbook.engine.write.compatibility import find_other_schemas, list_pending
from signalbook.engine.write.workingcopies import ResourceCopy, VersionCopy
from signalbook.errors import RegistryError
from signalbook.settings import SettingError, Settings
from signalbook.storage.base import Row
from signalbook.storage.store import Store
from signalbook.values import JSON, JSONObject, dump_json, now
from signalbook.xid import Xid

F1 = "/dirs/d1/files/f1"
V1 = f"{F1}/versions/1"
DRAFT7 = "JsonSchema/draft-07"
BAD: JSONObject = {"type": "nonsense"}
HOST = "http://json-schema.org"


@pytest.fixture
def checked(make: Make) -> Registry:
    return make(validateformat=True, validatecompatibility=True)


@pytest.fixture
def strict(make: Make) -> Registry:
    return make(validateformat=True, validatecompatibility=True, strictvalidation=True)


def outcome(registry: Registry) -> dict[str, JSON]:
    return {name: value for name, value in registry.row(V1).attributes.items() if "validated" in name}


def test_valid_document(checked: Registry) -> None:
    """R253; the outcome is the server's to say."""
    checked.put(F1, {"format": DRAFT7, "file": {"type": "object"}, "formatvalidated": False})
    assert outcome(checked) == {"formatvalidated": True}
    checked.patch(F1, {"name": "n"})
    assert outcome(checked) == {"formatvalidated": True}


def test_doubts_name_the_place_in_the_document(checked: Registry) -> None:
    text = 'syntax = "proto3"; message M { string a = 1 [(my.opt) = "x"]; }'
    (doubt,) = checked.put(F1, {"format": "Protobuf/3", "contenttype": "text/plain", "file": text}).findings
    assert (doubt.path, doubt.severity) == (f"{V1}#file line 1, column 46", "warning")


def test_violation(checked: Registry) -> None:
    """A document that violates its format is rejected (R255)."""
    error = checked.refused("PUT", F1, {"format": DRAFT7, "file": BAD})
    assert (error.code, error.subject, error.arguments) == ("format_violation", V1, {"format": DRAFT7})
    assert error.faults


def test_schema_in_a_string(checked: Registry) -> None:
    """Inline text is the document, or a JSON string if the content type is JSON; the schema is the same (R248)."""
    for sent in ({}, {"contenttype": "application/json"}):
        checked.put(F1, {"format": DRAFT7, "file": '{"type": "object"}', **sent})
        assert checked.content(V1).startswith(b'"') == bool(sent)
        assert outcome(checked) == {"formatvalidated": True}
        wrong = {"format": DRAFT7, "file": '{"type": "nonsense"}', **sent}
        assert checked.refused("PUT", F1, wrong).code == "format_violation"
    assert checked.refused("PUT", F1, {"format": DRAFT7, "filebase64": "ImE="}).code == "format_violation"


@pytest.mark.parametrize("change", [{"file": BAD}, {"filebase64": "AA=="}, {"file": None}])
def test_violation_by_update(checked: Registry, change: JSONObject) -> None:
    checked.put(F1, {"format": DRAFT7, "file": {}})
    assert checked.refused("PATCH", F1, change).code == "format_violation"


def test_stored_document_meets_a_new_format(checked: Registry) -> None:
    """A document without a format is not checked (R252)."""
    checked.put(F1, {"file": BAD})
    assert outcome(checked) == {}
    assert checked.refused("PATCH", F1, {"format": DRAFT7}).code == "format_violation"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"format": "nope/1", "file": {}}, "format_unknown"),
        ({"format": DRAFT7, "fileurl": "https://example.com"}, "format_external"),
        ({"format": DRAFT7, "file": {}, "meta": {"compatibility": "backward"}}, "compatibility_unknown"),
    ],
)
def test_unchecked_document_is_marked(checked: Registry, strict: Registry, body: JSONObject, code: str) -> None:
    """R254, R256, GAP 3."""
    for registry in (checked, strict):
        registry.configure("capabilities", {"compatibilities": {}}, "PATCH")
    assert strict.refused("PUT", F1, body).code == code
    checked.put(F1, body)
    validation = outcome(checked)
    name = "compatibilityvalidated" if code == "compatibility_unknown" else "formatvalidated"
    assert validation[name] is False
    assert validation[f"{name}reason"]


def test_validation_requires_the_aspects_of_the_model(registry: Registry) -> None:
    """R99, R253."""
    registry.put(F1, {"format": DRAFT7, "file": BAD, "meta": {"compatibility": "backward"}})
    assert outcome(registry) == {}


def test_formats_switched_off(checked: Registry) -> None:
    """The new capabilities apply to the data of the same request (R62, R120)."""
    checked.configure("capabilities", {"formats": []}, "PATCH")
    checked.put(F1, {"format": DRAFT7, "file": BAD})
    assert outcome(checked)["formatvalidated"] is False
    body = {"capabilities": {"formats": ["*"]}, "dirs": {"d1": {"files": {"f1": {"file": BAD, "format": DRAFT7}}}}}
    assert checked.refused("PATCH", "/", body).code == "format_violation"


@pytest.mark.parametrize(
    ("file", "valid"), [(BAD, False), ({"$schema": "http://json-schema.org/draft-07/schema"}, True)]
)
def test_a_format_without_a_version(checked: Registry, file: JSONObject, valid: bool) -> None:
    """The document must be valid in one of the listed versions (R120, G-13)."""
    checked.configure("capabilities", {"formats": [DRAFT7]}, "PATCH")
    if valid:
        checked.put(F1, {"format": "JsonSchema", "file": file})
        assert outcome(checked)["formatvalidated"] is True
    else:
        assert checked.refused("PUT", F1, {"format": "JsonSchema", "file": file}).code == "format_violation"
    checked.configure("capabilities", {"formats": ["Avro/1.11"]}, "PATCH")
    checked.put(F1, {"format": "JsonSchema", "file": BAD})
    assert outcome(checked)["formatvalidated"] is False


def test_avro_releases_are_validated_and_compared(checked: Registry) -> None:
    """The releases of one format may differ between Versions (R253, R256)."""
    assert checked.refused("PUT", F1, {"format": "Avro/1.11.3", "file": BAD}).code == "format_violation"
    record: JSONObject = {"type": "record", "name": "R", "fields": []}
    checked.put(F1, {"format": "Avro/1.11.0", "file": record, "meta": {"compatibility": "backward"}})
    optional = {**record, "fields": [{"name": "note", "type": "string", "default": ""}]}
    checked.put(f"{F1}/versions/2", {"format": "Avro/1.11.3", "file": optional})
    assert checked.row(f"{F1}/versions/2").attributes["compatibilityvalidated"] is True
    required = {**record, "fields": [{"name": "must", "type": "int"}]}
    refused = checked.refused("PUT", f"{F1}/versions/3", {"format": "Avro/1.12.1", "file": required})
    assert refused.code == "compatibility_violation"


def test_unsupported_format_is_reported_as_not_validated(checked: Registry) -> None:
    """The outcome says that nothing was checked (R254)."""
    checked.put(F1, {"format": "JsonStructure/draft-99", "file": BAD})
    assert outcome(checked)["formatvalidatedreason"] == 'the format "JsonStructure/draft-99" is not supported'


def test_doubtful_document_has_a_warning(checked: Registry) -> None:
    """The document is valid, and the response contains the warning."""
    for _ in range(2):
        result = checked.put(F1, {"format": DRAFT7, "file": {"$schema": "urn:x", "type": "object"}})
        assert outcome(checked) == {"formatvalidated": True}
        warnings = [(f.path, f.severity) for f in result.findings if f.rule == "$schema"]
        assert warnings == [(f"{V1}#file/$schema", "warning")]
        checked.patch(F1, {"file": {}})


@pytest.mark.parametrize("content", [b'"string"', b'"{\\"type\\": \\"string\\"}"', b'{"type": "string"}'])
def test_a_name_alone_is_a_schema_to_avro(checked: Registry, content: bytes) -> None:
    """A-24, R248"""
    checked.put_document(F1, content, "application/json", format="Avro/1.11")
    assert outcome(checked)["formatvalidated"] is True


def test_matchversions_attributes_must_be_equal(make: Make) -> None:
    """Attributes with matchversions must be equal in all versions (R81)."""
    registry = make(attributes={"kind": {"type": "string", "matchversions": True}})
    registry.put(F1, {"kind": "a"})
    for body in ({"kind": "b"}, {}):
        error = registry.refused("POST", F1, body)
        assert (error.code, error.subject, error.arguments) == ("mismatched_version_attribute", F1, {"name": "kind"})
    registry.post(F1, {"kind": "a"})


AVRO = "Avro/1.11"


def record(*fields: JSON) -> JSONObject:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, *fields]}


PLAIN = record()
OPTIONAL = record({"name": "b", "type": "int", "default": 0})
"""Reads what PLAIN wrote, and the reverse."""
DEMANDING = record({"name": "c", "type": "string"})
"""Does not read what PLAIN wrote; its own data PLAIN reads."""
LONG = {**PLAIN, "fields": [{"name": "a", "type": "long"}]}
"""Reads what PLAIN wrote; PLAIN does not read what it wrote."""


def resource(links: dict[str, str], *, rule: str = "full", stored: str = "") -> ResourceCopy:
    """Versions with their ancestors; those in ``stored`` were found compatible before, ``!`` with another document."""
    stamp = now()
    xid = Xid.parse(F1)
    versions = {}
    compatible = {name.rstrip("!"): name.endswith("!") for name in stored.split()}
    for name, ancestor in links.items():
        attributes: JSONObject = {"format": AVRO}
        version = VersionCopy(
            xid=xid / "versions" / name, createdat=stamp, modifiedat=stamp, ancestorid=ancestor, attributes=attributes
        )
        if name in compatible:
            version.attributes = {"format": AVRO, "compatibilityvalidated": True}
            version.before = version.to_row(1, 1)
            version.document = "changed" if compatible[name] else None
        versions[name] = version
    before = Row(
        key=1, parent=0, xid=xid, epoch=1, createdat=stamp, modifiedat=stamp, attributes={"compatibility": rule}
    )
    return ResourceCopy(xid=xid, createdat=stamp, modifiedat=stamp, before=before, versions=versions)


def pairs(draft: ResourceCopy, rule: str, *, assumed: bool = False) -> dict[str, str]:
    pending_versions = list_pending(draft, rule, find_other_schemas(draft, rule, assumed=assumed))
    return {version.id: " ".join(ancestor.id for ancestor in ancestors) for version, ancestors in pending_versions}


LINE = {"1": "1", "2": "1", "3": "2", "4": "3"}


@pytest.mark.parametrize(
    ("links", "rule", "stored", "expected"),
    [
        pytest.param(LINE, "Backward", "", {"1": "", "2": "1", "3": "2", "4": "3"}, id="G-27-backward"),
        pytest.param(LINE, "forward", "", {"1": "", "2": "1", "3": "2", "4": "3"}, id="G-27-forward"),
        pytest.param(LINE, "full_transitive", "", {"1": "", "2": "1", "3": "2 1", "4": "3 2 1"}, id="G-27-transitive"),
        pytest.param({**LINE, "4": "1"}, "full", "", {"1": "", "2": "1", "3": "2", "4": "1"}, id="G-7-branch"),
        pytest.param(LINE, "backward", "1 2 3 4", {}, id="nothing-changed"),
        pytest.param(LINE, "backward", "1 2 3", {"4": "3"}, id="a-new-one"),
        pytest.param(LINE, "full_transitive", "1 2 3", {"4": "3 2 1"}, id="a-new-one-transitive"),
        pytest.param(LINE, "backward", "1 2! 3 4", {"2": "1", "3": "2"}, id="a-changed-one"),
        pytest.param(LINE, "forward_transitive", "1 2! 3 4", {"2": "1", "3": "2", "4": "2"}, id="changed-transitive"),
    ],
)
def test_versions_are_compared_with_their_ancestors(
    links: dict[str, str], rule: str, stored: str, expected: dict[str, str]
) -> None:
    """Pairs follow the ancestors; known compatible pairs are not compared again (G-26, G-27, R257)."""
    assert pairs(resource(links, rule=rule.lower(), stored=stored), rule) == expected


@pytest.mark.parametrize(("rule", "expected"), [("backward", {"4": "2"}), ("backward_transitive", {"4": "2 1"})])
def test_new_neighbours(rule: str, expected: dict[str, str]) -> None:
    """A Version in the middle is deleted (G-31)."""
    draft = resource(LINE, rule=rule, stored="1 2 3 4")
    del draft.versions["3"]
    draft.versions["4"].ancestorid = "2"
    assert pairs(draft, rule) == expected


def test_another_rule_compares_everything() -> None:
    """G-28, R258."""
    draft = resource(LINE, rule="backward", stored="1 2 3 4")
    assert pairs(draft, "BACKWARD") == {}
    assert pairs(draft, "forward") == {"1": "", "2": "1", "3": "2", "4": "3"}
    assert pairs(draft, "forward", assumed=True) == {}


def test_a_long_line_is_walked_once() -> None:
    links = {str(i): str(max(i - 1, 0)) for i in range(4_000)}
    draft = resource(links, rule="full_transitive", stored=" ".join(links))
    assert pairs(draft, "full_transitive") == {}
    newest = draft.versions["3999"]
    newest.before = replace(newest.before, document="x") if newest.before else None
    assert len(pairs(draft, "full_transitive")["3999"].split()) == 3_999


@pytest.fixture
def comparing(store: Store) -> Registry:
    """Files that are checked, on each database."""
    return held_to(store)


def versions(comparing: Registry, *schemas: JSON, rule: str | None = None, format: str = AVRO) -> None:
    body = {str(i): {"file": schema, "format": format} for i, schema in enumerate(schemas, 1)}
    comparing.put(F1, {"versions": body, **({"meta": {"compatibility": rule}} if rule else {})})


def outcomes(comparing: Registry) -> list[JSON]:
    return [row.attributes.get("compatibilityvalidated") for row in comparing.versions().values()]


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        (PLAIN, OPTIONAL, "backward forward full"),
        (PLAIN, DEMANDING, "forward"),
        (PLAIN, LONG, "backward"),
        (DEMANDING, LONG, "backward"),
        (LONG, DEMANDING, "forward"),
        (PLAIN, {"type": "string"}, ""),
    ],
)
def test_rules(comparing: Registry, old: JSON, new: JSON, rules: str) -> None:
    """The rules are backward, forward and full (G-26, G-27, G-30, R257)."""
    for rule in ("backward", "forward", "full"):
        versions(comparing, old, rule=rule)
        if rule in rules.split():
            comparing.post(F1, {"file": new, "format": AVRO})
            assert outcomes(comparing) == [True, True]
        else:
            error = comparing.refused("POST", F1, {"file": new, "format": AVRO})
            assert (error.code, error.subject, error.arguments) == ("compatibility_violation", F1, {"compat": rule})
        comparing.delete(F1)


def test_every_difference_is_reported(comparing: Registry) -> None:
    """The error has the path, the rule, both values and the ids of the Versions (G-28, R258)."""
    versions(comparing, PLAIN, rule="Backward")
    body = {**DEMANDING, "fields": [{"name": "a", "type": "string"}, *DEMANDING["fields"][1:]]}
    error = comparing.refused("POST", F1, {"file": body, "format": AVRO})
    assert error.detail == "Versions that do not fit: 2 (after 1)"
    assert {fault.path.partition("#")[0] for fault in error.faults} == {f"{F1}/versions/2"}
    assert len(error.faults) == 2
    assert all('Version "1"' in fault.message and (fault.old or fault.new) for fault in error.faults)


def test_transitive(comparing: Registry) -> None:
    """Each Version is compatible with the previous one, but the last is not compatible with the first (G-27)."""
    middle = record({"name": "b", "type": "int", "default": 0})
    last = record({"name": "b", "type": "int"})
    versions(comparing, PLAIN, middle, rule="backward_transitive")
    error = comparing.refused("POST", F1, {"file": last, "format": AVRO})
    assert error.detail == "Versions that do not fit: 3 (after 1)"
    comparing.patch(f"{F1}/meta", {"compatibility": "backward"})
    comparing.post(F1, {"file": last, "format": AVRO})


def test_setting_a_rule_checks_all(comparing: Registry) -> None:
    """G-28, R258, R216 step 9."""
    versions(comparing, PLAIN, DEMANDING, {**DEMANDING, "doc": "the same"})
    assert outcomes(comparing) == [None, None, None]
    assert comparing.refused("PATCH", f"{F1}/meta", {"compatibility": "backward"}).code == "compatibility_violation"
    before = {name: row.epoch for name, row in comparing.versions().items()}
    comparing.patch(f"{F1}/meta", {"compatibility": "forward"})
    assert outcomes(comparing) == [True, True, True]
    assert {name: row.epoch for name, row in comparing.versions().items()} == before  # G-22
    comparing.patch(f"{F1}/meta", {"compatibility": None})
    assert outcomes(comparing) == [None, None, None]


def test_deleting_from_the_middle(comparing: Registry) -> None:
    """The next Version becomes a root, or follows the previous one in an ordered mode (G-31, R235)."""
    model = model_of(validateformat=True, validatecompatibility=True, versionmode="createdat", singleversionroot=True)
    comparing.configure("modelsource", model)
    middle, last = record({"name": "b", "type": "int", "default": 0}), record({"name": "b", "type": "int"})
    for schema in (PLAIN, middle, last):
        comparing.post(F1, {"file": schema, "format": AVRO})
    comparing.patch(f"{F1}/meta", {"compatibility": "backward"})
    error = comparing.refused("DELETE", f"{F1}/versions/2")
    assert (error.code, error.detail) == ("compatibility_violation", "Versions that do not fit: 3 (after 1)")
    comparing.delete(f"{F1}/versions/3")
    assert outcomes(comparing) == [True, True]


def test_another_ancestor(comparing: Registry) -> None:
    """The lineage is given by ancestorid (R257)."""
    versions(comparing, PLAIN, LONG, OPTIONAL)
    comparing.patch(F1, {"versions": {"3": {"ancestorid": "1"}}, "meta": {"compatibility": "backward"}})
    error = comparing.refused("PATCH", f"{F1}/versions/3", {"ancestorid": "2"})
    assert error.detail == "Versions that do not fit: 3 (after 2)"


def test_a_touched_version_keeps_its_outcome(comparing: Registry) -> None:
    """A version keeps its outcome if its document does not change (R256)."""
    versions(comparing, PLAIN, OPTIONAL, rule="full_transitive")
    comparing.patch(f"{F1}/versions/1", {"name": "n"})
    assert outcomes(comparing) == [True, True]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"fileurl": "https://x.example/s"}, "outside"),
        ({"format": "Nope/1", "file": {}}, "Nope/1"),
        ({"format": None}, "has no format"),
    ],
)
def test_uncomparable_version_has_a_reason(comparing: Registry, change: JSONObject, reason: str) -> None:
    """The outcome of the next Version is false too, with a reason (R254, G-20, G-21)."""
    versions(comparing, PLAIN, OPTIONAL, rule="backward")
    comparing.patch(f"{F1}/versions/1", change)
    row = comparing.versions()["2"].attributes
    assert row["compatibilityvalidated"] is False
    assert reason in row["compatibilityvalidatedreason"]
    comparing.patch(f"{F1}/versions/1", {"file": PLAIN, "format": AVRO})
    assert outcomes(comparing) == [True, True]


def test_versions_of_different_formats(comparing: Registry) -> None:
    """Formats may differ without matchversions, but a Version of another format is no successor (G-4)."""
    versions(comparing, PLAIN, rule="forward")
    error = comparing.refused("POST", F1, {"file": {}, "format": "JsonSchema/draft-07"})
    assert [(fault.rule, fault.old, fault.new) for fault in error.faults] == [("format", AVRO, "JsonSchema/draft-07")]
    comparing.post(F1, {"file": OPTIONAL, "format": "avro/1.12.0"})


def test_too_many_comparisons(comparing: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that asks for more than a server should do gets no answer, and no wrong one."""
    monkeypatch.setattr(compatibility, "MAX_PAIRS", 3)
    monkeypatch.setattr(compatibility, "_compatible_pairs", {})
    schemas = [record({"name": f"many{i}", "type": "int", "default": 0}) for i in range(4)]
    versions(comparing, *schemas, rule="full_transitive")
    assert outcomes(comparing) == [True, True, True, False]
    comparing.patch(f"{F1}/versions/4", {"name": "again"})
    assert outcomes(comparing) == [True, True, True, True]  # what is known need not be asked twice


def test_rules_switched_off(comparing: Registry) -> None:
    """G-25, G-29, R118, R257."""
    comparing.configure("capabilities", {"compatibilities": {"avro*": ["Backward"]}}, "PATCH")
    versions(comparing, PLAIN, rule="forward")
    assert outcomes(comparing) == [False]
    comparing.patch(f"{F1}/meta", {"compatibility": "BACKWARD"})
    assert outcomes(comparing) == [True]


def told(result: WriteResult) -> list[tuple[str, str, str]]:
    return [(finding.path, finding.rule, finding.severity) for finding in result.findings]


def held_to(store: Store, **options: Any) -> Registry:
    """A registry of files that are checked, with these settings."""
    new_registry = Registry(Engine(store, settings=Settings(model="empty", registry_id="test", **options)), store)
    new_registry.configure("modelsource", model_of(validateformat=True, validatecompatibility=True))
    return new_registry


def test_a_document_in_the_place_of_another_is_compared(comparing: Registry) -> None:
    """A replaced document that would be rejected as the next Version gets warnings."""
    versions(comparing, PLAIN, rule="backward")
    (path, rule, severity) = (f"{V1}#R.c", "default_missing", "warning")
    result = comparing.put(V1, {"file": DEMANDING, "format": AVRO})
    assert told(result) == [(path, rule, severity)]
    assert "the rule backward" in result.findings[0].message
    assert told(comparing.patch(F1, {"file": PLAIN})) == []
    result = comparing.patch("/dirs/d1", {"files": {"f1": {"versions": {"1": {"file": DEMANDING}}}}})
    assert told(result) == [(path, rule, severity)]
    assert told(comparing.patch(F1, {"name": "n"})) == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", V1, {"file": DEMANDING, "format": AVRO}),
        ("PATCH", F1, {"file": DEMANDING}),
        ("POST", f"{F1}/versions", {"1": {"file": DEMANDING, "format": AVRO}}),
        ("PATCH", "/", {"dirs": {"d1": {"files": {"f1": {"versions": {"1": {"file": DEMANDING}}}}}}}),
        ("POST", "/dirs", {"d1": {"files": {"f1": {"file": DEMANDING, "format": AVRO}}}}),
    ],
)
def test_incompatible_changes_are_refused(store: Store, method: str, path: str, body: JSONObject) -> None:
    registry = held_to(store, incompatible_changes="reject")
    versions(registry, PLAIN, rule="backward")
    error = registry.refused(method, path, body)
    assert (error.code, error.subject, error.arguments) == ("compatibility_violation", F1, {"compat": "backward"})
    assert [(fault.path, fault.rule) for fault in error.faults] == [(f"{V1}#R.c", "default_missing")]
    assert registry.put(V1, {"file": OPTIONAL, "format": AVRO}).findings == ()


def test_documents_are_refused_in_document_form_too(store: Store) -> None:
    registry = held_to(store, incompatible_changes="reject")
    versions(registry, PLAIN, rule="full_transitive")
    with pytest.raises(RegistryError, match="compatibility rule"):
        registry.put_document(V1, dump_json(LONG), "application/json", format=AVRO)


def test_comparability_cannot_be_removed_to_avoid_a_rejection(store: Store) -> None:
    """A version that cannot be compared would allow any later replacement."""
    registry = held_to(store, incompatible_changes="reject")
    versions(registry, PLAIN, rule="backward")
    for body in ({"file": PLAIN, "format": None}, {"fileurl": "https://x.example/s", "file": None, "format": AVRO}):
        assert registry.refused("PATCH", V1, body).code == "compatibility_unknown"


def test_loss_of_comparability_is_a_warning(comparing: Registry) -> None:
    versions(comparing, PLAIN, rule="backward")
    assert told(comparing.patch(V1, {"format": None})) == [(V1, "not_compared", "warning")]


def test_incompatible_changes_are_nobodys_business(store: Store) -> None:
    registry = held_to(store, incompatible_changes="off")
    versions(registry, PLAIN, rule="backward")
    assert told(registry.put(V1, {"file": DEMANDING, "format": AVRO})) == []


def test_missing_rule_is_reported_once(comparing: Registry) -> None:
    """Said once for a Resource, of new Versions and of new documents; of a first Version there is nothing to say."""
    versions(comparing, PLAIN)
    meta = (f"{F1}/meta#compatibility", "not_compared", "info")
    assert told(comparing.patch(F1, {"name": "n"})) == []
    assert told(comparing.put(V1, {"file": DEMANDING, "format": AVRO})) == [meta]
    more = {name: {"file": PLAIN, "format": AVRO} for name in ("2", "3")}
    assert told(comparing.post(f"{F1}/versions", more)) == [meta]
    assert told(comparing.put("/dirs/d1/files/f2", {"file": PLAIN, "format": AVRO})) == []


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"file": PLAIN, "format": AVRO}, "backward"),
        ({"file": PLAIN, "format": AVRO, "meta": {"compatibility": "full"}}, "full"),
        ({"file": PLAIN, "format": AVRO, "meta": {"compatibility": None}}, None),
        ({"file": PLAIN, "format": AVRO, "meta": {"labels": {"a": "b"}}}, "backward"),
        ({"versions": {"1": {"file": PLAIN, "format": AVRO}, "2": {"file": OPTIONAL, "format": AVRO}}}, "backward"),
        ({"file": PLAIN, "format": "Nope/1"}, None),
        ({"file": PLAIN}, None),
    ],
)
def test_default_rule_of_new_schemas(store: Store, body: JSONObject, rule: str | None) -> None:
    """Schemas without a rule get the default if their format can be compared. It is stored in their meta."""
    registry = held_to(store, default_compatibility="backward")
    registry.put(F1, body)
    assert registry.row(F1).attributes.get("compatibility") == rule


def test_default_rule_is_for_new_schemas_only(store: Store) -> None:
    registry = held_to(store, default_compatibility="backward")
    registry.put(F1, {"file": PLAIN, "format": AVRO})
    assert registry.refused("POST", F1, {"file": DEMANDING, "format": AVRO}).code == "compatibility_violation"
    registry.patch(f"{F1}/meta", {"compatibility": None})
    registry.post(F1, {"file": DEMANDING, "format": AVRO})
    assert "compatibility" not in registry.row(F1).attributes


def test_default_rule_and_the_model(store: Store) -> None:
    """The model's default comes first; a type whose model asks for no comparison gets no rule."""
    registry = held_to(store, default_compatibility="backward")
    rule = {"compatibility": {"type": "string", "required": True, "default": "full"}}
    registry.configure("modelsource", model_of(validateformat=True, validatecompatibility=True, metaattributes=rule))
    registry.put(F1, {"file": PLAIN, "format": AVRO})
    assert registry.row(F1).attributes["compatibility"] == "full"
    registry.delete(F1)
    registry.configure("modelsource", model_of())
    registry.put(F1, {"file": PLAIN, "format": AVRO})
    assert "compatibility" not in registry.row(F1).attributes


def test_default_rule_that_the_capabilities_do_not_have(store: Store) -> None:
    registry = held_to(store, default_compatibility="backward")
    registry.configure("capabilities", {"compatibilities": {"Avro/*": ["full"]}}, "PATCH")
    registry.put(F1, {"file": PLAIN, "format": AVRO})
    assert "compatibility" not in registry.row(F1).attributes


@pytest.mark.parametrize("name", ["incompatible_changes", "default_compatibility"])
def test_invalid_settings_are_rejected(store: Store, name: str) -> None:
    with pytest.raises(SettingError, match=f"{name} is .*one of .*, not 'none'"):
        held_to(store, **{name: "none"})


def test_strict(make: Make) -> None:
    """The error is compatibility_unknown (G-29, R258)."""
    comparing = make(validateformat=True, validatecompatibility=True, strictvalidation=True)
    comparing.configure("capabilities", {"compatibilities": {}}, "PATCH")
    body = {"file": PLAIN, "format": AVRO, "meta": {"compatibility": "full"}}
    error = comparing.refused("PUT", F1, body)
    assert (error.code, error.arguments) == ("compatibility_unknown", {"compat": "full", "format": AVRO})


def test_references_to_other_schemas(comparing: Registry) -> None:
    """The references are xids of entities of the same request, in any order (G-16)."""
    point, line = {"type": "integer"}, {"$ref": "/dirs/d1/files/point"}
    files = {
        "line": {"meta": {"compatibility": "backward"}, "versions": versions_of(line, {**line, "title": "t"})},
        "point": {"versions": versions_of(point)},
    }
    comparing.post("/", {"dirs": {"d1": {"files": files}}})
    actual = [row.attributes["compatibilityvalidated"] for row in comparing.versions("/dirs/d1/files/line").values()]
    assert actual == [True, True]


def versions_of(*schemas: JSON) -> JSONObject:
    return {str(i): {"file": schema, "format": "JsonSchema/draft-07"} for i, schema in enumerate(schemas, 1)}


@pytest.mark.parametrize(
    ("turned", "expected"),
    [({"validateformat": True}, None), ({"validateformat": True, "validatecompatibility": True}, True)],
)
def test_stored_versions_are_validated_when_the_model_demands_it(
    store: Store, turned: JSONObject, expected: JSON
) -> None:
    """Stored Versions get outcomes, and lose them when the model does not demand them any more
    (R99, R100, R253, R256).
    """
    comparing = Registry(Engine(store, settings=Settings(model="empty", registry_id="test")), store)
    comparing.configure("modelsource", model_of())
    versions(comparing, PLAIN, OPTIONAL, rule="full")
    comparing.configure("modelsource", model_of(**turned))
    assert [row.attributes["formatvalidated"] for row in comparing.versions().values()] == [True, True]
    assert outcomes(comparing) == [expected, expected]
    comparing.configure("modelsource", model_of())
    assert not any("validated" in name for row in comparing.versions().values() for name in row.attributes)


@pytest.mark.parametrize(
    ("schemas", "rule", "fault"),
    [((PLAIN, {"type": "nonsense"}), None, f"{F1}/versions/2#"), ((PLAIN, DEMANDING), "backward", f"{F1}/versions/2#")],
)
def test_model_is_rejected_if_stored_documents_violate_it(
    store: Store, schemas: tuple[JSON, ...], rule: str | None, fault: str
) -> None:
    """R70, G-24."""
    comparing = Registry(Engine(store, settings=Settings(model="empty", registry_id="test")), store)
    comparing.configure("modelsource", model_of())
    versions(comparing, *schemas, rule=rule)
    before = comparing.everything()
    with pytest.raises(RegistryError) as caught:
        comparing.configure("modelsource", model_of(validateformat=True, validatecompatibility=True))
    assert caught.value.code == "model_compliance_error"
    assert caught.value.faults[0].path.startswith(fault)
    assert comparing.everything() == before


def random_write(comparing: Registry, dice: random.Random) -> str:
    """Execute a random write to F1. Return the code and detail of the error, or an empty string."""
    schemas = (PLAIN, OPTIONAL, DEMANDING, LONG, {"type": "string"})
    body: JSONObject = {"file": dice.choice(schemas), "format": AVRO}
    version = f"{F1}/versions/{dice.randint(1, 12)}"
    ancestor = {"ancestorid": str(dice.randint(1, 12))}
    writes: list[tuple[str, str, JSON]] = [
        ("POST", F1, body),
        ("POST", F1, {**body, **ancestor}),
        ("PUT", version, body),
        ("PATCH", version, {"name": "n"}),
        ("PATCH", version, ancestor),
        ("PATCH", version, {"fileurl": "https://x.example/s"}),
        ("DELETE", version, None),
        ("PATCH", f"{F1}/meta", {"compatibility": dice.choice(["backward", "forward", "full", None])}),
    ]
    try:
        comparing.send(*dice.choice(writes))
    except RegistryError as error:
        return f"{error.code} {error.detail}"
    return ""


@pytest.mark.parametrize("mode", ["manual", "createdat"])
@pytest.mark.parametrize("seed", range(8))
def test_partially_loaded_versions_give_the_same_results(
    make: Make, monkeypatch: pytest.MonkeyPatch, mode: str, seed: int
) -> None:
    """A Resource of which a part is loaded gets the same answers and outcomes as one that is loaded whole."""
    aspects: JSONObject = {"validateformat": True, "validatecompatibility": True, "versionmode": mode}
    outcomes_: list[list[JSON]] = []
    for few in (0, 10**9):
        monkeypatch.setattr(load, "MAX_WHOLE_VERSIONS", few)
        comparing, dice = make(**aspects), random.Random(seed)
        versions(comparing, PLAIN, OPTIONAL, rule="backward")
        answers: list[JSON] = [random_write(comparing, dice) for _ in range(60)]
        rows = comparing.versions().items()
        outcomes_.append([*answers, *((name, row.ancestorid, row.attributes) for name, row in rows)])
    assert outcomes_[0] == outcomes_[1]
