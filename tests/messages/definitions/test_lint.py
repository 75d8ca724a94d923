from __future__ import annotations

from typing import Any

import pytest

from signalbook.messages.definitions.lint import lint, lint_member, lint_selectors

EVENT = {"envelope": "CloudEvents/1.0", "envelopemetadata": {}}


def event(**metadata: Any) -> dict[str, Any]:
    return {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        pytest.param({}, set(), id="F-49-payload-only"),
        pytest.param({"envelope": "CloudEvents/1.0"}, {("envelopemetadata", "error")}, id="F-9-envelope"),
        pytest.param({"protocol": "HTTP"}, {("protocoloptions", "error")}, id="F-9-protocol"),
        pytest.param({"envelopemetadata": {"id": {}}}, {("envelopemetadata", "warning")}, id="no-envelope"),
        pytest.param({"protocol": "SMTP", "protocoloptions": {}}, {("protocol", "warning")}, id="F-6-unknown"),
        pytest.param({**EVENT, "dataschema": {}, "dataschemauri": "/s", "dataschemaformat": "A/1"},
                     {("dataschema", "error")}, id="F-11-exclusive"),
        pytest.param({**EVENT, "dataschema": {}}, {("dataschemaformat", "error")}, id="F-11-format"),
        pytest.param({**EVENT, "dataschemaformat": "Avro"}, {("dataschemaformat", "error")}, id="F-10"),
        pytest.param({**EVENT, "dataschemaformat": ""}, {("dataschemaformat", "error")}, id="F-10-empty"),
        pytest.param({"datacontenttype": "json"}, {("datacontenttype", "error")}, id="F-14-none"),
        pytest.param({"datacontenttype": "text/plain; charset"}, {("datacontenttype", "error")}, id="F-14-parameter"),
        pytest.param({"datacontenttype": "Text/Plain;CharSet=\"utf-8\" ; x=y"}, set(), id="F-14-parameters"),
        pytest.param(event(datacontenttype={"value": "json"}), {("envelopemetadata.datacontenttype.value", "error")},
                     id="F-14-attribute"),
        pytest.param(event(datacontenttype={"value": "{kind}/json"}), set(), id="F-28"),
        pytest.param(event(x={"description": ""}), {("envelopemetadata.x.description", "error")}, id="F-23-empty"),
        pytest.param({"protocol": "AMQP/1.0", "protocoloptions": {"footer": {"x": {"description": ""}}}},
                     {("protocoloptions.footer.x.description", "error")}, id="F-23-empty-option"),
        pytest.param({"protocol": "KAFKA", "protocoloptions": {"headers": {"x": {"name": "x", "description": ""}}}},
                     {("protocoloptions.headers.x.description", "error")}, id="F-23-empty-header"),
        pytest.param({"protocol": "HTTP", "protocoloptions": {"headers": [{"name": "X-A"}, {"name": "X A"}]}},
                     {("protocoloptions.headers[1].name", "error")}, id="F.7-header"),
        pytest.param({"protocol": "HTTP", "protocoloptions": {"query": [{"name": "q", "type": "uri", "value": "x"}]}},
                     {("protocoloptions.query.q.value", "error")}, id="F-23-query"),

        pytest.param({**EVENT, "dataschemaxid": "/a/b", "dataschemauri": "http://x/c", "dataschemaformat": "A/1"},
                     {("dataschemaxid", "error")}, id="F-13"),
        pytest.param({**event(datacontenttype={"value": "a/b"}), "datacontenttype": "a/c"},
                     {("datacontenttype", "error")}, id="F-14"),
        pytest.param({**event(datacontenttype={"value": "a/b"}), "datacontenttype": "application/cloudevents+json"},
                     set(), id="F-14-structured"),
        pytest.param({**event(dataschema={"value": "/a"}), "dataschemauri": "/b", "dataschemaformat": "A/1"},
                     {("envelopemetadata.dataschema", "error")}, id="F-32"),
        pytest.param(event(source={"type": "uritemplate", "value": "{+x}"}),
                     {("envelopemetadata.source.value", "error")}, id="F-26"),
        pytest.param(event(source={"value": "{a}{b}"}),
                     {("envelopemetadata.source.value", "warning")}, id="K-13-adjacent"),
        pytest.param(event(x={"type": "float"}), {("envelopemetadata.x.type", "error")}, id="F-24"),
        pytest.param(event(x={"type": "integer", "value": "x"}), {("envelopemetadata.x.value", "error")}, id="F-23"),
        pytest.param(event(my_x={}), {("envelopemetadata.my_x", "error")}, id="F-30"),
        pytest.param(event(x="text"), {("envelopemetadata.x", "error")}, id="F-23-object"),
        pytest.param(event(specversion={"value": "0.3"}), {("envelopemetadata.specversion", "error")}, id="F-31-spec"),
        pytest.param(event(type={"value": "t", "required": False}),
                     {("envelopemetadata.type.required", "error")}, id="F-31-required"),
        pytest.param(event(id={"value": "1"}), {("envelopemetadata.id.value", "warning")}, id="F-31-id"),
        pytest.param(event(time={"type": "timestamp", "value": "2026-01-01T00:00:00Z"}),
                     {("envelopemetadata.time.value", "warning")}, id="F-31-time"),
        pytest.param(event(time={"type": "timestamp", "value": "0000-01-01T00:00:00Z"}), set(), id="F-25"),
        pytest.param(event(ext={"specurl": "https://x.example", "description": "d"}), set(), id="F-35-F-42-specurl"),
        pytest.param({**EVENT, "envelopeoptions": {"mode": "Binary"}}, {("envelopeoptions.mode", "error")}, id="F-34"),
        pytest.param({**EVENT, "envelopeoptions": {"mode": "binary", "format": "a/b"}},
                     {("envelopeoptions.format", "error")}, id="F-34-format"),
        pytest.param({"protocol": "HTTP", "protocoloptions": {"method": "GET", "status": "200"}},
                     {("protocoloptions.status", "error")}, id="F.7"),
    ],
)  # fmt: skip
def test_lint_reports_findings(definition: dict[str, Any], expected: set[tuple[str, str]]) -> None:
    """Every definition has the expected findings (K-13)."""
    assert {(finding.path, finding.severity) for finding in lint(definition)} == expected


@pytest.mark.parametrize(
    ("group", "definition", "expected"),
    [
        ({}, {"protocol": "HTTP"}, []),
        ({"envelope": "CloudEvents/1.0"}, {"envelope": "cloudevents/1.0"}, []),
        ({"envelope": "CloudEvents/1.0"}, {}, ["envelope"]),
        ({"protocol": "HTTP"}, {"protocol": "KAFKA"}, ["protocol"]),
        ({"protocol": "HTTP"}, {"protocol": "HTTP/1.1"}, []),
        ({"protocol": "None"}, {}, []),
        ({"protocol": "None"}, {"protocol": "HTTP"}, []),
        ({"protocol": "HTTP"}, {"protocol": "None"}, ["protocol"]),
    ],
)
def test_messages_agree_with_their_group(
    group: dict[str, Any], definition: dict[str, Any], expected: list[str]
) -> None:
    """F-7, F-8"""
    assert [finding.path for finding in lint_member(group, definition)] == expected


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"envelope": "CloudEvents/1.0", "protocol": "HTTP"}, []),
        ({"envelope": "SOAP/1.2", "protocol": "x-own/3"}, []),
        ({"envelope": "CloudEvents"}, ["envelope"]),
        ({"envelope": "", "protocol": ""}, ["envelope", "protocol"]),
        ({"envelope": "CloudEvents/", "protocol": "AMQP/"}, ["envelope", "protocol"]),
        ({"protocol": "mqtt"}, ["protocol"]),
        ({"protocol": "MQTT/3.1.1"}, []),
    ],
)
def test_names_of_envelopes_and_protocols(stated: dict[str, Any], expected: list[str]) -> None:
    """A name is not empty, and has a version if there may be several (F-5, F-6)."""
    assert [finding.path for finding in lint_selectors(stated)] == expected
