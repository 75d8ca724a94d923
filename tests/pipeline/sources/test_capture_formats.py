"""Captures in a store without a connector of Spark's have the rows that Spark makes of the same files in a folder."""

from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import orc
from pyspark.sql import SparkSession
from tests.pipeline.s3 import place
from tests.pipeline.sources.test_captures import AT, TYPE, job_of

from signalbook.pipeline import PipelineError, Place, run
from signalbook.pipeline.sources import capture_formats
from signalbook.pipeline.sources.captures import CLOUDEVENTS, KAFKA
from signalbook.pipeline.sources.salvage import found_files

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
    """Such columns as Spark writes them in a format, two files of them."""
    source = folder.with_suffix(".parquet")
    pq.write_table(pa.table(columns), source)
    frame = session.read.parquet(str(source))
    if kind in ("csv", "text"):
        frame = frame.select("value")
    frame.repartition(2).write.format(kind).save(str(folder))


def uploaded(folder: Path, root: Place) -> Place:
    for path in folder.rglob("*"):
        if path.is_file():
            (root / str(path.relative_to(folder))).write(path.read_bytes())
    return root


def same(session: SparkSession, folder: Path, root: Place, options: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of both, which are the same but for where they are."""
    found = []
    for frame in (
        KAFKA.load(session, [str(folder)], options),
        KAFKA.salvage(session, [str(root)], options, root.storage),
    ):
        rows = [row.asDict(recursive=True) for row in frame.collect()]
        for row in rows:
            if not row["source"].startswith("kafka:"):
                row |= {"source": "", "position": 0}
        found.append(sorted(rows, key=repr))
    assert found[0] == found[1]
    return found[1]


@pytest.mark.parametrize("kind", ["json", "csv", "text", "orc"])
def test_rows_are_those_of_a_folder(
    spark_session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    """Of what Spark writes."""
    columns = COLUMNS if kind != "text" else {"value": pa.array([text for text in TEXTS if text is not None])}
    written(spark_session, kind, tmp_path / "in", columns)
    root = uploaded(tmp_path / "in", place("s3proxy", tmp_path, request))
    found = same(spark_session, tmp_path / "in", root, {"format": kind, **({"value": "_c0"} if kind == "csv" else {})})
    assert len(found) == len(columns["value"]) - (kind == "csv")  # where null is an empty line, which is no row
    if kind in ("json", "orc"):
        assert {row["received_at"] for row in found} >= {None}
        assert sum(row["source"].startswith("kafka:t/") for row in found) == 7


@pytest.mark.parametrize("kind", LINES)
def test_lines_are_those_of_a_folder(
    spark_session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    """Of what others write: in folders that are columns, packed too, with any end of line and none."""
    for number, content in enumerate(LINES[kind]):
        for folder in FOLDERS[1:]:
            path = tmp_path / "in" / folder / f"{number}.{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.with_name(f"{number}.{kind}.gz").write_bytes(gzip.compress(content))
    (tmp_path / "in" / FOLDERS[1] / "_SUCCESS").write_bytes(b"no line")
    root = uploaded(tmp_path / "in", place("s3proxy", tmp_path, request))
    options = {"format": kind, **({"value": "_c1"} if kind == "csv" else {})}
    found = same(spark_session, tmp_path / "in", root, options)
    assert {row["address"] for row in found} >= {"a b", None}


def test_files_of_which_each_says_something_else(
    spark_session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Folders that others do not have, or have in another case, and columns that others do not have."""
    root = place("s3proxy", tmp_path, request)
    (root / "json" / "a.json").write(b'{"value": "a"}\n{"value": "d", "topic": "own"}\n')
    (root / "json" / "topic=t" / "b.json").write(b'{"value": "b"}\n')
    (root / "json" / "Topic=u" / "c.json").write(b'{"value": "c"}\n')
    for name, columns in (("a", {"value": ["a"]}), ("b", {"payload": ["x", "y"]})):
        orc.write_table(pa.table(columns), tmp_path / "x.orc")
        (root / "orc" / f"{name}.orc").write((tmp_path / "x.orc").read_bytes())
    for kind, wanted in (
        ("json", [(b"a", None), (b"b", "t"), (b"c", "u"), (b"d", "own")]),
        ("orc", [(b"a", None), (None, None), (None, None)]),
    ):
        rows = KAFKA.salvage(spark_session, [str(root / kind)], {"format": kind}, root.storage).collect()
        assert sorted(((row["value"], row["address"]) for row in rows), key=str, reverse=kind == "orc") == wanted


def test_a_line_may_go_on_in_the_next_block(
    spark_session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So may the two bytes that end it."""
    root = place("s3proxy", tmp_path, request)
    content = b"one\r\n\ntwo\rthree\n\r\nfour"
    (root / "a.txt").write(content)
    (file,) = found_files(str(root), root.storage)
    for size in range(1, len(content) + 1):
        monkeypatch.setattr(capture_formats, "_BLOCK", size)
        assert list(capture_formats._read_lines([file], 0)) == ["one", "", "two", "three", "", "four"]
    monkeypatch.setattr(capture_formats, "MAX_MESSAGE", 3)
    with pytest.raises(PipelineError, match=r"a\.txt: a line has more than 3 bytes"):
        list(capture_formats._read_lines([file], 0))


def test_of_a_delta_table_those_files_are_read_that_it_has(
    spark_session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """With columns that came later, and those that divide it."""
    folder = tmp_path / "in"
    for rows in ({"value": ["a", "b"], "topic": ["x y", None]}, {"value": ["c"], "topic": ["z%20"], "offset": [7]}):
        write_deltalake(folder, pa.table(rows), mode="append", partition_by=["topic"], schema_mode="merge")
    DeltaTable(folder).delete("value = 'b'")
    root = uploaded(folder, place("s3proxy", tmp_path, request))
    found = KAFKA.salvage(spark_session, [str(root)], {"format": "delta"}, root.storage).collect()
    assert sorted((row["value"], row["address"]) for row in found) == [(b"a", "x y"), (b"c", "z%20")]
    assert all(row["source"].startswith(f"{root}/topic=") for row in found)
    with pytest.raises(PipelineError, match=r"cannot read the Delta table .*/nothing: "):
        KAFKA.salvage(spark_session, [f"{root}/nothing"], {"format": "delta"}, root.storage)


def test_captures_of_lines_in_a_store_land(
    spark_session: SparkSession, definitions: Path, parcels: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    root = place("s3proxy", tmp_path, request)
    (root / "a.txt").write(parcels.lines(parcels.event(0), "{", parcels.event(2)))
    wanted = replace(job_of(tmp_path, definitions, tmp_path / "out"), inputs=(str(root),), storage=root.storage)
    report = run(replace(wanted, input_format=CLOUDEVENTS.name, options={"format": "text"}))
    assert (report.landed, report.tally.reasons) == (2, {"decode_error": 1})


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (
            "xml",
            "a.xml",
            r"for xml Spark needs a connector for the store, by --jars; without one .*: avro, csv, delta, ",
        ),
        ("json", "a.json.lz4", r"cannot read s3://.*/a\.json\.lz4: of compressed lines .* those of \.gz, \.bz2, "),
        ("orc", "a.orc", r"cannot read s3://.*/a\.orc: "),
        ("json", "a.json.gz", r"cannot read s3://.*/a\.json\.gz: damaged gzip"),
    ],
)
def test_what_is_refused(
    spark_session: SparkSession,
    definitions: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    kind: str,
    name: str,
    words: str,
) -> None:
    """It leaves no output."""
    root = place("s3proxy", tmp_path, request)
    (root / name).write(b"x" * 100)
    wanted = replace(job_of(tmp_path, definitions, tmp_path / "out"), inputs=(str(root),), storage=root.storage)
    with pytest.raises(PipelineError, match=words):
        run(replace(wanted, options={"format": kind}))
    assert not (tmp_path / "out").exists()


def test_a_damaged_file_of_orc_in_a_folder_is_named(
    spark_session: SparkSession, definitions: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    orc.write_table(pa.table({"value": ["a"]}), tmp_path / "in" / "a.orc")
    (tmp_path / "in" / "b.orc").write_bytes(b"x" * 100)
    with pytest.raises(PipelineError, match=r"in/b\.orc"):
        run(replace(job_of(tmp_path / "in", definitions, tmp_path / "out"), options={"format": "orc"}))
