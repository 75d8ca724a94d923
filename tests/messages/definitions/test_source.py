"""Outlines of definitions, and the warnings about definitions with equal ones."""

from typing import Any

from signalbook.messages.definitions.source import find_equal_outlines


class CountedOutline:
    """An outline that counts how often its xid is read."""

    is_event, protocol, type, constants = True, "", "t", (("type", "t"),)

    def __init__(self, xid: str) -> None:
        self.reads = 0
        self._xid = xid

    @property
    def xid(self) -> str:
        self.reads += 1
        return self._xid


def test_finding_equal_outlines_takes_linear_work() -> None:
    """Each warning names ten other definitions and the number of the remaining ones (K-13)."""
    outlines: list[Any] = [CountedOutline(f"/m{number}") for number in range(200)]
    messages = {xid: finding.message for xid, finding in find_equal_outlines(outlines)}
    assert sum(outline.reads for outline in outlines) <= 12 * len(outlines)
    for xid, first, last in (("/m0", 1, 11), ("/m5", 0, 11), ("/m199", 0, 10)):
        others = ", ".join(f"/m{number}" for number in range(first, last) if xid != f"/m{number}")
        assert messages[xid] == f"the type 't' is also that of {others} and 189 more"


def test_ten_equal_outlines_are_all_named() -> None:
    outlines: list[Any] = [CountedOutline(f"/m{number}") for number in range(11)]
    messages = [finding.message for _, finding in find_equal_outlines(outlines)]
    assert messages[0].endswith("/m9, /m10")
    assert messages[10].endswith("/m8, /m9")
