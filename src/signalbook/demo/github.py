"""GitHub's webhooks as a catalogue, and real deliveries of them.

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
from pathlib import Path
from typing import Final

from signalbook.errors import SignalbookError
from signalbook.values import JSON, JSONObject, parse_json

VERSION: Final = "7.6.1"
HTTP_GROUP: Final = "github.webhooks"
CLOUDEVENTS_GROUP: Final = "github.cloudevents"
SCHEMAS: Final = f"/schemagroups/{HTTP_GROUP}/schemas/webhooks"
FORMAT: Final = "JsonSchema/draft-07"

_EXAMPLES: Final = ("@octokit/webhooks-examples", "package/api.github.com/index.json")
_DEFINITIONS: Final = ("@octokit/webhooks-schemas", "package/schema.json")
_FETCH_SECONDS: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """One real payload: the ``X-GitHub-Event`` name, its action ("" where the event has none) and the JSON."""

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

    payloads: tuple[Payload, ...]
    schema: JSONObject

    @property
    def definitions(self) -> tuple[str, ...]:
        """Names of the definitions that describe a whole payload (``issues$opened``), not a part of one."""
        return tuple(name for name in self.schema["definitions"] if "$" in name)


def fetch(folder: Path) -> Webhooks | None:
    """The packages, from ``folder`` if they are there, else by npm; None where npm is missing or cannot fetch."""
    npm = shutil.which("npm")
    try:
        examples, schema = (_member(folder, package, member, npm) for package, member in (_EXAMPLES, _DEFINITIONS))
    except _NotFetched:
        return None
    return Webhooks(payloads=tuple(_payloads(examples, schema)), schema=schema)


class _NotFetched(SignalbookError):
    """npm is not there, or did not bring the package."""


def _member(folder: Path, package: str, member: str, npm: str | None) -> JSON:
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


def _payloads(examples: list[JSONObject], schema: JSONObject) -> Iterator[Payload]:
    for entry in examples:
        for body in entry["examples"]:
            action = body.get("action", "")
            payload = Payload(event=entry["name"], action=action, body=body)
            if payload.definition not in schema["definitions"]:
                payload = Payload(event=entry["name"], action="", body=body)
            if payload.definition in schema["definitions"]:
                yield payload


def catalogue(webhooks: Webhooks) -> JSONObject:
    """A message per event and action, bound to HTTP by the ``X-GitHub-Event`` header, each with a CloudEvents variant.

    The variant names the HTTP message as its ``basemessage``: it inherits the binding and the payload's schema and
    adds the CloudEvents envelope, as a gateway does that puts ``ce-`` headers on each delivery.
    """
    names = webhooks.definitions
    return {
        "messagegroups": {
            HTTP_GROUP: {
                "name": "GitHub webhooks",
                "description": "Deliveries as GitHub sends them: HTTP POST, told apart by header and action.",
                "protocol": "HTTP",
                "messages": {message_id(name): _http(name) for name in names},
            },
            CLOUDEVENTS_GROUP: {
                "name": "GitHub webhooks as CloudEvents",
                "description": "The same deliveries with a CloudEvents envelope around them.",
                "envelope": "CloudEvents/1.0",
                "messages": {cloudevent_type(name): _cloudevent(name) for name in names},
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


def _http(name: str) -> JSONObject:
    event = name.split("$")[0]
    return {
        "name": message_id(name).replace(".", " ").replace("_", " "),
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


def _cloudevent(name: str) -> JSONObject:
    return {
        "name": message_id(name).replace(".", " ").replace("_", " "),
        "basemessage": f"/messagegroups/{HTTP_GROUP}/messages/{message_id(name)}",
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {
            "type": {"value": cloudevent_type(name)},
            "source": {"type": "uritemplate", "value": "https://github.com/{account}"},
            "id": {"type": "uritemplate", "value": "{delivery}"},
        },
    }
