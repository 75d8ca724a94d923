"""The GitHub catalogue and deliveries, from a small pair of packages of our own and from the real ones."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from signalbook.demo import github
from signalbook.demo.traffic import SeededFault
from signalbook.messages import Accepted, Policy, Rejected
from signalbook.messages.bindings.http import request
from signalbook.pipeline.job.snapshot import Snapshot

SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema",
    "definitions": {
        "user": {"type": "object", "required": ["login"], "properties": {"login": {"type": "string"}}},
        "issues$opened": {
            "type": "object",
            "required": ["action", "sender"],
            "properties": {"action": {"enum": ["opened"]}, "sender": {"$ref": "#/definitions/user"}},
        },
        "push$event": {
            "type": "object",
            "required": ["ref"],
            "properties": {"ref": {"type": "string"}},
            "additionalProperties": False,
        },
    },
    "oneOf": [{"$ref": "#/definitions/user"}],
}
EXAMPLES: list[dict[str, Any]] = [
    {"name": "issues", "examples": [{"action": "opened", "sender": {"login": "me[bot]"}}]},
    {"name": "push", "examples": [{"ref": "main"}, {"ref": 1}]},
    {"name": "unpublished", "examples": [{"x": 1}]},
]


def pack(folder: Path, name: str, member: str, content: object) -> None:
    data = json.dumps(content).encode()
    with tarfile.open(folder / f"octokit-{name}-{github.VERSION}.tgz", "w:gz") as tar:
        info = tarfile.TarInfo(member)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))


@pytest.fixture
def webhooks(tmp_path: Path) -> github.Webhooks:
    pack(tmp_path, "webhooks-examples", "package/api.github.com/index.json", EXAMPLES)
    pack(tmp_path, "webhooks-schemas", "package/schema.json", SCHEMA)
    fetched = github.fetch(tmp_path)
    assert fetched is not None
    return fetched


def test_nothing_is_fetched_without_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert github.fetch(tmp_path / "packages") is None


def test_a_message_per_event_and_action_with_a_cloudevents_variant(webhooks: github.Webhooks) -> None:
    groups = github.webhook_definitions(webhooks)["messagegroups"]
    assert list(groups["github.webhooks"]["messages"]) == ["issues.opened", "push"]
    variant = groups["github.cloudevents"]["messages"]["com.github.issues.opened"]
    assert variant["basemessage"] == "/messagegroups/github.webhooks/messages/issues.opened"
    assert variant["envelopemetadata"]["type"] == {"value": "com.github.issues.opened"}


def test_invalid_payloads_are_known_in_advance(webhooks: github.Webhooks) -> None:
    for cloudevents in (False, True):
        templates = github.sound_templates(webhooks, cloudevents=cloudevents)
        assert [template.reason for template in templates] == ["", "", "schema_violation"]


def test_every_kind_of_fault_is_seeded(webhooks: github.Webhooks) -> None:
    http, cloudevents = (github.faulty_templates(webhooks, cloudevents=envelope) for envelope in (False, True))
    assert {template.fault for template in http} == set(SeededFault) - {SeededFault.BAD_SOURCE}
    assert {template.fault for template in cloudevents} == set(SeededFault)
    wrong = next(t for t in http if t.fault is SeededFault.WRONG_TYPE)
    assert json.loads(json.loads(wrong.line)["body"])["sender"] == -0.5


@pytest.mark.parametrize("cloudevents", [False, True])
def test_templates_end_as_they_say(webhooks: github.Webhooks, cloudevents: bool) -> None:
    group = github.CLOUDEVENTS_GROUP if cloudevents else github.HTTP_GROUP
    documents = [("github", github.webhook_definitions(webhooks))]
    contract = Snapshot.of_documents(documents, [f"/messagegroups/{group}"]).compile(Policy())
    make_templates = (github.sound_templates, github.faulty_templates)
    for template in (one for make in make_templates for one in make(webhooks, cloudevents=cloudevents)):
        delivery = json.loads(template.line)
        headers, body = delivery["headers"].items(), delivery["body"].encode()
        (outcome,) = contract.process(request(delivery["method"], delivery["path"], tuple(headers), body))
        if isinstance(outcome, Rejected):
            assert outcome.reason == template.reason, outcome.violations
        else:
            assert isinstance(outcome, Accepted)
            assert (outcome.definition.xid, template.reason) == (template.definition, "")


def test_a_source_is_a_legal_uri(webhooks: github.Webhooks) -> None:
    cloudevents = github.sound_templates(webhooks, cloudevents=True)
    assert json.loads(cloudevents[0].line)["headers"]["ce-source"] == "https://github.com/me%5Bbot%5D"
