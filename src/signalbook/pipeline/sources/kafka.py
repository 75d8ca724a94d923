"""Kafka topics, by Spark's own connector: ``kafka://HOST:PORT[,HOST:PORT]/TOPIC[,TOPIC]`` or ``…/?pattern=REGEX``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from signalbook.messages import Message
from signalbook.messages.bindings.kafka import record
from signalbook.messages.bindings.options import decode_text
from signalbook.pipeline import arrays
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Place
from signalbook.pipeline.sources.base import MessageBatch
from signalbook.pipeline.sources.mapping import ASSUME, assume_cloudevents, check_assumption
from signalbook.pipeline.sources.message_records import (
    MessageRecords,
    byte_texts,
    header_texts,
    joined,
    numbered_references,
    numbers,
    quoted,
    rows_of,
    stated_texts,
)

_FORMAT: Final = "kafka"
_FORM: Final = "kafka://HOST:PORT/TOPIC"
# What this source says itself, or what would change what a message is.
_OWN: Final = frozenset(
    {"kafka.bootstrap.servers", "subscribe", "subscribepattern", "assign", "includeheaders", "maxoffsetspertrigger"}
)
# Signs of failures, in the words of Kafka's client, and what they come to.
_FAILURES: Final = (
    (
        "UnknownTopicOrPartitionException",
        "Kafka at {servers} has no topic {topics}, or not all of these: make it, or name one that is there",
    ),
    ("TopicAuthorizationException", "Kafka at {servers} lets this user not read {topics}: {said}"),
    ("SaslAuthenticationException", "Kafka at {servers} refuses the login of the options kafka.sasl...: {said}"),
    ("SslAuthenticationException", "no TLS with Kafka at {servers}, see the options kafka.ssl...: {said}"),
    (
        "No resolvable bootstrap urls",
        "Kafka's brokers at {servers} cannot be found: no such name, or no DNS that has it",
    ),
    (
        "errors.TimeoutException",
        "Kafka at {servers} does not answer; it may be down, have another port, or want other options "
        "(kafka.security.protocol): {said}",
    ),
)
_LOGIN: Final = re.compile(r"//[^/]*@")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_ROWS: Final = {
    "protocol": "'KAFKA'",
    "source": "concat('kafka:', topic, '/', partition)",
    "position": "offset",
    "address": "topic",
    "partition": "partition",
    "key": "key",
    "value": "value",
    "headers": "transform(headers, h -> struct(h.key AS name, h.value AS value))",
    "received_at": "timestamp",
}


class Kafka:
    """Records of topics, in structured or binary mode by their headers, or of no envelope at all."""

    name = "kafka"
    protocol = "KAFKA"
    packages = ("org.apache.spark:spark-sql-kafka-0-10",)
    cloudevents_json = True

    def load(self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        """Load from the earliest to the latest offsets, unless ``options`` say otherwise."""
        return _records(session.read.format(_FORMAT), inputs, options)

    def load_stream(
        self,
        session: SparkSession,
        inputs: Sequence[str],
        options: Mapping[str, str],
        most: int,
        home: Place,  # noqa: ARG002 - the broker keeps the messages
    ) -> DataFrame:
        """Load from the earliest offsets on, unless ``options`` or a checkpoint say otherwise."""
        limit = {"maxOffsetsPerTrigger": str(most)} if most else {}
        return _records(session.readStream.format(_FORMAT), inputs, {"startingOffsets": "earliest", **options}, limit)

    def explained(self, failure: str, inputs: Sequence[str]) -> str:
        """Explain a failure of Kafka's client, which names neither topics nor brokers."""
        found = next((words for sign, words in _FAILURES if sign in failure), "")
        if not found:
            return ""
        parts = [_parts(text) for text in inputs]
        topics = ", ".join(dict.fromkeys(name for part in parts for name in _topics(part)))
        return found.format(topics=topics, servers=parts[0].netloc, said=failure.rpartition("Exception: ")[2])

    def message(self, batch: MessageBatch, index: int) -> Message:
        """The record, with all that the topic says of it."""
        return record_message(batch, index)

    def recorded(self, batch: MessageBatch, indices: Sequence[int]) -> MessageRecords:
        """Return the records of many messages for dead letters."""
        return message_records(batch, indices)


SOURCE: Final = Kafka()


def record_message(batch: MessageBatch, index: int) -> Message:
    """Return a row as a Kafka record. Rows of a capture may lack topic, partition and offset."""
    row = batch.record(index)
    return record(
        row["address"] or "",
        row["value"],
        arrays.header_pairs(row["headers"]),
        key=row["key"],
        partition=row["partition"],
        offset=None if row["partition"] is None else row["position"],
        received_at=row["received_at"],
        reference=f"{batch.path}/{row['position']}",
    )


def message_records(batch: MessageBatch, indices: Sequence[int]) -> MessageRecords:
    """Return the records of ``record_message`` for dead letters."""
    rows = rows_of(batch, indices)
    listed, topics = rows.column("headers"), rows.column("address").fill_null("")
    names = arrays.HeaderNames.of(listed, folded=False)
    partitions, positions = rows.column("partition"), rows.column("position")
    offsets = pc.if_else(partitions.is_valid(), positions, None)
    return MessageRecords.of(
        "KAFKA",
        rows,
        addresses=topics,
        content_types=stated_texts(listed, names, "content-type", _read),
        encodings=stated_texts(listed, names, "content-encoding", _read),
        references=numbered_references(batch.path, positions),
        sections=joined(
            *('{"topic":', quoted(topics), ',"partition":', numbers(partitions), ',"offset":', numbers(offsets)),
            *(',"key":', byte_texts(rows.column("key"))),
            *(',"headers":', header_texts(listed, names, readable=False), "}"),
        ),
    )


def _read(value: bytes) -> str:
    return str(decode_text(value))


def connector_options(inputs: Sequence[str], options: Mapping[str, str]) -> dict[str, str]:
    """The options of Spark's connector: one cluster, its topics, ``options``. Raises ``PipelineError``."""
    parts = [_parts(text) for text in inputs]
    clusters = {part.netloc for part in parts}
    if len(clusters) != 1:
        raise PipelineError(f"one run reads from one Kafka cluster, not from {', '.join(sorted(clusters)) or 'none'}")
    found = dict(options)
    topics: list[str] = []
    for part in parts:
        found |= dict(parse_qsl(part.query, keep_blank_values=True))
        topics += _topics(part)
    own = sorted(name for name in found if name.lower() in _OWN)
    if own:
        raise PipelineError(f"the option {own[0]} is for the pipeline to set: name servers and topics as {_FORM}")
    pattern = found.pop("pattern", "")
    if bool(topics) == bool(pattern):
        raise PipelineError(f"name the topics of {clusters.pop()}, as {_FORM}, or else a ?pattern= of their names")
    which = {"subscribePattern": pattern} if pattern else {"subscribe": ",".join(dict.fromkeys(topics))}
    return {**found, "kafka.bootstrap.servers": clusters.pop(), "includeHeaders": "true", **which}


def _parts(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    if parts.scheme != _FORMAT or not parts.netloc or "@" in parts.netloc or parts.fragment:
        raise PipelineError(f"the input {_shown(text)!r} is no address of Kafka topics: it looks like {_FORM}")
    return parts


def _topics(parts: SplitResult) -> list[str]:
    names = [unquote(name) for name in parts.path.strip("/").split(",") if name]
    for name in names:
        if not _TOPIC.fullmatch(name):
            raise PipelineError(f"the input {_shown(parts.geturl())!r}: {name!r} is no name of a Kafka topic")
    return names


def _shown(text: str) -> str:
    """An input as errors and logs may show it: without a login, and options, in which there may be one too."""
    return _LOGIN.sub("//", text).partition("?")[0]


def _records(
    reader: Any, inputs: Sequence[str], options: Mapping[str, str], limit: Mapping[str, str] = {}
) -> DataFrame:
    assumed = check_assumption(options.get(ASSUME, ""))
    own = {name: value for name, value in options.items() if name != ASSUME}
    found = {**connector_options(inputs, own), **limit}
    try:
        frame: DataFrame = reader.options(**found).load()
        records = frame.selectExpr(*(f"{expression} AS {name}" for name, expression in _ROWS.items()))
        return assume_cloudevents(records) if assumed else records
    except PySparkException as error:
        reason = str(error).strip().partition("\n")[0]
        raise PipelineError(f"Spark cannot read {', '.join(map(_shown, inputs))}: {reason}") from error
