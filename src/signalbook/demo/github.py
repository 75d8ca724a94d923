"""GitHub's webhooks: their definitions, and real deliveries of them, sound ones and ones with a seeded fault.

The payloads and schemas are the npm packages ``@octokit/webhooks-examples`` and ``@octokit/webhooks-schemas`` (MIT),
fetched with npm where npm is there; nothing of them is kept in this package.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

import jsonschema_rs

from signalbook.demo.traffic import TOKEN, SeededFault, TrafficTemplate, broken, missing_fields, wrong_types
from signalbook.errors import SignalbookError
from signalbook.values import JSON, JSONObject, dump_json, parse_json

VERSION: Final = "7.6.1"
HTTP_GROUP: Final = "github.webhooks"
CLOUDEVENTS_GROUP: Final = "github.cloudevents"
SCHEMAS: Final = f"/schemagroups/{HTTP_GROUP}/schemas/webhooks"
FORMAT: Final = "JsonSchema/draft-07"

_EXAMPLES: Final = ("@octokit/webhooks-examples", "package/api.github.com/index.json")
_DEFINITIONS: Final = ("@octokit/webhooks-schemas", "package/schema.json")
_FETCH_SECONDS: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPayload:
    """A real payload: the ``X-GitHub-Event`` name, its action ("" without one) and the JSON."""

    event: str
    action: str
    body: JSONObject

    @property
    def definition(self) -> str:
        """Name of its schema among the published definitions."""
        return f"{self.event}${self.action or 'event'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """The two packages: real payloads, and the one schema document with a definition per event and action."""

    payloads: tuple[WebhookPayload, ...]
    schema: JSONObject

    @property
    def definitions(self) -> tuple[str, ...]:
        """Names of the definitions that describe a whole payload (``issues$opened``), not a part of one."""
        return tuple(name for name in self.schema["definitions"] if "$" in name)


def fetch(folder: Path) -> Webhooks | None:
    """The packages, from ``folder`` if they are there, else by npm; None where npm is missing or cannot fetch."""
    npm = shutil.which("npm")
    try:
        examples, schema = (_read_member(folder, package, member, npm) for package, member in (_EXAMPLES, _DEFINITIONS))
    except _NotFetched:
        return None
    return Webhooks(payloads=tuple(_list_payloads(examples, schema)), schema=schema)


class _NotFetched(SignalbookError):
    """npm is not there, or did not bring the package."""


def _read_member(folder: Path, package: str, member: str, npm: str | None) -> JSON:
    archive = folder / f"{package.removeprefix('@').replace('/', '-')}-{VERSION}.tgz"
    if not archive.is_file():
        if npm is None:
            raise _NotFetched("npm is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "pack", "--silent", f"{package}@{VERSION}"]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_FETCH_SECONDS)  # noqa: S603
        except (OSError, subprocess.SubprocessError) as error:
            raise _NotFetched(f"npm cannot fetch {package}: {error}") from None
    with tarfile.open(archive) as tar:
        file = tar.extractfile(member) or io.BytesIO()
        return parse_json(file.read())


def _list_payloads(examples: list[JSONObject], schema: JSONObject) -> Iterator[WebhookPayload]:
    for entry in examples:
        for body in entry["examples"]:
            action = body.get("action", "")
            payload = WebhookPayload(event=entry["name"], action=action, body=body)
            # Of some events the schema has one definition for all actions.
            if payload.definition not in schema["definitions"]:
                payload = WebhookPayload(event=entry["name"], action="", body=body)
            if payload.definition in schema["definitions"]:
                yield payload


def webhook_definitions(webhooks: Webhooks) -> JSONObject:
    """A message per event and action, bound to HTTP by the ``X-GitHub-Event`` header, each with a CloudEvents variant.

    The variant names the HTTP message as its ``basemessage``: it inherits the binding and the payload's schema and
    adds the CloudEvents envelope, as a gateway does that puts ``ce-`` headers on each delivery.
    """
    names = webhooks.definitions
    return {
        "messagegroups": {
            HTTP_GROUP: {
                "name": "GitHub webhooks",
                "description": "Deliveries as GitHub sends them: HTTP POST, distinguished by header and action.",
                "protocol": "HTTP",
                "messages": {message_id(name): _build_http(name) for name in names},
            },
            CLOUDEVENTS_GROUP: {
                "name": "GitHub webhooks as CloudEvents",
                "description": "The same deliveries with a CloudEvents envelope around them.",
                "envelope": "CloudEvents/1.0",
                "messages": {cloudevent_type(name): _build_cloudevent(name) for name in names},
            },
        },
        "schemagroups": {
            HTTP_GROUP: {
                "name": "GitHub webhook payloads",
                "schemas": {"webhooks": {"versions": {"1": {"format": FORMAT, "schema": webhooks.schema}}}},
            }
        },
    }


def message_id(definition: str) -> str:
    """Id of the HTTP message for a definition: ``issues$opened`` becomes ``issues.opened``, ``push$event`` ``push``."""
    return definition.removesuffix("$event").replace("$", ".")


def cloudevent_type(definition: str) -> str:
    """CloudEvents type, and id of the CloudEvents message, for a definition."""
    return f"com.github.{message_id(definition)}"


def _format_title(name: str) -> str:
    return message_id(name).replace(".", " ").replace("_", " ")


def _build_http(name: str) -> JSONObject:
    event = name.split("$")[0]
    return {
        "name": _format_title(name),
        "protocol": "HTTP",
        "protocoloptions": {
            "method": "POST",
            "headers": [
                {"name": "X-GitHub-Event", "value": event, "required": True},
                {"name": "X-GitHub-Delivery", "value": "{delivery}", "required": True},
            ],
        },
        "dataschemaformat": FORMAT,
        "dataschemauri": f"{SCHEMAS}#/definitions/{name}",
        "datacontenttype": "application/json",
    }


def _build_cloudevent(name: str) -> JSONObject:
    return {
        "name": _format_title(name),
        "basemessage": f"/messagegroups/{HTTP_GROUP}/messages/{message_id(name)}",
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {
            "type": {"value": cloudevent_type(name)},
            "source": {"type": "uritemplate", "value": "https://github.com/{account}"},
            "id": {"type": "uritemplate", "value": "{delivery}"},
        },
    }


def sound_templates(webhooks: Webhooks) -> tuple[list[TrafficTemplate], list[TrafficTemplate]]:
    """Templates of all real payloads, as HTTP deliveries and as CloudEvents over HTTP.

    A payload that does not meet its published definition (some are older than it) carries ``schema_violation``.
    """
    judge = _Judge(webhooks.schema)
    http: list[TrafficTemplate] = []
    cloudevents: list[TrafficTemplate] = []
    for payload in webhooks.payloads:
        reason = "" if judge.conforms(payload.definition, payload.body) else "schema_violation"
        http.append(_build_http_template(payload, payload.body, reason=reason))
        cloudevents.append(_build_cloudevent_template(payload, payload.body, reason=reason))
    return http, cloudevents


def faulty_templates(webhooks: Webhooks) -> tuple[list[TrafficTemplate], list[TrafficTemplate]]:
    """Templates of conforming payloads with one fault each, as HTTP deliveries and as CloudEvents over HTTP."""
    judge = _Judge(webhooks.schema)
    http: list[TrafficTemplate] = []
    cloudevents: list[TrafficTemplate] = []
    for payload in webhooks.payloads:
        if not judge.conforms(payload.definition, payload.body):
            continue
        for fault, body in _make_schema_faults(judge, payload):
            http.append(_build_http_template(payload, body, fault=fault))
            cloudevents.append(_build_cloudevent_template(payload, body, fault=fault))
        http.append(_build_http_template(payload, payload.body, event="unheard_of", fault=SeededFault.UNKNOWN_EVENT))
        http.append(_build_http_template(payload, payload.body, fault=SeededFault.BROKEN_JSON))
        event = partial(_build_cloudevent_template, payload, payload.body)
        cloudevents.append(event(type="unheard.of", fault=SeededFault.UNKNOWN_EVENT))
        cloudevents.append(event(fault=SeededFault.BROKEN_JSON))
        cloudevents.append(event(source="https://impostor.example/x", fault=SeededFault.BAD_SOURCE))
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


def _make_schema_faults(judge: _Judge, payload: WebhookPayload) -> Iterator[tuple[SeededFault, JSONObject]]:
    for fault, variants in (
        (SeededFault.WRONG_TYPE, wrong_types(payload.body)),
        (SeededFault.MISSING_FIELD, missing_fields(payload.body)),
    ):
        for body in variants:
            if not judge.conforms(payload.definition, body):
                yield fault, body
                break


def _build_http_template(
    payload: WebhookPayload, body: JSONObject, *, event: str = "", reason: str = "", fault: SeededFault | None = None
) -> TrafficTemplate:
    headers = {"X-GitHub-Event": event or payload.event, "X-GitHub-Delivery": TOKEN.decode()}
    definition = f"/messagegroups/{HTTP_GROUP}/messages/{message_id(payload.definition)}"
    return TrafficTemplate.of(_build_line(headers, body, fault), definition, fault, reason)


def _build_cloudevent_template(
    payload: WebhookPayload,
    body: JSONObject,
    *,
    type: str = "",
    source: str = "",
    reason: str = "",
    fault: SeededFault | None = None,
) -> TrafficTemplate:
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
    definition = f"/messagegroups/{CLOUDEVENTS_GROUP}/messages/{name}"
    return TrafficTemplate.of(_build_line(headers, body, fault), definition, fault, reason)


def _build_line(headers: dict[str, str], body: JSONObject, fault: SeededFault | None) -> bytes:
    text = dump_json(body)
    if fault is SeededFault.BROKEN_JSON:
        text = broken(text)
    request = {
        "method": "POST",
        "path": "/webhooks",
        "headers": {"Content-Type": "application/json", **headers},
        "body": text.decode("utf-8", "ignore"),
    }
    return dump_json(request)
