"""Why a schema has no decoder of columns."""

from __future__ import annotations


class Inexpressible(Exception):
    """There is no decoder of columns for a schema."""
