"""Requests to the Confluent-compatible API: subjects, versions, ids, configuration, modes, associations."""

from random import Random
from typing import Any, Final

from tests.fuzzing import hostile
from tests.fuzzing.drafting import Draft, choose_members, json_body, method, pick
from tests.fuzzing.hostile import text

_MOUNTS: Final = ("/compat/confluent", "/compat/confluent", "/apis/ccompat/v7")
_SUBJECTS: Final = ("s1", "s2", "s3-value", "orders", ":.g1:s1", ":.g3:s2", ":.:s1", ":*:", ":.team:eu:x", "__GLOBAL")
_TYPES: Final = {"AVRO": "Avro/1.12.0", "JSON": "JsonSchema/draft-07", "PROTOBUF": "Protobuf/3"}
_LEVELS: Final = ("NONE", "BACKWARD", "FULL_TRANSITIVE", "backward", "x")
_MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD", "x")
_QUERY: Final[dict[str, tuple[str, ...]]] = {
    "deleted": ("true", "false", "x"),
    "deletedOnly": ("true",),
    "deletedAsNegative": ("true",),
    "permanent": ("true", "false"),
    "normalize": ("true", "x"),
    "subject": _SUBJECTS,
    "subjectPrefix": (":*:", "", "s", ":.g1:"),
    "contextPrefix": (".", "x"),
    "latestOnly": ("true",),
    "offset": ("1", "-1", "99999999999999999999"),
    "limit": ("1", "0", "-1", "99999999999999999999"),
    "format": ("resolved", "serialized", "ignore_extensions", "x"),
    "referenceFormat": ("qualified", "x"),
    "findTags": ("*", "PII"),
    "fetchMaxId": ("true",),
    "defaultToGlobal": ("true", "false"),
    "force": ("true",),
    "verbose": ("true",),
    "key": ("a", "major"),
    "value": ("b", "1"),
    "dryRun": ("true",),
    "cascadeLifecycle": ("true",),
    "includeSchemas": ("true",),
    "resourceType": ("topic", "x"),
    "associationType": ("value", "key"),
    "lifecycle": ("STRONG", "WEAK", "x"),
}


def confluent(random: Random) -> Draft:
    """Make a request to any of the API's paths."""
    make = random.choices((_subjects, _reads, _settings, _associations), (6, 3, 3, 2))[0]
    draft = make(random)
    draft.path = random.choice(_MOUNTS) + draft.path
    if random.random() < 0.1:
        draft.path = draft.path.replace("/subjects", f"/contexts/{pick(random, '.g1', '.g3', ':.g2:')}/subjects")
    if random.random() < 0.4:
        for name in random.choices(list(_QUERY), k=random.choice((1, 1, 2, 4))):
            draft.query.append((name, random.choice(_QUERY[name]) if random.random() < 0.85 else text(random)))
    if draft.body is not None:
        media = random.choice(("application/vnd.schemaregistry.v1+json", "application/json"))
        draft.headers.append(("Content-Type", media))
    if random.random() < 0.05:
        draft.headers.append(("Confluent-Accept-Unknown-Properties", random.choice(("true", "x"))))
    return draft


def _subject(random: Random) -> str:
    return pick(random, *_SUBJECTS)


def _version(random: Random) -> str:
    return pick(random, "1", "2", "latest", "-1", "0", "2147483647", "2147483648")


def _schema(random: Random) -> dict[str, Any]:
    kind = random.choice(list(_TYPES))
    data = hostile.document(random, _TYPES[kind])[1]
    rules = [{"name": "r", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "true", "tags": ["PII"]}]
    members = {
        "schemaType": kind,
        "references": [{"name": "a.b.R", "subject": _subject(random), "version": random.choice((1, -1, 9))}],
        "metadata": {"properties": {"a": "b"}, "tags": {"**.a": ["PII"]}, "sensitive": ["a"]},
        "ruleSet": {"domainRules": rules, "migrationRules": []},
        "id": random.choice((1, 2, 2147483646, -1)),
        "version": random.choice((1, 2, 9, -1)),
        "schemaTagsToAdd": [{"schemaEntity": {"entityPath": "a.b.R.a", "entityType": "sr_field"}, "tags": ["PII"]}],
        "propagateSchemaTags": True,
    }
    chosen = choose_members(random, members, (0, 0, 1, 2))
    return {"schema": data.decode("utf-8", "replace"), "schemaType": kind, **chosen}


def _subjects(random: Random) -> Draft:
    subject, version = _subject(random), _version(random)
    versions = f"/subjects/{subject}/versions"
    one = f"{versions}/{version}"
    paths = [f"/subjects/{subject}", *[versions] * 4, one, one, f"{one}/tags"]
    path = random.choice([*paths, f"/compatibility{versions}", f"/compatibility{one}"])
    draft = Draft(method=method(random, "POST", "POST", "POST", "DELETE"), path=path)
    if draft.method == "POST":
        tags = [{"schemaEntity": {"entityPath": "a.b.R.a", "entityType": "sr_field"}, "tags": ["PII"]}]
        tagging = {"newVersion": 2, "tagsToAdd": tags, "tagsToRemove": tags, "metadata": {}}
        draft.body = json_body(random, tagging if path.endswith("/tags") else _schema(random))
    return draft


def _reads(random: Random) -> Draft:
    subject, version = _subject(random), _version(random)
    number = pick(random, "1", "2", "3", "0", "-1", "2147483647", "99999999999")
    paths = ["", "/", "/contexts", f"/contexts/{pick(random, '.g1', '.g3')}", "/subjects", "/schemas", "/schemas/types"]
    paths += [f"/subjects/{subject}/metadata", "/v1/metadata/id", "/v1/metadata/version"]
    paths += [f"/subjects/{subject}/versions/{version}/{part}" for part in ("schema", "referencedby")]
    paths += [f"/schemas/ids/{number}{part}" for part in ("", "/schema", "/subjects", "/versions")]
    paths += [f"/schemas/guids/{pick(random, '0' * 36, '00000000-0000-0000-0000-000000000001')}"]
    return Draft(method=method(random, "GET", "DELETE"), path=random.choice(paths))


def _settings(random: Random) -> Draft:
    # The settings of the whole registry stay as they are: a registry that is read-only takes no other request far.
    path = f"/{random.choice(('config', 'config', 'mode'))}/{_subject(random)}"
    draft = Draft(method=method(random, "PUT", "PUT", "DELETE"), path=path)
    if draft.method == "PUT":
        config: dict[str, Any] = {
            "compatibility": random.choice(_LEVELS),
            "alias": _subject(random),
            "normalize": True,
            "validateFields": True,
            "compatibilityGroup": "a",
            "compatibilityPolicy": random.choice(("STRICT", "LENIENT", "x")),
            "defaultMetadata": {"properties": {"a": "b"}},
            "overrideMetadata": {"properties": {"a": "c"}},
            "defaultRuleSet": {"domainRules": []},
            "overrideRuleSet": {"migrationRules": []},
        }
        value = choose_members(random, config, range(1, 4))
        draft.body = json_body(random, {"mode": random.choice(_MODES)} if path.startswith("/mode") else value)
    return draft


def _associations(random: Random) -> Draft:
    resource_id = pick(random, "r1", "r2")
    resource = f"/associations/resources/{resource_id}"
    paths = ["/associations", "/associations:batchGet", "/associations:batchMutate", resource, resource]
    paths += [f"/associations/subjects/{_subject(random)}", f"/associations/resources/k/{pick(random, 't', 'u')}"]
    path = random.choice(paths)
    draft = Draft(method=method(random, "POST", "POST", "PUT", "DELETE"), path=path)
    if draft.method in ("POST", "PUT"):
        association = {
            "opType": random.choice(("CREATE", "UPSERT", "DELETE", "x")),
            "associationType": random.choice(("value", "key", "x")),
            "subject": _subject(random),
            "lifecycle": random.choice(("STRONG", "WEAK", "x")),
            "frozen": random.random() < 0.3,
            "schema": _schema(random),
        }
        value: dict[str, Any] = {"resourceName": "t", "resourceNamespace": "k", "resourceId": resource_id}
        value |= {"resourceType": "topic", "associations": [choose_members(random, association, range(2, 6))]}
        if ":batch" in path:
            value = {"requests": [value] * random.choice((1, 2, 200))}
        draft.body = json_body(random, value)
    return draft
