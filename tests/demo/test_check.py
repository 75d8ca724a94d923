"""The ledger against what lies in the tables."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from signalbook.demo.results import DemoFailed, OutputFolder, check
from signalbook.demo.traffic import Place

DUE = {("kafka:t/0", 1): "/m", ("kafka:t/0", 2): "no_match"}


def test_messages_in_their_places_pass() -> None:
    check(DUE, [(("kafka:t/0", 1), "/m"), (("kafka:t/0", 2), "no_match")])


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([(("kafka:t/0", 2), "no_match")], ["kafka:t/0, offset 1: /m was due, there is nothing"]),
        (
            [(("kafka:t/0", 1), "/m"), (("kafka:t/0", 1), "no_match"), (("kafka:t/0", 2), "no_match")],
            ["kafka:t/0, offset 1: /m was due, there is /m and no_match"],
        ),
        (
            [(("kafka:t/0", 1), "/m"), (("kafka:t/0", 2), "/m"), (("kafka:t/1", 0), "/m")],
            ["kafka:t/0, offset 2: no_match was due, there is /m", "kafka:t/1, offset 0: nothing was due, there is /m"],
        ),
        (
            [(("f", 7), "x"), (("kafka:t/0", 1), "/m"), (("kafka:t/0", 2), "ambiguous")],
            ["f, offset 7: nothing was due, there is x", "kafka:t/0, offset 2: no_match was due, there is ambiguous"],
        ),
    ],
)
def test_each_misplaced_message_is_reported(places: list[tuple[Place, str]], expected: list[str]) -> None:
    with pytest.raises(DemoFailed) as failed:
        check(DUE, places)
    assert str(failed.value).split("\n  ")[1:] == expected


def test_long_reports_are_cut() -> None:
    with pytest.raises(DemoFailed, match="and 4 more"):
        check({("f", number): "/m" for number in range(9)}, [])


def test_ends_of_parquet_tables(tmp_path: Path) -> None:
    """Iceberg tables are read in test_steps.py."""
    (tmp_path / "dead_letters").mkdir()
    (tmp_path / "tables" / "g" / "m").mkdir(parents=True)
    pq.write_table(
        pa.table({"source": ["f"], "position": [3], "reason": ["no_match"]}), tmp_path / "dead_letters" / "a.parquet"
    )
    pq.write_table(pa.table({"_source": ["f"], "_position": [0], "n": [1]}), tmp_path / "tables/g/m/a.parquet")
    lake = OutputFolder(folder=tmp_path, table_format="parquet")
    assert list(lake.ends(["/messagegroups/g"])) == [(("f", 3), "no_match"), (("f", 0), "/messagegroups/g/messages/m")]
