"""Pages of collections over HTTP (pagination/spec.md)."""

import re
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from tests.api.conftest import MODEL, Client, Serve

from signalbook.storage.store import Store

BASE = "http://r.example"
NAMES = [f"n{number:02}" for number in range(25)]


@pytest.fixture
def filled(client: Client) -> Client:
    """``/dirs/d/files`` n00 to n24: even ones are red, sizes go down."""
    files = {
        name: {"text": "red, hot" if number % 2 == 0 else "blue", "size": (25 - number) // 3}
        for number, name in enumerate(NAMES)
    }
    assert client.put("/dirs/d", {"files": files}).status_code == 201
    return client


def links(answer: httpx.Response) -> dict[str, tuple[str, int]]:
    """URL and count by relation, read as simply as clients do."""
    links_by_relation = {}
    for link in answer.headers.get_list("link"):
        match = re.fullmatch(r"<([^>,]*)>;rel=([a-z]+);count=([0-9]+)", link)
        if match:
            links_by_relation[match[2]] = (match[1], int(match[3]))
    return links_by_relation


def follow(client: Client, path: str) -> tuple[list[dict[str, Any]], set[int]]:
    """Return all pages, and the counts in their links."""
    pages, counts, url = [], set(), f"{BASE}{path}"
    while url:
        answer = client.get(url.removeprefix(BASE))
        assert answer.status_code == 200, answer.text
        pages.append(answer.json())
        page_links = links(answer)
        counts |= {count for _, count in page_links.values()}
        url = page_links.get("next", ("", 0))[0]
    return pages, counts


@pytest.mark.parametrize(
    ("query", "sizes", "expected"),
    [
        ("limit=10", [10, 10, 5], NAMES),
        ("limit=25", [25], NAMES),
        ("limit=26", [26 - 1], NAMES),
        ("limit=18446744073709551615", [25], NAMES),
        ("limit=5&filter=text=red*", [5, 5, 3], NAMES[::2]),
        ("limit=8&sort=fileid=desc", [8, 8, 8, 1], NAMES[::-1]),
        ("limit=6&sort=size", [6, 6, 6, 6, 1], sorted(NAMES, key=lambda n: ((25 - int(n[1:])) // 3, n))),
        ("limit=4&sort=text=desc&filter=size>5", [4, 4], ["n06", "n04", "n02", "n00", "n07", "n05", "n03", "n01"]),
        ("limit=20&inline=versions&sort=unknown", [20, 5], NAMES),
        ("limit=3&filter=text=none", [0], []),
    ],
)
def test_pages_make_the_whole_in_both_directions(
    filled: Client, query: str, sizes: list[int], expected: list[str]
) -> None:
    """Each member occurs once, in one order. The pages from the last to the first are those of the way forward, and the
    total is the same on all pages (R215, R286 to R289, R291).
    """
    forward, counts = follow(filled, f"/dirs/d/files?{query}")
    assert [len(page) for page in forward] == sizes
    assert [name for page in forward for name in page] == expected
    assert counts == ({len(expected)} if len(sizes) > 1 else set())
    answer = filled.get(f"/dirs/d/files?{query}")
    assert set(links(answer)) == ({"next", "last"} if len(sizes) > 1 else set())
    backward, url = [], links(answer).get("last", ("", 0))[0]
    while url:
        answer = filled.get(url.removeprefix(BASE))
        backward.append(answer.json())
        page_links = links(answer)
        at_end, at_start = len(backward) == 1, len(backward) == len(sizes)
        assert set(page_links) == (set() if at_end else {"next", "last"}) | (set() if at_start else {"prev", "first"})
        assert {count for _, count in page_links.values()} == {len(expected)}
        if not at_end:
            assert filled.get(page_links["next"][0].removeprefix(BASE)).json() == backward[-2]
            assert filled.get(page_links["last"][0].removeprefix(BASE)).json() == backward[0]
        url = page_links.get("prev", ("", 0))[0]
    assert backward == (forward[::-1] if len(sizes) > 1 else [])


@pytest.mark.parametrize("query", ["", "&filter=size>=0", "&sort=size", "&sort=size=desc"])
def test_the_way_back_while_data_changes(filled: Client, query: str) -> None:
    """No member is repeated or omitted; there is no link to a side without members (R289, R292)."""
    whole = list(filled.get(f"/dirs/d/files?{query}").json())
    second = filled.get(links(filled.get(f"/dirs/d/files?limit=10{query}"))["next"][0].removeprefix(BASE))
    back = links(second)["prev"][0].removeprefix(BASE)
    filled.send("DELETE", "/dirs/d/files", json={whole[3]: {}, whole[9]: {}})
    assert list(filled.get(back).json()) == [name for name in whole[:10] if name not in (whole[3], whole[9])]
    filled.send("DELETE", "/dirs/d/files", json={name: {} for name in whole[10:]})
    assert set(links(filled.get(back))) == set()
    filled.put("/dirs/d", {"files": {whole[24]: {"size": 0 if "desc" in query else 8}}})
    assert list(filled.get(links(second)["last"][0].removeprefix(BASE)).json())[-1] == whole[24]


def test_page_links_keep_the_flags(filled: Client) -> None:
    """The links can be used unchanged: the rel parameter is the first, commas are encoded, and the link of the root is
    included (R287, R288).
    """
    answer = filled.get("/dirs/d/files?filter=text=red*,size>0&limit=2&inline=versions,meta&sort=size=desc&x=1")
    url, count = links(answer)["next"]
    assert unquote(url).startswith(
        f"{BASE}/dirs/d/files?filter=text=red*,size>0&inline=versions,meta&sort=size=desc&cursor="
    )
    assert f"<{BASE}>;rel=xregistry-root" in answer.headers.get_list("link")
    page = filled.get(url.removeprefix(BASE))
    assert list(page.json()) == ["n02", "n06"]
    assert "versions" in page.json()["n02"]
    first, same = links(page)["first"]
    assert (count, same) == (12, 12)
    assert filled.get(first.removeprefix(BASE)).json() == answer.json()
    assert "first" not in links(answer)


def test_changes_between_pages_do_not_move_members(filled: Client) -> None:
    """No member is repeated or omitted, and the count does not change (R289, R292)."""
    answer = filled.get("/dirs/d/files?limit=10")
    filled.send("POST", "/dirs/d/files", json={"n00a": {}, "n12a": {}})
    filled.send("DELETE", "/dirs/d/files", json={"n05": {}, "n09": {}, "n20": {}})
    url, _ = links(answer)["next"]
    pages, counts = follow(filled, url.removeprefix(BASE))
    assert [*pages[0], *pages[1]] == [*NAMES[10:13], "n12a", *NAMES[13:20], *NAMES[21:]]
    assert counts == {25}


@pytest.mark.parametrize("path", ["/dirs", "/dirs/d/files", "/dirs/d/files/n00/versions", "/dirs/ref/files/x/versions"])
def test_every_collection_has_pages(filled: Client, path: str) -> None:
    """Every collection is paginated (R285)."""
    filled.put("/dirs/d/files/n00/versions/2$details", {})
    filled.put("/dirs/ref/files/x$details", {"meta": {"xref": "/dirs/d/files/n00"}})
    whole = filled.get(path).json()
    pages, counts = follow(filled, f"{path}?limit=1")
    assert [next(iter(page.items())) for page in pages] == list(whole.items())
    assert counts == {len(whole)}


@pytest.mark.parametrize("path", ["/", "/dirs/d?inline=files", "/dirs/d/files/n00$details", "/export", "/model"])
def test_pagination_is_ignored_for_entities(filled: Client, path: str) -> None:
    """Any value of the flag is ignored (R285)."""
    query = "&" if "?" in path else "?"
    assert links(filled.get(f"{path}{query}limit=x")) == {}
    assert filled.get(f"{path}{query}limit=x").json() == filled.get(path).json()


@pytest.mark.parametrize("limit", ["0", "-1", "x", "", "1.5", "18446744073709551616", "%2B1", "\u0661"])
def test_invalid_limit_is_rejected(filled: Client, limit: str) -> None:
    """The limit must be a positive integer (R286)."""
    filled.refused("GET", f"/dirs/d/files?limit={limit}", "bad_request")


def test_foreign_cursor_is_rejected(filled: Client) -> None:
    """A cursor belongs to its collection, filter and order (R288)."""
    url = links(filled.get("/dirs/d/files?limit=3&filter=size>0&sort=size"))["next"][0].removeprefix(BASE)
    cursor = url.partition("cursor=")[2]
    for wrong in (
        *(f"/dirs/d/files?cursor={text}" for text in ("", "%FF", "AAAA", cursor)),
        *(f"/dirs/d/files?filter=size>{sort}&cursor={cursor}" for sort in ("1&sort=size", "0&sort=size=desc")),
        *(f"{url}&limit=5", f"{url[:-2]}", f"/dirs?cursor={cursor}"),
    ):
        filled.refused("GET", wrong, "bad_request")
    assert filled.get(url).status_code == 200


def test_settings(store: Store, serve: Serve) -> None:
    """The server may page unasked, and may return fewer members than requested (R285, R286)."""
    client = serve(store, page_size=4, max_page_size=6)
    client.put("/modelsource", MODEL)
    client.put("/dirs/d", {"files": {name: {} for name in NAMES[:10]}})
    assert [len(page) for page in follow(client, "/dirs/d/files")[0]] == [4, 4, 2]
    assert [len(page) for page in follow(client, "/dirs/d/files?limit=100")[0]] == [6, 4]


def test_without_the_capability(filled: Client) -> None:
    """The response is not paged, and limits are ignored (R122)."""
    filled.send("PATCH", "/capabilities", json={"pagination": False})
    answer = filled.get("/dirs/d/files?limit=2")
    assert len(answer.json()) == 25
    assert links(answer) == {}


def test_a_position_of_any_type(client: Client) -> None:
    """The sort keys are booleans, numbers, times, long and non-ASCII strings, and missing values (R214, R288)."""
    numbers = [None, True, False, 5, 2.5, -1, 10**18]
    values = [*numbers, "", "x" * 400 + "1", "x" * 400 + "0", "\u00e9\u4e2d", {"a": 1}, "null"]
    for name in ("any", "when"):
        files = {f"f{number}": {} if value is None else {name: value} for number, value in enumerate(values)}
        client.send("POST", "/dirs/d/files", json=files)
    for order in ("asc", "desc"):
        whole = list(client.get(f"/dirs/d/files?sort=any={order}").json())
        pages, _ = follow(client, f"/dirs/d/files?sort=any={order}&limit=1")
        assert [name for page in pages for name in page] == whole
        assert len(whole) == len(values)
