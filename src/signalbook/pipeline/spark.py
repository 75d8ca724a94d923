"""Helpers for Spark sessions and data frames. No other module uses private names of PySpark.

PySpark has no public access to its Java process. After an upgrade of PySpark, ``tests/test_private_names.py`` reports
the names that are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from signalbook.pipeline.places import HdfsPlace, Place

SLOW: Final = "Python worker failed to connect back"
"""The text of Spark's error if a Python process takes more than ten seconds to start. Spark has no setting for this."""


def find_context() -> SparkContext | None:
    """Return the Spark context of this process, which another thread may have started."""
    return SparkContext._active_spark_context


def find_java(session: SparkSession) -> Any:
    """Return py4j's access to the Java classes of the session's process, or None over Spark Connect."""
    return getattr(session, "_jvm", None)


def detach_java() -> JavaGateway | None:
    """Make PySpark forget its Java process, so that the next session starts another one.

    Return the connection to the process, or None if there is none. The caller must close it.
    """
    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    return gateway


def can_reach(session: SparkSession, place: Place) -> bool:
    """Return True if Spark can read files at ``place``.

    For HDFS, this first sets the addresses of the NameNodes in Spark's configuration. Spark can always read local
    folders. Over Spark Connect its file systems cannot be checked, so that only HDFS is assumed to work.
    """
    if place.folder is not None:
        return True
    java = find_java(session)
    if java is None:
        return isinstance(place, HdfsPlace)
    try:
        conf = session._jsc.hadoopConfiguration()
        if isinstance(place, HdfsPlace):
            for name, value in place.storage.build_hadoop_options(place.root).items():
                conf.set(name, value)
        java.org.apache.hadoop.fs.FileSystem.getFileSystemClass(str(place).partition(":")[0], conf)
    except Py4JError:
        return False
    return True


def build_numbers(session: SparkSession, count: int, parts: int) -> DataFrame:
    """Return a data frame of the numbers from 0 to below ``count``, in at most ``parts`` partitions.

    ``count`` must be at least 1.
    A single number is a ``VALUES`` query, because Spark 4.1 and later join ranges of one partition into one partition.
    """
    return session.range(0, count, 1, min(count, parts)) if count > 1 else session.sql("VALUES (0)")


def unite_frames(frames: Sequence[DataFrame]) -> DataFrame:
    """Return all rows of ``frames``: at least one data frame, all with the same columns.

    Frames are joined in pairs, because Spark analyses the joined frames again at each step. Joining 256 frames one by
    one took 23 seconds.
    """
    while len(frames) > 1:
        frames = [reduce(DataFrame.unionAll, frames[at : at + 2]) for at in range(0, len(frames), 2)]
    return frames[0]
