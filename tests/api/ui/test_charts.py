"""Bars in proportion, within their box, and none for nothing."""

from hypothesis import given
from hypothesis import strategies as st

from signalbook.api.ui.charts import HEIGHT, WIDTH, Column, build_stacked_chart, format_number

KINDS = (("landed", "landed"), ("dead", "dead letters"))
VALUES = st.tuples(*(st.integers(0, 2**62).map(float) for _ in KINDS))


@given(st.lists(VALUES, max_size=200))
def test_bars_stay_within_their_box(columns: list[tuple[float, ...]]) -> None:
    chart = build_stacked_chart(
        "any", KINDS, [Column(label=str(at), values=values) for at, values in enumerate(columns)]
    )
    assert len(chart.bars) == sum(value > 0 for values in columns for value in values)
    for bar in chart.bars:
        assert bar.x >= 0
        assert bar.x + bar.width <= WIDTH
        assert bar.y >= 0
        assert 0 < bar.height <= HEIGHT


def test_bars_stand_on_each_other_in_proportion() -> None:
    chart = build_stacked_chart("any", KINDS, [Column(label="a", values=(60, 20)), Column(label="b", values=(0, 40))])
    assert [(bar.kind, bar.y, bar.height) for bar in chart.bars] == [
        ("landed", 25, 75),
        ("dead", 0, 25),
        ("dead", 50, 50),
    ]
    assert (chart.top, chart.first, chart.last) == ("80", "a", "b")
    assert (chart.bars[0].x, chart.bars[-1].x + chart.bars[-1].width) == (0, WIDTH), "where their labels are"
    assert chart.bars[0].title == "a: 60 landed"


def test_numbers_are_formatted_for_people() -> None:
    assert [format_number(value) for value in (0, 12345, 0.5, 99.96, 1e6)] == [
        "0",
        "12,345",
        "0.5",
        "100.0",
        "1,000,000",
    ]
