"""The way to a catalog: by pyiceberg's configuration too, never for ever, and with no secret in what is said."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pipeline.lake import rest_choice

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import Journal
from signalbook.pipeline.tables import iceberg_catalogs
from signalbook.pipeline.tables.catalogs import CatalogChoice, set_catalog
from signalbook.pipeline.tables.iceberg_catalogs import connect


def chosen(output: Path, **properties: str) -> Path:
    set_catalog(Journal.open(output), CatalogChoice(name="tests", properties=properties))
    return output


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_silent_catalog_is_an_error(tmp_path: Path, silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_catalogs, "_PATIENCE", (0.1, 0.1))
    with pytest.raises(PipelineError, match=r"catalog tests at http.*: there is no answer of an Iceberg catalog"):
        connect(chosen(tmp_path, type="rest", uri=silent))


def test_the_configuration_of_pyiceberg(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__TESTS__URI", rest_choice(request).properties["uri"])
    connected = connect(chosen(tmp_path))
    assert isinstance(connected.catalog, iceberg_catalogs.PatientRestCatalog)
    connected.catalog.close()


def test_another_kind_of_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The properties contain variables."""
    monkeypatch.setenv("PLACE_OF_TESTS", str(tmp_path))
    connected = connect(chosen(tmp_path, type="sql", uri="sqlite:///${PLACE_OF_TESTS}/other.db", warehouse="file:///x"))
    assert connected.catalog.list_namespaces() == []
    assert (tmp_path / "other.db").exists()
    connected.catalog.close()


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"type": "rest"}, "is not described in a way that pyiceberg knows: .*uri"),
        ({"type": "nosuch", "uri": "x"}, "is not described in a way that pyiceberg knows: 'nosuch' is not"),
        ({"uri": "x"}, "Could not infer the catalog type"),
        ({"type": "rest", "uri": "${NOT_SET_IN_TESTS}"}, "catalog.uri wants the environment variable NOT_SET_IN_TESTS"),
        ({"type": "hive", "uri": "thrift://127.0.0.1:1"}, "Apache Hive support not installed"),
        ({"type": "sql", "uri": "sqlite:////nowhere/x.db"}, "cannot be used: unable to open database file"),
    ],
)
def test_no_way_to_a_catalog(tmp_path: Path, properties: dict[str, str], words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        connect(chosen(tmp_path, **properties))


def test_secrets_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_TESTS", "s3cr3t")
    with pytest.raises(PipelineError) as caught:
        connect(chosen(tmp_path, type="rest", uri="http://127.0.0.1:1/${SECRET_OF_TESTS}", token="${SECRET_OF_TESTS}"))
    assert "s3cr3t" not in str(caught.value)
    assert "***" in str(caught.value)


def test_secrets_in_the_url_of_a_configuration_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__TESTS__URI", "http://127.0.0.1:1/x?token=s3cr3t")
    with pytest.raises(PipelineError, match=r"/x\?token=\*\*\*") as caught:
        connect(chosen(tmp_path, type="rest"))
    assert "s3cr3t" not in str(caught.value)
