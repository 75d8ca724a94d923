"""The dialects that take part in every write."""

from __future__ import annotations

from signalbook.dialect import Dialect
from signalbook.dialects import AllDialects


def test_each_need_is_met_by_one_dialect() -> None:
    """A method that two dialects override would hide one of them."""
    needs = {name for name in vars(Dialect) if not name.startswith("__")}
    overridden = [name for dialect in AllDialects.__bases__ for name in vars(dialect) if name in needs]
    assert sorted(overridden) == sorted(needs)
