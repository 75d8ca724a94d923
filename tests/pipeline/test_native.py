"""The native module is the one that the sources of this version build; what it is given; without it there is no run."""

import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages import Policy
from signalbook.pipeline import PipelineError, native
from signalbook.pipeline.commands.run import check
from signalbook.pipeline.native import PayloadSpans


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    native.load_module.cache_clear()
    yield
    native.load_module.cache_clear()


def test_native_module_matches_the_sources() -> None:
    assert native.load_module().INTERFACE == native.INTERFACE


@pytest.mark.parametrize("interface", [None, 0, native.INTERFACE + 1, "x"])
def test_a_module_of_another_interface_is_refused(monkeypatch: pytest.MonkeyPatch, interface: object) -> None:
    other = ModuleType("signalbook_native")
    if interface is not None:
        monkeypatch.setattr(other, "INTERFACE", interface, raising=False)
    monkeypatch.setitem(sys.modules, "signalbook_native", other)
    with pytest.raises(PipelineError, match=r"has interface .*pip install \./native"):
        native.load_module()


def test_without_it_no_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "signalbook_native", None)
    with pytest.raises(PipelineError, match=r"needs its native module.*pip install \./native") as raised:
        check(Policy())
    assert "\n" not in str(raised.value)


VALUES = st.lists(st.binary(max_size=6), max_size=5)


@given(st.lists(st.tuples(st.sampled_from(["array", "list", "block"]), VALUES), min_size=1, max_size=4), st.data())
def test_payloads_are_found_where_they_lie(parts: list[tuple[str, list[bytes]]], data: st.DataObject) -> None:
    batches = []
    for kind, values in parts:
        if kind == "list":
            batches.append(PayloadSpans.of_list(values))
        elif kind == "array":
            batches.append(PayloadSpans.of(pa.array([b"<", *values, b">"], pa.binary()).slice(1, len(values))))
        else:
            ends = np.cumsum([1, *map(len, values)])
            batches.append(PayloadSpans.within(b"<" + b"".join(values) + b">", ends[:-1], ends[1:]))
    whole, values = PayloadSpans.join(batches), [value for _, part in parts for value in part]
    chosen = sorted(data.draw(st.sets(st.integers(0, max(len(values) - 1, 0)), max_size=len(values))))
    for spans, expected in (
        (whole, values),
        (whole.take(np.array(chosen, np.int64)), [values[number] for number in chosen]),
    ):
        assert len(spans) == len(expected)
        assert spans.to_list() == spans.to_array().to_pylist() == expected
        assert [spans[number] for number in range(len(expected))] == expected
        assert spans.lengths.tolist() == [*map(len, expected)]
        heads = spans.read_heads(3)
        assert [bytes(head[: len(value)]) for head, value in zip(heads, expected, strict=True)] == [
            value[:3] for value in expected
        ]
        lengths = np.array([len(value) // 2 for value in expected], np.int64)
        assert spans.skip(lengths).to_list() == [value[len(value) // 2 :] for value in expected]


def test_an_array_of_nothing_need_not_have_buffers() -> None:
    nothing = pa.Array.from_buffers(pa.binary(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])
    assert PayloadSpans.of(nothing).to_list() == []


@given(st.lists(st.one_of(st.just(b"\n"), st.binary(max_size=3), st.integers(1, 150).map(bytes)), max_size=12))
def test_all_line_feeds_are_found(parts: list[bytes]) -> None:
    block = b"".join(parts)
    line_ends = np.frombuffer(native.load_module().line_ends(block), np.int64)
    assert line_ends.tolist() == [place for place, byte in enumerate(block) if byte == ord("\n")]
