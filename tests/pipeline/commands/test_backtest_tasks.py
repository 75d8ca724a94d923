"""One task of a backtest by itself: what is counted, and for whom."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.processing.test_deadletters import Given, event, sidelined

from signalbook.messages import Message, parse_flags
from signalbook.messages.bindings.kafka import record
from signalbook.pipeline.commands.backtest import BacktestPlan, compare, read_result
from signalbook.pipeline.commands.backtest_result import Backtest
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.places import LocalPlace, Place

ACCEPTED, DELIVERED, NEW = (f"/messagegroups/parcels/messages/parcel.{n}" for n in ("accepted", "delivered", "new"))


class Room:
    """A folder of letters and rows, and two catalogues: in tomorrow's, ids may be numbers and something is new."""

    def __init__(self, folder: Path, parcels: Any) -> None:
        document = parcels.catalogue()
        self.folder = folder
        self.today = Snapshot.of_documents([("today", document)])
        document = json.loads(json.dumps(document))
        properties = document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"]["schema"]["properties"]
        properties["id"], properties["weight"] = {"type": ["string", "integer"]}, {"type": "number", "maximum": 2}
        document["messagegroups"]["parcels"]["messages"]["parcel.new"] = parcels.message("parcel.new")
        self.tomorrow = Snapshot.of_documents([("tomorrow", document)])

    def letters(self, *messages: Message) -> tuple[str, Place]:
        sidelined(self.today, Given(*messages), self.folder)
        return "", LocalPlace(self.folder / "p-00000.parquet")

    def rows(self, *rows: dict[str, Any]) -> tuple[str, Place]:
        path = self.folder / "rows.parquet"
        common = {"ce_type": "parcel.accepted", "ce_id": "1", "ce_source": "/depots/7"}
        pq.write_table(pa.Table.from_pylist([{**common, **row} for row in rows]), path)
        return ACCEPTED, LocalPlace(path)

    def compared(self, *files: tuple[str, Place], **options: Any) -> Backtest:
        flags = options.pop("flags", ())
        values = {"policy": parse_flags(flags), "definitions": (), "by": "ce_source", "sample": 1.0, **options}
        plan = BacktestPlan(today=self.today.to_json(), candidate=self.tomorrow.to_json(), tasks=(files,), **values)
        (text,) = compare(plan, [0])
        return read_result(text)


@pytest.fixture
def room(tmp_path: Path, parcels: Any) -> Room:
    return Room(tmp_path, parcels)


@pytest.fixture
def letters(room: Room, parcels: Any) -> tuple[str, Place]:
    """Three that will land, one that will not, one of no definition."""
    bad = {"data": {"id": 1, "weight": 1}}
    return room.letters(
        event(parcels, **bad),
        event(parcels, type="parcel.delivered", **bad),
        event(parcels, type="parcel.new"),
        event(parcels, data={}),
        event(parcels, type="parcel.unheard"),
    )


@pytest.mark.parametrize(
    ("definitions", "mended", "refused"),
    [((), 3, 2), ((ACCEPTED,), 1, 1), ((NEW,), 1, 0), ((ACCEPTED, DELIVERED), 2, 1), (("/messagegroups/x",), 0, 0)],
)
def test_letters_count_for_the_definitions_asked_about(
    room: Room, letters: tuple[str, Place], definitions: tuple[str, ...], mended: int, refused: int
) -> None:
    """Also those that are meant for one of them only by the candidate."""
    result = room.compared(letters, definitions=definitions)
    assert (result.mended.messages, result.refused, result.messages) == (mended, refused, mended + refused)
    assert not definitions or set(result.mended.definitions) <= set(definitions)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("ce_source", {"/depots/7": 3}),
        ("ce_type", {"parcel.accepted": 1, "parcel.delivered": 1, "parcel.new": 1}),
        ("_source", {"in": 3}),
        ("weight", {"": 3}),
    ],
)
def test_letters_are_counted_by_the_values_of_their_rows(
    room: Room, letters: tuple[str, Place], by: str, expected: dict[str, int]
) -> None:
    assert room.compared(letters, by=by).mended.producers == expected


def test_letter_without_the_attribute_is_counted_by_its_address(room: Room) -> None:
    headers = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/depots/7"), ("ce_type", b"parcel.new")]
    letters = room.letters(record("parcels", b"{}", headers))
    assert room.compared(letters, by="ce_subject").mended.producers == {"parcels": 1}


ROWS: list[dict[str, Any]] = [{"id": "a", "weight": 1.0}, {"id": "b", "weight": 3.0}]


@pytest.mark.parametrize(("flags", "broken"), [((), 1), (("on_schema_violation=tag",), 0)])
def test_rows_are_held_to_the_policy_of_the_run(room: Room, flags: tuple[str, ...], broken: int) -> None:
    result = room.compared(room.rows(*ROWS), flags=flags)
    assert (result.broken.messages, result.accepted, result.doubtful) == (broken, 2 - broken, 0)


def test_rows_of_an_older_table_are_doubtful(room: Room) -> None:
    """The columns have other types than the current definition."""
    assert room.compared(room.rows({**ROWS[0], "size": 1.5, "stops": {"a": 1}})).doubtful == 1


def test_rows_of_a_returning_definition_are_rebuilt(room: Room, parcels: Any) -> None:
    """The rows are rebuilt with the candidate schema."""
    other_definitions = tuple(xid for xid in room.today.selected if xid != ACCEPTED)
    room.today = Snapshot(messages=room.today.messages, schemas=room.today.schemas, selected=other_definitions)
    result = room.compared(room.rows(*ROWS))
    assert (result.mended.messages, result.refused) == (1, 1)
