"""GitHub's webhooks: their definitions, and real deliveries of them, sound ones and ones with a seeded fault.

The payloads and schemas are the npm packages ``@octokit/webhooks-examples`` and ``@octokit/webhooks-schemas`` (MIT),
fetched with npm where npm is there; nothing of them is kept in this package.
"""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

import jsonschema_rs

from signalbook.demo.traffic import REASONS, TOKEN, SeededFault, TrafficTemplate, cut, spoil
from signalbook.values import JSON, JSONObject, dump_json, parse_json

VERSION: Final = "7.6.1"
HTTP_GROUP: Final = "github.webhooks"
CLOUDEVENTS_GROUP: Final = "github.cloudevents"
FORMAT: Final = "JsonSchema/draft-07"

_SCHEMAS: Final = f"/schemagroups/{HTTP_GROUP}/schemas/webhooks"
_FETCH_SECONDS: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPayload:
    """A real payload: the name of its event, the name of its schema among the published definitions, and the JSON."""

    event: str
    definition: str
    body: JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """The two packages: real payloads, and the one schema document with a definition per event and action."""

    payloads: tuple[WebhookPayload, ...]
    schema: JSONObject
    _validators: dict[str, jsonschema_rs.Draft7Validator] = field(default_factory=dict)

    @property
    def definitions(self) -> tuple[str, ...]:
        """Names of the definitions that describe a whole payload (``issues$opened``), not a part of one."""
        return tuple(name for name in self.schema["definitions"] if "$" in name)

    def conforms(self, definition: str, body: JSONObject) -> bool:
        """Return the published schema's own verdict, by the full validator alone; formats only annotate."""
        if definition not in self._validators:
            document = {**self.schema, "oneOf": [{"$ref": f"#/definitions/{definition}"}]}
            self._validators[definition] = jsonschema_rs.Draft7Validator(document, validate_formats=False)
        return self._validators[definition].is_valid(body)


def fetch(folder: Path) -> Webhooks | None:
    """The packages, from ``folder`` if they are there, else by npm; None where npm is missing or cannot fetch."""
    try:
        examples = _read_member(folder, "webhooks-examples", "package/api.github.com/index.json")
        schema = _read_member(folder, "webhooks-schemas", "package/schema.json")
    except (OSError, subprocess.SubprocessError):
        return None
    return Webhooks(payloads=tuple(_list_payloads(examples, schema)), schema=schema)


def _read_member(folder: Path, package: str, member: str) -> JSON:
    archive = folder / f"octokit-{package}-{VERSION}.tgz"
    if not archive.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "pack", "--silent", f"@octokit/{package}@{VERSION}"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_FETCH_SECONDS)  # noqa: S603
    with tarfile.open(archive) as tar:
        file = tar.extractfile(member)
        assert file is not None
        return parse_json(file.read())


def _list_payloads(examples: list[JSONObject], schema: JSONObject) -> Iterator[WebhookPayload]:
    for entry in examples:
        for body in entry["examples"]:
            # Of some events the schema has one definition for all actions.
            names = (f"{entry['name']}${body.get('action')}", f"{entry['name']}$event")
            definition = next((name for name in names if name in schema["definitions"]), None)
            if definition is not None:
                yield WebhookPayload(event=entry["name"], definition=definition, body=body)


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
    return {
        "name": _format_title(name),
        "protocol": "HTTP",
        "protocoloptions": {
            "method": "POST",
            "headers": [
                {"name": "X-GitHub-Event", "value": name.split("$")[0], "required": True},
                {"name": "X-GitHub-Delivery", "value": "{delivery}", "required": True},
            ],
        },
        "dataschemaformat": FORMAT,
        "dataschemauri": f"{_SCHEMAS}#/definitions/{name}",
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


def sound_templates(webhooks: Webhooks, *, cloudevents: bool) -> list[TrafficTemplate]:
    """Templates of all real payloads: HTTP deliveries as GitHub sends them, or ``cloudevents`` over HTTP.

    A payload that does not meet its published definition (some are older than it) carries ``schema_violation``.
    """
    return [_build_template(webhooks, payload, payload.body, None, cloudevents) for payload in webhooks.payloads]


def faulty_templates(webhooks: Webhooks, *, cloudevents: bool) -> list[TrafficTemplate]:
    """Templates of conforming payloads with one fault each; only CloudEvents have a source."""
    faults = [fault for fault in SeededFault if cloudevents or fault is not SeededFault.BAD_SOURCE]
    return [
        _build_template(webhooks, payload, body, fault, cloudevents)
        for payload in webhooks.payloads
        if webhooks.conforms(payload.definition, payload.body)
        for fault in faults
        if (body := _spoil(webhooks, payload, fault)) is not None
    ]


def _spoil(webhooks: Webhooks, payload: WebhookPayload, fault: SeededFault) -> JSONObject | None:
    """Return the payload with a fault of its content, None if its schema allows all of that kind."""
    bodies = spoil(payload.body, fault)
    if REASONS[fault] != "schema_violation":
        return next(bodies)
    return next((body for body in bodies if not webhooks.conforms(payload.definition, body)), None)


def _build_template(
    webhooks: Webhooks, payload: WebhookPayload, body: JSONObject, fault: SeededFault | None, cloudevents: bool
) -> TrafficTemplate:
    headers = {"Content-Type": "application/json", "X-GitHub-Event": payload.event, "X-GitHub-Delivery": TOKEN}
    group, message = HTTP_GROUP, message_id(payload.definition)
    if cloudevents:
        group, message = CLOUDEVENTS_GROUP, cloudevent_type(payload.definition)
        sender = body.get("sender")
        account = quote(sender["login"]) if isinstance(sender, dict) else "github"
        headers |= {"ce-specversion": "1.0", "ce-id": TOKEN, "ce-type": message}
        headers["ce-source"] = f"https://github.com/{account}"
    if fault is SeededFault.UNKNOWN_EVENT:
        headers["ce-type" if cloudevents else "X-GitHub-Event"] = "unheard.of"
    if fault is SeededFault.BAD_SOURCE:
        headers["ce-source"] = "https://impostor.example/x"
    text = cut(dump_json(body), fault).decode("utf-8", "ignore")
    request = {"method": "POST", "path": "/webhooks", "headers": headers, "body": text}
    reason = "" if webhooks.conforms(payload.definition, body) else "schema_violation"
    if fault is not None:
        # Requests that are told apart by a header have no type that could be unknown.
        is_request = fault is SeededFault.UNKNOWN_EVENT and not cloudevents
        reason = "no_match" if is_request else REASONS[fault]
    return TrafficTemplate(
        line=dump_json(request),
        definition=f"/messagegroups/{group}/messages/{message}",
        reason=reason,
        fault=fault,
    )
