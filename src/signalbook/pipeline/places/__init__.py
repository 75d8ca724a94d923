"""The places where the pipeline reads and writes: file systems, HDFS and object stores, with one interface.

    lake = place_of("s3://bucket/lake")
    (lake / "batches" / "b1.json").create(content)

``base.py`` has the interface, and what places outside this machine share. ``local.py``, ``hdfs.py`` and ``stores.py``
implement it. ``settings.py`` has settings and credentials.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places.base import Output, Place, Stored, run_in_parallel
from signalbook.pipeline.places.hdfs import SCHEME, HdfsPlace
from signalbook.pipeline.places.local import LocalPlace
from signalbook.pipeline.places.settings import Storage
from signalbook.pipeline.places.stores import SCHEMES, StorePlace

__all__ = [
    "HdfsPlace",
    "LocalPlace",
    "Output",
    "Place",
    "Storage",
    "StorePlace",
    "Stored",
    "Where",
    "place_of",
    "run_in_parallel",
]

Where = str | Path | Place
"""The type of arguments for places: a URL or path as text, a ``Path``, or a ``Place``."""

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/{0,2})")
_FILE: Final = "file"
# Schemes that Spark supports, but this package does not, each with advice for users.
_MOUNTED: Final = {
    "dbfs": "on Databricks give the mounted path, /dbfs/..., or a volume's, /Volumes/...",
    "webhdfs": "write hdfs://HOST:PORT/... with the port of the NameNode's RPC, often 8020",
}
# Schemes for which ``SCHEME:/...`` is taken for a URL that lacks a slash, not for a path.
_KNOWN: Final = {SCHEME, *SCHEMES, "http", "https"}
_OTHERS: Final = "give a path, such as that of a mounted bucket, or a URL of: "


def place_of(where: Where, storage: Storage | None = None) -> Place:
    """Return the place that ``where`` names. ``storage`` has the settings for stores; None means that there are none.

    The place need not exist, and no request is made. Raises ``PipelineError`` for text that is not a path, and for
    unsupported or incomplete URLs.
    """
    if isinstance(where, Place):
        return where
    if not str(where) or "\0" in str(where):
        raise PipelineError(f"{str(where)!r} is no path: give the one of a file or folder, or a URL")
    if isinstance(where, Path):
        _refuse_url(where)
        return LocalPlace(where.absolute())
    match = _URL.match(where)
    scheme, slashes = (match[1].lower(), match[2]) if match else ("", "")
    if scheme == _FILE:
        return LocalPlace(_parse_file_url(where))
    if slashes != "//" and scheme not in _MOUNTED and not (slashes and scheme in _KNOWN):
        return LocalPlace(Path(where).absolute())
    if scheme not in (SCHEME, *SCHEMES):
        advice = _MOUNTED.get(scheme, f"{_OTHERS}{', '.join(sorted((SCHEME, *SCHEMES)))}")
        raise PipelineError(f"{where}: {scheme} is not supported: {advice}")
    if slashes != "//":
        raise PipelineError(f"{where} lacks a slash: write {where.replace(':/', '://', 1)}")
    kind = HdfsPlace if scheme == SCHEME else StorePlace
    return kind.of(where, storage or Storage())


def _parse_file_url(url: str) -> Path:
    """Return the path of a ``file:`` URL (RFC 8089). Raises ``PipelineError`` for a URL with a host."""
    remainder = url[len(_FILE) + 1 :]
    host, slash, path = (
        remainder[2:].partition("/") if remainder.startswith("//") else ("", remainder[:1], remainder[1:])
    )
    if slash != "/" or host.lower() not in ("", "localhost"):
        raise PipelineError(f"{url}: a file: URL is file:///PATH, on this machine; or give the path alone")
    return Path("/", path.lstrip("/"))


def _refuse_url(path: Path) -> None:
    """Raise ``PipelineError`` if ``path`` was made from a URL: ``s3://bucket/lake`` would be a folder ``s3:``."""
    for number, part in enumerate(path.parts):
        scheme = part[:-1].lower()
        if part.endswith(":") and scheme in {*_KNOWN, *_MOUNTED, _FILE}:
            url = f"{part}//{'/' if scheme == _FILE else ''}{'/'.join(path.parts[number + 1 :])}"
            raise PipelineError(f"{url} is a URL and no path: give it as text")
