"""Limits of jobs and of the sources that they read."""

from __future__ import annotations

from typing import Final

MAX_MESSAGE: Final = 256 * 1024 * 1024
"""The default limit for the length of a message, in bytes."""
