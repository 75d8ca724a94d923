from __future__ import annotations

import gc

import pytest

from signalbook.pipeline.job.snapshot import uncollected


@uncollected()
def failing() -> None:
    assert not gc.isenabled()
    raise ValueError("x")


@pytest.mark.parametrize("collects", [True, False])
def test_collection_goes_on_as_before(collects: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with pytest.raises(ValueError, match="x"):
            failing()
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()
