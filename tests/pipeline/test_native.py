"""The native module is used only if it is there and speaks the same interface."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from signalbook.pipeline.fastpath import native
from signalbook.pipeline.fastpath.modes import Envelopes
from signalbook.pipeline.fastpath.objectenvelopes import ObjectEnvelopes


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    native.module.cache_clear()
    yield
    native.module.cache_clear()


def test_what_the_sources_of_this_version_build_is_used() -> None:
    pytest.importorskip("signalbook_native")
    assert native.module().INTERFACE == native.INTERFACE


@pytest.mark.parametrize("interface", [None, 0, native.INTERFACE + 1, "x"])
def test_a_module_of_another_interface_is_as_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, interface: object
) -> None:
    other = ModuleType("signalbook_native")
    if interface is not None:
        monkeypatch.setattr(other, "INTERFACE", interface, raising=False)
    monkeypatch.setitem(sys.modules, "signalbook_native", other)
    assert native.module() is None
    assert isinstance(Envelopes()._decoder, ObjectEnvelopes)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "pip install ./native" in caplog.text


def test_no_module_is_nothing_to_tell(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "signalbook_native", None)
    assert native.module() is None
    assert not caplog.records
