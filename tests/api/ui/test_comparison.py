"""Two Versions side by side: verdicts by the comparison that writes are held to, attributes, text; bounded."""

import json
from typing import Any

import pytest

from signalbook.api.ui.comparison import build_text_diff, find_differences
from signalbook.storage.store import Store

from ..conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy
from .conftest import Document, show
from .test_pages import HOSTILE, harmless

SCHEMA = "/schemagroups/shop/schemas/item"
OLD = {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}
NEW = {**OLD, "properties": {"sku": {"type": "integer"}, "count": {"type": "integer"}}, "required": ["sku"]}


def put_versions(client: Client, *schemas: Any, format: str = "JsonSchema/draft-07", **more: Any) -> None:
    versions = {str(n): {"format": format, "schema": schema, **more} for n, schema in enumerate(schemas, 1)}
    answer = client.put(f"{SCHEMA}$details", {"versions": versions})
    assert answer.is_success, answer.text


def compared(client: Client, old: str = "1", new: str = "2", of: str = SCHEMA, **sent: Any) -> Document:
    return show(client, "/-/compare", params={"of": of, "old": old, "new": new}, **sent)


def test_each_direction_has_its_verdict_with_reasons(explorer: Client) -> None:
    put_versions(explorer, OLD, NEW)
    words = compared(explorer).words("main")
    assert "backward: Can readers of “2” read what was written with “1”? no" in words
    assert "/properties/sku" in words
    assert "type_changed" in words
    same = compared(explorer, "1", "1").words("main")
    assert same.count("? yes") == 2
    assert "Both have the same text." in same


def test_comparison_shows_the_findings_of_check(explorer: Client) -> None:
    put_versions(explorer, OLD, NEW)
    body = {"format": "JsonSchema/draft-07", "schema": {**NEW, "title": "again"}, "ancestorid": "1"}
    answer = explorer.put(f"/check{SCHEMA}/versions/3$details?compatibility=backward", body)
    words = compared(explorer).words("main")
    faults = answer.json()["errors"][0]["faults"]
    assert faults
    for fault in faults:
        assert fault["message"].partition(": ")[2] in words


def test_an_addition_that_may_be_left_out_is_compatible(explorer: Client) -> None:
    first = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
    second = {**first, "fields": [*first["fields"], {"name": "b", "type": "int", "default": 0}]}
    put_versions(explorer, first, second, format="Avro/1.11")
    words = compared(explorer).words("main")
    assert words.count("? yes") == 2
    assert '+ "name": "b"' in words


def test_references_are_followed(explorer: Client) -> None:
    """A schema is compared together with the schemas it refers to."""
    put_versions(explorer, {"$ref": "/schemagroups/shop/schemas/order/versions/1"}, {"type": "integer"})
    assert compared(explorer).words("main").count("? no") == 2


def test_imports_of_protobuf_are_found(explorer: Client) -> None:
    head = 'syntax = "proto3"; package p; '
    money = {"format": "Protobuf/3", "schema": head + "message Money { int64 units = 1; }"}
    explorer.put("/schemagroups/shop/schemas/money.proto$details", money)
    text = head + 'import "money.proto"; message Item { Money price = 1; int32 count = 2; }'
    put_versions(explorer, text, text.replace("int32 count", "string count"), format="Protobuf/3")
    words = compared(explorer).words("main")
    assert words.count("? no") == 2
    assert "count" in words


def test_comparison_explains_why_it_is_impossible(explorer: Client) -> None:
    put_versions(explorer, OLD, "x" * 1_100_000, format="Own/1")
    words = compared(explorer).words("main")
    assert words.count("? not known") == 2
    assert "here up to 1048576 are compared" in words
    assert "Only the first 1500 lines" in words
    far = show(explorer, "/-/compare?of=/schemagroups/shop/schemas/far")
    assert "has no schema here" in far.words("main")
    put_versions(explorer, OLD, NEW, format="Own/1")
    assert "no comparison for schemas of format" in compared(explorer).words("main")


def test_attributes_that_differ_are_shown_by_their_place(explorer: Client) -> None:
    message = "/messagegroups/shop/messages/placed"
    changed = {"name": "New name", "envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "shop.new"}}}
    explorer.put(f"{message}/versions/2", changed)
    words = compared(explorer, of=message).words("main")
    assert "name Order placed New name" in words
    assert "envelopemetadata.type.value shop.placed shop.new" in words
    assert "description A customer placed an order. not there" in words


def test_messages_are_compared_by_their_own_schemas(explorer: Client) -> None:
    message = "/messagegroups/shop/messages/own"
    for number, schema in ((1, OLD), (2, NEW)):
        body = {"dataschemaformat": "JsonSchema/draft-07", "dataschema": schema}
        assert explorer.put(f"{message}/versions/{number}", body).is_success
    assert "/properties/sku" in compared(explorer, of=message).words("main")


def test_comparison_begins_with_the_default_version_and_its_ancestor(explorer: Client) -> None:
    put_versions(explorer, OLD, OLD, NEW)
    assert show(explorer, f"/-/compare?of={SCHEMA}").words("h1") == "2 and 3"


def test_bad_questions_are_refused(explorer: Client) -> None:
    for query, status in (
        ("", 400),
        ("?of=/nothing", 400),
        ("?of=/messagegroups/shop", 400),
        (f"?of={SCHEMA}", 404),
        ("?of=/schemagroups/shop/schemas/order&old=9", 404),
        ("?of=/schemagroups/shop/schemas/order&old=1%2F2", 400),
        ("?of=/schemagroups/shop/schemas/order&new=%20", 400),
    ):
        page = show(explorer, f"/-/compare{query}")
        assert page.status == status, query
        harmless(page)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_content_is_text(explorer: Client, text: str) -> None:
    put_versions(explorer, {"title": text, "enum": [text]}, {"title": "x", "enum": [1]}, name=text, more={text: text})
    explorer.send("PATCH", f"{SCHEMA}/versions/1$details", json={"more": {text: 1}, "name": "other"})
    harmless(compared(explorer))
    harmless(show(explorer, f"{SCHEMA}/versions"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"enum": ["&" * 5_000_000]}, {"enum": ["<" * 5_000_000]}),
        ({"p": {f"k{n}": n for n in range(20_000)}}, {"p": {f"k{n}": -n for n in range(20_000)}}),
        ({"properties": {f"p{n}": {"type": "string"} for n in range(3000)}}, {"type": "object", "required": ["x"]}),
    ],
    ids=["one line", "many lines", "properties"],
)
def test_large_documents_are_compared_as_far_as_that_is_quick(explorer: Client, old: Any, new: Any) -> None:
    put_versions(explorer, old, new)
    page = compared(explorer)
    assert page.status == 200
    assert len(page.text.encode()) < 200_000


def test_many_versions_are_named_instead_of_chosen(explorer: Client) -> None:
    put_versions(explorer, *(OLD for _ in range(205)))
    page = show(explorer, f"{SCHEMA}/versions")
    assert [tag.get("name") for tag in page.all("input")].count("old") == 1
    assert compared(explorer, "1", "205").status == 200


def test_timeline_links_to_the_comparison(explorer: Client) -> None:
    put_versions(explorer, OLD, NEW)
    page = show(explorer, f"{SCHEMA}/versions")
    assert page.words("table").count("what changed since 1") == 1
    assert show(explorer, page.links()["what changed since 1"].removeprefix("/ui")).words("h1") == "1 and 2"
    assert [option.text for option in page.all("option")][:4] == ["2", "1", "2", "1"]


def test_author_of_a_change_requires_the_right_to_audit(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", **PROXIED)
    put_policy(store, {"who": ["subject:ann"], "role": "owner", "on": ["/schemagroups/*"]})
    ann, body = {"X-User": "ann"}, {"format": "Own/1", "schema": "x"}
    for name in ("item", "item2"):
        answer = client.put(f"/schemagroups/shop/schemas/{name}$details", body, headers=ann)
        assert answer.is_success, answer.text
    words = show(client, f"{SCHEMA}/versions", headers=ADMINISTRATOR).words("main")
    assert f"create {SCHEMA}" in words
    assert "ann" in words
    assert "item2" not in words
    assert "Who changed it" not in show(client, f"{SCHEMA}/versions", headers=ann).words("main")


def test_differences_are_found_by_name() -> None:
    old, new = {"a": 1, "b": {"c": [1], "d": None}}, {"a": 1, "b": {"c": [2]}, "e": {}}
    assert list(find_differences(old, new)) == [("b.c", [1], [2]), ("b.d", None, None), ("e", None, {})]


def test_a_diff_has_some_lines_around() -> None:
    old = [str(n) for n in range(20)]
    new = [*old[:10], "new", *old[11:]]
    diff = build_text_diff("\n".join(old), "\n".join(new))
    assert [line.sign for line in diff.lines] == ["@", " ", " ", " ", "-", "+", " ", " ", " "]
    assert build_text_diff("a", "a").note == "They differ in layout only."
    assert build_text_diff("", "\n".join(old)).lines[-1].text == "19"
    assert json.dumps([line.text for line in build_text_diff("a\nb", "a").lines]).count("b") == 1


def test_a_diff_side_by_side() -> None:
    pairs = build_text_diff("a\nb\nc\nd", "a\nB\nd\ne").pairs()
    assert [(pair.kind, pair.old, pair.new) for pair in pairs[1:]] == [
        ("kept", "a", "a"),
        ("changed", "b", "B"),
        ("changed", "c", None),
        ("kept", "d", "d"),
        ("changed", None, "e"),
    ]
    assert pairs[0].kind == "gap"


def test_both_ways_to_show_the_text_have_a_url(explorer: Client) -> None:
    put_versions(explorer, OLD, {**NEW, "title": HOSTILE[0]})
    below = compared(explorer)
    beside = show(explorer, below.links()["Side by side"].removeprefix("/ui").partition("#")[0])
    assert len(beside.all("pre")) == 0
    rows = [["".join(cell.itertext()) for cell in row] for row in beside.all("table")[-1].iter("tr")]
    assert rows[0] == ["1", "2"]
    assert [row for row in rows if row[1:] == ['came:   "required": [']] != []
    assert beside.links()["One below the other"].endswith("#text-of-both")
    assert "&text" not in beside.links()["One below the other"]
    harmless(beside)
