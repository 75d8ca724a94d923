"""Requests to the explorer's pages and forms, and to what they show: search and impact."""

import re
from random import Random
from typing import Final
from urllib.parse import quote_from_bytes, urlencode

from tests.fuzzing import hostile
from tests.fuzzing.drafting import Draft, group_id, method, pick, resource_id, version_id
from tests.fuzzing.hostile import FORMATS, segment, text

TOKEN_FIELD: Final = "@@token@@"
MADE_FROM_FIELD: Final = "@@made-from@@"
_QUERY: Final[dict[str, tuple[str, ...]]] = {
    "q": ("a", "name:a", "type:string format:avro", '"a b"', "field:", "-", "(" * 500),
    "of": ("/schemagroups/g1/schemas/s1", "/schemagroups/g3", "schemagroups", "/x/y"),
    "old": ("1", "2", "x"),
    "new": ("1", "2", "x"),
    "text": ("sides", "x"),
    "xid": ("/schemagroups/g1/schemas/s1", "/messagegroups/g1/messages/s1", "/schemagroups/g3/schemas/s4", "/", "x"),
    "depth": ("1", "0", "99"),
    "format": ("Avro/1.12.0", "JsonSchema/draft-07", "x"),
    "compatibility": ("backward", "x"),
    "kind": ("schema", "message", "x"),
    "group": ("/schemagroups/g1", "x"),
    "deprecated": ("true", "x"),
    "versions": ("all", "x"),
    "sort": ("name", "epoch=desc", "x"),
    "label": ("a=b", "x"),
    "from": ("2026-01-01", "x", "9999-99-99"),
    "to": ("2026-12-31", "x"),
    "after": ("1", "x"),
    "limit": ("1", "0", "x", "99999999999999999999"),
    "cursor": ("", "eyJ9", "W10"),
    "back": ("/ui", "//evil.example", "javascript:alert(1)"),
    "part": ("1", "x"),
}
_FIELDS: Final = {
    "try": ("message", "kind", "base64", "contenttype"),
    "impact": ("document", "format", "compatibility"),
    "login": ("secret", "back"),
    "logout": ("where", "back"),
}
"""The fields of the forms that are not those of an entity."""


def _entity(random: Random) -> str:
    kind = random.choice(("schemagroups", "schemagroups", "messagegroups", "endpoints"))
    group = f"/{kind}/{group_id(random)}"
    resources = f"{group}/{'schemas' if kind == 'schemagroups' else 'messages'}"
    resource = f"{resources}/{resource_id(random)}"
    parts = ("meta", "versions", f"versions/{version_id(random)}", segment(random))
    return random.choice(("", f"/{kind}", group, resources, resource, resource, *(f"{resource}/{p}" for p in parts)))


def pages(random: Random) -> Draft:
    """Make a request for a page, a search or an impact."""
    entity = _entity(random)
    names = ["search", "compare", "changes", "pipelines", f"pipelines/{pick(random, 'p1', 'p2')}", "subscriptions"]
    names += ["login", "login/issuer", "login/callback", "identity", segment(random)]
    names += [f"{name}{entity}" for name in ("relations", "impact", "try", "edit")]
    paths = [f"/ui{entity}"] * 3 + [f"/ui/-/{name}" for name in names]
    path = random.choice([*paths, "/search", "/search", "/impact", "/impact"])
    draft = Draft(method=method(random, "GET", "GET", "POST"), path=path)
    names = random.choices(list(_QUERY), k=random.choice((0, 1, 1, 2, 4)))
    if path in ("/ui/-/search", "/search"):
        names.append("q")
    if path == "/ui/-/compare":
        names += ["of", "old", "new"]
    if path == "/impact":
        names.append("xid")
    draft.query = [(name, random.choice(_QUERY[name]) if random.random() < 0.85 else text(random)) for name in names]
    if draft.method == "POST":
        draft.body = hostile.document(random, random.choice(list(FORMATS)))[1]
    return draft


def forms(random: Random) -> Draft:
    """Make a request that fills in a form, with the token of its page as a browser has it."""
    action = random.choices(("edit", "try", "impact", "login", "logout"), (6, 3, 2, 1, 1))[0]
    entity = _entity(random)
    if action == "try":
        entity = f"/messagegroups/{group_id(random)}/messages/{resource_id(random)}"
    path = f"/ui/-/{action}{'' if action in ('login', 'logout') else entity}"
    dialect = random.choice(list(FORMATS))
    document = hostile.document(random, dialect)[1].decode("utf-8", "replace")
    event = '{"specversion":"1.0","id":"1","source":"/a","type":"a.b","data":{"a":1}}'
    fields = {
        "made-from": MADE_FROM_FIELD,
        "do": random.choice(("check", "save", "save")),
        "name": "a",
        "description": "b\r\nc",
        "documentation": "https://e.example/d",
        "labels": "a=b\nc=d",
        "deprecated": "yes",
        "deprecated.effective": "2026-01-01T00:00:00Z",
        "defaultversionid": "1",
        "id": random.choice(("s1", "s4", "v9", "g2")),
        "versionid": random.choice(("1", "v9")),
        "document": document,
        "contenttype": FORMATS[dialect],
        "format": dialect,
        "attributes": hostile.dumped(random, {"name": "a", "format": dialect}, faults=1).decode("utf-8", "replace"),
        "compatibility": "backward",
        "message": random.choice((event, document)),
        "kind": random.choice(("event", "payload", "x")),
        "base64": "yes",
        "where": random.choice(("here", "everywhere", "x")),
        "secret": "sbk_x_y",
        "back": "//evil.example",
    }
    names = _FIELDS.get(action, tuple(fields))
    chosen = random.sample(names, random.randrange(1, min(len(names), 12)))
    sent = {name: fields[name] if random.random() < 0.8 else text(random) for name in chosen}
    if action == "edit":
        sent |= {name: fields[name] for name in ("made-from", "do")}
    sent["token"] = TOKEN_FIELD if random.random() < 0.95 else text(random)
    if random.random() < 0.02:
        sent |= {f"x{number}": "y" for number in range(200)}
    opening = "/ui/-/identity" if path.endswith("/logout") else path
    draft = Draft(method="POST", path=path, opening=opening)
    draft.body = urlencode(sent, errors="surrogatepass", safe="@").encode("ascii")
    draft.headers.append(("Content-Type", "application/x-www-form-urlencoded"))
    return draft


def fill_form(body: bytes, page: bytes) -> bytes:
    """Return the body of a form with the values that a browser takes from the form's page."""
    for place, name in ((TOKEN_FIELD, b"token"), (MADE_FROM_FIELD, b"made-from")):
        value = re.search(rb'name="%s" value="([^"]*)"' % name, page)
        body = body.replace(place.encode(), b"" if value is None else quote_from_bytes(value[1]).encode())
    return body
