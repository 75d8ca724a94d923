"""Real GitHub payloads as lines of traffic: sound ones, and ones with a seeded fault."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import jsonschema_rs

from signalbook.demo.faults import REASONS, Fault, broken, missing_fields, wrong_types
from signalbook.demo.github import CLOUDEVENTS_GROUP, HTTP_GROUP, Payload, Webhooks, cloudevent_type, message_id
from signalbook.demo.traffic import TOKEN, Template
from signalbook.values import JSONObject, dump_json


def sound_templates(webhooks: Webhooks) -> tuple[list[Template], list[Template]]:
    """Templates of all real payloads, as HTTP deliveries and as CloudEvents over HTTP.

    A payload that does not meet its published definition (some are older than it) carries ``schema_violation``.
    """
    judge = _Judge(webhooks.schema)
    pairs = [(payload, _meets(judge, payload, payload.body)) for payload in webhooks.payloads]
    http = [_http_template(payload, payload.body, reason=_reason(sound)) for payload, sound in pairs]
    cloudevents = [_cloudevent_template(payload, payload.body, reason=_reason(sound)) for payload, sound in pairs]
    return http, cloudevents


def faulty_templates(webhooks: Webhooks) -> tuple[list[Template], list[Template]]:
    """Templates of conforming payloads with one fault each, as HTTP deliveries and as CloudEvents over HTTP."""
    judge = _Judge(webhooks.schema)
    http: list[Template] = []
    cloudevents: list[Template] = []
    for payload in webhooks.payloads:
        if not _meets(judge, payload, payload.body):
            continue
        for fault, body in _schema_faults(judge, payload):
            http.append(_http_template(payload, body, reason=REASONS[fault], fault=fault))
            cloudevents.append(_cloudevent_template(payload, body, reason=REASONS[fault], fault=fault))
        http.append(_http_template(payload, payload.body, event="unheard_of", fault=Fault.UNKNOWN_EVENT))
        http.append(_http_template(payload, payload.body, fault=Fault.BROKEN_JSON))
        cloudevents.append(_cloudevent_template(payload, payload.body, type="unheard.of", fault=Fault.UNKNOWN_EVENT))
        cloudevents.append(_cloudevent_template(payload, payload.body, fault=Fault.BROKEN_JSON))
        cloudevents.append(
            _cloudevent_template(payload, payload.body, source="https://impostor.example/x", fault=Fault.BAD_SOURCE)
        )
    return http, cloudevents


class _Judge:
    """The published schema's own verdict, by the full validator alone; formats only annotate."""

    def __init__(self, schema: JSONObject) -> None:
        self._schema = schema
        self._validators: dict[str, jsonschema_rs.Draft7Validator] = {}

    def conforms(self, definition: str, body: JSONObject) -> bool:
        if definition not in self._validators:
            document = {**self._schema, "oneOf": [{"$ref": f"#/definitions/{definition}"}]}
            self._validators[definition] = jsonschema_rs.Draft7Validator(document, validate_formats=False)
        return self._validators[definition].is_valid(body)


def _meets(judge: _Judge, payload: Payload, body: JSONObject) -> bool:
    return judge.conforms(payload.definition, body)


def _reason(sound: bool) -> str:
    return "" if sound else "schema_violation"


def _schema_faults(judge: _Judge, payload: Payload) -> Iterator[tuple[Fault, JSONObject]]:
    for fault, variants in (
        (Fault.WRONG_TYPE, wrong_types(payload.body)),
        (Fault.MISSING_FIELD, missing_fields(payload.body)),
    ):
        for body in variants:
            if not judge.conforms(payload.definition, body):
                yield fault, body
                break


def _http_template(
    payload: Payload, body: JSONObject, *, event: str = "", reason: str = "", fault: Fault | None = None
) -> Template:
    headers = {"X-GitHub-Event": event or payload.event, "X-GitHub-Delivery": TOKEN.decode()}
    return Template(
        line=_line(headers, body, fault),
        definition=f"/messagegroups/{HTTP_GROUP}/messages/{message_id(payload.definition)}",
        reason=reason or (REASONS[fault] if fault else ""),
        fault=fault,
    )


def _cloudevent_template(
    payload: Payload,
    body: JSONObject,
    *,
    type: str = "",
    source: str = "",
    reason: str = "",
    fault: Fault | None = None,
) -> Template:
    account = (body.get("sender") or {}).get("login") if isinstance(body.get("sender"), dict) else None
    name = cloudevent_type(payload.definition)
    headers = {
        "X-GitHub-Event": payload.event,
        "X-GitHub-Delivery": TOKEN.decode(),
        "ce-specversion": "1.0",
        "ce-type": type or name,
        "ce-source": source or f"https://github.com/{quote(account or 'github')}",
        "ce-id": TOKEN.decode(),
    }
    return Template(
        line=_line(headers, body, fault),
        definition=f"/messagegroups/{CLOUDEVENTS_GROUP}/messages/{name}",
        reason=reason or (REASONS[fault] if fault else ""),
        fault=fault,
    )


def _line(headers: dict[str, str], body: JSONObject, fault: Fault | None) -> bytes:
    text = dump_json(body)
    if fault is Fault.BROKEN_JSON:
        text = broken(text)
    request = {
        "method": "POST",
        "path": "/webhooks",
        "headers": {"Content-Type": "application/json", **headers},
        "body": text.decode("utf-8", "ignore"),
    }
    return dump_json(request)
