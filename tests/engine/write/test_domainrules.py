from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engine.conftest import Registry, registry_of

from signalbook.engine import engine
from signalbook.engine.write import domainrules
from signalbook.engine.write.commands import Command, Method
from signalbook.engine.write.context import Context
from signalbook.engine.write.domainrules import MAX_FINDINGS, check_domain_rules
from signalbook.engine.write.workingcopies import WorkingTree
from signalbook.messages.definitions.source import Outline, find_equal_outlines
from signalbook.settings import SettingError
from signalbook.storage.store import Store
from signalbook.values import JSON, Finding, JSONObject, parse_json
from signalbook.work import TooComplex, Work
from signalbook.xid import ROOT, Xid

G, E = "/messagegroups/g", "/endpoints/e"
EVENT: JSONObject = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "t"}}}
BROKEN: JSONObject = {**EVENT, "dataschema": {}, "dataschemauri": "https://x.example/s", "dataschemaformat": "A/1"}
"""F-11."""

Made = Callable[..., Registry]


@pytest.fixture
def make_registry(store: Store) -> Made:
    """A registry with the default model, and the setting as given."""

    def make(rules: str = "reject", model: str = "default") -> Registry:
        return registry_of(store, model=model, domain_rules=rules)

    return make


def told(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(finding.path, finding.rule) for finding in findings]


def test_reject(make_registry: Made) -> None:
    """The error contains all faults of all entities, and nothing changes (F-11)."""
    registry = make_registry("reject")
    messages = {
        "a": BROKEN,
        "b": {"protocol": "KAFKA", "protocoloptions": {"key": "a", "key_base64": "YQ=="}},
        "c": EVENT,
    }
    error = registry.refused("PUT", G, {"messages": messages})
    expected = ("invalid_attribute", f"{G}/messages/a/versions/1", "dataschema")
    assert (error.code, error.subject, error.arguments["name"]) == expected
    assert told(error.faults) == [
        (f"{G}/messages/a/versions/1#dataschema", "exclusive"),
        (f"{G}/messages/b/versions/1#protocoloptions.key_base64", "exclusive"),
    ]
    assert registry.put(G, {"messages": {"c": EVENT}}).findings == ()


def test_warn(make_registry: Made) -> None:
    """The findings are in the result, and the write is executed."""
    registry = make_registry("warn")
    expected = [(f"{G}/messages/a/versions/1#dataschema", "exclusive")]
    assert told(registry.put(f"{G}/messages/a", BROKEN).findings) == expected
    assert registry.put(G, {"description": "not about messages"}).findings == ()
    assert registry.delete(G).findings == ()


def test_off(make_registry: Made) -> None:
    assert make_registry("off").put(f"{G}/messages/a", BROKEN).findings == ()


SCHEMA_XID = "/schemagroups/s/schemas/x"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"envelope": "CloudEvents"}, "envelope"),  # F-5
        ({"envelope": ""}, "envelope"),
        ({"protocol": ""}, "protocol"),  # F-6
        ({"protocol": "MQTT", "protocoloptions": {}}, "protocol"),
        ({"envelope": "CloudEvents/1.0"}, "envelopemetadata"),  # F-9
        ({"protocol": "HTTP"}, "protocoloptions"),
        ({"dataschemaformat": ""}, "dataschemaformat"),  # F-10
        ({"dataschemaformat": "Avro"}, "dataschemaformat"),
        ({"dataschemaxid": f"{SCHEMA_XID}/versions/9"}, "dataschemaxid"),  # F-13
        ({"dataschemaxid": "/schemagroups/s"}, "dataschemaxid"),
        ({"dataschemaxid": f"{G}/messages/m"}, "dataschemaxid"),
        ({"datacontenttype": "json"}, "datacontenttype"),  # F-14
        ({**EVENT, "envelopemetadata": {"x": {"description": ""}}}, "envelopemetadata.x.description"),  # F-23
        ({"protocol": "HTTP", "protocoloptions": {"headers": [{"name": "a b"}]}}, "protocoloptions.headers[0].name"),
    ],
)
def test_rejections_equal_the_findings_of_checks(make_registry: Made, body: JSONObject, path: str) -> None:
    """The same rules apply, and name the attribute (F-5, F-6, F-9, F-10, F-13, F-14, F-23)."""
    place = f"{G}/messages/m/versions/1#{path}"
    registry = make_registry("reject")
    registry.put(SCHEMA_XID, {"format": "JsonSchema/draft-07", "schema": {}})
    assert registry.put(f"{G}/messages/ok", {"dataschemaxid": SCHEMA_XID}).findings == ()
    error = registry.refused("PUT", f"{G}/messages/m", body)
    assert place in [fault.path for fault in error.faults]
    findings = make_registry("warn").put(f"{G}/messages/m", body).findings
    assert [finding for finding in findings if finding.severity == "error"] == list(error.faults)


def test_groups_name_envelope_and_protocol(make_registry: Made) -> None:
    """F-5, F-6; an endpoint may leave the version of its envelope open (H-6)."""
    registry = make_registry("reject")
    for body in ({"envelope": ""}, {"envelope": "CloudEvents"}, {"protocol": "MQTT"}, {"protocol": ""}):
        assert told(registry.refused("PUT", G, body).faults)[0][0] == f"{G}#{next(iter(body))}"
    registry.put(G, {"envelope": "CloudEvents/1.0", "protocol": "MQTT/5.0"})
    registry.put(E, {"usage": ["producer"], "envelope": "CloudEvents"})
    headers = {"headers": [{"name": "X-A", "value": "1"}, {"name": "", "value": "1"}]}
    error = registry.refused("PATCH", E, {"protocol": "HTTP", "protocoloptions": headers})
    assert told(error.faults) == [(f"{E}#protocoloptions.headers[1].name", "value")]


def test_unknown_base_message_is_a_warning(make_registry: Made) -> None:
    """The missing parts of a definition with an external base are unknown (F-9, F-17)."""
    result = make_registry("reject").put(
        f"{G}/messages/m", {"basemessage": "https://x.example/m", "envelope": "CloudEvents/1.0"}
    )
    assert {finding.severity for finding in result.findings} == {"warning"}


def test_equal_types_are_doubtful(make_registry: Made) -> None:
    """Messages of a write with the type and constants of another one in their Group get a warning (K-13)."""
    subject = {**EVENT["envelopemetadata"], "subject": {"value": "s"}}
    messages = {
        "a": EVENT,
        "b": {"basemessage": f"{G}/messages/a"},
        "c": {**EVENT, "protocol": "KAFKA", "protocoloptions": {}},
        "d": {**EVENT, "envelopemetadata": subject},
        "e": {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "{kind}"}}},
    }
    findings = make_registry("reject").put(G, {"messages": messages}).findings
    assert told(findings) == [(f"{G}/messages/{name}#envelopemetadata.type", "duplicate_type") for name in "ab"]
    assert findings[0].message == f"the type 't' is also that of {G}/messages/b"
    assert {finding.severity for finding in findings} == {"warning"}


def test_only_written_default_versions_are_compared(make_registry: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """The base messages of a default Version that is not written are neither loaded nor looked up (K-13)."""
    missing: set[Xid] = set()

    def note_missing(tree: WorkingTree, context: Context) -> tuple[Finding, ...]:
        findings = check_domain_rules(tree, context)
        missing.update(context.stored.missing)
        return findings

    monkeypatch.setattr(engine, "check_domain_rules", note_missing)
    registry = make_registry("reject")
    registry.put(f"{G}/messages/base", EVENT)
    meta: JSONObject = {"defaultversionid": "2", "defaultversionsticky": True}
    registry.put(
        f"{G}/messages/a", {"meta": meta, "versions": {"1": EVENT, "2": {"basemessage": f"{G}/messages/base"}}}
    )
    registry.put(f"{G}/messages/a/versions/1", {**EVENT, "description": "changed"})
    assert missing == set()


def test_no_more_equal_types_are_compared_than_findings_are_returned(
    make_registry: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check stops at the maximum number of findings, and its work counts for the request (K-13)."""
    compared = []

    def count_findings(outlines: list[Outline]) -> Iterator[tuple[str, Finding]]:
        for entry in find_equal_outlines(outlines):
            compared.append(entry)
            yield entry

    monkeypatch.setattr(domainrules, "find_equal_outlines", count_findings)
    registry = make_registry("reject")
    body: JSONObject = {"messages": {f"m{number}": EVENT for number in range(MAX_FINDINGS + 50)}}
    assert len(registry.put(G, body).findings) == len(compared) == MAX_FINDINGS
    with pytest.raises(TooComplex), Work(steps=MAX_FINDINGS, seconds=0).in_turn():
        registry.put(G, body)


def test_unknown_setting_is_rejected(make_registry: Made) -> None:
    with pytest.raises(SettingError, match="off, warn, reject"):
        make_registry("maybe")


def test_warnings_reject_nothing(make_registry: Made) -> None:
    """Violated recommendations of the specification are reported, and the message is stored (F-9, F-17, F-31)."""
    registry = make_registry("reject")
    body = {"basemessage": f"{G}/messages/gone", "envelope": "CloudEvents/1.0"}
    findings = registry.put(f"{G}/messages/m", body).findings
    assert {finding.severity for finding in findings} == {"warning"}
    assert {finding.rule for finding in findings} == {"basemessage_unresolved", "required"}


def test_members_of_a_group(make_registry: Made) -> None:
    """Messages have the envelope and protocol of their group; a changed group must match its messages
    (F-5, F-6, F-7).
    """
    registry = make_registry("reject")
    registry.put(G, {"messages": {"a": EVENT, "b": EVENT}})
    for name, value in (("envelope", "cloudevents/1.0"), ("envelope", "CloudEvents/1.0")):
        registry.patch(G, {name: value})
    expected = "invalid_attribute"
    assert registry.refused("PUT", f"{G}/messages/c", {"protocol": "HTTP", "protocoloptions": {}}).code == expected
    for change in ({"envelope": "Other/1"}, {"protocol": "HTTP"}):
        error = registry.refused("PATCH", G, change)
        assert {path for path, _ in told(error.faults)} == {f"{G}/messages/{n}#{next(iter(change))}" for n in "ab"}
    both = {name: {**EVENT, "protocol": "HTTP", "protocoloptions": {}} for name in "ab"}
    registry.patch(G, {"protocol": "HTTP", "messages": both})


def test_borrowed_messages(make_registry: Made) -> None:
    """A message of another group by xref must match the referring group too (F-8, F-58)."""
    registry = make_registry("reject")
    registry.put(f"{G}/messages/m", EVENT)
    registry.put("/messagegroups/other", {"envelope": "Other/1"})
    error = registry.refused("PUT", "/messagegroups/other/messages/m", {"meta": {"xref": f"{G}/messages/m"}})
    assert told(error.faults) == [("/messagegroups/other/messages/m#envelope", "group")]
    registry.put("/messagegroups/other", {"envelope": "CloudEvents/1.0"})
    registry.put("/messagegroups/other/messages/m", {"meta": {"xref": f"{G}/messages/m"}})
    assert registry.refused("PATCH", "/messagegroups/other", {"envelope": "Other/1"}).code == "invalid_attribute"


def test_base_messages(make_registry: Made) -> None:
    """Base messages are found in the registry and in the request; a cycle is rejected (F-15, F-16, F-51)."""
    registry = make_registry("reject")
    registry.put(G, {"envelope": "CloudEvents/1.0", "messages": {"a": {"basemessage": f"{G}/messages/b"}, "b": EVENT}})
    assert registry.put(f"{G}/messages/c", {"basemessage": f"{G}/messages/a/versions/1"}).findings == ()
    error = registry.refused("PATCH", f"{G}/messages/b", {"basemessage": f"{G}/messages/a"})
    assert told(error.faults) == [(f"{G}/messages/b/versions/1#basemessage", "basemessage_cycle")]
    assert registry.refused("PATCH", f"{G}/messages/b", {"basemessage": f"{G}/messages/b"}).faults
    base = "https://x.example/messagegroups/g/messages/a"
    elsewhere = registry.put(f"{G}/messages/d", {**EVENT, "basemessage": base})
    assert [finding.rule for finding in elsewhere.findings] == ["basemessage_unresolved"]


def test_versions_can_be_base_messages(make_registry: Made) -> None:
    """The bases are pinned Versions and those shown by a cross reference, also in chains and cycles (F-15, F-16)."""
    registry = make_registry("warn")
    base, shown_xid = f"{G}/messages/base", "/messagegroups/h/messages/shown"
    late = {**EVENT, "basemessage": f"{base}/versions/1"}
    meta = {"defaultversionid": "2", "defaultversionsticky": True}
    registry.put(base, {"meta": meta, "versions": {"1": EVENT, "2": late}})

    def found(xid: str, reference: str) -> list[str]:
        return [finding.rule for finding in registry.put(xid, {**EVENT, "basemessage": reference}).findings]

    registry.put(shown_xid, {"meta": {"xref": base}})
    for xid in (base, shown_xid):
        assert found(f"{G}/messages/m", f"{xid}/versions/1") == found(f"{G}/messages/m", f"{xid}/versions/2") == []
        assert found(f"{G}/messages/m", f"{xid}/versions/9") == ["basemessage_unresolved"]
    # a Version that is not the default one may derive from that one
    assert found(f"{base}/versions/0", base) == []
    assert found(f"{base}/versions/1", base) == ["basemessage_cycle"]
    together = registry.put("/messagegroups/h", {"messages": {
        "shown": {"meta": {"xref": base}}, "m": {**EVENT, "basemessage": f"{shown_xid}/versions/0"}}})  # fmt: skip
    assert "basemessage_unresolved" not in {finding.rule for finding in together.findings}


def test_schemas_of_messages(make_registry: Made) -> None:
    """A named schema of this registry must exist; deep links are not resolved (F-12, F-13)."""
    registry = make_registry("warn")
    registry.put("/schemagroups/s/schemas/x", {"format": "JsonSchema/draft-07", "schema": {}})
    for reference, rules in (
        ("/schemagroups/s/schemas/x", []),
        ("#/schemagroups/s/schemas/x/versions/1", []),
        ("/schemagroups/s/schemas/x:definitions/a", []),
        ("https://x.example/schemas/y", []),
        ("/schemagroups/s/schemas/y", ["unknown_schema"]),
        ("/schemagroups/s/schemas/x/versions/2", ["unknown_schema"]),
    ):
        body = {**EVENT, "dataschemauri": reference, "dataschemaformat": "JsonSchema/draft-07"}
        assert [finding.rule for finding in registry.put(f"{G}/messages/m", body).findings] == rules


PROTO = 'syntax = "proto3"; '


@pytest.mark.parametrize(
    ("format", "schema", "path", "rule"),
    [
        ("JsonSchema/draft-07", {"type": "objekt"}, "dataschema/type", "metaschema"),
        ("JsonSchema/draft-07", {"type": "object"}, "", ""),
        ("Avro/1.12", {"type": "recrd"}, "dataschema/type", "import"),
        ("Protobuf/3", f"{PROTO}message {{", "dataschema line 1, column 28", "protoc"),
        ("Protobuf/3", f'{PROTO}import "google/rpc/status.proto"; message M {{}}', "", ""),
        ("Unheard/1", {"type": "objekt"}, "", ""),
    ],
)
def test_schemas_in_messages(make_registry: Made, format: str, schema: JSON, path: str, rule: str) -> None:
    """An invalid schema is reported, because pipelines omit its definition (F-10, F-11)."""
    body = {**EVENT, "dataschema": schema, "dataschemaformat": format}
    findings = make_registry("warn").put(f"{G}/messages/m", body).findings
    assert {finding.severity for finding in findings} <= {"error"}
    assert told(findings) == ([(f"{G}/messages/m/versions/1#{path}", rule)] if rule else [])


def test_schemas_in_messages_refer_to_others(make_registry: Made) -> None:
    registry = make_registry("warn")
    registry.put("/schemagroups/s/schemas/a", {"format": "JsonSchema/draft-07", "schema": {"$id": "https://e.org/a"}})
    for reference, rules in (("https://e.org/a", []), ("https://e.org/b", [("warning", "import")])):
        schema = {"properties": {"x": {"$ref": reference}}}
        body = {**EVENT, "dataschema": schema, "dataschemaformat": "JsonSchema/draft-07"}
        findings = registry.put(f"{G}/messages/m", body).findings
        assert [(finding.severity, finding.rule) for finding in findings] == rules


def test_endpoints(make_registry: Made) -> None:
    """The findings concern endpoints and the messages in them (H-3, H-6, H-12, H-13, H-15)."""
    registry = make_registry("reject")
    registry.put(f"{G}/messages/m", EVENT)
    body = {"usage": ["producer"], "envelope": "CloudEvents", "messages": {"n": EVENT}}
    findings = registry.put(E, {**body, "messagegroups": [G, "/messagegroups/gone", "https://x.example/g"]}).findings
    assert told(findings) == [(f"{E}#messagegroups[1]", "unknown_group")]
    registry.patch(E, {"messagegroups": [G]})
    assert told(registry.put(f"{E}/messages/M", EVENT).findings) == [(f"{E}#messages", "duplicate_id")]
    expected = [(f"{E}#usage", "exclusive")]
    assert told(registry.refused("PATCH", E, {"usage": ["producer", "consumer"]}).faults) == expected
    actual = told(registry.refused("PATCH", E, {"envelope": "Other"}).faults)[0]
    assert actual == (f"{E}/messages/M#envelope", "endpoint")
    assert registry.refused("PUT", "/endpoints/f/messages/m", EVENT).code == "invalid_attribute"  # H-3: no usage


def test_rules_apply_to_declared_types_only(make_registry: Made) -> None:
    """A model's own messagegroups without modelcompatiblewith are its own affair."""
    registry = make_registry("reject", model="empty")
    messages = {"singular": "message", "hasdocument": False, "attributes": {"*": {"type": "any"}}}
    group: JSONObject = {"singular": "messagegroup", "resources": {"messages": messages}}
    registry.configure("modelsource", {"groups": {"messagegroups": group}})
    registry.put(f"{G}/messages/a", BROKEN)
    compatible = {"modelcompatiblewith": "https://xregistry.io/xreg/domains/message/specs/model.json"}
    declared = {**group, **compatible, "resources": {"messages": {**messages, **compatible}}}
    registry.configure("modelsource", {"groups": {"messagegroups": declared}})
    assert registry.refused("PUT", f"{G}/messages/b", BROKEN).code == "invalid_attribute"


def test_at_most_a_hundred_findings_are_reported(make_registry: Made) -> None:
    findings = make_registry("warn").put(G, {"messages": {f"m{i}": BROKEN for i in range(150)}}).findings
    assert len(findings) == 100


MISPLACED = [("deployed", "misplaced"), ("endpoints", "misplaced")]
MISSPELT = [("protocoloptions.link_properties", "name"), ("protocoloptions.distribution_mode", "name")]


def test_misspelt_options(make_registry: Made) -> None:
    """The names have underscores where the model has hyphens, in an endpoint of our own (I-7)."""
    options = {"link_properties": {"a": "b"}, "distribution_mode": "copy"}
    body = {"usage": ["producer"], "protocol": "AMQP/1.0", "protocoloptions": options}
    findings = make_registry("reject").put(E, body).findings
    assert {finding.severity for finding in findings} == {"warning"}
    assert set(told(findings)) == {(f"{E}#{path}", rule) for path, rule in MISSPELT}


SAMPLES: dict[str, dict[str, list[tuple[str, str]]]] = {
    "contoso-erp-jsons07": {
        **{f"Contoso.ERP.{name}": MISPLACED for name in ("Http", "HttpSubscriber", "KafkaProducer", "KafkaConsumer")},
        **{f"Contoso.ERP.{name}": [*MISPLACED, *MISSPELT] for name in ("QueueConsumer", "QueueProducer")},
    },
    "inkjet-proto3": {},
    "lightbulb-avro": {},
    "mqtt-sparkplugB": {
        f"Eclipse.SparkplugBv10{name}": MISPLACED
        for name in (
            "EdgeNodeProducer", "EdgeNodeCommandConsumer", "EdgeNodePrimaryHostStateConsumer", "DeviceProducer",
            "DeviceConsumer", "HostApplicationProducer", "HostApplicationConsumer", "HostApplicationStateConsumer",
        )
    },
    "smartoven-xsd": {},
    "vacuumcleaner-avro": {},
    "watchkam-jsons07": {},
    "waterboiler-mqtt5-jsons07": {},
    "windgenerator-kafka-avro": {},
    "workshop": {"workshop.kafka": MISPLACED},
}  # fmt: skip
"""All that is found in the specification's own documents, by endpoint: options that stand beside protocoloptions, and
names with underscores (I-7). Their messages are without fault."""


@pytest.mark.parametrize("name", SAMPLES)
def test_the_samples(make_registry: Made, sample_file: Callable[[str], Path], name: str) -> None:
    """All nine scenarios are accepted even if errors reject; the findings are listed here (I-7, F-57b)."""
    document: Any = parse_json(sample_file(f"{name}.xreg.json").read_bytes())
    result = make_registry("reject").do(Command(method=Method.POST, target=ROOT, body=document))
    # Schemas without a rule of compatibility are mentioned, too.
    findings = tuple(finding for finding in result.findings if finding.severity != "info")
    assert {finding.severity for finding in findings} <= {"warning"}
    expected = {(f"/endpoints/{key}#{path}", rule) for key, rows in SAMPLES[name].items() for path, rule in rows}
    assert set(told(findings)) == expected
    assert len(findings) == len(expected)
