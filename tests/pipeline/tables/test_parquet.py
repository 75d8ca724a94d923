"""Folders of Parquet files, as other programs read them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.shelf import ORDER, Shelf

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.tables.parquet import COLUMNS

INT, TEXT = pa.int32(), pa.string()


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path / "lake", "parquet")
    shelf.put([{"a": 1}], {"a": INT})
    return shelf


def test_arrow_sees_the_days(shelf: Shelf) -> None:
    (row,) = pq.read_table(shelf.output / "tables/shop/order").to_pylist()
    assert (row["a"], row["landed_on"]) == (1, "2026-11-21")


def test_a_folder_without_common_metadata_is_read_from_its_files(shelf: Shelf) -> None:
    """As those of earlier releases are."""
    (shelf.output / "tables/shop/order" / COLUMNS).unlink()
    assert shelf.tables.columns(ORDER).names == ["a", "_landed_at"]
    assert shelf.put([{"a": "x"}], {"a": TEXT}) == ORDER.numbered(2)
    assert shelf.put([{"b": "x"}], {"b": TEXT}) == ORDER.numbered(2)
    assert shelf.put([{"a": 2}], {"a": INT}) == ORDER
    assert (shelf.output / "tables/shop/order" / COLUMNS).exists()


@pytest.mark.parametrize("name", [COLUMNS, "landed_on=2026-11-21/b001.parquet"])
def test_a_file_that_is_no_parquet(shelf: Shelf, name: str) -> None:
    folder = shelf.output / "tables/shop/order"
    (folder / name).write_bytes(b"no parquet")
    if name != COLUMNS:
        (folder / COLUMNS).unlink()
    with pytest.raises(PipelineError, match=r"table shop\.order has a file that is no Parquet"):
        shelf.put([{"a": 2}], {"a": INT})


def test_a_folder_that_was_removed_while_a_batch_was_committed(shelf: Shelf) -> None:
    import shutil

    batch = shelf.prepared([{"a": 2}], {"a": INT})
    shutil.rmtree(shelf.output / "tables/shop/order")
    shelf.commit(batch)
    assert shelf.rows() == [{"a": 2}]
