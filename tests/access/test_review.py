"""What is said about odd policies, and that the samples are not odd."""

from pathlib import Path

import pytest

from signalbook.access.base import ACTIONS
from signalbook.access.control import check_lockout, read_policy_file
from signalbook.access.decisions import UNRESTRICTED
from signalbook.access.policy import identity_of, read_policy
from signalbook.access.review import list_token_warnings, list_warnings
from signalbook.model import builtin
from signalbook.values import JSONObject
from signalbook.xid import Xid

SAMPLES = Path(__file__).parents[2] / "examples" / "access"
ADMINISTRATOR: JSONObject = {"who": ["subject:pat"], "role": "administrator"}
MODEL = builtin("default")


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("*.yaml")))
def test_samples_have_no_warnings(name: str) -> None:
    policy = read_policy_file(SAMPLES / name)
    check_lockout(policy, UNRESTRICTED)
    assert list_warnings(policy, MODEL) == []


@pytest.mark.parametrize(
    ("who", "action", "xid", "allowed"),
    [
        ("group:platform", "configure", "/", True),
        ("group:staff", "read", "/schemagroups/payments/schemas/order", True),
        ("group:staff", "update", "/schemagroups/payments/schemas/order", False),
        ("group:payments", "delete", "/schemagroups/payments-eu", True),
        ("group:payments", "update", "/schemagroups/shipping", False),
        ("subject:ci-payments", "create", "/schemagroups/payments/schemas/order", True),
        ("subject:ci-payments", "delete", "/schemagroups/payments/schemas/order", False),
        ("subject:ci-payments", "read", "/schemagroups/shipping", False),
        ("subject:pipeline-payments", "read", "/messagegroups/shipping", True),
        ("subject:pipeline-payments", "report", "/pipelines/payments-eu", True),
        ("subject:pipeline-payments", "report", "/pipelines/shipping-eu", False),
        ("subject:follower", "list", "/messagegroups", True),
        ("subject:follower", "update", "/messagegroups/payments", False),
        ("subject:prometheus", "read", "/metrics", True),
        ("subject:prometheus", "read", "/schemagroups/payments", False),
        ("authenticated", "read", "/schemagroups/payments", False),
    ],
)
def test_the_sample_of_several_teams(who: str, action: str, xid: str, allowed: bool) -> None:
    access = read_policy_file(SAMPLES / "teams.yaml").access(identity_of([who]))
    assert access.may(ACTIONS[action], Xid.parse(xid)) is allowed


def test_patterns_of_unknown_types_are_reported() -> None:
    on = ["/", "/Schemagroups/a*/schemas/b", "/schema*", "/*/a/messages", "/pipelines/p", "/metrics"]
    odd = ["/schemagroup/a", "/schemagroups/a/messages/m", "/*/a/things"]
    rules = [ADMINISTRATOR, {"who": ["anyone"], "allow": ["read"], "on": [*on, *odd]}]
    messages = list_warnings(read_policy({"rules": rules}), MODEL)
    assert [warning.split(" names nothing")[0] for warning in messages] == [
        f"/rules/1/on/{len(on) + number}: {pattern}" for number, pattern in enumerate(odd)
    ]
    assert list_warnings(read_policy({"rules": rules}), None) == []
    many = [ADMINISTRATOR, {"who": ["anyone"], "allow": ["read"], "on": ["/x"] * 100}]
    assert list_warnings(read_policy({"rules": many}), MODEL)[20:] == ["and more"]


def test_denied_administrator_is_reported() -> None:
    rules: list[JSONObject] = [ADMINISTRATOR, {"who": ["group:x"], "deny": ["read"], "on": ["/schemagroups/s"]}]
    assert list_warnings(read_policy({"rules": rules}), MODEL) == []
    (message,) = list_warnings(read_policy({"rules": [*rules, {**rules[1], "who": ["anyone"]}]}), MODEL)
    assert message.startswith("/rules/2: subject:pat administers, and is kept from changing the model")


def test_token_without_a_matching_rule_is_reported() -> None:
    rules: list[JSONObject] = [ADMINISTRATOR, {"who": ["group:ops"], "role": "reader"}]
    policy = read_policy({"rules": rules})
    assert list_token_warnings(policy, "pat", []) == list_token_warnings(policy, "bob", ["ops"]) == []
    assert list_token_warnings(policy, "bob", ["dev"]) == [
        "no rule names subject:bob or group:dev: the token may do nothing"
    ]
    everybody = read_policy({"rules": [*rules, {"who": ["authenticated"], "role": "reader"}]})
    assert "what every authenticated caller may" in list_token_warnings(everybody, "bob", [])[0]
