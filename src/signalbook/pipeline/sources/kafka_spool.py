"""Copy a part of Kafka topics to files once, so that commands without Spark can read it several times.

The files are captures of Kafka records in Parquet, one for each partition. So ``pipeline run`` reads them as well, with
the input format ``kafka-captures``. Addresses and options are those of the source ``kafka``.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from signalbook import plugins
from signalbook.brokers.connection import BrokerError, BrokerRefused, BrokerSettings, BrokerUnavailable
from signalbook.messages.cloudevents import JSON_FORMAT
from signalbook.pipeline.errors import PipelineError, build_disk_error
from signalbook.pipeline.sources.captures import KAFKA
from signalbook.pipeline.sources.kafka import SOURCE, read_topics
from signalbook.pipeline.sources.schema_ids import check_schema_ids
from signalbook.pipeline.tables.catalogs import substitute_variables
from signalbook.values import format_count

if TYPE_CHECKING:
    from signalbook.brokers.kafka import KafkaReader, PartitionRange

MAX_MESSAGES: Final = 100_000
SCHEME: Final = "kafka://"
SPOOLED_FILES: Final = "records-*.parquet"
_PORT: Final = 9092
_BROKER_SECONDS: Final = 10.0
_CLIENT: Final = "signalbook"
_ASSUME: Final = "assume"
_CLOUDEVENTS: Final = "cloudevents"
_PROTOCOL: Final = "kafka.security.protocol"
_MECHANISM: Final = "kafka.sasl.mechanism"
_LOGIN: Final = "kafka.sasl.jaas.config"
_TRUSTED: Final = "kafka.ssl.truststore.location"
_CERTIFICATE: Final = "kafka.ssl.keystore.location"
_STORE_TYPES: Final = ("kafka.ssl.truststore.type", "kafka.ssl.keystore.type")
_OPTIONS: Final = (_PROTOCOL, _MECHANISM, _LOGIN, _TRUSTED, _CERTIFICATE, *_STORE_TYPES, _ASSUME)
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_CREDENTIAL: Final = re.compile(r'\b(username|password)="([^"]*)"')
_SHOWN_TOPICS: Final = 5
# The rows and bytes of values that are kept in memory until they are written.
_BUFFER_ROWS: Final = 20_000
_BUFFER_BYTES: Final = 16 * 1024 * 1024
_SCHEMA: Final = pa.schema(
    [
        ("value", pa.binary()),
        ("key", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicExcerpt:
    """The part of topics to read: at most ``max_messages`` of those that are there now, 0 for all.

    They are the oldest messages of each partition. With ``newest`` they are those with the last ``max_messages``
    offsets, which are fewer if offsets have no message. ``options`` are those of the source ``kafka``, in which
    ``${NAME}`` is an environment variable.
    """

    max_messages: int = MAX_MESSAGES
    newest: bool = False
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


@contextmanager
def spool_inputs(
    inputs: Sequence[str],
    input_format: str,
    excerpt: TopicExcerpt,
    *,
    folder: Path | None = None,
    has_definitions: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    notify: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield ``inputs`` and their format. Topics are first copied to ``folder``, by default a temporary folder.

    Copies that an earlier call left in ``folder`` are removed. Raises ``PipelineError`` if a topic does not exist, is
    empty, or cannot be read. Unless the caller ``has_definitions``, also raises it if there is nothing to infer,
    because the first messages name their schemas by ids.
    """
    if not any(text.startswith(SCHEME) for text in inputs):
        if excerpt != TopicExcerpt():
            raise PipelineError("options of topics are given, and no input is a topic such as kafka://HOST:PORT/TOPIC")
        yield tuple(inputs), input_format
        return
    if input_format not in ("", SOURCE.name):
        raise PipelineError(f"the input format of topics is {SOURCE.name}, not {input_format}")
    with tempfile.TemporaryDirectory(prefix="signalbook-spool-") as name:
        target = folder or Path(name)  # only this user can read the temporary folder
        _spool_topics(inputs, excerpt, target, has_definitions, progress, notify)
        yield (str(target),), KAFKA.name


def _spool_topics(
    inputs: Sequence[str],
    excerpt: TopicExcerpt,
    folder: Path,
    has_definitions: bool,
    progress: Callable[[str], None],
    notify: Callable[[str], None],
) -> None:
    options = {name: substitute_variables(name, value) for name, value in excerpt.options.items()}
    servers, topics, options = read_topics(inputs, options)
    settings, mechanism = _parse_options(servers, options)
    progress(f"connecting to Kafka at {servers}")
    with _open_reader(settings, mechanism) as reader:
        partitions = [partition for topic in topics for partition in _find_ranges(reader, settings, topic)]
        total = sum(partition.end - partition.start for partition in partitions)
        shares = _choose_shares(partitions, excerpt)
        if not has_definitions:
            first = next(reader.read(shares[0][0]), [])
            check_schema_ids([(record.value, record.headers) for record in first], topics)
        if 0 < excerpt.max_messages < total:
            which = "newest" if excerpt.newest else "oldest"
            notify(f"the {which} {excerpt.max_messages:,} of {total:,} messages are read: --max-messages reads more")
        assumed = options.get(_ASSUME) == _CLOUDEVENTS
        count = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.glob(SPOOLED_FILES):
                path.unlink()
            for number, (partition, share) in enumerate(shares):
                path = folder / SPOOLED_FILES.replace("*", str(number))
                for written in _write_records(path, reader.read(partition), share, assumed=assumed):
                    count += written
                    progress(f"reading {partition.topic}: {format_count(count, 'message')}")
        except OSError as error:
            raise build_disk_error(error, folder) from error
    if not count:
        raise PipelineError(f"{', '.join(topics)} at {servers} has no messages that can be read")


@contextmanager
def _open_reader(settings: BrokerSettings, mechanism: str) -> Iterator[KafkaReader]:
    """Yield a reader. Raises ``PipelineError`` for errors of the cluster, also in the context."""
    try:
        from signalbook.brokers.kafka import KafkaReader
    except ModuleNotFoundError as error:
        advice = plugins.install("local", SOURCE.name)
        raise PipelineError(f"reading Kafka without Spark takes the package {error.name!r}: {advice}") from None
    reader = None
    try:
        reader = KafkaReader(settings, client_id=_CLIENT, mechanism=mechanism)
        yield reader
    except BrokerRefused as error:
        raise PipelineError(f"Kafka at {settings}: {error}; the login is in the option {_LOGIN}") from error
    except BrokerUnavailable as error:
        advice = "it may be down, or have another port" + (
            f", or a certificate that is not trusted (option {_TRUSTED})"
            if settings.secure
            else f", or demand TLS or a login (options {_PROTOCOL} and {_LOGIN})"
        )
        raise PipelineError(f"Kafka at {settings} cannot be read: {error}; {advice}") from error
    except BrokerError as error:
        raise PipelineError(f"Kafka at {settings} cannot be read: {error}") from error
    finally:
        if reader is not None:
            reader.close()


def _find_ranges(reader: KafkaReader, settings: BrokerSettings, topic: str) -> list[PartitionRange]:
    """Return the ranges of a topic that has messages. Raises ``PipelineError`` if it does not exist, or is empty."""
    topics = reader.list_topics()
    if topic not in topics:
        names = sorted(name for name in topics if not name.startswith("_"))
        more = ", …" if len(names) > _SHOWN_TOPICS else ""
        shown = f"; there are: {', '.join(names[:_SHOWN_TOPICS])}{more}" if names else ""
        raise PipelineError(f"Kafka at {settings} has no topic {topic!r}, or does not show it{shown}")
    ranges = reader.find_ranges(topic)
    if not ranges:
        raise PipelineError(f"the topic {topic!r} of Kafka at {settings} is empty: send messages to it first")
    return ranges


def _choose_shares(partitions: Sequence[PartitionRange], excerpt: TopicExcerpt) -> list[tuple[PartitionRange, int]]:
    """Return the partitions to read, each with its share of the messages, which is in proportion to its size.

    Partitions are read up to their end, because any offset of a compacted topic may have no message.
    """
    sizes = [partition.end - partition.start for partition in partitions]
    total = sum(sizes)
    most = min(excerpt.max_messages or total, total)
    bounds = [most * sum_ // total for sum_ in accumulate(sizes, initial=0)]
    shares = [last - first for first, last in pairwise(bounds)]
    return [
        (replace(partition, start=partition.end - share) if excerpt.newest else partition, share)
        for partition, share in zip(partitions, shares, strict=True)
        if share
    ]


def _write_records(path: Path, batches: Iterator[list[Any]], most: int, *, assumed: bool) -> Iterator[int]:
    """Write at most ``most`` records to a Parquet file. Yield the number of records of each part that was written."""
    with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
        rows: list[dict[str, Any]] = []
        size = 0
        for batch in batches:
            records = batch[:most]
            most -= len(records)
            rows += [_build_row(record, assumed=assumed) for record in records]
            size += sum(len(record.value or b"") for record in records)
            if len(rows) >= _BUFFER_ROWS or size >= _BUFFER_BYTES:
                writer.write_batch(pa.RecordBatch.from_pylist(rows, _SCHEMA))
                yield len(rows)
                rows, size = [], 0
            if not most:
                break
        if rows:
            writer.write_batch(pa.RecordBatch.from_pylist(rows, _SCHEMA))
            yield len(rows)


def _build_row(record: Any, *, assumed: bool) -> dict[str, Any]:
    headers = [{"key": name, "value": value} for name, value in record.headers]
    stated = {name for name, _ in record.headers} & {"content-type", "ce_specversion"}
    if assumed and record.value is not None and not stated:
        headers.append({"key": "content-type", "value": JSON_FORMAT.encode()})
    return {
        "value": record.value,
        "key": record.key,
        "headers": headers or None,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp if record.timestamp >= 0 else None,
    }


def _parse_options(servers: str, options: Mapping[str, str]) -> tuple[BrokerSettings, str]:
    """Return the settings of the connection, and the SASL mechanism. Raises ``PipelineError`` for invalid options."""
    for name, value in options.items():
        if name not in _OPTIONS:
            raise PipelineError(f"without Spark Kafka has no option {name!r}; there are: {', '.join(_OPTIONS)}")
        if name in _STORE_TYPES and value != "PEM":
            raise PipelineError(f"the option {name} is {value!r}; without Spark only PEM is read")
    protocol = _choose(options, _PROTOCOL, _PROTOCOLS)
    mechanism = _choose(options, _MECHANISM, _MECHANISMS)
    _choose(options, _ASSUME, ("", _CLOUDEVENTS))
    credentials = dict(_CREDENTIAL.findall(options.get(_LOGIN, "")))
    has_login = protocol.startswith("SASL")
    if has_login and credentials.keys() != {"username", "password"}:
        raise PipelineError(f'the option {_LOGIN} of {protocol} states no username="..." password="..."')
    settings = BrokerSettings(
        servers=tuple(_parse_server(server) for server in servers.split(",")),
        secure=protocol.endswith("SSL"),
        user=credentials.get("username", "") if has_login else "",
        password=credentials.get("password", ""),
        ca=options.get(_TRUSTED, ""),
        certificate=options.get(_CERTIFICATE, ""),
        timeout=_BROKER_SECONDS,
    )
    return settings, mechanism


def _choose(options: Mapping[str, str], name: str, values: Sequence[str]) -> str:
    """Return the value of an option, by default the first of the possible ``values``."""
    value = options.get(name, values[0])
    if value not in values:
        raise PipelineError(f"the option {name} is {value!r}; without Spark it is one of: {', '.join(values)}")
    return value


def _parse_server(text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port or _PORT
    except ValueError:
        parts, port = urlsplit(""), 0
    if not parts.hostname:
        raise PipelineError(f"{text!r} is no address of a Kafka broker: it looks like HOST:PORT")
    return parts.hostname, port
