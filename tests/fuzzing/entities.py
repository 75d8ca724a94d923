"""Requests to the xRegistry API, its check of writes, and the drafts' APIs on the same entities."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

import yaml
from tests.fuzzing import hostile
from tests.fuzzing.drafting import (
    CATALOGS,
    DRAFT,
    Draft,
    choose_members,
    group_id,
    json_body,
    many,
    method,
    resource_id,
    version_id,
)
from tests.fuzzing.hostile import FORMATS, dumped, encoded, segment, text

_FLAGS: Final[dict[str, list[str]]] = yaml.safe_load("""
inline: ["*", schemagroups, schemagroups.schemas.versions, schema, model, capabilities, versions, "messages.*"]
filter: [name=a, "schemagroups.schemas.name=*", labels.a=b, "schemagroupid=g1,name!=x", epoch>1, versionid<2,
  name~=a, not=, "schemas.versions.format=Avro*"]
sort: [name, epoch=desc, schemagroupid=asc, labels.a, createdat]
limit: ["1", "0", "2", "10000", "-1", x]
cursor: ["", eyJ9, W10, AAAA]
doc: ["", "1"]
collections: [""]
binary: [""]
epoch: ["1", "2", "99", x]
specversion: [1.0-rc4, "2.0"]
ignore: ["*", epoch, readonly, "id,epoch", capabilities]
setdefaultversionid: ["null", request, "1", "2"]
compatibility: [backward, full_transitive, none, x]
ui: [""]
nosuchflag: ["1"]
""")
_COMMON: Final = yaml.safe_load("""
name: a
description: b
documentation: https://e.example/d
icon: https://e.example/i.png
labels: {a: b, c: ""}
createdat: "2026-01-02T03:04:05Z"
modifiedat: "2026-01-02T03:04:05+01:00"
self: http://x.example/
xid: /schemagroups/g1
deprecated: {effective: "2026-01-01T00:00:00Z", alternative: http://x.example/schemagroups/g1}
""")
_MESSAGE: Final = yaml.safe_load("""
envelope: CloudEvents/1.0
envelopemetadata: {type: {value: a.b}, source: {value: "/{x}", type: uritemplate}, subject: {required: true}}
protocoloptions: {method: POST, headers: [{name: a, value: b}], topic: t, key: "{k}", properties: {a: {value: x}}}
dataschemaformat: JsonSchema/draft-07
dataschemauri: /schemagroups/g1/schemas/s1
dataschemaxid: /schemagroups/g1/schemas/s1
dataschema: {type: object}
datacontenttype: application/json
""")
_ENDPOINT: Final = yaml.safe_load("""
usage: [producer]
channel: c
envelope: CloudEvents/1.0
envelopeoptions: {mode: binary}
protocol: KAFKA
protocoloptions: {endpoints: [{uri: "tcp://127.0.0.1:9"}], options: {topic: t}, authorization: {type: x}}
messagegroups: [/messagegroups/g1]
messages: {s1: {}}
""")
_META: Final = yaml.safe_load("""
epoch: 1
readonly: true
xref: /schemagroups/g2/schemas/s2
defaultversionid: "1"
defaultversionsticky: true
versionmode: manual
labels: {}
""")
_ATTRIBUTE: Final = yaml.safe_load("""
enum: [a, b]
item: {type: string}
ifvalues: {a: {siblingattributes: {y: {type: string}}}}
""")
_DEFINITION: Final = yaml.safe_load("""
id: s1
description: d
format: CloudEvents/1.0
metadata: {attributes: {type: {type: string, value: a.b, required: true}, time: {type: timestamp}}}
schemaUrl: http://127.0.0.1:9/x
schema: {type: object}
authority: http://x.example/
origin: o
""")


def _flags(random: Random) -> list[tuple[str, str]]:
    if random.random() < 0.55:
        return []
    names = random.choices(list(_FLAGS), k=random.choice((1, 1, 2, 3)))
    return [(name, random.choice(_FLAGS[name]) if random.random() < 0.8 else text(random)) for name in names]


def _common(random: Random) -> dict[str, Any]:
    return choose_members(random, {**_COMMON, "epoch": random.choice((1, 2, 99))}, range(5))


def _schema_version(random: Random) -> dict[str, Any]:
    dialect = random.choice(list(FORMATS))
    value, data = hostile.document(random, dialect)
    attributes = {**_common(random), "format": dialect, "contenttype": FORMATS[dialect]}
    if random.random() < 0.4:
        attributes["ancestorid"] = random.choice(("1", "2", "request", "v1.0"))
    if random.random() < 0.9:
        attributes |= {"schema": value} if random.random() < 0.6 else {"schemabase64": encoded(data)}
    else:
        attributes["schemaurl"] = "http://127.0.0.1:9/x"
    return attributes


def _message(random: Random) -> dict[str, Any]:
    attributes = {
        **_common(random),
        **_MESSAGE,
        "protocol": random.choice(("HTTP", "KAFKA", "AMQP/1.0", "MQTT/5.0", "NATS")),
        "basemessage": f"/messagegroups/g1/messages/{random.choice(('s1', 's2', 's3'))}",
    }
    return choose_members(random, attributes, range(1, len(attributes)))


def _endpoint(random: Random) -> dict[str, Any]:
    attributes = {**_common(random), **_ENDPOINT}
    return choose_members(random, attributes, range(1, len(attributes)))


def _entity(random: Random, kind: str) -> Callable[[], dict[str, Any]]:
    make = _schema_version if kind == "schemagroups" else _message
    return lambda: make(random)


def registry(random: Random) -> Draft:
    kind = random.choice(("schemagroups", "schemagroups", "messagegroups", "endpoints"))
    types = "schemas" if kind == "schemagroups" else "messages"
    make = _entity(random, kind)
    ids, versions = ("s1", "s2", "s3"), ("1", "2", "3")

    def group() -> dict[str, Any]:
        return _endpoint(random) if kind == "endpoints" else {**_common(random), types: many(random, make, *ids)}

    level = random.choices(range(9), (2, 2, 5, 3, 8, 3, 2, 4, 1))[0]
    details = random.choice(("", "$details")) if kind == "schemagroups" else ""
    base = f"/{kind}/{group_id(random)}"
    resource_path = f"{base}/{types}/{resource_id(random)}"
    writes: tuple[str, ...] = ("PUT", "PATCH", "POST", "POST", "DELETE")
    match level:
        case 0:
            path, value = "/", {**_common(random), kind: many(random, group, "g1", "g2")}
            if random.random() < 0.5:
                value = {kind: value[kind]}
        case 1:
            path, value = f"/{kind}", many(random, group, "g1", "g2")
        case 2:
            path, value = base, {types: many(random, make, *ids)} if random.random() < 0.3 else group()
        case 3:
            path, value = f"{base}/{types}", many(random, make, *ids)
        case 4:
            path, value = resource_path + details, make()
        case 5:
            path = f"{resource_path}/meta"
            meta = {**_META, "compatibility": random.choice(("backward", "none", "full"))}
            value = choose_members(random, meta, range(1, 4))
        case 6:
            path, value = f"{resource_path}/versions", many(random, make, *versions)
        case 7:
            path, value = f"{resource_path}/versions/{version_id(random)}{details}", make()
        case _:
            path, value = f"{resource_path}/{segment(random)}/{segment(random)}", make()
    draft = Draft(method=method(random, *writes), path=path, query=_flags(random))
    if draft.method == "DELETE" and random.random() < 0.5:
        draft.body = json_body(random, many(random, lambda: {"epoch": random.choice((1, 2, 3))}, "g1", "s1", "1", "2"))
    elif draft.method in ("PUT", "PATCH", "POST") or random.random() < 0.02:
        if level in (4, 7) and kind == "schemagroups" and not details:
            dialect = random.choice(list(FORMATS))
            draft.body = hostile.document(random, dialect)[1]
            draft.headers += [("Content-Type", FORMATS[dialect]), ("xRegistry-format", dialect)]
        else:
            draft.body = json_body(random, value)
    return draft


def configuration(random: Random) -> Draft:
    paths = ["/modelsource", "/modelsource", "/capabilities", "/capabilitiesoffered", "/model", "/export"]
    path = random.choice([*paths, "/openapi.json", "/.xregistry", "/.well-known/xregistry"])
    draft = Draft(method=method(random, "PUT", "PATCH", "POST", "DELETE"), path=path, query=_flags(random))
    if draft.method in ("PUT", "PATCH", "POST"):
        if path == "/capabilities":
            draft.body = dumped(random, _capabilities(random), faults=random.choice((1, 2, 4)))
        else:
            draft.body = json_body(random, _model(random))
    return draft


def _capabilities(random: Random) -> dict[str, Any]:
    # Nothing that would shut the run out: what takes the writes away is broken in another way, too.
    value = {"flags": ["*"], "pagination": True, "ignores": ["*"], "specversions": ["1.0-rc4"]}
    return choose_members(random, {**value, "shortself": random.random() < 0.5}, range(1, 4))


def _model(random: Random) -> dict[str, Any]:
    if random.random() < 0.3:
        return {"$include": random.choice(("http://127.0.0.1:9/m", "file:///etc/passwd", "#/groups", "/modelsource"))}
    kind = random.choice(("string", "any", "integer", "url", "object", "map"))
    attribute = {**_ATTRIBUTE, "type": kind, "required": random.random() < 0.2}
    attribute = choose_members(random, attribute, range(1, 4))
    files = {"singular": "file", "maxversions": random.choice((0, 1, 3)), "attributes": {"x": attribute}}
    dirs = {"plural": "dirs", "singular": "dir", "resources": {"files": {**files, "hasdocument": True}}}
    return {"attributes": {"x1": attribute}, "groups": {"dirs": dirs}}


def check(random: Random) -> Draft:
    draft = random.choice((registry, registry, configuration))(random)
    draft.path = "/check" + draft.path
    if draft.method not in ("PUT", "PATCH", "POST", "DELETE") and random.random() < 0.8:
        draft.method, draft.body = "PUT", json_body(random, _schema_version(random))
    return draft


def draft_schemas(random: Random) -> Draft:
    group, name = group_id(random), resource_id(random)
    schema = f"/schemagroups/{group}/schemas/{name}"
    paths = ["/schemagroups", f"/schemagroups/{group}", f"/schemagroups/{group}/schemas", schema, schema]
    paths += [f"{schema}/versions", f"{schema}/versions/{version_id(random)}", "/schema", f"/{segment(random)}"]
    path = random.choice(paths)
    draft = Draft(method=method(random, "PUT", "POST", "POST", "DELETE"), path=DRAFT + path)
    dialect = random.choice(list(FORMATS))
    if draft.method == "POST":
        draft.body = hostile.document(random, dialect)[1]
        format_name = random.choice(("Avro", "JsonSchema/draft-07", "x", dialect))
        draft.headers.append(("Content-Type", f"{FORMATS[dialect]}; format={format_name}"))
        draft.query.append(("format", dialect))
    elif draft.method == "PUT":
        value = {"id": "g1", "format": "Avro", "description": "d", "groupproperties": {"a": "b"}}
        draft.body = json_body(random, value)
    if random.random() < 0.2:
        draft.query += [(random.choice(("schema-uri", "id", "authority", "version", "format")), text(random))]
    return draft


def draft_messages(random: Random) -> Draft:
    group, name = group_id(random), resource_id(random)
    mount = random.choice(CATALOGS)
    definitions = f"/messagecatalog/{group}/messagedefinitions"
    paths = ["/messagecatalog", f"/messagecatalog/{group}", f"/messagecatalog/{group}", definitions]
    paths += [f"{definitions}/{name}", f"{definitions}/{name}/versions"]
    paths += [f"{definitions}/{name}/versions/{version_id(random)}", "/messagedefinition"]
    draft = Draft(method=method(random, "PUT", "POST", "POST", "DELETE"), path=mount + random.choice(paths))
    if draft.method in ("PUT", "POST"):
        group_body: dict[str, Any] = {"id": "g1", "specversion": "0.1", "format": "CloudEvents", "authority": "a"}
        group_body["definitions"] = {"s1": _DEFINITION}
        draft.body = json_body(random, random.choice((_DEFINITION, group_body)))
    if random.random() < 0.2:
        draft.query += [(random.choice(("messagedefinition-uri", "authority", "version", "filter")), text(random))]
    return draft
