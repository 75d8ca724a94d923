"""Policies: reading them, and decisions by them."""

from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.access.base import ACTIONS, ANONYMOUS, ROLES, WHOLE, WRITES, Action, Forbidden, Identity
from signalbook.access.policy import MAX_FAULTS, Explanation, InvalidPolicy, Policy, identity_of, read_policy
from signalbook.values import JSON, JSONObject, dump_json
from signalbook.xid import ROOT, Xid

PAT = Identity(subject="pat", groups=frozenset({"payments"}))


def policy(*rules: JSONObject) -> Policy:
    return read_policy({"rules": list(rules)})


def xid(text: str) -> Xid:
    return Xid.parse(text)


def test_deny_wins_and_hides_descendants() -> None:
    rules: list[JSONObject] = [
        {"who": ["anyone"], "role": "writer"},
        {"who": ["subject:pat"], "deny": ["read"], "on": ["/schemagroups/*/schemas/secret*"]},
    ]
    pat, anonymous = policy(*rules).access(PAT), policy(*rules).access(ANONYMOUS)
    secret = xid("/schemagroups/g/schemas/secret-1/versions/1")
    assert anonymous.is_readable(secret)
    assert anonymous.reads_everything
    assert not pat.is_readable(secret)
    # Writing needs reading: the outcome of a write would tell what is there.
    assert not pat.may(Action.UPDATE, secret)
    assert not pat.reads_everything
    assert not pat.allows_everything_below(Action.UPDATE, xid("/schemagroups/g"))


def test_scopes_narrow_what_a_token_may_do() -> None:
    rules = policy({"who": ["token:t1"], "role": "administrator"})
    narrowed = rules.access(Identity(token="t1", scopes=frozenset({"read", "list"})))
    assert narrowed.is_readable(xid("/schemagroups/g"))
    assert not narrowed.may(Action.UPDATE, xid("/schemagroups/g"))
    assert not narrowed.allows_somewhere(Action.ADMINISTER)
    assert narrowed.key != rules.access(Identity(token="t1")).key


def test_identities_with_equal_rules_share_a_key() -> None:
    rules = policy({"who": ["group:payments"], "role": "reader"}, {"who": ["subject:sam"], "role": "writer"})
    other = Identity(subject="kim", groups=frozenset({"payments", "unknown"}))
    assert rules.access(PAT).key == rules.access(other).key
    assert rules.access(PAT).key != rules.access(Identity(subject="sam")).key


def test_readable_ids_are_derived_from_the_rules() -> None:
    access = policy(
        {"who": ["anyone"], "role": "reader", "on": ["/schemagroups/A", "/schemagroups/b/schemas/s"]},
        {"who": ["anyone"], "role": "reader", "on": ["/messagegroups/m*"]},
    ).access(ANONYMOUS)
    assert access.find_readable_ids(xid("/schemagroups")) == frozenset({"a", "b"})
    assert access.find_readable_ids(xid("/messagegroups")) is None
    assert access.find_readable_ids(xid("/endpoints")) == frozenset()
    assert access.find_readable_ids(xid("/schemagroups/a/schemas")) is None


def test_decision_names_the_rules() -> None:
    rules = policy(
        {"who": ["anyone"], "role": "writer"},
        {"who": ["subject:pat"], "deny": ["update"], "on": ["/schemagroups/g"]},
        {"who": ["subject:sam"], "role": "administrator"},
    )
    explanation = rules.explain(PAT, Action.UPDATE, xid("/schemagroups/g/schemas/s"))
    assert (explanation.allowed, explanation.allowing, explanation.denying) == (False, (0,), (1,))


def test_decision_names_the_missing_rights() -> None:
    rules = policy(
        {"who": ["subject:pat"], "allow": ["update", "list"], "on": ["/schemagroups/g"]},
        {"who": ["subject:pat", "anyone"], "deny": ["read"], "on": ["/schemagroups/h"]},
        {"who": ["anyone"], "allow": ["read"], "on": ["/endpoints/e"]},
        {"who": ["token:t"], "role": "writer"},
    )
    group = xid("/schemagroups/g")
    assert rules.explain(PAT, Action.UPDATE, group) == Explanation(
        allowed=False, allowing=(0,), denying=(), missing=("read",)
    )
    assert rules.explain(PAT, Action.READ, xid("/schemagroups/h")).denying == (1,)
    # Writing takes reading, so what denies reading denies writing.
    assert rules.explain(PAT, Action.UPDATE, xid("/schemagroups/h")).denying == (1,)
    assert rules.explain(ANONYMOUS, Action.LIST, xid("/endpoints")).allowing == (2,)
    token = Identity(token="t", scopes=frozenset({"read"}))
    narrowed = rules.explain(token, Action.UPDATE, group)
    assert (narrowed.allowed, narrowed.narrowed, narrowed.allowing) == (False, True, (3,))
    assert not rules.explain(token, Action.DELETE, group).narrowed


def test_delete_and_configure_need_rights_on_all_descendants() -> None:
    """The explanation matches what a write is allowed to do."""
    rules = policy(
        {"who": ["subject:pat"], "role": "administrator"},
        {"who": ["authenticated"], "deny": ["read"], "on": ["/schemagroups/*/schemas/secret-*"]},
    )
    access = rules.access(PAT)
    groups = [(Action.DELETE, f"/schemagroups{path}") for path in ("", "/g", "/g/schemas")]
    for action, where in (*groups, (Action.CONFIGURE, "/"), (Action.CONFIGURE, "/messagegroups")):
        explanation = rules.explain(PAT, action, xid(where))
        assert not access.may(action, xid(where))
        assert (explanation.allowed, explanation.denying, explanation.missing) == (False, (1,), ()), where
        assert (
            explanation.reason == "denied by rule 1 (the first is rule 0): it takes rights on all that is beneath, too"
        )
        with pytest.raises(Forbidden, match=f"you may not {action.word} .*everything under it") as refused:
            access.require(action, xid(where))
        assert "secret" not in str(refused.value)
    assert not access.allows_somewhere(Action.CONFIGURE)
    for where in ("/schemagroups/g/schemas/s", "/messagegroups", "/messagegroups/m"):
        access.require(Action.DELETE, xid(where))
        assert rules.explain(PAT, Action.DELETE, xid(where)).allowed
    # Somebody who may not do it at all is not told more than that.
    with pytest.raises(Forbidden, match=r"^you may not delete /schemagroups/g$"):
        rules.access(Identity(subject="sam")).require(Action.DELETE, xid("/schemagroups/g"))


def test_unknown_scope_allows_nothing() -> None:
    rules = policy({"who": ["token:t"], "role": "administrator"})
    assert not rules.access(Identity(token="t", scopes=frozenset({"everything"}))).is_readable(ROOT)


def test_patterns_and_ids_cause_no_backtracking() -> None:
    """Patterns that take minutes of backtracking, and thousands of patterns with a common prefix or suffix, are
    matched quickly.
    """
    many: list[JSONObject] = [
        {"who": ["anyone"], "role": "reader", "on": [f"/schemagroups/{pattern}"]}
        for pattern in ("*a" * 60 + "*b", *(f"*-{n}" for n in range(5000)), *(f"{n}-*" for n in range(5000)))
    ]
    access = policy(*many).access(ANONYMOUS)
    assert not access.is_readable(xid("/schemagroups/" + "a" * 128))
    assert access.is_readable(xid("/schemagroups/" + "a" * 127 + "b"))
    assert access.is_readable(xid("/schemagroups/x-4999"))
    assert access.is_readable(xid("/schemagroups/4999-x"))
    assert not access.is_readable(xid("/schemagroups/x-5000"))


def test_reasons() -> None:
    rules = policy(
        {"who": ["token:t", "authenticated"], "role": "reader"},
        {"who": ["anyone"], "deny": ["delete"]},
        {"who": ["token:t"], "role": "writer"},
    )
    token = Identity(token="t", scopes=frozenset({"read"}))
    group = xid("/schemagroups/g")
    assert [rules.explain(token, action, group).reason for action in (*[*Action][1:5], Action.ADMINISTER)] == [
        "allowed by rules 0, 2 (the first is rule 0)",
        "the scopes of the token leave it out",
        "the scopes of the token leave it out",
        "denied by rule 1 (the first is rule 0)",
        "no rule allows to administer",
    ]
    assert rules.explain(ANONYMOUS, Action.UPDATE, group).reason == "no rule allows to read or to update"
    assert rules.explain(PAT, Action.READ, group).reason == "allowed by rule 0 (the first is rule 0)"


def test_somebody_by_the_names_of_rules() -> None:
    assert identity_of(["subject:a,b:c", "group:x", "group:y", "token:t"]) == Identity(
        subject="a,b:c", groups=frozenset({"x", "y"}), token="t"
    )
    assert identity_of(["anyone"]) == ANONYMOUS
    assert [*identity_of(["authenticated"]).principals][:2] == ["anyone", "authenticated"]
    for names in (["pat"], ["group:"], ["subject:a", "subject:b"], [""]):
        with pytest.raises(ValueError, match=r"names nobody|several subjects"):
            identity_of(names)


def test_administrators() -> None:
    assert policy({"who": ["authenticated"], "role": "administrator"}).administrators == {"authenticated"}
    assert not policy(
        {"who": ["subject:a"], "role": "administrator"}, {"who": ["authenticated"], "deny": ["administer"]}
    ).administrators
    assert policy({"who": ["anyone", "subject:a"], "role": "administrator"}).administrators == {"subject:a"}


def rule(**members: Any) -> JSON:
    return {"rules": [members]}


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ([], [""]),
        ({}, ["/rules"]),
        ({"rules": {}, "x": 1}, ["/x", "/rules"]),
        ({"rules": [1]}, ["/rules/0"]),
        (rule(role="reader"), ["/rules/0/who"]),
        (rule(who=["all", "group:", 3], role="boss"), [f"/rules/0/{at}" for at in ("who/0", "who/1", "who/2", "role")]),
        (rule(who=["anyone"], role="reader", deny=["read"]), ["/rules/0"]),
        (rule(who=["anyone"], allow=["read", "fly"]), ["/rules/0/allow/1"]),
        (rule(who=["anyone"], allow=[]), ["/rules/0/allow"]),
        (
            rule(who=["anyone"], role="reader", on=["g", "//", "/a/b/c/d/versions/1"]),
            [f"/rules/0/on/{n}" for n in (0, 1, 2)],
        ),
        (rule(who=["subject:a"], role="administrator", on=["/", "/schemagroups/g"]), ["/rules/0/on"]),
        (rule(who=["subject:a"], deny=["read", "configure"], on=["/schemagroups/g"]), ["/rules/0/on"]),
        (rule(who=["anyone"], role="reader", color=1, description=2), ["/rules/0/color", "/rules/0/description"]),
    ],
)
def test_every_fault_has_its_path(document: JSON, paths: list[str]) -> None:
    with pytest.raises(InvalidPolicy) as raised:
        read_policy(document)
    assert [fault.path for fault in raised.value.faults] == paths


NAMES = st.sampled_from(["a", "ab", "B", "abc"])
PATTERNS = st.lists(st.sampled_from(["a", "ab", "b", "*", "a*", "*b", "a*c"]), max_size=4)
PARTIAL = [name for name, action in ACTIONS.items() if not action & WHOLE]
ACTIONS_OF_RULES = st.one_of(
    st.sampled_from(["reader", "writer", "owner"]).map(lambda role: {"role": role}),
    st.builds(lambda effect, action: {effect: [action]}, st.sampled_from(["allow", "deny"]), st.sampled_from(PARTIAL)),
)
CALLERS = st.sampled_from(["anyone", "subject:pat", "group:payments", "subject:sam"])
PLACES = PATTERNS.map(lambda parts: "/" + "/".join(parts))
RULES = st.lists(st.tuples(CALLERS, ACTIONS_OF_RULES, PLACES), max_size=8)


@given(rules=RULES, parts=st.lists(NAMES, max_size=4), action=st.sampled_from(list(Action)))
def test_decisions_equal_evaluating_the_rules_in_order(
    rules: list[tuple[str, JSONObject, str]], parts: list[str], action: Action
) -> None:
    access = policy(*({"who": [who], **rule, "on": [on]} for who, rule, on in rules)).access(PAT)

    def says(which: str, action: Action, *, beneath: bool = False) -> bool:
        for who, rule, on in rules:
            pattern = [part for part in on.split("/") if part]
            words = {*rule.get(which, ())} | {a.word for a in ROLES.get(rule.get("role", ""), ()) if which == "allow"}
            above = len(pattern) <= len(parts) or beneath
            fits = all(fnmatchcase(part.lower(), glob) for part, glob in zip(parts, pattern, strict=False))
            if who != "subject:sam" and action.word in words and above and fits:
                return True
        return False

    readable = says("allow", Action.READ, beneath=True) and not says("deny", Action.READ)
    expected = says("allow", action) and not says("deny", action) and (readable or not action & WRITES)
    everything = all(says("allow", a) and not says("deny", a, beneath=True) for a in (action, Action.READ))
    if action is Action.DELETE and len(parts) < 4:
        expected = everything
    if action is Action.READ:
        expected = readable
    if action is Action.LIST:
        expected = (says("allow", action) or readable) and not says("deny", action)
    assert access.may(action, Xid(tuple(parts))) == expected
    assert access.allows_everything_below(action, Xid(tuple(parts))) == everything


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
TEXTS = st.one_of(st.sampled_from(["anyone", "subject:a", "group:\ud800", "/", "/a/*", "reader", "read"]), st.text())
LISTS = st.one_of(st.lists(TEXTS, max_size=3), st.lists(SCALARS, max_size=2))
NEAR = st.dictionaries(
    st.sampled_from(["who", "role", "allow", "deny", "on", "description", "x", "\ud800"]),
    st.one_of(LISTS, TEXTS, SCALARS),
)
ANY = st.recursive(
    st.one_of(SCALARS, NEAR), lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)), max_leaves=8
)


@given(st.one_of(ANY, st.fixed_dictionaries({"rules": st.one_of(ANY, st.lists(NEAR, max_size=5))})))
def test_any_document_is_a_policy_or_rejected_with_faults(document: JSON) -> None:
    try:
        rules = read_policy(document)
    except InvalidPolicy as error:
        faults = error.faults
    else:
        for action in Action:
            rules.access(PAT).may(action, xid("/schemagroups/g"))
        return
    assert 0 < len(faults) <= MAX_FAULTS
    assert dump_json([fault.to_json() for fault in faults])


@pytest.mark.parametrize(
    "document",
    [
        {"rules": [{}] * 100_001},
        {"rules": [{"who": ["?"] * 1000, "role": 1}] * 1000},
        {"rules": [{f"x{n}": n for n in range(100_000)}]},
        {f"x{n}": n for n in range(100_000)},
    ],
    ids=["rules", "principals", "members", "document"],
)
def test_faults_are_counted(document: JSON) -> None:
    with pytest.raises(InvalidPolicy) as raised:
        read_policy(document)
    assert len(raised.value.faults) <= MAX_FAULTS
    assert len(str(raised.value)) < 100_000
