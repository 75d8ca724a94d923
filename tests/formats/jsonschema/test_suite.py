"""The official test suite of JSON Schema: all drafts, as the registry checks schemas and the pipeline payloads."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.formats.jsonschema.cases import is_accepted

from signalbook.formats.compatibility import SchemaText
from signalbook.formats.jsonschema import FORMAT
from signalbook.messages import Accepted, Contract, Message, Policy, SchemaDocument
from signalbook.values import JSON

SUITE = Path(__file__).parent.parent.parent / "data" / "json-schema-test-suite"
DRAFTS = yaml.safe_load("""
{draft4: JsonSchema/draft-04, draft6: JsonSchema/draft-06, draft7: JsonSchema/draft-07,
  draft2019-09: JsonSchema/draft/2019-09, draft2020-12: JsonSchema/draft/2020-12}
""")
# A meta-schema that turns keywords off is not read: a document is in one of the drafts.
UNSUPPORTED = "schema that uses custom metaschema with with no validation vocabulary"
FILES = [(draft, name) for draft in DRAFTS for name in json.loads((SUITE / f"{draft}.json").read_bytes())]


@cache
def cases_of(draft: str) -> dict[str, list[dict[str, Any]]]:
    cases: dict[str, list[dict[str, Any]]] = json.loads((SUITE / f"{draft}.json").read_bytes())
    return cases


@cache
def remotes() -> dict[str, bytes]:
    return {
        uri: json.dumps(document).encode()
        for uri, document in json.loads((SUITE / "remotes.json").read_bytes()).items()
    }


@pytest.mark.parametrize(("draft", "name"), FILES)
def test_the_suite(draft: str, name: str) -> None:
    failed: list[str] = []
    for case in cases_of(draft)[name]:
        document = json.dumps(case["schema"]).encode()
        text = SchemaText(document=document, format=DRAFTS[draft], resolve=remotes().get)
        findings = FORMAT.check_whole(text)
        assert not [finding for finding in findings if finding.severity == "error"], case["description"]
        schema = FORMAT.parse(document, DRAFTS[draft], resolve=remotes().get)
        for test in case["tests"]:
            outcomes = {not schema.validate(test["data"]), is_accepted(schema, json.dumps(test["data"]).encode())}
            if outcomes != {test["valid"]} and case["description"] != UNSUPPORTED:
                failed.append(f"{case['description']}: {test['data']}")
    assert not failed


@pytest.mark.parametrize(("draft", "name"), [(d, n) for d, n in FILES if "ref" in n.lower() or n in ("id", "anchor")])
def test_the_suite_in_a_contract(draft: str, name: str) -> None:
    """References are followed for messages as for schemas alone."""
    for case in cases_of(draft)[name]:
        definition: JSON = {"dataschemaxid": "/schemagroups/g/schemas/s", "dataschemaformat": DRAFTS[draft]}
        documents = {"/schemagroups/g/schemas/s": json.dumps(case["schema"]).encode(), **remotes()}

        def lookup(uri: str, documents: dict[str, bytes] = documents) -> SchemaDocument | None:
            content = documents.get(uri)
            return None if content is None else SchemaDocument(content=content, format=DRAFTS[draft], xid=uri)

        message = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "t"}}, **definition}
        contract = Contract.compile({"/messagegroups/g/messages/m": message}, lookup, policy=Policy())
        for test in case["tests"]:
            event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": test["data"]}
            body = json.dumps(event).encode()
            (outcome,) = contract.process(Message(content_type="application/cloudevents+json", body=body))
            assert isinstance(outcome, Accepted) is test["valid"], f"{case['description']}: {test['data']}: {outcome}"
