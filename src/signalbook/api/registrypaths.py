"""Paths of the xRegistry API that are not paths of entities."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "capabilities": ("GET", "PUT", "PATCH"),
    "capabilitiesoffered": ("GET",),
    "export": ("GET",),
    "model": ("GET",),
    "modelsource": ("GET", "PUT"),
    "openapi.json": ("GET",),
    ".xregistry": ("GET",),
}
"""The paths that are not paths of entities, with their methods. A name with a dot is never a Group type (R135)."""
ALWAYS_THERE: Final = ("openapi.json",)
"""Paths that the capability ``available`` cannot switch off."""
