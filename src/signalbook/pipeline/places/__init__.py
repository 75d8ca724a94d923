"""Where the pipeline reads and writes: folders of a file system and object stores, by one set of methods.

    lake = place_of("s3://bucket/lake")
    (lake / "batches" / "b1.json").create(content)

``base.py`` says what a place can do, ``local.py`` and ``stores.py`` do it, ``settings.py`` has the credentials.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places.base import Output, Place, Stored, in_parallel
from signalbook.pipeline.places.local import LocalPlace
from signalbook.pipeline.places.settings import Storage
from signalbook.pipeline.places.stores import SCHEMES, StorePlace

__all__ = [
    "LocalPlace",
    "Output",
    "Place",
    "Storage",
    "StorePlace",
    "Stored",
    "Where",
    "in_parallel",
    "is_url",
    "place_of",
]

Where = str | Path | Place
"""What names a place: a URL or a path, as text or not, or the place itself."""

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_FILE: Final = re.compile(r"file:(?://)?(?=/)", re.IGNORECASE)
# Schemes that Spark knows and we do not read or write: what else there is to say to them.
_MOUNTED: Final = {
    "dbfs": "on Databricks give the mounted path, /dbfs/..., or a volume's, /Volumes/...",
    "hdfs": "mount it (by its NFS gateway or fuse_dfs) and give the mounted path",
    "webhdfs": "mount it (by its NFS gateway or fuse_dfs) and give the mounted path",
}
_OTHERS: Final = "give a path, such as that of a mounted bucket, or a URL of: "


def is_url(text: str) -> bool:
    """Whether ``text`` names a place by a URL that is no local path, of a scheme that is known here or is not."""
    return not _FILE.match(text) and (_URL.match(text) is not None or text.lower().startswith("dbfs:"))


def place_of(where: Where, storage: Storage | None = None) -> Place:
    """The place that a path, a URL or a place stands for; ``storage`` says how stores are reached.

    Nothing is looked for yet. Raises ``PipelineError`` for a URL of a scheme that is not supported.
    """
    if isinstance(where, Place):
        return where
    if isinstance(where, Path):
        _refuse_url(where)
        return LocalPlace(where.absolute())
    if not is_url(where):
        return LocalPlace(Path(_FILE.sub("", where)).absolute())
    scheme = where.partition(":")[0].lower()
    if scheme not in SCHEMES:
        advice = _MOUNTED.get(scheme, f"{_OTHERS}{', '.join(sorted(SCHEMES))}")
        raise PipelineError(f"{where}: {scheme} is not supported: {advice}")
    return StorePlace.of(where, storage or Storage())


def _refuse_url(path: Path) -> None:
    """Raise for a ``Path`` that was made of a URL: ``s3://bucket/lake`` would be a folder named ``s3:``."""
    for number, part in enumerate(path.parts):
        if part.endswith(":") and part[:-1].lower() in {*SCHEMES, *_MOUNTED, "file", "http", "https"}:
            url = f"{part}//{'/'.join(path.parts[number + 1 :])}"
            raise PipelineError(f"{url} is a URL and no path: give it as text")
