"""The filter and sort flags over HTTP: entities, collections, exports, writes."""

from typing import Any

import pytest
from tests.api.conftest import Client

BASE = "http://r.example"


@pytest.fixture
def filled(client: Client) -> Client:
    """``/dirs/g1`` with r1 (Versions v1, v2) and r2, ``/dirs/g2`` with r3, ``/dirs/g3`` with nothing."""
    resource = {"versions": {"v1": {"name": "one"}, "v2": {"name": "Two", "size": 5, "ancestorid": "v1"}}}
    groups = {
        "g1": {"files": {"r1": resource, "r2": {"versionid": "v1", "name": "two"}}},
        "g2": {"name": "Second", "files": {"r3": {"versionid": "v1"}}},
        "g3": {},
    }
    assert client.put("/", {"dirs": groups}).status_code == 200
    return client


@pytest.mark.parametrize(
    ("value", "count"),
    [("1970-01*", 1), ("*:00Z", 1), ("1970-01-01T01:*", 1), ("1971*", 0), ("1970-01-01T02:00:00%2B01:00", 1)],
)
def test_wildcards_match_the_text_of_timestamps_in_utc(client: Client, value: str, count: int) -> None:
    """Normalised timestamps follow the rules of strings (R187, R188)."""
    assert client.put("/dirs/d", {"createdat": "1970-01-01T03:00:00+02:00"}).status_code == 201
    assert len(client.get(f"/dirs?filter=createdat={value}").json()) == count


def test_the_longest_singular_of_a_group_type(client: Client) -> None:
    """The id of the type is longer than other attributes may be (R90)."""
    singular = "g" * 63
    assert client.put("/modelsource", {"groups": {"longs": {"singular": singular}}}).status_code == 200
    assert client.put("/longs/one", {f"{singular}id": "one"}).status_code == 201
    assert list(client.get(f"/longs?filter={singular}id=one&sort={singular}id").json()) == ["one"]


def test_counts_and_urls_follow(filled: Client) -> None:
    """A collection that is not inlined is counted, and its URL shows the same members (R193, R194)."""
    body = filled.get("/?filter=dirs.files.name=two,dirs.dirid=g1").json()
    assert (body["dirscount"], body["dirsurl"]) == (1, f"{BASE}/dirs?filter=files.name=two,dirid=g1")
    group = filled.get(body["dirsurl"].removeprefix(BASE)).json()["g1"]
    assert (group["filescount"], group["filesurl"]) == (2, f"{BASE}/dirs/g1/files?filter=name=two")
    assert group["notesurl"] == f"{BASE}/dirs/g1/notes?filter=excludeall"
    file = filled.get(group["filesurl"].removeprefix(BASE)).json()["r1"]
    assert (file["versionscount"], file["versionsurl"]) == (2, f"{BASE}/dirs/g1/files/r1/versions")


@pytest.mark.parametrize(
    ("path", "filters", "status"),
    [
        ("/", "registryid=test", 200),
        ("/", "description=no-match", 404),
        ("/", "dirs.name=nowhere", 404),
        ("/", "excludeall", 404),
        ("/dirs/g1/files/r1", "size=5", 200),
        ("/dirs/g1/files/r1", "size=6", 404),
        ("/dirs/g1/files/r1$details", "versions.versionid=v9", 404),
        ("/dirs/g1/files/r1/meta", "defaultversionid=v2", 200),
        ("/dirs/g1/files/r1/meta", "defaultversionid=v1", 404),
        ("/dirs/g1/files/r1/versions/v1$details", "isdefault=false", 200),
        ("/dirs/g1/files/r1/versions/v1", "isdefault=true", 404),
        ("/export", "dirs.files.size=5", 200),
        ("/export", "dirs.files.size=6", 404),
    ],
)
def test_filtered_entity_is_not_found(filled: Client, path: str, filters: str, status: int) -> None:
    """R192, R195"""
    answer = filled.get(f"{path}?filter={filters}")
    assert answer.status_code == status, answer.text
    if status == 404:
        assert answer.json()["type"].endswith("#not_found")


@pytest.mark.parametrize(
    "filters",
    ["", "a,", ",a", "=x", "a b=1", "a..b", "a[", "a[x]", "a['x]", "a!x", "a<null", "a>=null", "a<b*", "dirs",
     "dirs.files",
     "excludeall,a=1", "excludeall&filter=excludeall", "dirs.files.file=x", "dirs.files.versions.filebase64", ".a",
     "a" * 3000, ".".join("a" * 40), ",".join(["a"] * 101), "a&filter=b" * 101, "a[99999999999]"],
)  # fmt: skip
def test_invalid_filter_is_rejected(filled: Client, filters: str) -> None:
    """The limits are included (R185, R195, R196)."""
    filled.refused("GET", f"/?filter={filters}", "bad_filter")


@pytest.mark.parametrize("name", ["a\x13", "\x00", "['a\"b']", "['a\\b']", "\ud55c", "@5"])
def test_unknown_names_match_nothing(filled: Client, name: str) -> None:
    """Names that no attribute can have match nothing, so their value is null."""
    below = f"files{name}" if name.startswith("[") else f"files.{name}"
    assert filled.get("/dirs", params={"filter": below}).json() == {}
    assert filled.get("/dirs", params={"filter": name}).json() == {}
    assert filled.get("/dirs", params={"filter": f"{name}=x"}).json() == {}
    assert filled.get("/dirs", params={"filter": f"{name}=null", "sort": name}).json().keys() == {"g1", "g2", "g3"}


@pytest.mark.parametrize("name", ["deep", "a b*c*d*" * 20, "\u212a" * 20, "%_!\\"])
def test_the_largest_filters_are_answered(filled: Client, name: str) -> None:
    """Databases can process every filter within the limits (R196)."""
    path = ".".join(["dirs", "files", "versions", *("abcdefghij" * 3)[:28]])
    together = ",".join(f"{path}={name}{number}" for number in range(100))
    assert filled.get("/", params={"filter": together}).status_code == 404
    apart = [f"{path}={name}{number}" for number in range(99)]
    assert filled.get("/", params={"filter": [*apart, "dirs.name=second"]}).json()["dirscount"] == 1


@pytest.mark.parametrize("filters", ["files.fileid=r1", "files.versions.name=two", "excludeall"])
def test_a_document_view_is_narrowed_too(filled: Client, filters: str) -> None:
    """The view has references to inlined collections, and URLs of others (R178, R193)."""
    response = filled.get(f"/dirs/g1?doc&inline=files&filter={filters}")
    if filters == "excludeall":
        assert response.status_code == 404
        return
    assert response.json()["filesurl"] == "#/files"
    assert next(iter(response.json()["files"])) == "r1"
    assert response.json()["notesurl"] == f"{BASE}/dirs/g1/notes?filter=excludeall"


def test_an_export_of_a_part_imports_again(filled: Client) -> None:
    """R274 with R190."""
    part = filled.get("/export?filter=dirs.files.size=5").json()
    assert list(part["dirs"]) == ["g1"]
    assert list(part["dirs"]["g1"]["files"]) == ["r1"]
    assert filled.send("DELETE", "/dirs/g1/files/r1").status_code == 204
    assert filled.send("POST", "/dirs?ignore", json=part["dirs"]).status_code == 200
    assert filled.get("/dirs/g1/files/r1/versions").json().keys() == {"v1", "v2"}


def test_collections_alone(filled: Client) -> None:
    """The flag ``collections`` works with filters (R177)."""
    assert list(filled.get("/?collections&filter=dirs.name=second").json()["dirs"]) == ["g2"]


@pytest.mark.parametrize(
    ("query", "code"),
    [("filter=name=other", "not_found"), ("filter=a,", "bad_filter"), ("sort=name", "sort_noncollection")],
)
def test_a_write_whose_answer_fails_changes_nothing(filled: Client, query: str, code: str) -> None:
    """R22, R150, R212."""
    filled.refused("PUT", f"/dirs/g4?{query}", code, json={"name": "four"})


class TestSorting:
    @pytest.fixture
    def sorted_files(self, client: Client) -> Client:
        values: dict[str, Any] = {
            "a": {"name": "beta", "size": 10, "owner": {"when": 3}},
            "B": {"name": "Alpha", "size": 9, "hidden": True},
            "c": {"name": "alpha", "hidden": False, "any": "x"},
            "D": {"any": 5},
            "e": {"name": "\u00dcber", "size": 9, "any": True},
        }
        assert client.send("POST", "/dirs/d/files", json=values).status_code == 200
        return client

    @pytest.mark.parametrize(
        ("sort", "expected"),
        [
            ("name", "DBcae"),
            ("name=asc", "DBcae"),
            ("name=desc", "eacBD"),
            ("name=desc&filter=size", "eaB"),
            ("size", "cDBea"),
            ("size=desc", "aeBDc"),
            ("hidden", "aDecB"),
            ("any", "aBeDc"),
            ("owner.when=desc", "aeDcB"),
            ("fileid=desc", "eDcBa"),
            ("versionscount", "aBcDe"),
            ("meta.epoch", "aBcDe"),
            ("unknown", "aBcDe"),
            ("createdat=desc", "eDcBa"),
        ],
    )
    def test_order(self, sorted_files: Client, sort: str, expected: str) -> None:
        """Values are sorted by type, missing ones are the lowest, and equal ones are sorted by id in the same direction
        (R212 to R214).
        """
        assert "".join(sorted_files.get(f"/dirs/d/files?sort={sort}").json()) == expected

    def test_response_of_a_write_is_sorted(self, sorted_files: Client) -> None:
        """The flag sorts the response of a write (R150)."""
        body = {name: {"name": name} for name in "xyz"}
        assert list(sorted_files.send("POST", "/dirs/d/files?sort=name=desc", json=body).json()) == ["z", "y", "x"]
