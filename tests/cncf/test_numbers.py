import pytest
from tests.engine.conftest import Registry

from signalbook.cncf.lookup import find_latest_number, find_version_with_document, list_version_numbers
from signalbook.engine.engine import Engine
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.values import JSONObject
from signalbook.xid import Xid

S = "/schemagroups/g/schemas/s"
SAME = "/schemagroups/g/schemas/same"


@pytest.fixture
def filled(store: Store) -> Registry:
    registry = Registry(Engine(store, settings=Settings(registry_id="test")), store)
    ids = ("2", "10", "v11", "007", str(2**31))
    plain: JSONObject = {"format": "Own/1", "contenttype": "text/plain"}
    versions = {version_id: {**plain, "schema": version_id, "ancestorid": version_id} for version_id in ids}
    registry.put(S, {"versions": versions, "meta": {"defaultversionid": "2"}})
    registry.put(SAME, {"meta": {"xref": S}})
    return registry


@pytest.mark.parametrize("path", [S, SAME])
def test_counted_versions(filled: Registry, path: str) -> None:
    """Neither the order of the registry nor its default matters (A-18, A-42, J-10)."""
    with filled.engine.reading() as view:
        assert list_version_numbers(view, Xid.parse(path)) == [2, 10]
        assert find_latest_number(view, Xid.parse(path)) == 10


def test_latest_number_is_found_behind_deleted_versions(filled: Registry) -> None:
    """The latest number is found behind many deleted versions (A-51)."""
    filled.put(f"{S}/versions/500", {"format": "Own/1"})
    filled.delete(f"{S}/versions/500")
    with filled.engine.reading() as view:
        assert find_latest_number(view, Xid.parse(S)) == 10


def test_schema_without_numbers_has_no_latest_number(filled: Registry) -> None:
    filled.delete(f"{S}/versions/2")
    filled.delete(f"{S}/versions/10")
    with filled.engine.reading() as view:
        assert (find_latest_number(view, Xid.parse(S)), list_version_numbers(view, Xid.parse(S))) == (None, [])


@pytest.mark.parametrize(
    ("content", "attributes", "expected"),
    [
        (b"10", {"contenttype": "text/plain"}, "10"),
        (b"10", {"contenttype": "text/html"}, None),
        (b"10", {"contenttype": "text/plain", "description": "new"}, None),
        (b"11", {"contenttype": "text/plain"}, None),
        (b"v11", {"contenttype": "text/plain"}, None),
    ],
)
def test_version_with_equal_document_is_found(
    filled: Registry, content: bytes, attributes: JSONObject, expected: str | None
) -> None:
    """A Version with the same document and content type is found (A-45)."""
    with filled.engine.reading() as view:
        row = find_version_with_document(view, Xid.parse(S), content, attributes)
        assert (row.xid.id if row else None) == expected


def test_unknown_schema_has_no_versions(filled: Registry) -> None:
    with filled.engine.reading() as view:
        nothing = Xid.parse("/schemagroups/g/schemas/none")
        assert find_version_with_document(view, nothing, b"10", {}) is None
        for question in (find_latest_number, list_version_numbers):
            with pytest.raises(RegistryError, match="cannot be found"):
                question(view, nothing)
