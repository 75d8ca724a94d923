"""The Registry entity of other days: its version of the specification, its capabilities (core l-1, l-4, l-7)."""

from __future__ import annotations

from typing import Final

from signalbook.documents.lenient.page import Page
from signalbook.documents.lenient.references import GROUP_TYPES

_SPECVERSION: Final = "1.0-rc4"
_GONE: Final = ("apis", "schemas", "sticky", "mutable")
_FLAGS_GONE: Final = frozenset(
    {"nodefaultversionid", "nodefaultversionsticky", "noepoch", "noreadonly", "offered", "schema", "nested"}
)


def mend_registry(page: Page) -> None:
    """The Registry's own attributes, and the names of its collections."""
    stated = page.body.get("specversion")
    if stated not in (None, _SPECVERSION):
        page.drop("specversion", f"it was written for {stated}", "rc4")
    for old, new in GROUP_TYPES.items():
        page.rename(old, new, "I-6")
    capabilities = page.member("capabilities")
    if capabilities is not None:
        _capabilities(capabilities)


def _capabilities(page: Page) -> None:
    for name in _GONE:
        page.drop(name, "there is no such capability any more", "rc4")
    flags = page.body.get("flags")
    if isinstance(flags, list):
        page.change("flags", [flag for flag in flags if flag not in _FLAGS_GONE], "left out flags of old", "rc4")
