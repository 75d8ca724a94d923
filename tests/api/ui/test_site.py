"""The explorer as files: links that lead to files, names that any disk takes, nothing that runs, always the same."""

import json
import posixpath
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import unquote

import pytest

from signalbook.api.ui import site
from signalbook.api.ui.site import POLICY, Site, folder_name
from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, Method
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.values import format_timestamp
from signalbook.xid import ROOT

from .conftest import REGISTRY, Document, parse
from .test_pages import ALLOWED, HOSTILE, hostile_registry

MANY: dict[str, Any] = {f"g{number:03}": {} for number in range(120)}
LONG = "x" * 128


@contextmanager
def made(body: dict[str, Any]) -> Iterator[Site]:
    """The site of a registry that has this."""
    with closing(open_store("sqlite://")) as store:
        engine = Engine(store, settings=Settings(domain_rules="off"))
        with engine.writing() as session:
            session.execute(Command(method=Method.PATCH, target=ROOT, body=body))
            undated = format_timestamp(session.now)
        yield Site(engine=engine, undated=undated)


def files(body: dict[str, Any]) -> dict[str, bytes]:
    with made(body) as site:
        return {str(file.path): file.content for file in site.files()}


@pytest.fixture(scope="module")
def shop() -> dict[str, bytes]:
    """Return the files of the workshop site with many more groups."""
    return files({**REGISTRY, "messagegroups": {**REGISTRY["messagegroups"], **MANY}})


def pages(site_files: dict[str, bytes]) -> dict[str, Document]:
    texts = {name: content.decode() for name, content in site_files.items() if name.endswith(".html")}
    return {name: Document(150, {}, text, parse(text)) for name, text in texts.items()}


def check(site_files: dict[str, bytes]) -> None:
    """Every link leads to a file or to the web, every file is led to, and nothing runs but the site's own scripts."""
    reached = {"index.html", ".nojekyll", "-/search/index.html", "-/index.js"}
    for name, page in pages(site_files).items():
        for element in page.root.iter():
            assert element.tag in {*ALLOWED, "noscript"}, element.tag
            for attribute, value in element.attrib.items():
                assert not attribute.startswith("on")
                assert attribute != "style"
                if attribute not in ("href", "src", "action") or value.startswith(("http://", "https://", "#")):
                    continue
                target = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(value)))
                assert target in site_files, (name, value)
                reached.add(target)
        metas = [tag.get("content") for tag in page.all("meta") if tag.get("http-equiv")]
        assert metas == [POLICY], "before anything that it is about"
        scripts = {tag.get("src", "") for tag in page.all("script")}
        assert all(tag.startswith(("-/", "../")) for tag in scripts)
        assert "registry.invalid" not in page.text
        assert len(page.text.encode()) < 200_000
    assert not {name for name in site_files if not name.startswith("-/static/")} - reached


def test_every_link_leads_to_a_file(shop: dict[str, bytes]) -> None:
    check(shop)


def test_the_pages_are_those_of_the_server(shop: dict[str, bytes]) -> None:
    site_pages = pages(shop)
    message = site_pages["messagegroups/shop/messages/placed/index.html"]
    assert "shop.placed" in message.words("main")
    assert "curl" in message.words("main"), "samples are there"
    assert "Try a message" not in message.words("main")
    assert "New version" not in message.words("main")
    assert "A better one" in site_pages["schemagroups/shop/schemas/order/versions/2/-changes.html"].words("main")
    assert len(message.all("form")) == 1
    assert not site_pages["endpoints/orders/index.html"].all("time"), "nobody said when"


def test_relations_and_dependents_have_pages(shop: dict[str, bytes]) -> None:
    """Entities that have relations get these pages, without the parts that need a server."""
    site_pages = pages(shop)
    links = site_pages["schemagroups/shop/schemas/order/index.html"].links()
    assert (links["Relations"], links["What depends on this"]) == ("-relations.html", "-impact.html")
    relations = site_pages["schemagroups/shop/schemas/order/-relations.html"]
    assert "dataschema order" in relations.words("main")
    assert "../../../../messagegroups/shop/messages/placed/-relations.html" in {
        tag.get("href") for tag in relations.root.iter("{http://www.w3.org/2000/svg}a")
    }
    assert "step more" not in relations.words("main")
    impact = site_pages["schemagroups/shop/schemas/order/-impact.html"]
    assert impact.links()["/endpoints/orders"] == "../../../../endpoints/orders/index.html"
    assert "Pipelines" not in impact.words("main")
    assert "Try" not in impact.words("main")
    assert len(impact.all("form")) == 1, "the search"
    alone = site_pages["schemagroups/shop/schemas/row/index.html"]
    assert "Relations" not in alone.words("aside"), "nothing refers to it"
    group = site_pages["schemagroups/shop/-relations.html"].root.iter("{http://www.w3.org/2000/svg}a")
    assert "schemas/row/-relations.html" in {tag.get("href") for tag in group}, "but its group leads there"
    assert "refers to nothing" in site_pages["schemagroups/shop/schemas/row/-relations.html"].words("main")
    assert "messagegroups/g000/-relations.html" not in shop


def test_versions_are_compared_with_ancestor_and_default() -> None:
    """Two comparisons a version at most, each at one place."""
    versions = {str(number): {"format": "Own/1", "schema": f"text {number}"} for number in range(1, 5)}
    site = files({"schemagroups": {"g": {"schemas": {"s": {"versions": versions}}}}})
    check(site)
    folder = "schemagroups/g/schemas/s/versions"
    assert {name.removeprefix(f"{folder}/") for name in site if "/-" in name and name.startswith(folder)} == {
        "1/-default.html", "2/-default.html", "2/-changes.html", "3/-changes.html", "4/-changes.html",
    }  # fmt: skip
    links = pages(site)[f"{folder}/2/index.html"].links()
    assert links["What changed since version 1"] == "-changes.html"
    assert links["What the default version, 4, has instead"] == "-default.html"
    links = pages(site)[f"{folder}/3/index.html"].links()
    assert links["What the default version, 4, has instead"] == "../4/-changes.html"
    assert "text 4" in pages(site)[f"{folder}/1/-default.html"].words("main")


def test_large_collection_is_divided_into_linked_pages(shop: dict[str, bytes]) -> None:
    site_pages = pages(shop)
    met, name = [], "messagegroups/index.html"
    while True:
        page = site_pages[name]
        met += sorted(link for link in page.links() if link.startswith("g"))
        if "next" not in page.links():
            break
        name = f"messagegroups/{page.links()['next']}"
    assert met == sorted(MANY)
    assert page.links()["previous"] == "-2.html"


def test_documents_are_text_files(shop: dict[str, bytes]) -> None:
    document = shop["schemagroups/shop/schemas/order/versions/2/document.txt"]
    assert json.loads(document) == {"type": "object", "title": "A better one"}
    assert "schemagroups/shop/schemas/order/document.txt" not in shop, "it is that of the default version"
    entity = json.loads(shop["schemagroups/shop/schemas/order/versions/2/index.json"])
    assert entity["xid"] == "/schemagroups/shop/schemas/order/versions/2"
    assert not {"self", "createdat", "modifiedat"} & entity.keys()


def test_the_same_registry_gives_the_same_bytes() -> None:
    assert files(REGISTRY) == files(REGISTRY)


def test_missing_entities_are_not_linked() -> None:
    dangling = {"usage": ["producer"], "messagegroups": ["/messagegroups/none", "/messagegroups/there"]}
    site = files({"endpoints": {"e": dangling}, "messagegroups": {"there": {}}})
    check(site)
    page = pages(site)["endpoints/e/index.html"]
    assert page.links()["/messagegroups/none"] == ""
    assert page.links()["/messagegroups/there"] == "../../messagegroups/there/index.html"


@pytest.mark.parametrize(
    "text", [pytest.param(text, marks=[pytest.mark.merge] if index else []) for index, text in enumerate(HOSTILE)]
)
def test_hostile_content_is_text(text: str) -> None:
    """The server's pages have the same templates: ``test_pages`` tests them with all texts."""
    site = files(hostile_registry(text))
    check(site)
    index = site["-/index.js"].decode()
    assert index.isprintable() or set(index) <= set(map(chr, range(32, 0x110000))) | {"\n"}
    head, equals, entries_json = index.partition(" = ")
    assert (head, equals) == ("globalThis.signalbookIndex", " = ")
    assert json.loads(entries_json.removesuffix(";\n"))["entries"]


NAMES = {
    "order": "order",
    "Order-1.2_x~@": "Order-1.2_x~@",
    "a:b": "a=3Ab",
    "con": "=63on",
    "NUL.txt": "=4EUL.txt",
    "index.html": "=69ndex.html",
    "Index.HTML": "=49ndex.HTML",
    "document.txt": "=64ocument.txt",
    "end.": "end=2E",
    "..": "=2E=2E",
    "-": "=2D",
}


@pytest.mark.parametrize(("part", "name"), NAMES.items())
def test_names_are_such_as_any_disk_takes(part: str, name: str) -> None:
    assert folder_name(part) == name


def test_long_names_are_cut_and_stay_different() -> None:
    names = {folder_name(":" * 127 + end) for end in "abc"}
    assert len({name.casefold() for name in names}) == 3
    assert all(len(name.encode()) <= 200 for name in names)


def test_hostile_ids_are_files_inside_of_the_site() -> None:
    ids = ["con", "a:b", "index.html", "index.json", "document.txt", "a..", "_", LONG, "z" * 64 + ":" * 64, "x.-2.html"]
    schema = {"format": "Avro/1.11", "schema": {"type": "string"}}
    site = files({"schemagroups": {name: {"schemas": {name: schema}} for name in ids}})
    check(site)
    assert len({name.casefold() for name in site}) == len(site)
    for name in site:
        assert not name.startswith("/")
        assert all(len(part) <= 255 and part not in ("", ".", "..") for part in name.split("/"))


def test_search_index_is_bounded_and_reports_omissions(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {f"field{at}": {"description": f"said{at} of{at}"} for at in range(40)}
    schema = {"format": "JsonSchema/draft-07", "schema": {"properties": properties}}
    with made({"schemagroups": {"g": {"schemas": {"s": schema, "t": schema}}}}) as whole:
        list(whole.files())
        assert whole.summary.left_out == ""
        size = whole.summary.index_bytes
        for most, left_out in (
            (size - 100, "descriptions of fields"),
            (size // 2, "fields, texts but names"),
            (200, "fields, texts but names, and 1 of the entities"),
        ):
            monkeypatch.setattr(site, "MAX_INDEX", most)
            limited = {str(file.path): file.content for file in whole.files()}
            assert len(limited["-/index.js"]) < most + 120
            assert whole.summary.left_out.startswith(left_out)
            assert json.dumps(whole.summary.left_out) in limited["-/index.js"].decode()
