"""What other programs find in an S3 server of the tables that one run wrote: the same rows, in every format."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow.fs import S3FileSystem
from pyiceberg.table import StaticTable
from tests.pipeline.local import run
from tests.pipeline.s3 import place, s3_properties

from signalbook.pipeline import Job, Place
from signalbook.pipeline.journal import TableFormat
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName, find_table_folder
from signalbook.pipeline.tables.delta import build_delta_options

FORMATS: Final[tuple[TableFormat, ...]] = ("parquet", "iceberg", "delta")
ACCEPTED: Final = TableName("parcels", "parcel.accepted")
# Of parcel:weighed, whose name no path takes as it is.
WEIGHED: Final = TableName("parcels", "parcel%3Aweighed")
XIDS: Final = {ACCEPTED: "parcel.accepted", WEIGHED: "parcel:weighed"}
ROWS: Final = 6
# Of each row: its id, three kinds of columns, microseconds since 1970, and what no schema declares.
Row = tuple[str, float, int, list[str], int, str | None]
EXPECTED: Final[list[Row]] = [
    (f"e-{n}", n + 0.5, n, ["a", f"b{n}"], 1767323045000000 + n, '{"colour":"red"}' if n == 3 else None)
    for n in range(ROWS)
]


@pytest.fixture(scope="module")
def lakes(
    tmp_path_factory: pytest.TempPathFactory, parcels: Any, request: pytest.FixtureRequest
) -> dict[TableFormat, Place]:
    """An output of each format."""
    folder = tmp_path_factory.mktemp("readers")
    return landed(place("s3proxy", folder, request), folder, parcels)


def landed(root: Place, folder: Path, parcels: Any) -> dict[TableFormat, Place]:
    """Outputs below ``root``, of definitions that are left in ``folder``."""
    catalogue = parcels.catalogue()
    messages = catalogue["messagegroups"]["parcels"]["messages"]
    messages["parcel:weighed"] = messages["parcel.accepted"] | parcels.message("weighed")
    (definitions := folder / "parcels.xreg.json").write_text(json.dumps(catalogue))
    events = [
        parcels.event(number, type=kind, data=payload(number))
        for number in range(ROWS)
        for kind in ("parcel.accepted", "weighed")
    ]
    (root / "in/a.jsonl").write(parcels.lines(*events, parcels.event(99, data={"id": 99})))
    job = Job(registry=str(definitions), inputs=(f"{root}/in/",), output="", storage=root.storage)
    lakes: dict[TableFormat, Place] = {}
    for table_format in FORMATS:
        lakes[table_format] = root / table_format
        report = run(replace(job, output=str(root / table_format), table_format=table_format))
        assert (report.landed, report.tally.dead_lettered) == (2 * ROWS, 1)
    return lakes


def folder(lake: Place, table: TableName, table_format: TableFormat) -> Place:
    files = lake / find_table_folder(table, table_format)
    return files.parent if table_format == "iceberg" else files


def payload(number: int) -> dict[str, Any]:
    """Return the payload of a parcel."""
    more = {"colour": "red"} if number == 3 else {}
    at = f"2026-01-02T03:04:05.{number:06}Z"
    return {
        "id": f"P{number}",
        "weight": number + 0.5,
        "size": {"l": number},
        "stops": ["a", f"b{number}"],
        "at": at,
    } | more


@pytest.fixture(scope="module")
def duckdb(lakes: dict[TableFormat, Place]) -> Iterator[Callable[[str], list[Any]]]:
    """A DuckDB of its own environment, with its extensions: asks a query, gets rows."""
    program = Path(sys.prefix) / "duckdb" / "bin" / "python"
    if not program.exists():
        pytest.fail("the tests need DuckDB: run tools/setup test", pytrace=False)
    options = dict(lakes["parquet"].storage.options)
    endpoint = options["endpoint"].removeprefix("http://")
    secret = f"""CREATE SECRET (TYPE s3, KEY_ID '{options["access_key_id"]}', SECRET '{options["secret_access_key"]}',
        REGION '{options["region"]}', ENDPOINT '{endpoint}', URL_STYLE 'path', USE_SSL false)"""
    with subprocess.Popen([program, "-c", _DUCKDB], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        def ask(query: str) -> list[Any]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(query).encode() + b"\n")
            process.stdin.flush()
            result = json.loads(process.stdout.readline())
            assert isinstance(result, list), result
            return result

        ask(secret)
        yield ask
        process.communicate()


_DUCKDB: Final = """
import importlib, json, pathlib, sys, duckdb
connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
for name in ("httpfs", "avro", "iceberg", "delta"):
    folder = pathlib.Path(importlib.import_module(f"duckdb_extension_{name}").__file__).parent
    connection.execute(f"LOAD '{next(folder.rglob('*.duckdb_extension'))}'")
for line in sys.stdin:
    try:
        found = connection.execute(json.loads(line)).fetchall()
    except duckdb.Error as error:
        found = str(error)
    print(json.dumps(found), flush=True)
"""


@pytest.mark.parametrize("table_format", FORMATS)
def test_duckdb(lakes: dict[TableFormat, Place], table_format: TableFormat, duckdb: Callable[[str], list[Any]]) -> None:
    sources = {
        "parquet": "read_parquet('{}/**/*.parquet', hive_partitioning = true, union_by_name = true)",
        "iceberg": "iceberg_scan('{}')",
        "delta": "delta_scan('{}')",
    }
    for table in XIDS:
        source = sources[table_format].format(folder(lakes[table_format], table, table_format))
        result = duckdb(f'SELECT ce_id, weight, size.l, stops, epoch_us("at"), _rescue FROM {source} ORDER BY 1')
        assert [tuple(row) for row in result] == EXPECTED
    source = sources[table_format].format(folder(lakes[table_format], DEAD_LETTERS, table_format))
    assert duckdb(f"SELECT reason FROM {source}") == [["schema_violation"]]


def rows(frame: pd.DataFrame) -> list[Row]:
    frame = frame.sort_values("ce_id")
    instants = frame["at"].astype("datetime64[us, UTC]").astype("int64")
    rescue = [value if isinstance(value, str) else None for value in frame["_rescue"]]
    lengths = [size["l"] for size in frame["size"]]
    stops = [list(value) for value in frame["stops"]]
    return list(zip(frame["ce_id"], frame["weight"], lengths, stops, instants, rescue, strict=True))


def arrow_files(lake: Place) -> S3FileSystem:
    """Arrow's own way to a store."""
    options = dict(lake.storage.options)
    keys = {"access_key": options["access_key_id"], "secret_key": options["secret_access_key"]}
    return S3FileSystem(**keys, endpoint_override=options["endpoint"], region=options["region"])


def test_pandas_reads_folders_of_parquet(lakes: dict[TableFormat, Place]) -> None:
    lake = lakes["parquet"]
    for table, count in ((ACCEPTED, ROWS), (WEIGHED, ROWS), (DEAD_LETTERS, 1)):
        there = str(folder(lake, table, "parquet")).removeprefix("s3://")
        frame = pd.read_parquet(there, filesystem=arrow_files(lake))
        assert len(frame) == count
        if table != DEAD_LETTERS:
            assert rows(frame) == EXPECTED
            assert pq.read_table(there, filesystem=arrow_files(lake)).num_rows == ROWS


def test_pyiceberg(lakes: dict[TableFormat, Place]) -> None:
    lake = lakes["iceberg"]
    for table, count in ((ACCEPTED, ROWS), (WEIGHED, ROWS), (DEAD_LETTERS, 1)):
        there = StaticTable.from_metadata(str(folder(lake, table, "iceberg")), s3_properties(lake.storage))
        frame = there.scan().to_pandas()
        assert len(frame) == count
        if table != DEAD_LETTERS:
            assert rows(frame) == EXPECTED


def test_delta_rs(lakes: dict[TableFormat, Place]) -> None:
    lake = lakes["delta"]
    for table, count in ((ACCEPTED, ROWS), (WEIGHED, ROWS), (DEAD_LETTERS, 1)):
        there = folder(lake, table, "delta")
        frame = DeltaTable(str(there), storage_options=build_delta_options(there)).to_pandas()
        assert len(frame) == count
        if table != DEAD_LETTERS:
            assert rows(frame) == EXPECTED
