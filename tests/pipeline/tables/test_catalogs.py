"""Which catalog an output has: said once, kept without secrets, and never changed under its tables."""

from pathlib import Path

import pytest
from tests.pipeline.lake import Lake

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import Journal
from signalbook.pipeline.table_names import CATALOG_FILE
from signalbook.pipeline.tables.catalogs import (
    CatalogChoice,
    build_catalog_section,
    parse_catalog,
    read_catalog_choice,
    set_catalog,
)

REST = {"type": "rest", "uri": "http://127.0.0.1:1"}


def test_a_section() -> None:
    choice = parse_catalog(
        {**REST, "name": "prod", "namespace": "a.b", "token": "${TOKEN}", "rest.sigv4-enabled": True}
    )
    assert choice == CatalogChoice(
        name="prod", namespace=("a", "b"), properties={**REST, "token": "${TOKEN}", "rest.sigv4-enabled": "true"}
    )
    assert str(choice) == "prod at http://127.0.0.1:1, below a.b"
    assert parse_catalog({}) is None


@pytest.mark.parametrize(
    ("text", "section"), [("prod", {"name": "prod"}), ("https://x/c", {"type": "rest", "uri": "https://x/c"})]
)
def test_a_flag(text: str, section: dict[str, str]) -> None:
    assert build_catalog_section(text) == section


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("token", "abc"),
        ("credential", "me:abc"),
        ("s3.secret-access-key", "abc"),
        ("header.Authorization", "Bearer abc"),
        ("uri", "postgresql://me:abc@db/catalog"),
        ("uri", "postgresql://me:x/abc@db/catalog"),
        ("uri", "postgresql://db/catalog?user=me&password=abc"),
        ("uri", "https://x/c?token=abc"),
        ("header.Cookie", "session=abc"),
        ("token", "abc${TOKEN}"),
    ],
)
def test_secrets_are_not_written_down(name: str, value: str) -> None:
    with pytest.raises(PipelineError, match=f"catalog's {name} would be written") as caught:
        parse_catalog({name: value})
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "postgresql://me:${PASSWORD}@db/catalog",
        "postgresql://db/catalog?password=${PASSWORD}&sslmode=require",
        "http://me@host:80/x",
        "http://h:80/a@b",
        "http://[::1]:80/a@b",
    ],
)
def test_addresses_without_secrets(value: str) -> None:
    assert parse_catalog({"uri": value}) == CatalogChoice(properties={"uri": value})


def test_invalid_namespace_is_rejected() -> None:
    with pytest.raises(PipelineError, match=r"names with dots between them, not 'a\.\.b'"):
        parse_catalog({"namespace": "a..b"})


def test_the_choice_is_kept(tmp_path: Path) -> None:
    """The choice may change until something lands; the output stays the same."""
    journal = Journal.open(tmp_path)
    set_catalog(journal, None)
    assert read_catalog_choice(tmp_path) is None
    set_catalog(journal, CatalogChoice(properties=REST))
    first = read_catalog_choice(tmp_path)
    set_catalog(journal, CatalogChoice(name="prod"))
    then = read_catalog_choice(tmp_path)
    assert first is not None
    assert then is not None
    assert (first.properties, then.name, first.owner) == (REST, "prod", then.owner)
    set_catalog(journal, None)
    assert read_catalog_choice(tmp_path) == then


def test_tables_stay_in_their_catalog(tmp_path: Path) -> None:
    lake = Lake(tmp_path, "parquet")
    lake.put([{}], {})
    with pytest.raises(PipelineError, match="are in a catalog in that folder, not in default at http"):
        set_catalog(lake.journal, CatalogChoice(properties=REST))


def test_unreadable_catalog_choice_is_an_error(tmp_path: Path) -> None:
    (tmp_path / CATALOG_FILE).write_text("{")
    with pytest.raises(PipelineError, match=r"cannot read .*catalog\.json, which says"):
        read_catalog_choice(tmp_path)
