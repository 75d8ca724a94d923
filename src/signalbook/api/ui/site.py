"""The explorer as a static site: the pages of a registry that need no server (docs/site.md).

The pages are made by the same functions and templates as on a server. Here they get file names, and the links between
them lead from file to file, so that the site works below any URL and from a disk. The same registry always gives the
same bytes.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

from signalbook.access.decisions import UNRESTRICTED
from signalbook.api.kernel.caching import RequestHeaders
from signalbook.api.ui import comparison, home, listing, relations, searching
from signalbook.api.ui.assets import PATH as STATIC
from signalbook.api.ui.assets import load_assets
from signalbook.api.ui.entities import EntityPage
from signalbook.api.ui.impact import IMPACT, build_dependents_page
from signalbook.api.ui.listing import Listing
from signalbook.api.ui.messages import MessageContent
from signalbook.api.ui.pages import PATH, Page, Pages, UIRequest
from signalbook.api.ui.relations import RELATIONS, RelationsContent
from signalbook.api.ui.routes import page_of
from signalbook.api.ui.schemas import SchemaContent
from signalbook.engine.engine import Engine
from signalbook.engine.read.view import View, ViewOptions
from signalbook.engine.search.text import split
from signalbook.filenames import file_name
from signalbook.settings import Settings
from signalbook.storage.words import DEPRECATED, Text
from signalbook.values import JSON, JSONObject, dump_json
from signalbook.xid import ROOT, Kind, Xid

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'"
)
MAX_INDEX: Final = 4_000_000
"""The maximum bytes of the search index. If it is larger, texts are left out, descriptions of fields first."""
ROOT_URL: Final = "https://registry.invalid"
"""A placeholder for the URL of the registry, which a site does not know."""
_LEFT_OUT: Final = ("", "descriptions of fields", "fields, texts but names")
"""The parts that are left out of an index that would be too large, by level."""
_SEARCH: Final = "-/search/index.html"
_INDEX: Final = "-/index.js"
_DESCRIPTION: Final = 160
_LINK: Final = re.compile(r' (href|src|action)="([^"]*)"')
_OWN_NAMES: Final = frozenset({"index.html", "index.json", "document.txt"})
_TIME_ATTRIBUTES: Final = ("createdat", "modifiedat")
_RELATED: Final = (Kind.GROUP, Kind.RESOURCE)
"""The kinds of entities with pages of relations and dependents. Versions link to the pages of their Resource."""
PageOfEntity = EntityPage | MessageContent | SchemaContent


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFile:
    """A file of the site: its path in the site, and its content."""

    path: PurePosixPath
    content: bytes


@dataclass(kw_only=True)
class SiteSummary:
    """The size of a site: its number of ``pages``, the number of ``entities`` in its search index, and the size of the
    index. ``left_out`` names the parts that the index does not contain."""

    pages: int = 0
    entities: int = 0
    index_bytes: int = 0
    left_out: str = ""


def folder_name(part: str) -> str:
    """Return the name of the folder of a site for a part of an xid.

    Names of the site's own files begin with a dash. The mark is ``=``, since web servers resolve percent signs.
    """
    return file_name(part, mark="=", not_first=".-", reserved=_OWN_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationsPage:
    """A page of relations, and its content."""

    page: Page
    content: RelationsContent


@dataclass(kw_only=True)
class Site:
    """The files of the static site of a registry. ``undated`` is the timestamp that entities without a known time got;
    it is not shown.

    ``progress`` is called with the number of finished pages and the number of all pages.
    """

    engine: Engine
    undated: str = ""
    progress: Callable[[int, int], None] = lambda done, of: None  # noqa: ARG005  nobody looks
    summary: SiteSummary = field(default_factory=SiteSummary)

    def files(self) -> Iterator[SiteFile]:
        """Yield all files, one at a time in memory. Raises ``RegistryError``."""
        with self.engine.reading(UNRESTRICTED) as view:
            yield from _Builder(self, view).files()


class _Builder:
    def __init__(self, site: Site, view: View) -> None:
        self._site = site
        self._view = view
        self._pages = Pages(site=True, policy=POLICY, undated=site.undated)
        # Files by the path of what they are about, below /ui; an xid has one, what was asked for by a query another.
        self._files: dict[str, str] = {}
        self._documents: dict[str, str] = {}
        # Comparisons by Resource, older and newer Version; and these two by the Version that has the page.
        self._compared: dict[tuple[str, str, str], str] = {}
        self._pairs: dict[Xid, list[tuple[str, str]]] = {}
        # Entities to whose relations some page leads, and those whose relations are there.
        self._wanted: dict[Xid, None] = {}
        self._related: set[Xid] = set()

    def files(self) -> Iterator[SiteFile]:
        """Yield the assets, pages, entities as JSON, their documents, and the search index."""
        xids = list(self._list_entities(ROOT))
        for xid in xids:
            self._files[str(xid) if xid.parts else ""] = _page_name(xid)
            if xid.kind in _RELATED:
                self._files[f"{RELATIONS}{xid}"] = _replace_file_name(_page_name(xid), "-relations.html")
                self._files[f"{IMPACT}{xid}"] = _replace_file_name(_page_name(xid), "-impact.html")
        self._files["/-/search"] = _SEARCH
        self._site.summary.pages = len(xids) + 1
        yield SiteFile(path=PurePosixPath(".nojekyll"), content=b"")
        for asset in load_assets().values():
            yield SiteFile(path=PurePosixPath(f"-/static/{asset.name}"), content=asset.content)
        for number, xid in enumerate(xids):
            self._site.progress(number, len(xids))
            yield from self._of(xid)
        for xid in [linked_xid for linked_xid in self._wanted if linked_xid not in self._related]:
            yield from self._build_related_pages(xid, self._build_relations(xid))
        yield self._build_file(_SEARCH, searching.page(self._view, self._request("/-/search")))
        yield SiteFile(path=PurePosixPath(_INDEX), content=self._index())

    def _list_entities(self, xid: Xid) -> Iterator[Xid]:
        """Yield the entities with a page: Registry, collections, Groups, Resources and Versions, owners first."""
        yield xid
        for plural in _list_collections(self._view, xid):
            below = xid / plural
            yield below
            members = self._view.render_collection(below, ViewOptions())
            if below.kind is Kind.VERSIONS:
                self._compare(xid, members)
            for name in members:
                yield from self._list_entities(below / name)

    def _compare(self, xid: Xid, versions: JSONObject) -> None:
        """Choose which Versions of a Resource are compared: each with its ancestor and with the default Version."""
        default = next((name for name, version in versions.items() if version.get("isdefault")), None)
        for name, version in versions.items():
            ancestor = str(version.get("ancestorid", name))
            if ancestor in versions:
                self._add(xid, (ancestor, name), name, "-changes.html")
        for name in versions if default is not None else ():
            self._add(xid, (name, str(default)), name, "-default.html")

    def _add(self, xid: Xid, pair: tuple[str, str], owner: str, name: str) -> None:
        """Add a comparison of two Versions to the pages of the Version ``owner`` as file ``name``, unless it exists
        already."""
        if pair[0] != pair[1] and (str(xid), *pair) not in self._compared:
            version = xid / "versions" / owner
            self._compared[str(xid), *pair] = _replace_file_name(_page_name(version), name)
            self._pairs.setdefault(version, []).append(pair)

    def _of(self, xid: Xid) -> Iterator[SiteFile]:
        if xid.is_collection:
            yield from self._build_collection_pages(xid)
            return
        request = self._request(str(xid))
        yield from self._build_document_file(xid)
        page = home.page(self._view, request) if xid == ROOT else page_of(self._view, xid)(self._view, request, xid)
        name = _page_name(xid)
        if isinstance(page.content, PageOfEntity):
            around = self._build_relations(xid) if xid.kind in _RELATED else None
            if around is not None and not around.content.alone:
                yield from self._build_related_pages(xid, around)
            page = replace(page, content=_add_relations_link(page.content, related=xid in self._related))
        yield self._build_file(name, page)
        if xid.parts:
            yield SiteFile(path=PurePosixPath(_replace_file_name(name, "index.json")), content=self._render_json(xid))
        if xid.kind is Kind.VERSION:
            yield from self._build_comparisons(xid)

    def _build_collection_pages(self, xid: Xid) -> Iterator[SiteFile]:
        """Yield the pages of a collection, each with links to the previous and the next page."""
        name, number, cursor = _page_name(xid), 1, ""
        while True:
            page = listing.page(self._view, self._request(str(xid), cursor=cursor), xid)
            content = page.content
            assert isinstance(content, Listing)
            following = dict(content.pages).get("next", "")
            links = [("previous", f"{xid}?page={number - 1}")] * (number > 1)
            links += [("next", f"{xid}?page={number + 1}")] * bool(following)
            for at in (number - 1, number + 1):
                self._files[f"{xid}?page={at}"] = _format_numbered(name, at)
            numbered_page = replace(page, content=replace(content, pages=tuple(links), unsortable=False))
            yield self._build_file(_format_numbered(name, number), numbered_page)
            if not following:
                return
            number, cursor = number + 1, parse_qs(urlsplit(following).query)["cursor"][0]

    def _build_document_file(self, xid: Xid) -> Iterator[SiteFile]:
        """Yield the document of a Version as a plain text file, so that no script in it runs in the pages' origin."""
        if self._view.model.documented_type(xid) is None:
            return
        document = self._view.load_document(xid, ViewOptions())
        if document.url is not None or not document.content:
            return
        self._documents[str(xid)] = name = _replace_file_name(_page_name(xid), "document.txt")
        if xid.kind is Kind.RESOURCE:
            version = str(document.attributes.get("versionid", ""))
            version_file = _replace_file_name(_page_name(xid / "versions" / version), "document.txt")
            if str(xid / "versions" / version) in self._files:
                self._documents[str(xid)] = version_file
                return
        yield SiteFile(path=PurePosixPath(name), content=document.content)

    def _build_relations(self, xid: Xid) -> RelationsPage:
        """Return the relations of a Group or Resource."""
        page = relations.page(self._view, self._request(f"{RELATIONS}{xid}"))
        assert isinstance(page.content, RelationsContent)
        return RelationsPage(page=page, content=page.content)

    def _build_related_pages(self, xid: Xid, around: RelationsPage) -> Iterator[SiteFile]:
        """Yield the pages of the relations and the dependents of an entity."""
        self._related.add(xid)
        yield self._build_file(self._files[f"{RELATIONS}{xid}"], around.page)
        yield self._build_file(self._files[f"{IMPACT}{xid}"], build_dependents_page(self._view, xid))

    def _build_comparisons(self, xid: Xid) -> Iterator[SiteFile]:
        """Yield the comparisons of a Version: with its ancestor, and with the default Version."""
        of = str(xid.resource)
        for old, new in self._pairs.get(xid, ()):
            page = comparison.page(self._view, self._request(comparison.PATH, of=of, old=old, new=new))
            yield self._build_file(self._compared[of, old, new], page)

    def _render_json(self, xid: Xid) -> bytes:
        return dump_json(self._remove_volatile(self._view.render_entity(xid, ViewOptions())), indent=2) + b"\n"

    def _remove_volatile(self, entity: JSON) -> JSON:
        """Return the JSON without generated times and dead URLs."""
        if not isinstance(entity, dict):
            return entity
        return {
            name: self._remove_volatile(value)
            for name, value in entity.items()
            if not (name in _TIME_ATTRIBUTES and value == self._site.undated)
            and not (isinstance(value, str) and (name in ("self", "shortself") or value.startswith(ROOT_URL)))
        }

    def _request(self, path: str, **query: str) -> UIRequest:
        return UIRequest(
            method="GET",
            path=path,
            query={name: value for name, value in query.items() if value},
            raw_headers=RequestHeaders(),
            base_url=ROOT_URL,
            settings=Settings(),
            access=UNRESTRICTED,
        )

    def _build_file(self, name: str, page: Page) -> SiteFile:
        text = _LINK.sub(self._make_link_function(name), self._pages.render_html(page, ROOT_URL))
        return SiteFile(path=PurePosixPath(name), content=text.encode("utf-8", "replace"))

    def _make_link_function(self, source: str) -> Callable[[re.Match[str]], str]:
        """Return the function that turns a link on a page into one to a file, to another site, or into plain text.

        Templates escape quotation marks in texts, so only their own attributes match.
        """

        def link(match: re.Match[str]) -> str:
            name, url = match[1], html.unescape(match[2])
            target = self._find_target(url, source)
            return "" if target is None else f' {name}="{html.escape(target)}"'

        return link

    def _find_target(self, url: str, source: str) -> str | None:
        if url.startswith(("#", "http://", "https://")) and not url.startswith(f"{ROOT_URL}/"):
            return url
        file = self._find_file(url)
        if file is None:
            return None
        path = posixpath.relpath(file, posixpath.dirname(source) or ".")
        return quote(path, safe="/=@~")

    def _find_file(self, url: str) -> str | None:
        """Return the file that a URL of the server is."""
        if url.startswith(f"{STATIC}/"):
            return f"-/static/{url.rpartition('/')[2]}"
        if url == f"{PATH}/{_INDEX}":
            return _INDEX
        if url.startswith(PATH):
            parts = urlsplit(url.removeprefix(PATH))
            if parts.path == comparison.PATH:
                return self._find_comparison(parse_qs(parts.query))
            path = unquote(parts.path)
            if path.startswith((f"{RELATIONS}/", f"{IMPACT}/")) and path in self._files:
                self._wanted[Xid.parse(path.removeprefix(RELATIONS).removeprefix(IMPACT))] = None
            return self._files.get(f"{path}?{parts.query}" if parts.query else path)
        return self._find_raw(url)

    def _find_comparison(self, query: Mapping[str, list[str]]) -> str | None:
        of, old, new = (query.get(name, [""])[0] for name in ("of", "old", "new"))
        return self._compared.get((of, old, new))

    def _find_raw(self, url: str) -> str | None:
        """Return the API's answer at a URL: an entity as JSON, or its document."""
        path = unquote(url.removeprefix(ROOT_URL))
        if path.endswith("$details") or path not in self._documents:
            name = self._files.get(path.removesuffix("$details"))
            return _replace_file_name(name, "index.json") if name and path != "" else None
        return self._documents[path]

    def _index(self) -> bytes:
        """Return the search index as a script, because a page on a disk can load nothing else."""
        summary = self._site.summary
        for level, left_out in enumerate(_LEFT_OUT):
            entries, more = _take_fitting(self._list_index_entries(level))
            summary.entities, summary.left_out = len(entries), left_out
            if not more:
                break
        else:
            summary.left_out += f", and {more} of the entities"
        head = dump_json(summary.left_out)
        content = (
            b'globalThis.signalbookIndex = {"leftOut": '
            + head
            + b', "entries": [\n'
            + b",\n".join(entries)
            + b"\n]};\n"
        )
        summary.index_bytes = len(content)
        return content

    def _list_index_entries(self, level: int) -> Iterator[list[JSON]]:
        """Yield index entries: file, id, name, type, group, description, deprecated; words of names, fields and other
        texts."""
        for candidate, texts in self._view.list_indexed():
            xid = Xid.parse(candidate.xid)
            shown_xid = xid if xid.kind is not Kind.VERSION else xid.resource
            name = self._files.get(str(shown_xid))
            if name is None:
                continue
            text_by_path = {text.path: text.text for text in texts if not text.member and "." not in text.path}
            yield [
                name,
                shown_xid.id,
                text_by_path.get("name", "")[:_DESCRIPTION] if text_by_path.get("name") != shown_xid.id else "",
                shown_xid.parts[-2],
                str(Xid(shown_xid.parts[:2])) if len(shown_xid.parts) > 2 else "",
                text_by_path.get("description", "")[:_DESCRIPTION],
                int(bool(candidate.flags & DEPRECATED)),
                _split_words(text.text for text in texts if text.path in ("id", "name") and not text.member),
                list(dict.fromkeys(text.path for text in texts if text.member)) if level < 2 else [],
                _split_words(_list_prose(texts, level)),
            ]


def _add_relations_link(content: PageOfEntity, *, related: bool) -> PageOfEntity:
    """Return the content of an entity's page, with links to its relations if there are any."""
    heading = replace(content.entity.heading, related=related)
    return replace(content, entity=replace(content.entity, heading=heading))


def _take_fitting(entries: Iterator[list[JSON]]) -> tuple[list[bytes], int]:
    """Return the first entries that fit into the index, as JSON, and the number of entries that do not fit."""
    lines: list[bytes] = []
    room, more = MAX_INDEX, 0
    for text in map(dump_json, entries):
        room -= len(text) + 2
        if room >= 0:
            lines.append(text)
        else:
            more += 1
    return lines, more


def _list_prose(texts: list[Text], level: int) -> Iterator[str]:
    for text in texts:
        if (text.member and level == 0) or (not text.member and text.path not in ("id", "name", "xid") and level < 2):
            yield text.text


def _split_words(texts: Iterator[str]) -> str:
    """Return the words of ``texts`` as the server's search splits them, each once."""
    words = (chain(*split(text)) for text in texts)
    return " ".join(dict.fromkeys(chain.from_iterable(words)))


def _list_collections(view: View, xid: Xid) -> list[str]:
    if xid == ROOT:
        return list(view.model.groups)
    if xid.kind is Kind.GROUP:
        return list(view.model.groups[xid.group_type].resources)
    if xid.kind is Kind.RESOURCE and view.render_entity(xid, ViewOptions()).get("versionscount"):
        return ["versions"]
    return []


def _page_name(xid: Xid) -> str:
    return "/".join([*map(folder_name, xid.parts), "index.html"])


def _format_numbered(name: str, number: int) -> str:
    # No id begins with a dash.
    return name if number == 1 else _replace_file_name(name, f"-{number}.html")


def _replace_file_name(name: str, other: str) -> str:
    return posixpath.join(posixpath.dirname(name), other)
