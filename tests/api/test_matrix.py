"""Every action, by every role, in every API: what each needs, against what each has."""

from typing import Any, Final

from signalbook.access.base import ACTIONS
from signalbook.storage.store import Store

from .conftest import ADMINISTRATOR, PROXIED, Serve, put_policy

SCHEMAS: Final = "/compat/schemaregistry/v0.2"
CATALOG: Final = "/compat/messagecatalog/v0.1/messagecatalog"
GRANTED: Final = {
    "reader": {"list", "read"},
    "writer": {"list", "read", "create", "update"},
    "owner": {"list", "read", "create", "update", "delete", "subscribe", "report"},
    "auditor": {"audit"},
    "administrator": set(ACTIONS),
    # One action, with what no write can do without; and reading is not of use to everything.
    **{action: {action, "read"} for action in ACTIONS},
    **{f"only {action}": {action} for action in ACTIONS},
}
DOCUMENT: Final = {"schema": {"type": "string"}, "format": "JsonSchema/draft-07"}
SINK: Final = {"sink": "https://93.184.215.14/hook", "protocol": "HTTP"}
NEEDED: Final[tuple[tuple[str, str, Any, str], ...]] = (
    ("GET", "/", None, "read"),
    ("GET", "/?inline=*", None, "read"),
    ("GET", "/export", None, "read"),
    ("GET", "/model", None, "read"),
    ("GET", "/openapi.json", None, "read"),
    ("GET", "/schemagroups/g", None, "read"),
    ("GET", "/schemagroups/g/schemas/s", None, "read"),
    ("HEAD", "/schemagroups/g/schemas/s/versions/1$details", None, "read"),
    ("GET", f"{SCHEMAS}/schemagroups/g/schemas/s", None, "read"),
    ("GET", f"{SCHEMAS}/schemagroups/g/schemas/s/versions", None, "read"),
    ("GET", f"{CATALOG}/g", None, "read"),
    ("GET", "/events", None, "read"),
    ("PATCH", "/check/schemagroups/g", {"name": "tried"}, "read"),
    ("DELETE", "/check/schemagroups/g", None, "delete"),
    ("PUT", "/schemagroups/WHO", {}, "create"),
    ("PUT", "/schemagroups/g/schemas/WHO$details", DOCUMENT, "create"),
    ("POST", "/schemagroups/g/schemas", {"WHO-posted": DOCUMENT}, "create"),
    ("POST", f"{SCHEMAS}/schemagroups/g/schemas/WHO-drafted?format=JsonSchema/draft-07", {}, "create"),
    ("POST", CATALOG, {"id": "WHO", "specversion": "0.1", "format": "CloudEvents"}, "create"),
    ("PATCH", "/schemagroups/g", {"name": "WHO"}, "update"),
    ("PATCH", "/", {"name": "WHO"}, "update"),
    ("POST", "/schemagroups/g/schemas/s/versions", {"WHO": DOCUMENT}, "update"),
    ("PATCH", "/schemagroups/g/schemas/s/meta", {"labels": {"by": "WHO"}}, "update"),
    ("POST", f"{SCHEMAS}/schemagroups/g/schemas/s", {"description": "WHO"}, "update"),
    ("DELETE", "/schemagroups/g/schemas/WHO-old", None, "delete"),
    ("DELETE", f"{SCHEMAS}/schemagroups/g/schemas/WHO-older", None, "delete"),
    ("DELETE", f"{SCHEMAS}/schemagroups/WHO-gone", None, "delete"),
    ("PATCH", "/capabilities", {}, "configure"),
    ("GET", "/subscriptions", None, "subscribe"),
    ("POST", "/subscriptions", SINK, "subscribe"),
    ("GET", f"{SCHEMAS}/subscriptions", None, "subscribe"),
    ("GET", "/pipelines", None, "report"),
    ("GET", "/access", None, "administer"),
    ("GET", "/access/tokens", None, "administer"),
    ("GET", "/audit", None, "audit"),
)
WRITES: Final = {"create", "update", "delete", "configure"}


def may(granted: set[str], action: str) -> bool:
    """The whole of it: what is not granted is denied, and who writes has to read."""
    return action in granted and (action not in WRITES or "read" in granted)


def test_rights_of_each_role_in_each_api(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", **PROXIED)
    names = {role: role.replace(" ", "-") for role in GRANTED}
    old = {f"{name}-{age}": DOCUMENT for name in names.values() for age in ("old", "older")}
    gone: dict[str, Any] = {f"{name}-gone": {} for name in names.values()}
    founded = {
        "schemagroups": {"g": {"schemas": {"s": {"versions": {"1": DOCUMENT}}, **old}}, **gone},
        "messagegroups": {"g": {}},
    }
    assert client.send("POST", "/", json=founded).is_success
    put_policy(store, *({"who": [f"subject:{name}"], "allow": sorted(GRANTED[role])} for role, name in names.items()))
    wrong = []
    for role, name in names.items():
        for method, path, body, action in NEEDED:
            sent = None if body is None else _named(body, name)
            answer = client.send(method, path.replace("WHO", name), json=sent, headers={"X-User": name})
            expected = may(GRANTED[role], action)
            refused = {403} if method not in ("GET", "HEAD") else {403, 404}
            if (answer.status_code not in refused) if not expected else not answer.is_success:
                wrong.append((role, method, path, action, answer.status_code, answer.text[:200]))
    assert not wrong, "\n".join(map(str, wrong))


def test_roles_allow_their_actions_only(store: Store, serve: Serve) -> None:
    """A role allows as much as its actions do, and no more."""
    client = serve(store, model="default", **PROXIED)
    roles = ("reader", "writer", "owner", "auditor", "administrator")
    put_policy(store, *({"who": [f"subject:{role}"], "role": role} for role in roles))
    for role in roles:
        for action in ACTIONS:
            answer = client.get(f"/access/explain?who=subject:{role}&what={action}&on=/", headers=ADMINISTRATOR)
            assert answer.is_success, answer.text
            assert answer.json()["allowed"] is (action in GRANTED[role]), (role, action)


def _named(body: Any, name: str) -> Any:
    if isinstance(body, dict):
        return {key.replace("WHO", name): _named(value, name) for key, value in body.items()}
    return body.replace("WHO", name) if isinstance(body, str) else body
