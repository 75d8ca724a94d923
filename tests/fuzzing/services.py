"""Requests to what lies beside the entities: subscriptions, reports, access, audit, events, health."""

from __future__ import annotations

from random import Random
from typing import Any

import yaml
from tests.fuzzing.drafting import CATALOGS, DRAFT, SINK, Draft, json_body, method, pick
from tests.fuzzing.hostile import SECRET, segment, text


def subscriptions(random: Random) -> Draft:
    value: dict[str, Any]
    mount = random.choice(("", "", "", DRAFT, *CATALOGS))
    path = random.choice(
        (
            "/subscriptions",
            "/subscriptions",
            f"/subscriptions/{pick(random, '1', '2', 's1', 'abc')}",
            "/subscriptions/1/consent",
        )
    )
    draft = Draft(method=method(random, "POST", "POST", "PUT", "DELETE"), path=mount + path)
    if draft.method in ("POST", "PUT"):
        value = {
            "source": random.choice((f"http://x.example{mount}", "/", "urn:x")),
            "types": ["io.xregistry.resource.created", "*"],
            "sink": random.choice(
                (SINK, SINK, "file:out", "kafka://127.0.0.1:9/t", "mqtt://10.0.0.1/x", "http://nowhere.invalid/")
            ),
            "protocol": random.choice(("HTTP", "HTTP", "KAFKA", "MQTT5", "NATS", "AMQP", "x")),
            "filters": [
                random.choice(
                    (
                        {"prefix": {"subject": "/schemagroups/g1"}},
                        {"sql": "type LIKE '%created' AND subject = 'a'"},
                        {"all": [{"not": {"exact": {"type": "a"}}}]},
                        {"any": []},
                        {"sql": "((((1" + "+1" * 300},
                    )
                )
            ],
            "sinkcredential": {
                "credentialtype": random.choice(("PLAIN", "ACCESSTOKEN", "REFRESHTOKEN")),
                "identifier": "me",
                "secret": SECRET,
                "accesstoken": SECRET,
                "refreshtoken": SECRET,
            },
            "protocolsettings": {"headers": {"X-A": SECRET}, "method": "POST", "topicname": "t", "qos": 1},
            "config": {"a": 1},
        }
        names = [*random.sample(list(value), random.randrange(2, len(value))), "sink", "protocol"]
        draft.body = json_body(random, {name: value[name] for name in names})
        draft.headers.append(("Content-Type", "application/json"))
    elif path.endswith("consent"):
        draft.query.append((random.choice(("key", "token")), text(random)))
    return draft


def reports(random: Random) -> Draft:
    path = random.choice(
        (
            *("/pipelines", "/pipelines/p1", "/pipelines/p1/reports", "/pipelines/p1/reports"),
            *(f"/pipelines/{segment(random)}", "/pipelines/p1/reports/1", f"/pipelines/p1/reports/{segment(random)}"),
        )
    )
    draft = Draft(method=method(random, "POST", "POST", "POST", "DELETE"), path=path)
    if random.random() < 0.2:
        draft.query += [
            (random.choice(("limit", "cursor", "after", "before")), random.choice(("1", "0", text(random))))
        ]
    if draft.method == "POST":
        value = {
            "batch": random.choice(("b1", "b2", str(random.random()))),
            "fingerprint": "f",
            "finished": "2026-01-02T03:04:05Z",
            "read": 3,
            "landed": 2,
            "dead_lettered": 1,
            "dropped": 0,
            "seconds": 0.5,
            "events_per_second": 6,
            "bytes": {"read": 90, "written": 1000},
            "lag": {"oldest": "2026-01-02T03:00:00Z", "newest": "2026-01-02T03:04:00Z", "seconds": 5.0},
            "by_message": {
                "/messagegroups/g/messages/m": {
                    "landed": 2,
                    "rejected": 1,
                    "rejected_share": 0.333333,
                    "reasons": {"no_match": 1},
                }
            },
            "reasons": {"no_match": 1},
            "violations": [
                {
                    "definition": "/messagegroups/g/messages/m",
                    "path": "/a",
                    "rule": "type",
                    "messages": 1,
                    "example": {"source": "f", "position": 0, "message": "no", "excerpt": "{}"},
                }
            ],
        }
        draft.body = json_body(random, value)
    return draft


def access(random: Random) -> Draft:
    value: dict[str, Any]
    path = random.choice(
        (
            *("/access", "/access", "/access/explain", "/access/self", "/access/tokens", "/access/tokens"),
            *(f"/access/tokens/{segment(random)}", "/audit", "/audit", "/.well-known/oauth-protected-resource"),
        )
    )
    draft = Draft(method=method(random, "PUT", "POST", "DELETE"), path=path)
    parameters = yaml.safe_load("""
    {who: "subject:root,group:x", what: read, xid: /schemagroups/g1, "on": /, limit: "3", cursor: x, subject: root,
      since: "2026-01-01T00:00:00Z", until: x, outcome: refused, action: create, api: xregistry, before: "9",
      after: "1"}
    """)
    draft.query = [
        (name, parameters[name] if random.random() < 0.8 else text(random))
        for name in random.sample(list(parameters), random.randrange(4))
    ]
    if path == "/access/explain" and random.random() < 0.7:
        draft.query = [(name, parameters[name]) for name in ("who", "what", "xid")]
    if draft.method in ("PUT", "POST"):
        if "tokens" in path:
            value = {
                "subject": "kim",
                "groups": ["a"],
                "scopes": ["read"],
                "days": 1,
                "expires": "2026-12-31T00:00:00Z",
                "note": SECRET[:4],
            }
            value = {name: value[name] for name in random.sample(list(value), random.randrange(1, 5))}
        else:
            # It puts none in force: that is done between the rounds.
            value = {
                "rules": [
                    {"who": ["subject:a"], "role": "nobody"},
                    {"who": ["*"], "allow": ["read", "fly"], "on": ["/*/*", "schemagroups"]},
                ]
            }
        draft.body = json_body(random, value)
    return draft


def beside(random: Random) -> Draft:
    path = random.choice(
        (
            *("/events", "/events", "/metrics", "/health/live", "/health/ready", "/notifications", "/notifications"),
            *("/", "*", f"/{segment(random)}", f"/{segment(random)}/{segment(random)}"),
        )
    )
    draft = Draft(method=method(random, "POST"), path=path)
    if path == "/events":
        draft.query = [
            (name, value if random.random() < 0.7 else text(random))
            for name, value in random.sample(
                (
                    ("after", "1"),
                    ("limit", "3"),
                    ("filter", "type LIKE '%a%'"),
                    ("filter", '{"prefix":{"subject":"/"}}'),
                    ("source", DRAFT),
                    ("from", "now"),
                ),
                random.randrange(4),
            )
        ]
        if random.random() < 0.1:
            draft.headers += [
                ("Accept", "text/event-stream"),
                ("Last-Event-ID", random.choice(("0", "1", "x", "9" * 30))),
            ]
    elif draft.method == "POST":
        event = yaml.safe_load("""
        {specversion: "1.0", id: "1", source: "http://x.example/", type: io.xregistry.resource.created,
          subject: /schemagroups/g1, time: "2026-01-01T00:00:00Z", data: {xid: /schemagroups/g1}}
        """)
        draft.body = json_body(random, random.choice((event, [event, event])))
        draft.headers.append(
            (
                "Content-Type",
                random.choice(
                    ("application/cloudevents+json", "application/cloudevents-batch+json", "application/json")
                ),
            )
        )
    return draft
