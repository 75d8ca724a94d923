"""Limits of jobs and of the sources that they read."""

from __future__ import annotations

from typing import Final

MAX_MESSAGE: Final = 256 * 1024 * 1024
"""Bytes of the longest message that is read, where a job says nothing else."""
