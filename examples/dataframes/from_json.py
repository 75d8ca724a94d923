"""The same events by Spark's from_json and by Signalbook: what happens to a value of the wrong type?"""

from pyspark.sql import SparkSession
from pyspark.sql.functions import from_json

from signalbook import pipeline

spark = SparkSession.builder.master("local[2]").getOrCreate()
events = spark.read.text("examples/orders/events.jsonl")

schema = "type string, data struct<order string, total double, items array<struct<sku string, count bigint>>>"
parsed = events.select(from_json("value", schema).alias("event"))
parsed.select("event.type", "event.data.order", "event.data.total").show()

contract = pipeline.Contract.of("examples/orders/orders.xreg.yaml")
placed = pipeline.typed(events, contract, "/messagegroups/shop.orders/messages/shop.order.placed")
placed.select("order", "total").orderBy("order").show()

dead_letters = pipeline.validate(events, contract).dead_letters
dead_letters.select("reason", "violations.path").orderBy("reason").show(truncate=False)
