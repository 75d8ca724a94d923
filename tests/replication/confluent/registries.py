"""A registry with all that Confluent's API can put into it, and what two of them are compared by."""

import json
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final
from urllib.parse import quote

from tests.replication.servers import HTTP, Server

from signalbook.client.confluent import connect
from signalbook.replication.confluent.copying import ConfluentCopy
from signalbook.replication.replicating import StateStore
from signalbook.replication.report import CopyReport, SubjectKind

MOUNT: Final = "/compat/confluent"
PROTO: Final = 'syntax = "proto3";\npackage shop;\nmessage Money { int64 cents = 1; }\n'
PAID: Final = 'syntax = "proto3";\npackage shop;\nimport "money.proto";\nmessage Paid { Money price = 1; }\n'


def record(name: str, *fields: str) -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": field, "type": "int"} for field in fields]})


def ask(url: str, method: str, path: str, body: Any = None) -> Any:
    """The answer to what succeeds."""
    response = HTTP.request(method, url + path, json=body)
    assert response.is_success, (method, path, response.text)
    return response.json()


def register(url: str, subject: str, schema: str, **more: Any) -> int:
    return int(ask(url, "POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema, **more})["id"])


def fill(url: str) -> None:
    """Schemas of all types with references, deleted ones, metadata and rules, contexts, config and modes."""
    ask(url, "PUT", "/config", {"compatibility": "FULL"})
    register(url, "orders/value", record("Order", "id"))
    ask(url, "PUT", "/config/orders%2Fvalue", {"compatibility": "NONE"})
    register(url, "orders/value", record("Order", "id", "more"), metadata={"properties": {"owner": "shop"}})
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "true"}]}
    register(url, "orders/value", record("Order", "id", "most"), ruleSet=rules)
    register(url, "money", PROTO, schemaType="PROTOBUF")
    money = [{"name": "money.proto", "subject": "money", "version": 1}]
    register(url, "a-paid", PAID, schemaType="PROTOBUF", references=money)
    register(url, "json", '{"type": "object", "additionalProperties": false}', schemaType="JSON")
    register(url, "same", record("Order", "id"))
    # Gone: a version in between, a whole subject with what it referred to, and one for good.
    ask(url, "DELETE", "/subjects/orders%2Fvalue/versions/2")
    register(url, "gone", record("Gone", "a"))
    using = json.dumps({"type": "record", "name": "Using", "fields": [{"name": "gone", "type": "Gone"}]})
    register(url, "a-using", using, references=[{"name": "Gone", "subject": "gone", "version": 1}])
    for subject in ("a-using", "gone", "json"):
        ask(url, "DELETE", f"/subjects/{subject}")
    ask(url, "DELETE", "/subjects/json?permanent=true")
    register(url, ":.dev:orders/value", record("Dev", "id"))
    register(url, ":.dev:late", record("Late", "id"))
    ask(url, "PUT", "/config/:.dev:", {"compatibility": "FORWARD", "normalize": True})
    ask(url, "PUT", "/config/same", {"alias": "money"})
    ask(url, "PUT", "/mode/money", {"mode": "READONLY"})
    ask(url, "PUT", "/mode/:.dev:", {"mode": "READONLY"})


def content(url: str) -> dict[str, Any]:
    """Return all that there is, without what each registry makes by itself: guids, and the times of registration."""
    listed = ask(url, "GET", "/schemas?subjectPrefix=:*:&deleted=true&limit=100000")
    versions = {
        (entry["subject"], entry["version"]): {
            name: entry[name] for name in entry.keys() - {"guid", "ts", "subject", "version"}
        }
        for entry in listed
    }
    scopes = [
        "",
        *(f":{entry}:" for entry in ask(url, "GET", "/contexts")),
        *sorted({subject for subject, _ in versions}),
    ]
    return {
        "versions": versions,
        "config": {scope: _setting(url, "config", scope) for scope in scopes},
        "mode": {scope: _setting(url, "mode", scope) for scope in scopes},
    }


def _setting(url: str, kind: str, scope: str) -> Any:
    response = HTTP.get(f"{url}/{kind}/{quote(scope, safe='')}" if scope else f"{url}/{kind}")
    return None if response.status_code == 404 else response.json()


def copy(source: str, target: str, state: StateStore | None = None) -> CopyReport:
    report = CopyReport(kinds=SubjectKind)
    with (
        closing(connect(f"confluent+{source}", timeout=300)) as ours,
        closing(connect(target, timeout=300)) as theirs,
    ):
        ConfluentCopy(ours, theirs, report, state).everything()
    return report


def mounts(servers: Sequence[Server]) -> list[str]:
    return [server.url + MOUNT for server in servers]
