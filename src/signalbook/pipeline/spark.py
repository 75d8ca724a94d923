"""Helpers for Spark sessions and data frames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from signalbook.pipeline.places import HdfsPlace, Place

SLOW: Final = "Python worker failed to connect back"
"""What Spark says if a process of Python takes more than ten seconds to start, which is not for us to set."""


def can_reach(session: SparkSession, place: Place) -> bool:
    """Return True if Spark can read there: it knows folders and HDFS, and gets the addresses of NameNodes.

    Over Spark Connect this cannot be checked, and only these are assumed.
    """
    if place.folder is not None:
        return True
    jvm: Any = getattr(session, "_jvm", None)
    if jvm is None:
        return isinstance(place, HdfsPlace)
    try:
        conf = session._jsc.hadoopConfiguration()
        if isinstance(place, HdfsPlace):
            for name, value in place.storage.build_hadoop_options(place.root).items():
                conf.set(name, value)
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(str(place).partition(":")[0], conf)
    except Py4JError:
        return False
    return True


def build_numbers(session: SparkSession, count: int, parts: int) -> DataFrame:
    """Return the numbers below ``count`` in at most ``parts`` partitions.

    A single one is a value, for of ranges of one part each Spark 4.1 and later make a single part when they are joined.
    """
    return session.range(0, count, 1, min(count, parts)) if count > 1 else session.sql("VALUES (0)")


def unite_frames(frames: Sequence[DataFrame]) -> DataFrame:
    """Return all rows of at least one frame with the same columns.

    Frames are joined in pairs, because Spark analyses everything joined so far again: 256 in a row took 23 seconds.
    """
    while len(frames) > 1:
        frames = [reduce(DataFrame.unionAll, frames[at : at + 2]) for at in range(0, len(frames), 2)]
    return frames[0]
