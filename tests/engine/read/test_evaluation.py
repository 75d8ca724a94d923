"""Filter evaluation: what a filter leaves of a registry, compared with the specification read literally."""

from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.conftest import Registry, registry_of
from tests.engine.filter_reference import TYPES, filtered
from tests.examples import examples

from signalbook.engine.read.filters import parse_filter
from signalbook.engine.read.nodes import ALL, NOTHING
from signalbook.engine.read.pages import PageRequest, parse_sort
from signalbook.engine.read.view import ViewOptions
from signalbook.errors import RegistryError
from signalbook.storage.store import Store
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid

BASE = "http://r.example"
ANYTHING = {"*": {"type": "any"}}
FILES = {
    "when": {"type": "timestamp"},
    "size": {"type": "uinteger"},
    "hidden": {"type": "boolean"},
    "tags": {"type": "array", "item": {"type": "string"}},
    **ANYTHING,
}
RESOURCES = {
    "files": {"singular": "file", "hasdocument": False, "attributes": FILES, "metaattributes": ANYTHING},
    "notes": {"singular": "note", "hasdocument": False, "attributes": ANYTHING},
}
MODEL = {"groups": {"dirs": {"singular": "dir", "attributes": ANYTHING, "resources": RESOURCES}}}
TREE = {
    "description": "Kelvin \u212a and STRASSE",
    "dirs": {
        "d1": {
            "name": "One",
            "labels": {"stage": "Dev", "a.b": "x"},
            "files": {
                "f1": {
                    "meta": {"owner": "joe"},
                    "versions": {
                        "1": {"name": "Foo", "size": 5, "when": "2024-05-05T01:00:00+01:00"},
                        "V2": {"name": "foobar", "size": 50, "hidden": True, "tags": ["a", "B*"]},
                    },
                },
                "F2": {"name": "stra\u00dfe", "size": 0, "deep": {"x": [{"y": 1.5}, {"y": None}], "*": "star"}},
                "x1": {"meta": {"xref": "/dirs/d2/files/f1"}},
                "x2": {"meta": {"xref": "/dirs/d2/files/none"}},
            },
            "notes": {"n1": {"empty": "", "description": 'quo"te\\ back'}},
        },
        "d2": {"files": {"f1": {"name": "FOO", "size": 7, "hidden": False, "mixed": "5"}}, "name": "5"},
        "D3": {"name": "\u00fcber K", "mixed": 5},
    },
}


def planted(store: Store) -> Registry:
    registry = registry_of(store, model="empty")
    registry.configure("modelsource", MODEL)
    registry.put("/", TREE)
    return registry


def left(registry: Registry, path: str, *values: str, **options: Any) -> JSONObject | None:
    """Return what a filtered view of ``path`` shows, or None if the entity is not found."""
    xid = Xid.parse(path)
    with registry.engine.reading() as view:
        chosen = parse_filter(values, xid, view.model, subject=path)
        view_options = ViewOptions(**{"base_url": BASE, "inline": ALL, "filter": chosen, **options})
        show = view.render_collection if xid.is_collection else view.render_entity
        try:
            return show(xid, view_options)
        except RegistryError as error:
            if error.code != "not_found":
                raise
            return None


def without_urls(value: JSON) -> JSON:
    """Collection URLs carry the filter that remains; they are tested by following them."""
    if not isinstance(value, dict):
        return value
    return {name: without_urls(member) for name, member in value.items() if not name.endswith("surl")}


ATTRIBUTES = st.sampled_from(
    ["name", "description", "size", "hidden", "when", "mixed", "epoch", "createdat", "xid", "dirid", "fileid",
     "versionid", "isdefault", "ancestorid", "empty", "labels.stage", "labels['a.b']", "labels.*", "tags[*]", "tags[0]",
     "tags",
     "deep.x[*].y", "deep.x[1].y", "deep['*']", "deep.*", "meta.owner", "meta.epoch", "meta.xref", "meta.fileid",
     "filescount", "versionscount", "meta.defaultversionid", "none", "specversion", "readonly", "meta.readonly"]
)  # fmt: skip
VALUES = st.sampled_from(
    ["", "null", "*", "foo", "FOO", "f*", "*o*", "*a*r", "5", "5.0", "50", "7e0", "0", "1.5", "true", "True", "false",
     "strasse", "*SS*", "\u00fc*", "\u212a", "*k", "b\\*", "B*",
     "dev", "x", "one", "star", "d1", "D*", "f1", "1", "v2",
     "2024-05-05T00:00:00Z", "2024*", "2999-01-01T00:00:00Z", "joe", 'quo"te\\ back', "*te\\ *",
     "/dirs/d1/files/x1/versions/1"]
)  # fmt: skip
LEVELS = [".".join((*path, plural)) for path, plurals in TYPES.items() for plural in plurals]


@st.composite
def expressions(draw: st.DrawFn) -> str:
    path, attribute = draw(st.sampled_from(["", *LEVELS])), draw(ATTRIBUTES)
    operator, value = draw(st.sampled_from(["", "=", "!=", "<>", "<", "<=", ">", ">="])), draw(VALUES)
    if operator.startswith(("<", ">")) and operator != "<>" and (value == "null" or "*" in value.replace("\\*", "")):
        value = "5"
    return f"{path}.{attribute}".lstrip(".") + operator + (value if operator else "")


def test_filtering_equals_the_reference(store: Store) -> None:
    """R181 to R193, on the whole registry with everything inlined."""
    registry = planted(store)
    everything = left(registry, "/")
    assert everything is not None

    @settings(max_examples=examples(200))
    @given(st.lists(st.lists(expressions(), min_size=1, max_size=3).map(",".join), min_size=1, max_size=3))
    def check(values: list[str]) -> None:
        assert without_urls(left(registry, "/", *values)) == without_urls(filtered(everything, values)), values

    check()


def followed(registry: Registry, url: str) -> JSONObject | None:
    """Return what the URL of a collection shows with everything inlined."""
    path, _, query = url.removeprefix(BASE).partition("?")
    return left(registry, path, *(value for name, value in parse_qsl(query) if name == "filter"))


def test_counts_and_urls_equal_the_inlined_view(store: Store) -> None:
    """The counts and URLs describe at every level what inlining would show (R193, R194)."""
    registry = planted(store)

    @settings(max_examples=examples(100))
    @given(st.lists(st.lists(expressions(), min_size=1, max_size=2).map(",".join), min_size=1, max_size=2))
    def check(values: list[str]) -> None:
        inlined, bare = left(registry, "/", *values), left(registry, "/", *values, inline=NOTHING)
        assert (inlined is None) == (bare is None)
        if inlined is None or bare is None:
            return
        assert bare == {name: value for name, value in inlined.items() if name != "dirs"}
        assert without_urls(followed(registry, bare["dirsurl"])) == without_urls(inlined["dirs"])
        for group in inlined["dirs"].values():
            assert (len(group["files"]), len(group["notes"])) == (group["filescount"], group["notescount"])
            for plural in ("files", "notes"):
                collection = followed(registry, group[f"{plural}url"])
                assert without_urls(collection) == without_urls(group[plural]), (values, group[f"{plural}url"])

    check()


@pytest.mark.parametrize("doc", [False, True])
def test_pages_in_any_order_are_the_collection(store: Store, *, doc: bool) -> None:
    """The rule holds with and without a filter (R214, R291)."""
    registry = planted(store)
    xid = Xid.parse("/dirs/d1/files")

    @settings(max_examples=examples(60), deadline=None)
    @given(st.lists(expressions(), max_size=2), ATTRIBUTES, st.booleans(), st.integers(1, 3))
    def check(values: list[str], attribute: str, descending: bool, limit: int) -> None:
        with registry.engine.reading() as view:
            try:
                sort = parse_sort(f"{attribute}{'=desc' * descending}", xid, view.model, subject="/")
                chosen = parse_filter(
                    [expression.replace("dirs.files.", "") for expression in values], xid, view.model, subject="/"
                )
            except RegistryError:
                return
            options = ViewOptions(base_url=BASE, filter=chosen, sort=sort, doc=doc)
            members: JSONObject = {}
            whole, page = view.render_collection(xid, options), PageRequest(limit=limit)
            while page.limit:
                listed = view.list_members(xid, options, page)
                members |= view.render_members(xid, listed, options)
                following = listed.following
                assert listed.total == len(whole) or not (following or page.after)
                page = PageRequest(limit=limit if following else None, after=following, total=listed.total)
        assert list(members.items()) == list(whole.items())

    check()
