"""Requests to what lies beside the entities: subscriptions, reports, access, audit, events, health."""

from random import Random
from typing import Any, Final

import yaml
from tests.api.test_pipelines import report
from tests.fuzzing.drafting import CATALOGS, DRAFT, SINK, Draft, choose_members, json_body, method, pick
from tests.fuzzing.hostile import SECRET, segment, text

_SUBSCRIPTION: Final = yaml.safe_load(f"""
types: [io.xregistry.resource.created, "*"]
protocolsettings: {{headers: {{X-A: {SECRET}}}, method: POST, topicname: t, qos: 1}}
config: {{a: 1}}
""")
_SINKS: Final = (SINK, SINK, "file:out", "kafka://127.0.0.1:9/t", "mqtt://10.0.0.1/x", "http://nowhere.invalid/")
_FILTERS: Final[tuple[dict[str, Any], ...]] = (
    {"prefix": {"subject": "/schemagroups/g1"}},
    {"sql": "type LIKE '%created' AND subject = 'a'"},
    {"all": [{"not": {"exact": {"type": "a"}}}]},
    {"any": []},
    {"sql": "((((1" + "+1" * 300},
)


def subscriptions(random: Random) -> Draft:
    mount = random.choice(("", "", "", DRAFT, *CATALOGS))
    one = f"/subscriptions/{pick(random, '1', '2', 's1', 'abc')}"
    path = random.choice(("/subscriptions", "/subscriptions", one, "/subscriptions/1/consent"))
    draft = Draft(method=method(random, "POST", "POST", "PUT", "DELETE"), path=mount + path)
    if draft.method in ("POST", "PUT"):
        kind = random.choice(("PLAIN", "ACCESSTOKEN", "REFRESHTOKEN"))
        credential = dict.fromkeys(("secret", "accesstoken", "refreshtoken"), SECRET)
        value = {
            **_SUBSCRIPTION,
            "source": random.choice((f"http://x.example{mount}", "/", "urn:x")),
            "filters": [random.choice(_FILTERS)],
            "sinkcredential": {"credentialtype": kind, "identifier": "me", **credential},
        }
        value = choose_members(random, value, range(1, len(value)))
        value["sink"] = random.choice(_SINKS)
        value["protocol"] = random.choice(("HTTP", "HTTP", "KAFKA", "MQTT5", "NATS", "AMQP", "x"))
        draft.body = json_body(random, value)
        draft.headers.append(("Content-Type", "application/json"))
    elif path.endswith("consent"):
        draft.query.append((random.choice(("key", "token")), text(random)))
    return draft


def reports(random: Random) -> Draft:
    paths = ["/pipelines", "/pipelines/p1", "/pipelines/p1/reports", "/pipelines/p1/reports"]
    paths += [f"/pipelines/{segment(random)}", "/pipelines/p1/reports/1", f"/pipelines/p1/reports/{segment(random)}"]
    draft = Draft(method=method(random, "POST", "POST", "POST", "DELETE"), path=random.choice(paths))
    if random.random() < 0.2:
        name = random.choice(("limit", "cursor", "after", "before"))
        draft.query.append((name, random.choice(("1", "0", text(random)))))
    if draft.method == "POST":
        draft.body = json_body(random, report(random.choice(("b1", "b2", str(random.random())))))
    return draft


_PARAMETERS: Final = yaml.safe_load("""
{who: "subject:root,group:x", what: read, xid: /schemagroups/g1, "on": /, limit: "3", cursor: x, subject: root,
  since: "2026-01-01T00:00:00Z", until: x, outcome: refused, action: create, api: xregistry, before: "9", after: "1"}
""")
_TOKEN: Final = yaml.safe_load(f"""
{{subject: kim, groups: [a], scopes: [read], days: 1, expires: "2026-12-31T00:00:00Z", note: {SECRET[:4]}}}
""")
# It puts no policy in force: that is done between the rounds.
_POLICY: Final = yaml.safe_load("""
rules:
- {who: ["subject:a"], role: nobody}
- {who: ["*"], allow: [read, fly], "on": ["/*/*", schemagroups]}
""")


def access(random: Random) -> Draft:
    paths = ["/access", "/access", "/access/explain", "/access/self", "/access/tokens", "/access/tokens"]
    paths += [f"/access/tokens/{segment(random)}", "/audit", "/audit", "/.well-known/oauth-protected-resource"]
    path = random.choice(paths)
    draft = Draft(method=method(random, "PUT", "POST", "DELETE"), path=path)
    chosen = choose_members(random, _PARAMETERS, range(4))
    draft.query = [(name, value if random.random() < 0.8 else text(random)) for name, value in chosen.items()]
    if path == "/access/explain" and random.random() < 0.7:
        draft.query = [(name, _PARAMETERS[name]) for name in ("who", "what", "xid")]
    if draft.method in ("PUT", "POST"):
        value = choose_members(random, _TOKEN, range(1, 5)) if "tokens" in path else _POLICY
        draft.body = json_body(random, value)
    return draft


_EVENT: Final = yaml.safe_load("""
{specversion: "1.0", id: "1", source: "http://x.example/", type: io.xregistry.resource.created,
  subject: /schemagroups/g1, time: "2026-01-01T00:00:00Z", data: {xid: /schemagroups/g1}}
""")
_FEED: Final = (
    *(("after", "1"), ("limit", "3"), ("source", DRAFT), ("from", "now")),
    *(("filter", "type LIKE '%a%'"), ("filter", '{"prefix":{"subject":"/"}}')),
)
_EVENT_TYPES: Final = ("application/cloudevents+json", "application/cloudevents-batch+json", "application/json")


def beside(random: Random) -> Draft:
    paths = ["/events", "/events", "/metrics", "/health/live", "/health/ready", "/notifications", "/notifications"]
    paths += ["/", "*", f"/{segment(random)}", f"/{segment(random)}/{segment(random)}"]
    path = random.choice(paths)
    draft = Draft(method=method(random, "POST"), path=path)
    if path == "/events":
        chosen = random.sample(_FEED, random.randrange(4))
        draft.query = [(name, value if random.random() < 0.7 else text(random)) for name, value in chosen]
        if random.random() < 0.1:
            last = random.choice(("0", "1", "x", "9" * 30))
            draft.headers += [("Accept", "text/event-stream"), ("Last-Event-ID", last)]
    elif draft.method == "POST":
        draft.body = json_body(random, random.choice((_EVENT, [_EVENT, _EVENT])))
        draft.headers.append(("Content-Type", random.choice(_EVENT_TYPES)))
    return draft
