"""Values that are none: dates that no calendar has, and stand-ins for no date at all (domain I-5, I-6)."""

from __future__ import annotations

from typing import Final

from signalbook.documents.lenient.page import Page
from signalbook.values import parse_timestamp

SENTINEL: Final = "01-01-0000T00:00:00Z"
_OLD_STAMPS: Final = {"createdtimeutc": "createdat", "updatedtimeutc": "modifiedat"}
_IN_DEPRECATED: Final = ("effective", "removal")


def mend_timestamps(page: Page) -> None:
    """``createdat``, ``modifiedat`` and the dates of ``deprecated``; what is no date is left out."""
    for old, new in _OLD_STAMPS.items():
        page.rename(old, new, "I-6")
    for name in ("createdat", "modifiedat"):
        mend_timestamp(page, name)
    deprecated = page.member("deprecated")
    for name in _IN_DEPRECATED if deprecated else ():
        assert deprecated is not None
        mend_timestamp(deprecated, name)


def mend_timestamp(page: Page, name: str) -> None:
    """Leave ``name`` out if it is no timestamp."""
    text = page.body.get(name)
    if not isinstance(text, str):
        return
    if text == SENTINEL:
        page.drop(name, f"{text} stands for no date", "I-6")
        return
    try:
        parse_timestamp(text)
    except ValueError:
        page.drop(name, f"{text} is no date", "I-5")
