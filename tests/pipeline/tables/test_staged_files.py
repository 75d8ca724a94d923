"""A task's rows end up in one file per table, whatever the mix."""

from base64 import b64encode
from pathlib import Path
from random import randbytes

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from signalbook.pipeline.table_names import TableName
from signalbook.pipeline.tables import staged_files
from signalbook.pipeline.tables.staged_files import StagedFiles

A, B, C = (TableName("g", name) for name in "abc")


def rows(first: int, count: int = 100) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(range(first, first + count))})


def land(folder: Path, *batches: tuple[TableName, pa.RecordBatch]) -> dict[TableName, list[pa.Table]]:
    into = StagedFiles(folder, staged="s", prefix="p")
    for name, batch in batches:
        into.add(name, batch)
    tables: dict[TableName, list[pa.Table]] = {}
    for file in into.finish():
        assert file.staged == f"s/{file.name}"
        assert (folder / file.name).stat().st_size == file.bytes
        table = pq.read_table(folder / file.name)
        assert table.num_rows == file.rows
        tables.setdefault(file.table, []).append(table)
    return tables


def test_one_file_per_table(tmp_path: Path) -> None:
    tables = land(tmp_path, (A, rows(0)), (B, rows(0)), (A, rows(100)))
    assert [table["n"].to_pylist() for table in tables[A]] == [list(range(200))]
    assert len(tables[B]) == 1


def test_full_row_group_is_written_immediately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_files, "ROW_GROUP_BYTES", 1000)
    land(tmp_path, *[(A, rows(i)) for i in range(4)])
    assert pq.ParquetFile(next(tmp_path.iterdir())).num_row_groups == 2


def test_too_much_in_all_tables_writes_the_fullest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_files, "HELD_BYTES", 3000)
    tables = land(tmp_path, (A, rows(0, 10)), (B, rows(0, 300)), (B, rows(300, 100)), (A, rows(10, 10)))
    assert tables[A][0]["n"].to_pylist() == list(range(20))
    assert tables[B][0]["n"].to_pylist() == list(range(400))


def test_only_the_fullest_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_files, "HELD_BYTES", 8000)
    land(tmp_path, (A, rows(0, 400)), (B, rows(0, 399)), (C, rows(0, 300)), (B, rows(399)))
    groups = [pq.ParquetFile(path).num_row_groups for path in sorted(tmp_path.iterdir())]
    assert groups == [1, 1, 1]  # A alone made room, and B had time for the rest of its rows


def test_repeated_integers_have_a_dictionary(tmp_path: Path) -> None:
    count = 4000
    columns = {
        "few": pa.array([number % 100 for number in range(count)], pa.int32()),
        "many": list(range(count)),
        "one": [7] * count,
        "none": pa.nulls(count, pa.int64()),
        "half": [None if number % 2 else number % 100 for number in range(count)],
        "nested": [{"few": number % 9, "many": number, "text": "a"} for number in range(count)],
        "listed": [[number % 9, number % 7] for number in range(count)],
        "mapped": pa.array([[("a", number % 9)] for number in range(count)], pa.map_(pa.string(), pa.int64())),
        "float": [number % 9 / 2 for number in range(count)],
        "text": ["a" * (number % 9) for number in range(count)],
    }
    wide = pa.RecordBatch.from_pydict(columns)
    tables = land(tmp_path, *[(A, wide.slice(first, 1000)) for first in range(0, count, 1000)], (B, wide.slice(0, 900)))
    assert [tables[A][0].to_pylist(), tables[B][0].to_pylist()] == [wide.to_pylist(), wide.slice(0, 900).to_pylist()]
    # Files have numbers in the order in which threads came to write them.
    groups = [pq.ParquetFile(path).metadata.row_group(0) for path in tmp_path.iterdir()]
    first, second = sorted(groups, key=lambda group: -int(group.num_rows))
    chunks = [[metadata.column(number) for number in range(metadata.num_columns)] for metadata in (first, second)]
    repeated = [[chunk.path_in_schema for chunk in metadata if chunk.has_dictionary_page] for metadata in chunks]
    assert repeated == [["few", "nested.few", "listed.list.element", "mapped.key_value.value"], []]


@pytest.mark.parametrize(("count", "codec"), [(100, "SNAPPY"), (2000, "ZSTD")])
def test_thin_columns_are_not_worth_a_workspace(tmp_path: Path, count: int, codec: str) -> None:
    nested = pa.RecordBatch.from_pydict({"n": list(range(count)), "s": [{"a": i, "b": [i]} for i in range(count)]})
    land(tmp_path, (A, nested))
    chunks = pq.ParquetFile(next(tmp_path.iterdir())).metadata.row_group(0)
    assert {chunks.column(i).compression for i in range(chunks.num_columns)} == {codec}


@pytest.mark.parametrize(
    ("text", "codec"), [("x" * 5000, "ZSTD"), (b64encode(randbytes(5000)).decode(), "UNCOMPRESSED")]
)
def test_a_huge_row_has_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, codec: str) -> None:
    """The file is written when its input may already be freed, not by ``add``, and no other row of its table waits
    for it.
    """
    monkeypatch.setattr(staged_files, "ROW_GROUP_BYTES", 4000)
    into = StagedFiles(tmp_path, staged="s", prefix="p")
    for number, texts in enumerate((["a", "b"], [text], ["c"])):
        into.add(A, pa.RecordBatch.from_pydict({"n": [number] * len(texts), "text": texts}))
        assert len(list(tmp_path.iterdir())) == number
        into.settle()
        assert len(list(tmp_path.iterdir())) == min(2 * number, 2)
    small, huge, more = (pq.ParquetFile(tmp_path / file.name) for file in into.finish())
    assert [file.read()["text"].to_pylist() for file in (small, huge, more)] == [["a", "b"], [text], ["c"]]
    number, value = (huge.metadata.row_group(0).column(place) for place in range(2))
    assert (number.is_stats_set, value.is_stats_set, value.compression) == (True, False, codec)


def test_more_tables_than_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_files, "_OPEN_FILES", 2)
    monkeypatch.setattr(staged_files, "ROW_GROUP_BYTES", 1)
    tables_ = land(tmp_path, *[(name, rows(i)) for i in range(2) for name in (A, B, C)])
    assert {name: sum(table.num_rows for table in tables) for name, tables in tables_.items()} == {
        A: 200,
        B: 200,
        C: 200,
    }


def test_no_batches_create_no_files(tmp_path: Path) -> None:
    assert land(tmp_path) == {}
