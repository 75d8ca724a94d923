"""What somebody finds is what he may read of all that is found, whatever the rules are, on each database."""

from collections import Counter
from fnmatch import fnmatchcase
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.write.test_searchindex import write
from tests.examples import examples

from signalbook.access.base import Identity
from signalbook.access.decisions import Access, ReadingRules
from signalbook.access.policy import read_policy
from signalbook.engine.engine import Engine
from signalbook.engine.search import search, text
from signalbook.engine.search.query import parse_query
from signalbook.engine.search.rights import ReadingConditions, find_reading_conditions
from signalbook.engine.search.search import FACETS, Search, SearchPage
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.values import JSON, JSONObject

PAT = Identity(subject="pat")
IDS = ("a", "aB", "b", "abc", "a.b-c", "a_c", "b~:@1", "cab")
QUERIES = ("", "a", "abc -cab", "field:a_c", "field:none", "order field:a_c", "order")


def resources(attributes: JSONObject) -> JSONObject:
    return {name: {"versions": {"1": {**attributes, "name": "first order"}, "2": attributes}} for name in IDS}


@pytest.fixture
def engine(store: Store) -> Engine:
    new_engine = Engine(store, settings=Settings())
    schema: JSON = {"properties": {"a_c": {"type": "string"}}}
    schemas = resources({"format": "JsonSchema/draft-07", "schema": schema})
    xids = ("/schemagroups/b/schemas/abc", "/schemagroups/aB/schemas/cab/versions/1")
    event = {"envelope": "CloudEvents/1.0", "description": "an order"}
    messages = {xid: resources({**event, "dataschemaxid": xid}) for xid in xids}
    default, pinned = messages.values()
    body: JSONObject = {
        "schemagroups": {name: {"schemas": schemas} for name in IDS[:5]},
        "messagegroups": {name: {"messages": default} for name in IDS[3:6]},
        "endpoints": {"ab": {"usage": ["producer"], "messages": pinned}},
    }
    write(new_engine, "PATCH", "/", body)
    return new_engine


def part(*words: str) -> st.SearchStrategy[str]:
    return st.sampled_from([*words, "*"])


ANY_ID = part("a", "AB", "b", "a*", "*b", "a*c", "*b*", "a**", "abc", "a.b-*", "*-c", "b~*", "zz")
PARTS = (
    part("schemagroups", "messagegroups", "schema*", "*groups"),
    ANY_ID,
    part("schemas", "messages", "m*s"),
    ANY_ID,
)
PATTERNS = st.integers(0, 4).flatmap(lambda depth: st.tuples(*PARTS[:depth]))
RULES = st.lists(st.tuples(st.booleans(), PATTERNS), max_size=6)


def may_read(xid: str, rules: list[tuple[bool, tuple[str, ...]]]) -> bool:
    """Evaluate the rules one by one (A-8)."""
    parts = xid.casefold().split("/")[1:5]
    fits = [
        (allows, len(pattern) <= len(parts))
        for allows, pattern in rules
        if all(fnmatchcase(part, glob.casefold()) for part, glob in zip(parts, pattern, strict=False))
    ]
    return any(allows for allows, _ in fits) and not any(above for allows, above in fits if not allows)


def is_shown(hit: JSONObject, rules: list[tuple[bool, tuple[str, ...]]]) -> bool:
    """Return True if the entity and the schema by which it was found are readable."""
    of: list[Any] = [hit["xid"], *(snippet["schema"] for snippet in hit["snippets"] if "schema" in snippet)]
    return all(may_read(xid, rules) for xid in of)


def pages(engine: Engine, access: Access, **query_options: Any) -> tuple[SearchPage, list[JSONObject]]:
    """The last page, and the hits of all of them."""
    hits: list[JSONObject] = []
    with engine.reading(access) as view:
        page = view.search(Search(**query_options, limit=50))
        while True:
            hits += [hit.to_json() for hit in page.hits]
            if page.following is None:
                return page, hits
            page = view.search(Search(**query_options, limit=50, after=page.following))


# The engine is written to before, and only read here.
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rules=RULES, text=st.sampled_from(QUERIES), versions=st.booleans(), many=st.sampled_from((1, 100)))
def test_search_finds_exactly_the_readable_matches(
    engine: Engine, rules: list[tuple[bool, tuple[str, ...]]], text: str, versions: bool, many: int
) -> None:
    policy_rules = [
        {"who": ["subject:pat"], "allow" if allows else "deny": ["read"], "on": ["/" + "/".join(pattern)]}
        for allows, pattern in rules
    ]
    everything = read_policy({"rules": [{"who": ["anyone"], "role": "reader"}]}).access(PAT)
    query_options: dict[str, Any] = {"query": parse_query(text), "versions": versions}
    _, every = pages(engine, everything, **query_options)
    expected = [hit for hit in every if is_shown(hit, rules)]
    with patch.object(search, "_MAX_PATTERNS", many):
        page, hits = pages(engine, read_policy({"rules": policy_rules}).access(PAT), **query_options)
    assert hits == expected
    assert (page.count, page.complete) == (len(expected), True)
    for name in FACETS:
        assert dict(page.facets[name]) == Counter(hit[name] for hit in expected if name in hit)


def test_inexact_patterns_are_evaluated_individually() -> None:
    assert find_reading_conditions(ReadingRules(allowed=(("*", "a*"),), denied=(("*", "*b"),))).exact
    assert not find_reading_conditions(ReadingRules(allowed=(("*", "a*c"),), denied=())).exact
    hidden = find_reading_conditions(ReadingRules(allowed=((),), denied=(("*", "*b*"),)))
    assert (hidden.among, hidden.hidden, hidden.exact) == ((), (), False)


@pytest.mark.parametrize(
    "rules", [ReadingRules((), ()), ReadingRules(((),), ((),)), ReadingRules(((),), (("*", "*"),))]
)
def test_fully_hidden_search_makes_no_query(rules: ReadingRules) -> None:
    assert find_reading_conditions(rules) == ReadingConditions(
        nothing=True, hidden=find_reading_conditions(rules).hidden
    )


def test_rules_decide_over_inexact_conditions(engine: Engine) -> None:
    """A server of an older version that still runs writes entries without the words that rights are."""
    body: JSONObject = {"name": "told", "description": "an order"}
    with patch.object(text, "PART_LETTERS", ()):
        write(engine, "PUT", "/messagegroups/abc/messages/secret-b", body)
    rules = [
        {"who": ["anyone"], "role": "reader"},
        {"who": ["anyone"], "deny": ["read"], "on": ["/messagegroups/abc/messages/secret*"]},
    ]
    _, hits = pages(engine, read_policy({"rules": rules}).access(PAT), query=parse_query("told"))
    assert hits == []
    _, hits = pages(engine, read_policy({"rules": rules[:1]}).access(PAT), query=parse_query("told"))
    assert [hit["id"] for hit in hits] == ["secret-b"]
