"""Delta tables as Delta's own library reads them, and what is left when a run dies or someone else changes them."""

import json
import secrets
import shutil
import signal
import subprocess
import sys
import traceback
from datetime import date, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, TableFeatures, write_deltalake
from tests.brokers.program import Broker
from tests.brokers.servers import BUCKET
from tests.pipeline.lake import ORDER, XID, Lake
from tests.pipeline.s3 import storage_of
from tests.pipeline.storeway import Answer, Asked, Deliver, delivered, store_way

from signalbook.pipeline.commands.compact import TARGET, compact
from signalbook.pipeline.commit import complete_unfinished
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import JournalEntry
from signalbook.pipeline.places import LocalPlace, place_of
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName
from signalbook.pipeline.tables import delta
from signalbook.pipeline.tables.base import move_in
from signalbook.pipeline.tables.delta import LOG
from signalbook.pipeline.tables.formats import open_tables

INT, TEXT = pa.int32(), pa.string()
COLUMNS = {"a": INT}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake", "delta")
    lake.put([{"a": 1}], COLUMNS)
    return lake


def table(lake: Lake) -> DeltaTable:
    return DeltaTable(str(lake.output / "tables/shop/order"))


def settled(lake: Lake) -> list[int]:
    complete_unfinished(lake.journal, lambda _: None)
    assert lake.journal.list_unfinished() == []
    return [row["a"] for row in lake.rows()]


def test_table_of_the_delta_library(lake: Lake) -> None:
    member = pa.field("m", INT, metadata={"doc": "a member"})
    lake.put([{"a": 2, "s": {"m": 3}}], pa.schema([("a", INT), pa.field("s", pa.struct([member]))]))
    delta = table(lake)
    assert (delta.metadata().partition_columns, delta.metadata().description) == (["landed_on"], XID)
    assert delta.to_pyarrow_table().column("landed_on").to_pylist() == [date(2026, 11, 21)] * 2
    assert [delta.transaction_version(f"signalbook/{batch}") for batch in ("b001", "b002", "b003")] == [0, 0, None]
    assert pa.schema(delta.schema().to_arrow()).field("s").type.field("m").metadata == {b"comment": b"a member"}
    assert delta.history(1)[0]["signalbook.batch"] == "b002"


def test_new_members_at_any_depth(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", "delta")
    before, after = pa.struct([("m", INT)]), pa.struct([("m", INT), ("n", pa.struct([("o", TEXT)]))])
    for kind, value in ((before, {"m": 1}), (after, {"m": 2, "n": {"o": "x"}})):
        columns = {"s": kind, "l": pa.list_(kind), "d": pa.map_(TEXT, kind)}
        assert lake.put([{"s": value, "l": [value], "d": [("k", value)]}], columns) == ORDER
    old = {"m": 1, "n": None}
    new = {"m": 2, "n": {"o": "x"}}
    assert lake.rows() == [{"s": values, "l": [values], "d": [("k", values)]} for values in (old, new)]
    assert lake.tables.read_columns(ORDER).field("l").type.value_type == after


def test_times_of_day_are_in_the_files_alone(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", "delta")
    for hour in (1, 2):
        assert lake.put([{"a": hour, "t": time(hour)}], {"a": INT, "t": pa.time64("us")}) == ORDER
    assert lake.rows() == [{"a": 1}, {"a": 2}]


def test_escaped_names_are_usable(tmp_path: Path) -> None:
    lake, name = Lake(tmp_path / "lake", "delta"), TableName("endpoints%2Fe", "a%3Ab")
    for value in (1, 2):
        lake.put([{"a": value}], COLUMNS, name)
    assert lake.put([{"a": "x"}], {"a": TEXT}, name) == name.with_version(2)
    assert len(lake.rows(name)) == 2
    assert lake.tables.find_versions(name) == [name, name.with_version(2)]


def test_a_folder_with_a_space_and_other_letters(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "our lake, größer", "delta")
    for value in (1, 2):
        lake.put([{"a": value}], COLUMNS)
    assert {Path(path).exists() for path in lake.tables.find_live_paths(ORDER)} == {True}
    (result,) = compact(lake.output, (), TARGET, lambda _: None)
    assert (result.files_before, result.files_after, len(lake.rows())) == (2, 1, 2)


@pytest.mark.parametrize("name", ["100%", "a%20b", "a\\b"])
def test_a_folder_that_the_library_does_not_find(tmp_path: Path, name: str) -> None:
    with pytest.raises(PipelineError, match=r"tables of Delta cannot be in .*: choose another"):
        open_tables(tmp_path / name, "delta")


def two_tables(lake: Lake) -> JournalEntry:
    """A prepared replay: a letter goes, a row comes."""
    lake.put([{"a": 9}], COLUMNS, DEAD_LETTERS)
    letters = tuple(lake.journal.find_files()[DEAD_LETTERS])
    from dataclasses import replace

    batch = replace(lake.prepared([{"a": 2, "b": "x"}], {"a": INT, "b": TEXT}), removed=letters)
    lake.journal.withdraw(batch)
    lake.journal.prepare(batch)
    return batch


_DIE = """
import os, signal, sys
from pathlib import Path
from signalbook.pipeline.commit import complete_unfinished
from signalbook.pipeline.journal import Journal

def die(progress):
    if [progress.stage, str(progress.done)] == sys.argv[2:]:
        os.kill(os.getpid(), signal.SIGKILL)

complete_unfinished(Journal.open_existing(Path(sys.argv[1])), die)
"""


@pytest.mark.parametrize(("stage", "progress_done"), [("committing", 0), ("committing", 1), ("committed", 2)])
def test_killed_commit_is_completed(lake: Lake, stage: str, progress_done: int) -> None:
    two_tables(lake)
    command = [sys.executable, "-c", _DIE, str(lake.output), stage, str(progress_done)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert settled(lake) == [1, 2]
    assert lake.rows(DEAD_LETTERS) == []


def test_a_death_before_the_log_has_the_files(lake: Lake) -> None:
    """Files are where they belong by then, and the table may have its new columns."""
    batch = two_tables(lake)
    files = [file for file in batch.files if file.table == ORDER]
    move_in(lake.place, lake.place / "tables/shop/order", files)
    table(lake).alter.add_columns([Field.from_arrow(pa.field("b", TEXT))])
    assert settled(lake) == [1, 2]


def test_a_death_before_the_first_entry_of_a_log(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", "delta")
    lake.prepared([{"a": 1}], COLUMNS)
    (lake.output / "tables/shop/order" / LOG).mkdir(parents=True)
    assert settled(lake) == [1]


def test_unrecorded_commit_is_not_repeated(lake: Lake) -> None:
    """The journal has no record of the commit."""
    batch = two_tables(lake)
    for name in (DEAD_LETTERS, ORDER):
        lake.tables.commit(batch, name)
    version = table(lake).version()
    assert settled(lake) == [1, 2]
    assert table(lake).version() == version


def test_another_program_may_land_too(lake: Lake) -> None:
    lake.prepared([{"a": 2}], COLUMNS)
    theirs: Any = table(lake).to_pyarrow_table().set_column(0, "a", pa.array([3], INT))
    write_deltalake(table(lake), theirs, mode="append")
    assert settled(lake) == [1, 2, 3]


def test_foreign_compaction_is_accepted(lake: Lake) -> None:
    lake.put([{"a": 2}], COLUMNS)
    table(lake).optimize.compact()
    assert compact(lake.output, (), TARGET, lambda _: None) == []
    lake.put([{"a": 3}], COLUMNS)
    assert [row["a"] for row in lake.rows()] == [1, 2, 3]


def test_compaction_of_removed_files_is_discarded(lake: Lake) -> None:
    lake.put([{"a": 2}], COLUMNS)

    def interfere(progress: Any) -> None:
        if progress.stage == "prepared":
            table(lake).optimize.compact()

    with pytest.raises(PipelineError, match=r"shop\.order was changed by someone else: 2 of the files"):
        compact(lake.output, (), TARGET, interfere)
    assert settled(lake) == [1, 2]


# What someone else does between the look at a table and the commit, and how many files are compacted then.
_MEANWHILE: Any = {
    "compacts": (lambda there: there.optimize.compact(), None, [1, 2]),
    "deletes": (lambda there: there.delete("a = 1"), None, [2]),
    "adds": (lambda there: write_deltalake(there, there.to_pyarrow_table(), mode="append"), 2, [1, 1, 2, 2]),
    "widens": (lambda there: there.alter.add_columns([Field.from_arrow(pa.field("z", TEXT))]), 2, [1, 2]),
}


@pytest.mark.parametrize("action", _MEANWHILE)
def test_concurrent_compactions_keep_all_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    """Deltalake alone would leave rows of both compactions."""
    meanwhile, compacted, rows = _MEANWHILE[action]
    lake.put([{"a": 2}], COLUMNS)
    write, looks = delta._write, list[Any]()

    def late(*args: Any) -> None:
        if not looks:
            meanwhile(table(lake))
        looks.append(args)
        write(*args)

    monkeypatch.setattr(delta, "_write", late)
    if compacted:
        (result,) = compact(lake.output, (), TARGET, lambda _: None)
        assert (result.files_before, len(looks)) == (compacted, 2)
    else:
        with pytest.raises(PipelineError, match=r"shop\.order was changed by someone else: . of the files"):
            compact(lake.output, (), TARGET, lambda _: None)
    assert settled(lake) == rows


def test_a_compaction_is_no_change_of_data(lake: Lake) -> None:
    lake.put([{"a": 2}], COLUMNS)
    compact(lake.output, (), TARGET, lambda _: None)
    newest = max((lake.output / "tables/shop/order" / LOG).glob("*.json"))
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    changes = [
        change["dataChange"] for action in actions for kind, change in action.items() if kind in ("add", "remove")
    ]
    assert changes == [False] * 3


def test_unsupported_table_features_are_an_error(lake: Lake) -> None:
    table(lake).alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    with pytest.raises(
        PipelineError, match=r"table shop\.order was given the features deletionVectors by someone else"
    ):
        lake.put([{"a": 2}], COLUMNS)


def test_batch_is_kept_while_the_log_is_damaged(lake: Lake) -> None:
    batch = lake.prepared([{"a": 2}], COLUMNS)
    log = lake.output / "tables/shop/order" / LOG
    copied = shutil.copytree(log, lake.output / "kept")
    for path in log.glob("*.json"):
        path.write_text("{")
    with pytest.raises(PipelineError, match=r"table shop\.order does not take the batch, which is kept"):
        lake.commit(batch)
    shutil.rmtree(log)
    copied.rename(log)
    assert settled(lake) == [1, 2]


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    monkeypatch.delitem(sys.modules, "signalbook.pipeline.tables.delta", raising=False)
    with pytest.raises(PipelineError, match=r"need deltalake: pip install ./native '.\[pipeline,delta\]'"):
        open_tables(tmp_path, "delta")


REFUSED = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message><AWSAccessKeyId>4711-key</AWSAccessKeyId>
<StringToSign>AWS4-HMAC-SHA256
20261123T104900Z</StringToSign><SignatureProvided>4711-signed</SignatureProvided></Error>"""


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_error_does_not_show_requests_of_a_store(tmp_path: Path, s3proxy: Broker, method: str) -> None:
    """The same holds for tables that are read and for those that are written."""

    def refuse(request: Asked, deliver: Deliver) -> Answer:
        refused = request.method == method and f"{LOG}/" in request.path
        return Answer(403, (("content-length", str(len(REFUSED))),), REFUSED) if refused else deliver()

    with store_way(s3proxy.ports["plain"]) as way:
        stored = place_of(f"s3://{BUCKET}/{secrets.token_hex(4)}", storage_of(way.own))
        lake = Lake(tmp_path, "delta", stored=stored)
        with lake.journal.lock_output():
            lake.put([{"a": 0}], COLUMNS)
            batch = lake.prepared([{"a": 1}], COLUMNS)
            way.fate = refuse
            with pytest.raises(PipelineError, match=r"order.*: the store answers 403 Forbidden") as failure:
                lake.commit(batch) if method == "PUT" else lake.tables.find_paths(ORDER)
            text = "".join(traceback.format_exception(failure.value))
            assert str(failure.value).splitlines() == [str(failure.value)]
            assert not any(word in text for word in ("4711", "AWS4", "\x1b"))
            way.fate = delivered
            complete_unfinished(lake.journal, lambda _: None)
        assert [row["a"] for row in lake.rows()] == [0, 1]


def test_looks_for_tables_are_few(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request lists a group and one more each log, because each is a request to a store."""
    names = [TableName("shop", f"t{number}") for number in range(20)]
    for name in names:
        (lake.output / "tables/shop" / name.message / LOG).mkdir(parents=True)
    requested: list[str] = []
    look = LocalPlace.list_folders

    def folders(place: LocalPlace) -> list[str]:
        requested.append(place.name)
        return look(place)

    monkeypatch.setattr(LocalPlace, "list_folders", folders)
    tables = lake.tables
    assert [tables.find_versions(name) for name in names] == [[name] for name in names]
    assert requested == ["shop", *(name.message for name in names)]
    assert tables.find_versions(ORDER) == [ORDER]
    assert tables.read_columns(ORDER).names == ["a", "_landed_at"]
    assert requested[21:] == [ORDER.message]
    assert (tables.find_versions(DEAD_LETTERS), requested[22:]) == ([], [lake.output.name])
