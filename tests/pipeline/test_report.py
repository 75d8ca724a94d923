"""Counts that add up, however the work was divided, and what is shown of them."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.report import MOST_PATHS, OTHERS, Report, Span, Tally, decode, find_charged
from signalbook.values import Finding

XIDS = ["/messagegroups/g/messages/a", "/messagegroups/g/messages/b"]
Step = Callable[[Tally], None]


def land(xid: str, messages: int, time: int | None) -> Step:
    def step(tally: Tally) -> None:
        tally.read += messages
        tally.bytes += 10 * messages
        tally.land(xid, messages, None if time is None else Span(oldest=time, newest=time + messages))

    return step


def reject(reason: str, candidates: list[str]) -> Step:
    def step(tally: Tally) -> None:
        tally.read += 1
        tally.reject(reason, candidates)
        findings = [Finding(path="/x", rule=reason, message="no")]
        tally.violations.record(find_charged(candidates), findings, source="f", position=1, original=b"{}")

    return step


def drop(tally: Tally) -> None:
    tally.read += 1
    tally.dropped += 1


def rescue(xid: str, paths: dict[str, int]) -> Step:
    def step(tally: Tally) -> None:
        tally.rescue(xid, paths)
        tally.duplicates[xid] += 1

    return step


STEPS = st.one_of(
    st.builds(rescue, st.sampled_from(XIDS), st.dictionaries(st.sampled_from(["/a", "/b/*/c", ""]), st.integers(1, 9))),
    st.builds(land, st.sampled_from(XIDS), st.integers(1, 50), st.none() | st.integers(-(10**15), 10**15)),
    st.builds(reject, st.sampled_from(["no_match", "decode_error"]), st.lists(st.sampled_from(XIDS), unique=True)),
    st.just(drop),
)


def tallied(steps: list[Step]) -> Tally:
    tally = Tally()
    for step in steps:
        step(tally)
    return tally


def report(*steps: Step) -> Report:
    return Report(batch="b", fingerprint="f", tally=tallied([*steps]), seconds=1.0)


@given(st.lists(st.lists(STEPS, max_size=8), max_size=5))
def test_merged_tallies_equal_one_tally(parts: list[list[Step]]) -> None:
    """The equation read = landed + dead letters + dropped holds for any partition (K-48)."""
    merged = Tally()
    for part in parts:
        merged.add(decode(msgspec.json.encode(tallied(part)), Tally))
    assert merged == tallied([step for part in parts for step in part])
    merged.check(landed_rows=merged.landed.total(), dead_letter_rows=merged.dead_lettered)
    report_json = Report(batch="b", fingerprint="f", tally=merged, seconds=1.0).to_json()
    assert report_json["read"] == report_json["landed"] + report_json["dead_lettered"] + report_json["dropped"]
    assert sum(report_json["reasons"].values()) == report_json["dead_lettered"]
    for counts in report_json["by_message"].values():
        assert sum(counts.get("reasons", {}).values()) == counts["rejected"]
    assert sum(violation["messages"] for violation in report_json["violations"]) == report_json["dead_lettered"]


@pytest.mark.parametrize(("landed", "dead"), [(4, 1), (5, 0), (6, 0), (4, 0)])
def test_missing_rows_are_an_error(landed: int, dead: int) -> None:
    tally = tallied([land(XIDS[0], 4, None), reject("no_match", [])])
    if (landed, dead) == (4, 1):
        tally.check(landed_rows=landed, dead_letter_rows=dead)
        return
    with pytest.raises(PipelineError, match="do not add up: 5 messages read"):
        tally.check(landed_rows=landed, dead_letter_rows=dead)


def test_report_has_all_details() -> None:
    time = int(datetime(2026, 1, 2, tzinfo=UTC).timestamp()) * 1_000_000
    tally = tallied([land(XIDS[0], 3, time), reject("no_match", []), reject("decode_error", XIDS[:1])])
    finished = datetime(2026, 1, 2, 0, 1, tzinfo=UTC)
    report = Report(batch="b", fingerprint="f", tally=tally, seconds=2.0, written=9, finished=finished)
    report_json = report.to_json()
    times = {"oldest": "2026-01-02T00:00:00Z", "newest": "2026-01-02T00:00:00.000003Z"}
    assert (report_json["finished"], report_json["bytes"]) == ("2026-01-02T00:01:00Z", {"read": 30, "written": 9})
    assert report_json["lag"] == {**times, "seconds": 60.0}
    counts = {"landed": 3, "rejected": 1, "rejected_share": 0.25, "events_per_second": 2.0}
    assert report_json["by_message"][XIDS[0]] == {**counts, "reasons": {"decode_error": 1}, **times}
    expected = [("", "no_match"), (XIDS[0], "decode_error")]
    assert [(violation["definition"], violation["rule"]) for violation in report_json["violations"]] == expected


def test_the_share_of_dead_letters() -> None:
    landed, rejected = land(XIDS[0], 3, None), reject("no_match", [])
    assert [report(*steps).dead_letter_share for steps in ([], [landed], [landed, rejected])] == [0.0, 0.0, 0.25]


@pytest.mark.parametrize(
    ("newest", "lag"),
    [(None, {}), (2**62, {}), (-(2**62), {}), (4 * 10**15, {"seconds": 0.0})],
    ids=["none", "beyond", "before", "ahead"],
)
def test_lag_is_omitted_or_bounded_with_wrong_clocks(newest: int | None, lag: dict[str, Any]) -> None:
    tally = tallied([land(XIDS[0], 1, newest)])
    report = Report(batch="b", fingerprint="", tally=tally, seconds=0.0, finished=datetime(2026, 1, 1, tzinfo=UTC))
    lag_json = report.to_json()["lag"]
    assert {name: value for name, value in lag_json.items() if name == "seconds"} == lag


def test_counts_of_former_programs_can_be_read() -> None:
    old = b'{"read":3,"dropped":1,"dead_lettered":1,"landed":{"/x":1},"rejected":{"/x":1},"reasons":{"no_match":1}}'
    tally = decode(old, Tally)
    count = Counter({"/x": 1})
    expected = Tally(read=3, dropped=1, dead_lettered=1, landed=count, rejected=count, reasons=Counter({"no_match": 1}))
    assert tally == expected
    report_json = Report(batch="b", fingerprint="f", tally=tally, seconds=1.0).to_json()
    assert report_json["by_message"]["/x"]["rejected_share"] == 0.5
    assert (report_json["lag"], report_json["bytes"], report_json["violations"]) == ({}, {"read": 0, "written": 0}, [])


def test_undeclared_members_are_reported_by_path() -> None:
    steps = land(XIDS[0], 4, None), rescue(XIDS[0], {"/a": 1, "/b": 3}), rescue(XIDS[1], {"/a": 3})
    report_json = report(*steps).to_json()
    rescued = [(XIDS[0], "/b", 3), (XIDS[1], "/a", 3), (XIDS[0], "/a", 1)]
    assert report_json["rescued"] == [{"definition": xid, "path": path, "messages": n} for xid, path, n in rescued]
    assert report_json["by_message"][XIDS[0]]["duplicate_names"] == 1
    bare = report(land(XIDS[0], 4, None)).to_json()
    assert "rescued" not in bare
    assert "duplicate_names" not in bare["by_message"][XIDS[0]]


def test_paths_of_undeclared_members_are_bounded() -> None:
    tally = tallied([rescue(XIDS[0], {f"/{n}": 1 for n in range(start, start + 300)}) for start in (0, 150)])
    paths = tally.rescued[XIDS[0]]
    assert (len(paths), paths.total()) == (MOST_PATHS + 1, 600)
    assert paths[OTHERS] == 600 - sum(count for path, count in paths.items() if path != OTHERS) > 300
