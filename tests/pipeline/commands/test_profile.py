"""Profiles tell what lies in the tables."""

import json
from pathlib import Path

import pytest
from tests.pipeline.conftest import Parcels
from tests.pipeline.local import run

from signalbook.pipeline import Job, PipelineError, profile, status
from signalbook.pipeline.commands import profile as profiling
from signalbook.pipeline.commands.profile import ColumnProfile, Profile
from signalbook.pipeline.journal import TableFormat

ACCEPTED = "/messagegroups/parcels/messages/parcel.accepted"
DELIVERED = "/messagegroups/parcels/messages/parcel.delivered"


@pytest.fixture(scope="module", params=["iceberg", "parquet", "delta"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, parcels: Parcels) -> Path:
    """Two batches: 20 parcels accepted, 5 delivered, one event broken in each. It is for all tests to read."""
    table_format: TableFormat = request.param
    folder = tmp_path_factory.mktemp("profile")
    definitions, output = folder / "parcels.xreg.json", folder / "lake"
    definitions.write_text(json.dumps(parcels.catalogue()), encoding="utf-8")
    for batch in ("b1", "b2"):
        accepted = [parcels.event(n, data={"id": f"P{n}", "weight": n, "stops": ["x"] * n}) for n in range(10)]
        delivered = [parcels.event(n, type="parcel.delivered") for n in range(5)] if batch == "b1" else []
        path = folder / f"{batch}.jsonl"
        path.write_bytes(parcels.lines(*accepted, *delivered, "broken"))
        job = Job(
            registry=str(definitions), inputs=(str(path),), output=output, table_format=table_format, batch_id=batch
        )
        run(job)
    return output


def test_a_table_is_reported_over_all_batches(lake: Path) -> None:
    (result,) = profile(lake, [ACCEPTED])
    assert (result.definition, result.rows) == (ACCEPTED, 20)
    columns = {column.name: column for column in result.columns}
    weight, stops = columns["weight"], columns["stops"]
    assert (weight.nulls, weight.least, weight.most, weight.payload) == (0, "0.0", "9.0", True)
    assert 9 <= (weight.distinct or 0) <= 11
    assert (stops.distinct, stops.least, stops.most) == (None, "0", "9")
    assert (columns["at"].nulls, columns["at"].least, columns["ce_type"].payload) == (20, None, False)
    assert set(result.unseen) == {"at", "extra", "size.l", "size.w"}


@pytest.mark.usefixtures("spark_session")
@pytest.mark.parametrize(
    "lake",
    ["parquet", *(pytest.param(other, marks=pytest.mark.merge) for other in ("iceberg", "delta"))],
    indirect=True,
)
def test_spark_counts_the_same(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large tables are counted by its tasks."""
    steps: list[str] = []
    small = profile(lake, progress=steps.append)
    assert "starting Spark" not in steps
    monkeypatch.setattr(profiling, "_SMALL_BYTES", 0)
    assert profile(lake, progress=steps.append) == small
    assert "starting Spark" in steps


def test_profile_compares_with_current_declarations(lake: Path, definitions: Path) -> None:
    text = definitions.read_text(encoding="utf-8")
    definitions.write_text(text.replace('"weight"', '"grams"'), encoding="utf-8")
    (result,) = profile(lake, [ACCEPTED], registry=str(definitions))
    assert result.undeclared == ("weight",)
    assert set(result.unseen) == {"at", "extra", "grams", "size.l", "size.w"}


def test_all_tables_without_the_dead_letters(lake: Path) -> None:
    assert [(table_profile.definition, table_profile.rows) for table_profile in profile(lake)] == [
        (ACCEPTED, 20),
        (DELIVERED, 5),
    ]


def test_the_batches_are_listed(lake: Path) -> None:
    assert [(report.batch, report.landed, report.tally.dead_lettered) for report in status(lake).reports] == [
        ("b1", 15, 1),
        ("b2", 10, 1),
    ]


def test_unknown_table_or_folder_is_an_error(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=f"no table of /messagegroups/a/messages/b; there are: {ACCEPTED}, "):
        profile(lake, ["/messagegroups/a/messages/b"])
    for look in (profile, status):
        with pytest.raises(PipelineError, match="is no output folder of the pipeline"):
            look(tmp_path)


def column(name: str, nulls: int = 0, *, payload: bool = True) -> ColumnProfile:
    return ColumnProfile(name=name, type="string", payload=payload, nulls=nulls, distinct=1, least=None, most=None)


@pytest.mark.parametrize(
    ("declared", "unseen", "undeclared"),
    [
        (None, ("b",), ()),
        (("a", "b", "c"), ("b", "c"), ()),
        (("a",), (), ()),
        (("b",), ("b",), ("a",)),
        ((), (), ("a",)),
    ],
)
def test_drift(declared: tuple[str, ...] | None, unseen: tuple[str, ...], undeclared: tuple[str, ...]) -> None:
    columns = (column("a"), column("b", 2), column("ce_id", payload=False), column("x", 2, payload=False))
    result = Profile(definition="d", rows=2, columns=columns, declared=declared)
    assert (result.unseen, result.undeclared) == (unseen, undeclared)
    assert ("undeclared" in result.to_json()) == (declared is not None)


def test_a_profile_as_json() -> None:
    assert Profile(definition="d", rows=0, columns=()).to_json() == {
        "definition": "d",
        "rows": 0,
        "unseen": [],
        "columns": [],
    }
