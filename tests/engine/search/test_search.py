from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from tests.engine.write.test_searchindex import ORDER, filled, write

from signalbook.access.base import NOTHING, Action, Identity
from signalbook.access.decisions import UNRESTRICTED, Access, RuleTree
from signalbook.engine.engine import Engine
from signalbook.engine.search import search
from signalbook.engine.search.query import parse_query
from signalbook.engine.search.search import Search, SearchPage
from signalbook.storage.store import Store


@pytest.fixture
def engine(store: Store) -> Engine:
    return filled(store)


def find(engine: Engine, text: str, access: Access = UNRESTRICTED, **more: Any) -> SearchPage:
    with engine.reading(access) as view:
        return view.search(Search(query=parse_query(text), **more))


def xids(page: SearchPage) -> list[str]:
    return [str(hit.xid) for hit in page.hits]


MADE = "/messagegroups/m/messages/made"


FOUND: list[tuple[str, list[str]]] = [
    ("order", [ORDER, MADE]),
    ("custo", [ORDER, MADE]),
    ("customer_id", [ORDER]),
    ("customerId", [ORDER]),
    ("customerid", [ORDER]),
    ("field:customer_id", [ORDER, MADE]),
    ("field:customer", []),
    ("field:cust*", [ORDER, MADE]),
    ("field:total", [MADE]),
    ('"in euros"', [MADE]),
    ('"euros in"', []),
    ("payments order", [ORDER]),
    ("payments -order", []),
    ("name:sales", ["/schemagroups/g"]),
    ("no avro", ["/schemagroups/g/schemas/broken"]),
    (ORDER, [ORDER, MADE]),
    ("gone", []),
    ("never", []),
    ("description", []),
]


def test_query_finds_the_expected_entities(engine: Engine) -> None:
    for text, expected in FOUND:
        assert xids(find(engine, text)) == expected, text


def test_hits_are_ranked_by_id_names_fields_and_texts(engine: Engine) -> None:
    bodies: dict[str, Any] = yaml.safe_load("""
    {text: {description: about a total, schema: {}}, field: {schema: {properties: {total: {}}}},
      named: {name: Total, schema: {}}, total: {schema: {}}, total-of-all: {schema: {}}}
    """)
    schemas = {name: {"format": "JsonSchema/draft-07", **body} for name, body in bodies.items()}
    write(engine, "PUT", "/schemagroups/t", {"schemas": schemas})
    page = find(engine, "total", facets={"group": ("/schemagroups/t",)})
    assert [hit.xid.id for hit in page.hits] == ["total", "named", "total-of-all", "field", "text"]
    assert [hit.score for hit in page.hits] == [1.0, 0.75, 0.75, 0.5, 0.25]


def test_facets_count_and_narrow(engine: Engine) -> None:
    everything = find(engine, "")
    assert dict(everything.facets["type"]) == {"schemagroups": 2, "schemas": 4, "messagegroups": 1, "messages": 1}
    assert dict(everything.facets["format"])["Avro/1.11.0"] == 2
    assert dict(everything.facets["deprecated"]) == {"true": 1, "false": 7}
    assert xids(find(engine, "", facets={"type": ("messages",), "envelope": ("cloudevents",)})) == [MADE]
    assert find(engine, "", facets={"format": ("avro",)}).count == 2
    assert find(engine, "", facets={"format": ("AVRO/1.11.0", "other")}).count == 3
    assert xids(find(engine, "", deprecated=True)) == [ORDER]
    assert find(engine, "", facets={"type": ()}).count == everything.count
    assert find(engine, "buyer", facets={"group": ("/schemagroups/H",)}).count == 1


def test_all_versions_are_found_on_demand(engine: Engine) -> None:
    write(engine, "PUT", f"{ORDER}/versions/3", {"format": "Avro/1.11.0", "schema": {"type": "string"}})
    write(engine, "PATCH", f"{ORDER}/meta", {"defaultversionid": "3"})
    assert xids(find(engine, "customer_id")) == []
    assert xids(find(engine, "customer_id", versions=True)) == [f"{ORDER}/versions/1"]


def test_pages_follow_one_another(engine: Engine) -> None:
    collected, after = [], None
    while True:
        page = find(engine, "", limit=3, after=after)
        collected += xids(page)
        after = page.following
        if after is None:
            break
    assert collected == xids(find(engine, "", limit=100))
    assert len(collected) == len(set(collected)) == 8


def test_snippet_shows_the_match(engine: Engine) -> None:
    (hit,) = find(engine, "customer payments").hits
    snippets = [snippet.to_json() for snippet in hit.snippets]
    assert {"kind": "field", "path": "customer_id", "text": "customer_id", "ranges": [[0, 8]]} in snippets
    assert {"kind": "attribute", "path": "labels.team", "text": "payments", "ranges": [[0, 8]]} in snippets


@dataclass(frozen=True)
class Rule:
    on: tuple[str, ...]
    allow: Action
    deny: Action


def reading(*patterns: str, deny: tuple[str, ...] = ()) -> Access:
    rules = RuleTree([Rule(patterns, Action.READ, NOTHING), Rule(deny, NOTHING, Action.READ)])
    return Access(Identity(subject="ann"), [rules], key="ann")


VISIBLE: list[tuple[Access, set[str]]] = [
    (
        reading("/schemagroups/h"),
        {"/schemagroups/h", "/schemagroups/h/schemas/Copy", "/schemagroups/h/schemas/Was"},
    ),
    (reading("/*/m"), {"/messagegroups/m", MADE}),
    (reading("/*/m*"), {"/messagegroups/m", MADE}),
    (reading("/", deny=("/schemagroups/*/schemas/*", "/schemagroups/*")), {"/messagegroups/m", MADE}),
    (reading("/schemagroups/*/schemas/ord*"), {"/schemagroups/g", "/schemagroups/h", ORDER}),
    (reading(ORDER), {"/schemagroups/g", ORDER}),
    (reading("/", deny=("/schemagroups",)), {"/messagegroups/m", MADE}),
    (reading("/nothing"), set()),
    # What is allowed and denied shows the Group in which it is.
    (reading("/schemagroups/*/schemas", deny=("/schemagroups/*/schemas",)), {"/schemagroups/g", "/schemagroups/h"}),
]


def test_hidden_entities_are_not_found_or_counted(engine: Engine) -> None:
    for text in ("", "order", "customer", "field:customer_id"):
        everything = xids(find(engine, text))
        for access, visible in VISIBLE:
            expected = [xid for xid in everything if xid in visible]
            # The field is one of the schema that this message refers to.
            if text.startswith("field:") and ORDER not in visible:
                expected = [xid for xid in expected if xid != MADE]
            page = find(engine, text, access)
            assert xids(page) == expected, (text, visible)
            assert page.count == sum(count for _, count in page.facets["type"]) == len(expected)


def test_search_with_many_rules_and_groups(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for many, groups in [(100, 1_000), (1, 1_000), (0, 1_000), (0, 1)]:
        monkeypatch.setattr(search, "_MAX_PATTERNS", many)
        monkeypatch.setattr(search, "_MAX_GROUPS", groups)
        assert xids(find(engine, "", reading("/*/m*", "/messagegroups/m"))) == ["/messagegroups/m", MADE]


def test_matches_are_counted_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = find(engine, "order")
    monkeypatch.setattr(search, "MAX_MATCHES", everything.count)
    assert find(engine, "order").complete
    monkeypatch.setattr(search, "MAX_MATCHES", everything.count - 1)
    page = find(engine, "order")
    assert (page.count, page.complete) == (everything.count - 1, False)
    assert xids(page) == xids(everything)[:-1]


def test_hidden_matches_do_not_push_others_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do they show in whether what is counted is all."""
    monkeypatch.setattr(search, "MAX_MATCHES", 2)
    page = find(engine, "", reading("/messagegroups"))
    assert (page.count, page.complete) == (2, True)
    everything = find(engine, "")
    assert (everything.count, everything.complete) == (2, False)
