from pyspark.sql import SparkSession

from signalbook.pipeline.spark import build_numbers, unite_frames


def test_numbers_keep_their_parts_when_they_are_joined(spark_session: SparkSession) -> None:
    """Else a single task would read the files that each of them stands for."""
    parts = [build_numbers(spark_session, 1, 7).selectExpr("*", f"{number}") for number in range(3)]
    joined = unite_frames(parts)
    assert joined.rdd.getNumPartitions() == 3
    assert [tuple(row) for row in joined.collect()] == [(0, 0), (0, 1), (0, 2)]
    many = [build_numbers(spark_session, count, 2) for count in (2, 5)]
    assert unite_frames(many).rdd.getNumPartitions() == 4
    assert [row[0] for row in unite_frames(many).collect()] == [0, 1, 0, 1, 2, 3, 4]
