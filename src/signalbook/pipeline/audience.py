"""Who else is told of batches."""

from __future__ import annotations

import msgspec


class Audience(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section ``report`` of a job file.

    ``to`` is the URL of a registry, ``name`` what the pipeline is called there and in metrics, by default as its output
    folder. ``metrics_file`` is replaced after each batch; while batches are processed, metrics are served at
    ``metrics_host`` and ``metrics_port``, with 0 nowhere.
    """

    to: str = ""
    name: str = ""
    metrics_file: str = ""
    metrics_port: int = 0
    metrics_host: str = "127.0.0.1"
