"""How old records were when they could be read: from their timestamps in Kafka to the commit of their batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from signalbook.pipeline.journal import Journal
from signalbook.pipeline.table_names import find_table_folder

Ages = npt.NDArray[np.float64]
"""Seconds."""
_MICROSECONDS = pa.timestamp("us", "UTC")


def of_pipeline(output: Path, committed: dict[str, float], since: float) -> Ages:
    """Of records from the time ``since`` on; ``committed`` says when the report of each batch was there."""
    journal = Journal.open_existing(output)
    batches = [
        (committed[batch.id], [output / find_table_folder(file.table, "parquet") / file.name for file in batch.files])
        for batch in journal.iterate_committed()
    ]
    return _ages(batches, "_received_at", since)


def of_spark(output: Path, since: float) -> Ages:
    """The same of Spark's own file sink, whose log says which files are there, and when, by the time of its entry."""
    seen: set[str] = set()
    batches = []
    for entry in sorted((output / "_spark_metadata").glob("[0-9]*"), key=lambda path: path.stat().st_mtime_ns):
        new = [name for name in _logged(entry) if name not in seen]
        seen.update(new)
        batches.append((entry.stat().st_mtime, [Path(unquote(urlsplit(name).path)) for name in new]))
    return _ages(batches, "timestamp", since)


def told(ages: Ages) -> dict[str, Any]:
    """Percentiles, in seconds."""
    cuts = {"p50": 50, "p99": 99, "p99.9": 99.9}
    return {"records": len(ages), **{name: round(float(np.percentile(ages, cut)), 2) for name, cut in cuts.items()}}


def _logged(entry: Path) -> Iterator[str]:
    for line in entry.read_text().splitlines()[1:]:
        yield json.loads(line)["path"]


def _ages(batches: list[tuple[float, list[Path]]], column: str, since: float) -> Ages:
    found = [(at, _times(path, column)) for at, paths in batches for path in paths]
    return np.concatenate([at - times[times >= since] for at, times in found])


def _times(path: Path, column: str) -> Ages:
    values = pq.ParquetFile(path).read([column])[column]
    return np.asarray(values.cast(_MICROSECONDS).cast("int64").to_numpy(), dtype=np.float64) / 1e6
