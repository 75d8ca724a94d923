"""Captures in a store without a connector of Spark's have the rows that Spark makes of the same files in a folder."""

import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import orc
from pyspark.sql import SparkSession
from tests.pipeline.sources.test_captures import AT, TYPE, Jobs

from signalbook.pipeline import PipelineError, Place, run
from signalbook.pipeline.places import Storage, StorePlace
from signalbook.pipeline.sources import capture_formats
from signalbook.pipeline.sources.capture_files import find_capture_files
from signalbook.pipeline.sources.captures import KAFKA

# Values that parsers go wrong by: quotes, delimiters, escapes, nothing, what looks like other types.
TEXTS = ['{"a": "b,c"}', 'say "x", y', "", None, "a\\b", "2026-01-02T00:00:00Z", "17", "ü\u2028x", " padded "]
COLUMNS = {
    "value": pa.array(TEXTS),
    "Topic": pa.array(["t", "t", None, "t", "t", "t", "t", "t", "t"]),
    "partition": pa.array([0, 1, 2, None, 4, 5, 6, 7, 8], pa.int32()),
    "offset": pa.array(range(70, 79), pa.int64()),
    "timestamp": pa.array([AT, None, *[datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)] * 7], pa.timestamp("us", tz="UTC")),
    "headers": pa.array([TYPE, None, *[[]] * 7]),
    "other": pa.array(range(9)),
}
FOLDERS = ("", "topic=a%20b/day=2026-01-02/", "topic=__HIVE_DEFAULT_PARTITION__/day=2026-01-03/")
# Lines as others write them.
LINES: dict[str, list[bytes]] = {
    "json": [
        b'{"value": "a", "key": "k", "partition": 1, "topic": "t", "offset": 7, "timestamp": "2026-01-02"}\r\n'
        b'\n{"value": 5, "headers": [{"key": "h", "value": "x"}], "partition": 2.0}\n{"value": {"x":[1]}}\n'
        b'{"value": null}\rbroken\n{"value": "last"}',
        b'{"value": true, "extra": {"a": 1}}\n',
    ],
    "csv": [b'a,"b ""c"" d",\\"\r\n"line",x\n,\n"",y,z,w\nlast'],
    "text": [b"one\r\ntwo\n\nthree\rfour", b'{"json": 1}\n'],
}


def written(session: SparkSession, kind: str, folder: Path, columns: dict[str, Any]) -> None:
    """Write columns in two files of a format with Spark."""
    source = folder.with_suffix(".parquet")
    pq.write_table(pa.table(columns), source)
    frame = session.read.parquet(str(source))
    if kind in ("csv", "text"):
        frame = frame.select("value")
    frame.repartition(2).write.format(kind).save(str(folder))


def uploaded(folder: Path, root: Place) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            (root / str(path.relative_to(folder))).write(path.read_bytes())


def same(session: SparkSession, folder: Path, root: Place, options: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows of both, which are the same but for where they are."""
    storage = root.storage if isinstance(root, StorePlace) else Storage()
    theirs, ours = KAFKA.load(session, [str(folder)], options), KAFKA.salvage(session, [str(root)], options, storage)
    all_rows = []
    for frame in (theirs, ours):
        rows = [row.asDict(recursive=True) for row in frame.collect()]
        for row in rows:
            if not row["source"].startswith("kafka:"):
                row |= {"source": "", "position": 0}
        all_rows.append(sorted(rows, key=repr))
    assert all_rows[0] == all_rows[1]
    return all_rows[1]


@pytest.mark.parametrize("kind", ["json", "csv", "text", "orc"])
def test_rows_are_those_of_a_folder(spark_session: SparkSession, tmp_path: Path, store: StorePlace, kind: str) -> None:
    """The files are those that Spark writes."""
    columns = COLUMNS if kind != "text" else {"value": pa.array([text for text in TEXTS if text is not None])}
    written(spark_session, kind, tmp_path / "in", columns)
    uploaded(tmp_path / "in", store)
    options = {"format": kind, **({"value": "_c0"} if kind == "csv" else {})}
    rows = same(spark_session, tmp_path / "in", store, options)
    assert len(rows) == len(columns["value"]) - (kind == "csv")  # where null is an empty line, which is no row
    if kind in ("json", "orc"):
        assert {row["received_at"] for row in rows} >= {None}
        assert sum(row["source"].startswith("kafka:t/") for row in rows) == 7


@pytest.mark.parametrize("kind", LINES)
def test_lines_are_those_of_a_folder(spark_session: SparkSession, tmp_path: Path, store: StorePlace, kind: str) -> None:
    """The files are those of other writers: in folders that are columns, compressed, and with any or no line
    ending.
    """
    for number, content in enumerate(LINES[kind]):
        for folder in FOLDERS[1:]:
            path = tmp_path / "in" / folder / f"{number}.{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.with_name(f"{number}.{kind}.gz").write_bytes(gzip.compress(content))
    (tmp_path / "in" / FOLDERS[1] / "_SUCCESS").write_bytes(b"no line")
    uploaded(tmp_path / "in", store)
    options = {"format": kind, **({"value": "_c1"} if kind == "csv" else {})}
    rows = same(spark_session, tmp_path / "in", store, options)
    assert {row["address"] for row in rows} >= {"a b", None}


def test_files_with_different_columns_are_read(spark_session: SparkSession, tmp_path: Path, store: StorePlace) -> None:
    """Folders that others do not have, or have in another case, and columns that others do not have."""
    (store / "json" / "a.json").write(b'{"value": "a"}\n{"value": "d", "topic": "own"}\n')
    (store / "json" / "topic=t" / "b.json").write(b'{"value": "b"}\n')
    (store / "json" / "Topic=u" / "c.json").write(b'{"value": "c"}\n')
    for name, columns in (("a", {"value": ["a"]}), ("b", {"payload": ["x", "y"]})):
        orc.write_table(pa.table(columns), tmp_path / "x.orc")
        (store / "orc" / f"{name}.orc").write((tmp_path / "x.orc").read_bytes())
    for kind, expected in (
        ("json", [(b"a", None), (b"b", "t"), (b"c", "u"), (b"d", "own")]),
        ("orc", [(b"a", None), (None, None), (None, None)]),
    ):
        rows = KAFKA.salvage(spark_session, [str(store / kind)], {"format": kind}, store.storage).collect()
        assert sorted(((row["value"], row["address"]) for row in rows), key=str, reverse=kind == "orc") == expected


def test_lines_may_cross_blocks(store: StorePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line ending of two bytes can be divided as well."""
    content = b"one\r\n\ntwo\rthree\n\r\nfour"
    (store / "a.txt").write(content)
    (file,) = find_capture_files(str(store), store.storage)
    for size in range(1, len(content) + 1):
        monkeypatch.setattr(capture_formats, "_BLOCK", size)
        assert list(capture_formats._read_lines([file], 0)) == ["one", "", "two", "three", "", "four"]
    monkeypatch.setattr(capture_formats, "MAX_MESSAGE", 3)
    with pytest.raises(PipelineError, match=r"a\.txt: a line has more than 3 bytes"):
        list(capture_formats._read_lines([file], 0))


def test_files_of_a_delta_table(spark_session: SparkSession, tmp_path: Path, store: StorePlace) -> None:
    """The table has later columns and partition columns."""
    folder = tmp_path / "in"
    for rows in ({"value": ["a", "b"], "topic": ["x y", None]}, {"value": ["c"], "topic": ["z%20"], "offset": [7]}):
        write_deltalake(folder, pa.table(rows), mode="append", partition_by=["topic"], schema_mode="merge")
    DeltaTable(folder).delete("value = 'b'")
    uploaded(folder, store)
    rows_ = KAFKA.salvage(spark_session, [str(store)], {"format": "delta"}, store.storage).collect()
    assert sorted((row["value"], row["address"]) for row in rows_) == [(b"a", "x y"), (b"c", "z%20")]
    assert all(row["source"].startswith(f"{store}/topic=") for row in rows_)
    with pytest.raises(PipelineError, match=r"cannot read the Delta table .*/nothing: "):
        KAFKA.salvage(spark_session, [f"{store}/nothing"], {"format": "delta"}, store.storage)


def test_captures_of_lines_in_a_store_land(job: Jobs, parcels: Any, store: StorePlace) -> None:
    (store / "a.txt").write(parcels.lines(parcels.event(0), "{", parcels.event(2)))
    report = run(job(store, options={"format": "text"}))
    assert (report.landed, report.tally.reasons) == (2, {"decode_error": 1})


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (
            "xml",
            "a.xml",
            r"for xml Spark needs a connector for the store, by --jars; without one .*: avro, csv, delta,",
        ),
        ("json", "a.json.lz4", r"cannot read s3://.*/a\.json\.lz4: of compressed lines .* those of \.gz, \.bz2, "),
        ("orc", "a.orc", r"cannot read s3://.*/a\.orc: "),
        ("json", "a.json.gz", r"cannot read s3://.*/a\.json\.gz: damaged gzip"),
    ],
)
def test_unsupported_capture_is_rejected(
    job: Jobs, tmp_path: Path, store: StorePlace, kind: str, name: str, words: str
) -> None:
    """The rejected input leaves no output."""
    (store / name).write(b"x" * 100)
    with pytest.raises(PipelineError, match=words):
        run(job(store, options={"format": kind}))
    assert not (tmp_path / "out").exists()


def test_a_damaged_file_of_orc_in_a_folder_is_named(job: Jobs, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    orc.write_table(pa.table({"value": ["a"]}), tmp_path / "in" / "a.orc")
    (tmp_path / "in" / "b.orc").write_bytes(b"x" * 100)
    with pytest.raises(PipelineError, match=r"in/b\.orc"):
        run(job(tmp_path / "in", options={"format": "orc"}))
