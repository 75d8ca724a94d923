"""Paths of the xRegistry API beside those of entities."""

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
"""Paths beside the entities, and their methods. No name with a dot is that of a Group type (R135)."""
ALWAYS_THERE: Final = ("openapi.json",)
"""Paths that the capability ``available`` cannot switch off."""
