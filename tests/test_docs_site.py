"""The documentation site, as `make docs` builds it."""

import os
import subprocess
import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
URL = "https://docs.example/signalbook/"


class Page(HTMLParser):
    """The links of a page, and the anchors that others may name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.anchors = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.anchors.add(attributes.get("id", ""))
        self.links += [(tag, attributes[name]) for name in ("href", "src") if name in attributes]


def list_pages(entries: list[object]) -> list[str]:
    """Return the pages of a navigation. A name that ends in a slash is a folder."""
    pages = []
    for entry in entries:
        for content in entry.values() if isinstance(entry, dict) else [entry]:
            pages += list_pages(content) if isinstance(content, list) else [str(content)]
    return pages


def read_navigation() -> list[str]:
    return list_pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])


def test_every_page_is_in_the_navigation() -> None:
    names = read_navigation()
    for page in DOCS.rglob("*.md"):
        name = str(page.relative_to(DOCS))
        assert name in names or f"{name.partition('/')[0]}/" in names, name


@pytest.mark.merge
def test_the_site_is_complete(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "docs"), str(tmp_path)]
    ran = subprocess.run(command, env={**os.environ, "SITE_URL": URL}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    site = tmp_path / "site"
    pages = {URL + str(path.relative_to(site)).removesuffix("index.html"): Page(path) for path in site.rglob("*.html")}

    broken = defaultdict(set)
    for url, page in pages.items():
        for tag, link in page.links:
            target, _, anchor = urljoin(url, link).partition("#")
            path = site / unquote(target.removeprefix(URL))
            if target in pages:
                if unquote(anchor) not in pages[target].anchors:
                    broken[url].add(link)
            elif target.startswith(URL):
                if not path.is_file():
                    broken[url].add(link)
            elif tag != "a":  # nothing is fetched from elsewhere
                broken[url].add(link)
    assert broken == {}

    index = (site / "llms.txt").read_text(encoding="utf-8")
    for name in read_navigation():
        link = f"{name.removesuffix('.md')}/" if name.startswith("python/") else name
        assert f"]({URL}{link}" in index
        assert (site / link).exists()
    names = pages[f"{URL}python/signalbook/"].anchors | pages[f"{URL}python/signalbook.pipeline/"].anchors
    assert {"signalbook.Client.get", "signalbook.pipeline.Job", "signalbook.pipeline.run"} <= names
    assert "--table-format" in (site / "cli" / "index.html").read_text(encoding="utf-8")
    assert urlsplit(URL).path in (site / "404.html").read_text(encoding="utf-8")
