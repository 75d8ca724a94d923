"""A source for Kafka topics, by Spark's own connector.

Addresses are ``kafka://HOST:PORT[,HOST:PORT]/TOPIC[,TOPIC]`` or ``kafka://HOST:PORT/?pattern=REGEX``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import pyarrow.compute as pc

from signalbook.messages import Message
from signalbook.messages.bindings.kafka import record
from signalbook.messages.bindings.options import decode_text
from signalbook.pipeline import arrays
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Place
from signalbook.pipeline.sources.base import MessageBatch
from signalbook.pipeline.sources.message_records import (
    MessageRecords,
    format_bytes,
    format_headers,
    format_numbers,
    format_references,
    join_texts,
    quote_texts,
    read_stated_texts,
    select_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMAT: Final = "kafka"
_FORM: Final = "kafka://HOST:PORT/TOPIC"
# Connector options that this source sets, or that would change the content of messages.
_OWN: Final = frozenset(
    {"kafka.bootstrap.servers", "subscribe", "subscribepattern", "assign", "includeheaders", "maxoffsetspertrigger"}
)
# Parts of error texts of Kafka's client, and our explanation for each.
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
    """The source ``kafka``. By its headers, a record is an event in structured or binary mode, or has no envelope."""

    name = "kafka"
    protocol = "KAFKA"
    packages = ("org.apache.spark:spark-sql-kafka-0-10",)
    cloudevents_json = True

    def load(self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        """Return the records from the earliest to the latest offsets, unless ``options`` say otherwise.

        Raises ``PipelineError``.
        """
        return _load_records(session.read.format(_FORMAT), inputs, options)

    def load_stream(
        self,
        session: SparkSession,
        inputs: Sequence[str],
        options: Mapping[str, str],
        most: int,
        home: Place,  # noqa: ARG002 - the broker keeps the messages
    ) -> DataFrame:
        """Return the records from the earliest offsets on, unless ``options`` or a checkpoint say otherwise.

        Raises ``PipelineError``.
        """
        limit = {"maxOffsetsPerTrigger": str(most)} if most else {}
        return _load_records(
            session.readStream.format(_FORMAT), inputs, {"startingOffsets": "earliest", **options}, limit
        )

    def explain_failure(self, failure: str, inputs: Sequence[str]) -> str:
        """Return an explanation of a failure of Kafka's client with topics and brokers, or "" for other failures."""
        template = next((words for sign, words in _FAILURES if sign in failure), "")
        if not template:
            return ""
        parts = [_split_address(text) for text in inputs]
        topics = ", ".join(dict.fromkeys(name for part in parts for name in _parse_topics(part)))
        return template.format(topics=topics, servers=parts[0].netloc, said=failure.rpartition("Exception: ")[2])

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the record at ``index``, with topic, key, headers and offset."""
        return record_message(batch, index)

    def to_records(self, batch: MessageBatch, indices: Sequence[int]) -> MessageRecords:
        """Return the dead-letter records of the messages at ``indices``."""
        return build_records(batch, indices)


SOURCE: Final = Kafka()


def record_message(batch: MessageBatch, index: int) -> Message:
    """Return the row at ``index`` as a Kafka record. Rows of a capture may lack topic, partition and offset."""
    row = batch.record(index)
    return record(
        row["address"] or "",
        row["value"],
        arrays.list_header_pairs(row["headers"]),
        key=row["key"],
        partition=row["partition"],
        offset=None if row["partition"] is None else row["position"],
        received_at=row["received_at"],
        reference=f"{batch.path}/{row['position']}",
    )


def build_records(batch: MessageBatch, indices: Sequence[int]) -> MessageRecords:
    """Return the dead-letter records of the Kafka records at ``indices``."""
    rows = select_rows(batch, indices)
    listed, topics = rows.column("headers"), rows.column("address").fill_null("")
    names = arrays.HeaderNames.of(listed, folded=False)
    partitions, positions = rows.column("partition"), rows.column("position")
    offsets = pc.if_else(partitions.is_valid(), positions, None)
    return MessageRecords.of(
        "KAFKA",
        rows,
        addresses=topics,
        content_types=read_stated_texts(listed, names, "content-type", _read),
        encodings=read_stated_texts(listed, names, "content-encoding", _read),
        references=format_references(batch.path, positions),
        sections=join_texts(
            *(
                '{"topic":',
                quote_texts(topics),
                ',"partition":',
                format_numbers(partitions),
                ',"offset":',
                format_numbers(offsets),
            ),
            *(',"key":', format_bytes(rows.column("key"))),
            *(',"headers":', format_headers(listed, names, readable=False), "}"),
        ),
    )


def _read(value: bytes) -> str:
    return str(decode_text(value))


def build_connector_options(inputs: Sequence[str], options: Mapping[str, str]) -> dict[str, str]:
    """Return the options for Spark's connector, with the cluster and topics of ``inputs``.

    Raises ``PipelineError`` unless the inputs name one cluster, and topics or a pattern.
    """
    parts = [_split_address(text) for text in inputs]
    clusters = {part.netloc for part in parts}
    if len(clusters) != 1:
        raise PipelineError(f"one run reads from one Kafka cluster, not from {', '.join(sorted(clusters)) or 'none'}")
    settings = dict(options)
    topics: list[str] = []
    for part in parts:
        settings |= dict(parse_qsl(part.query, keep_blank_values=True))
        topics += _parse_topics(part)
    forbidden = sorted(name for name in settings if name.lower() in _OWN)
    if forbidden:
        raise PipelineError(f"the option {forbidden[0]} is for the pipeline to set: name servers and topics as {_FORM}")
    pattern = settings.pop("pattern", "")
    if bool(topics) == bool(pattern):
        raise PipelineError(f"name the topics of {clusters.pop()}, as {_FORM}, or else a ?pattern= of their names")
    which = {"subscribePattern": pattern} if pattern else {"subscribe": ",".join(dict.fromkeys(topics))}
    return {**settings, "kafka.bootstrap.servers": clusters.pop(), "includeHeaders": "true", **which}


def read_topics(inputs: Sequence[str], options: Mapping[str, str]) -> tuple[str, list[str], dict[str, str]]:
    """Return the servers and topics of ``inputs``, and ``options`` with those in the addresses.

    Raises ``PipelineError`` unless the inputs name topics of one cluster.
    """
    settings = build_connector_options(inputs, options)
    if "subscribe" not in settings:
        raise PipelineError(f"without Spark topics are read by their names, as {_FORM}, not by a pattern")
    servers, topics = settings.pop("kafka.bootstrap.servers"), settings.pop("subscribe").split(",")
    return servers, topics, {name: value for name, value in settings.items() if name != "includeHeaders"}


def _split_address(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    if "@" in parts.netloc:
        raise PipelineError(
            f"the address {_redact_input(text)!r} was given with a login: "
            "give the login by the option kafka.sasl.jaas.config instead"
        )
    if parts.scheme != _FORMAT or not parts.netloc or parts.fragment:
        raise PipelineError(f"the input {_redact_input(text)!r} is no address of Kafka topics: it looks like {_FORM}")
    return parts


def _parse_topics(parts: SplitResult) -> list[str]:
    names = [unquote(name) for name in parts.path.strip("/").split(",") if name]
    for name in names:
        if not _TOPIC.fullmatch(name):
            raise PipelineError(f"the input {_redact_input(parts.geturl())!r}: {name!r} is no name of a Kafka topic")
    return names


def _redact_input(text: str) -> str:
    """Return the address ``text`` without credentials and options, which may be secret, for errors and logs."""
    return _LOGIN.sub("//", text).partition("?")[0]


def _load_records(
    reader: Any, inputs: Sequence[str], options: Mapping[str, str], limit: Mapping[str, str] = {}
) -> DataFrame:
    from pyspark.errors import PySparkException

    from signalbook.pipeline.sources.message_columns import ASSUME, assume_cloudevents, check_assumption

    assumed = check_assumption(options.get(ASSUME, ""))
    reader_options = {name: value for name, value in options.items() if name != ASSUME}
    settings = {**build_connector_options(inputs, reader_options), **limit}
    try:
        frame: DataFrame = reader.options(**settings).load()
        records = frame.selectExpr(*(f"{expression} AS {name}" for name, expression in _ROWS.items()))
        return assume_cloudevents(records) if assumed else records
    except PySparkException as error:
        reason = str(error).strip().partition("\n")[0]
        raise PipelineError(f"Spark cannot read {', '.join(map(_redact_input, inputs))}: {reason}") from error
