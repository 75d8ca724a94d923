"""The native module is the one that the sources of this version build; without it there is no run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from signalbook.messages import Policy
from signalbook.pipeline import PipelineError
from signalbook.pipeline.commands.run import check
from signalbook.pipeline.fastpath import native


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    native.module.cache_clear()
    yield
    native.module.cache_clear()


def test_what_the_sources_of_this_version_build_is_used() -> None:
    assert native.module().INTERFACE == native.INTERFACE


@pytest.mark.parametrize("interface", [None, 0, native.INTERFACE + 1, "x"])
def test_a_module_of_another_interface_is_refused(monkeypatch: pytest.MonkeyPatch, interface: object) -> None:
    other = ModuleType("signalbook_native")
    if interface is not None:
        monkeypatch.setattr(other, "INTERFACE", interface, raising=False)
    monkeypatch.setitem(sys.modules, "signalbook_native", other)
    with pytest.raises(PipelineError, match=r"has interface .*pip install \./native"):
        native.module()


def test_without_it_no_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "signalbook_native", None)
    with pytest.raises(PipelineError, match=r"needs its native module.*pip install \./native") as raised:
        check(Policy())
    assert "\n" not in str(raised.value)
