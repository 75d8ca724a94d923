"""Lands a topic, or files of events, in tables by Spark: in a session of any kind, also by Spark Connect.

spark-submit land.py REGISTRY INPUT OUTPUT CHECKPOINT

INPUT is a folder of JSON lines, or kafka://HOST:PORT/TOPIC.
"""

import sys
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession

from signalbook import pipeline


def read(spark: SparkSession, text: str) -> DataFrame:
    """The messages that are there and those to come."""
    if not text.startswith("kafka://"):
        return spark.readStream.text(text)
    address = urlsplit(text)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address.netloc)
    options = {"subscribe": address.path.strip("/"), "startingOffsets": "earliest", "includeHeaders": "true"}
    return reader.options(**options).load()


def main(registry: str, source: str, output: str, checkpoint: str) -> None:
    """Land what there is, in as many batches as Spark makes of it."""
    spark = SparkSession.builder.appName("orders").getOrCreate()
    contract = pipeline.Contract.of(registry)

    def land(messages: DataFrame, number: int) -> None:
        pipeline.land(messages, output, contract, batch_id=number, stream="orders")

    writer = read(spark, source).writeStream.foreachBatch(land).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    orders = pipeline.read(spark, output, "/messagegroups/shop.orders/messages/shop.order.placed")
    orders.select("ce_id", "order", "total").orderBy("ce_id").show()


if __name__ == "__main__":
    main(*sys.argv[1:])
