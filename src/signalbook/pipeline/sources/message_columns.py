"""Rows of any DataFrame as messages: which column has which part of them, as expressions of Spark SQL.

The expressions make ``base.RECORD_COLUMNS``. They cast what there is: a value that does not fit becomes null, and what
is no text is replaced, so that no row ends a job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from signalbook.messages.cloudevents import JSON_FORMAT, SPECVERSION
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources.base import ATTRIBUTE_PREFIX, NOWHERE
from signalbook.pipeline.tables.spark_sql import quote_identifier, quote_string

_PAIRS: Final = "array<struct<name: string, value: binary>>"
_NONE: Final = f"CAST(array() AS {_PAIRS})"
_NULL: Final = ("NULL", NullType())
_CONTENT_TYPE: Final = "content-type"
_DATA_TYPE: Final = f"{ATTRIBUTE_PREFIX}datacontenttype"
ASSUME: Final = "assume"
"""The option of sources of Kafka records that says what records without a content type are."""
CLOUDEVENTS: Final = "cloudevents"
# Names of protocols as people say them, and those of their bindings.
_PROTOCOLS: Final = {"MQTT": "MQTT/5.0", "AMQP": "AMQP/1.0", "HTTPS": "HTTP"}
# From this version on Spark refuses to decode what is no text, and has a function that replaces it.
_STRICT: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageColumns:
    """The columns of a DataFrame for the parts of messages; an empty name stands for none.

    ``body`` has their bytes or text, ``headers`` a map of headers or an array of pairs. ``address`` is the topic,
    subject or path they were sent to. ``attributes`` are columns of a CloudEvent's context attributes by attribute, or
    one column with a map of them: the body is the event's data then. ``protocol`` is the protocol of each message, such
    as ``KAFKA`` or ``HTTP``; without it there is none, as in files. ``source`` and ``position`` identify a message.
    """

    body: str
    content_type: str = ""
    headers: str = ""
    attributes: str | Mapping[str, str] = ""
    protocol: str = ""
    address: str = ""
    key: str = ""
    partition: str = ""
    position: str = ""
    source: str = ""
    received_at: str = ""


KAFKA: Final = MessageColumns(
    body="value", headers="headers", address="topic", key="key", partition="partition", position="offset",
    received_at="timestamp",
)  # fmt: skip
"""The columns of Spark's Kafka source, which has headers where its option ``includeHeaders`` is set."""


@dataclass(frozen=True, slots=True)
class MessageParts:
    """Columns with parts of messages, by the names of ``MessageColumns``: each as SQL has it, and its type.

    ``strict``: text that is none is an error to Spark's ``decode``.
    """

    parts: Mapping[str, tuple[str, DataType]]
    strict: bool = True

    def build_expressions(self, protocol: str, source: str, position: str) -> list[str]:
        """Return ``base.RECORD_COLUMNS``. ``source`` and ``position`` are for messages other than Kafka records."""
        source, position, partition = self._build_place(source, position)
        expressions = {
            "protocol": protocol,
            "source": source,
            "position": position,
            "address": self.cast("address", "string"),
            "partition": partition,
            # Of other protocols sources keep something else there, which no column of a user is.
            "key": f"IF({protocol} = 'KAFKA', {_as_bytes(*self.parts.get('key', _NULL))}, NULL)",
            "value": self.cast("body", "binary"),
            "headers": self._build_stated_headers(),
            "received_at": self._time(),
        }
        return [f"{expression} AS {name}" for name, expression in expressions.items()]

    def cast(self, part: str, kind: str) -> str:
        """Return a part as ``kind``, null where it is missing."""
        return self._cast(self.parts[part][0] if part in self.parts else "NULL", kind)

    def _cast(self, column: str, kind: str) -> str:
        """Return a column as ``kind``: null where it does not fit, with replacements where it is not valid text."""
        if kind != "string":
            return f"try_cast({column} AS {kind})"
        if self.strict:
            return f"make_valid_utf8(try_cast({column} AS string))"
        return f"decode(CAST({column} AS binary), 'UTF-8')"

    def _build_place(self, source: str, position: str) -> tuple[str, str, str]:
        """Return source, position and partition: those of Kafka records that state them, else the given ones."""
        topic, partition, offset = (
            self.cast("address", "string"),
            self.cast("partition", "int"),
            self.cast("position", "long"),
        )
        if not {"address", "partition", "position"} <= self.parts.keys():
            return source, position, partition
        has_place = f"{topic} IS NOT NULL AND {partition} IS NOT NULL AND {offset} IS NOT NULL"
        return (
            f"IF({has_place}, concat('kafka:', {topic}, '/', {partition}), {source})",
            f"IF({has_place}, {offset}, {position})",
            f"IF({has_place}, {partition}, NULL)",
        )

    def _time(self) -> str:
        """A time, or as connectors write it milliseconds since 1970; text may be either."""
        kind, moment = self.parts.get("received_at", ("", None))[1], self.cast("received_at", "timestamp")
        if kind is None or isinstance(kind, (TimestampType, TimestampNTZType, DateType)):
            return moment
        counted = f"timestamp_micros(try_multiply({self.cast('received_at', 'long')}, 1000))"
        return f"coalesce({counted}, {moment})" if isinstance(kind, StringType) else counted

    def _build_headers(self) -> str:
        """Return the headers from a list of pairs under any names, or from a map. Raises ``PipelineError``."""
        if "headers" not in self.parts:
            return f"CAST(NULL AS {_PAIRS})"
        column, kind = self.parts["headers"]
        if isinstance(kind, MapType):
            return self._build_pairs(f"map_entries({column})", "key", "value", kind.valueType)
        element: Any = getattr(kind, "elementType", None)
        if not isinstance(element, StructType) or len(element) != 2:
            raise PipelineError(f"the column {column} holds no headers: they are an array of key and value, or a map")
        key, value = element
        return self._build_pairs(column, key.name, value.name, value.dataType)

    def _build_stated_headers(self) -> str:
        """Return the headers, preceded by content type and context attributes from columns of their own."""
        headers, stated = self._build_headers(), list(self._build_stated_lists())
        if "content_type" in self.parts:  # which counts more than a header
            content_type = self.cast("content_type", "string")
            headers = f"filter({headers}, h -> {content_type} IS NULL OR lower(h.name) <> '{_CONTENT_TYPE}')"
        return f"concat({', '.join(stated)}, coalesce({headers}, {_NONE}))" if stated else headers

    def _build_stated_lists(self) -> Iterator[str]:
        """Yield lists of headers, one for each column."""
        attributes = [name for name in self.parts if name.startswith(ATTRIBUTE_PREFIX)]
        if "attributes" in self.parts:
            yield self._build_attribute_map()
        elif attributes and f"{ATTRIBUTE_PREFIX}specversion" not in attributes:
            yield _build_header(f"{ATTRIBUTE_PREFIX}specversion", f"'{SPECVERSION}'")
        for name in attributes:
            yield _build_header(_CONTENT_TYPE if name == _DATA_TYPE else name, self._build_attribute(name))
        if "content_type" in self.parts:
            yield _build_header(_CONTENT_TYPE, self.cast("content_type", "string"))

    def _build_attribute(self, name: str) -> str:
        """Return an attribute as text, times as in RFC 3339; times without a zone are in the session's zone."""
        if not isinstance(self.parts[name][1], (TimestampType, TimestampNTZType)):
            return self.cast(name, "string")
        # Counted from an origin without a zone: ``date_format`` is in local time, which skips hours.
        counted = f"INTERVAL '0.000001' SECOND * unix_micros({self.cast(name, 'timestamp')})"
        utc = f"CAST(TIMESTAMP_NTZ'1970-01-01 00:00:00' + {counted} AS string)"
        return f"concat(replace({utc}, ' ', 'T'), 'Z')"

    def _build_attribute_map(self) -> str:
        """Return the attributes in a map, whose names may have the prefix already."""
        column, _ = self.parts["attributes"]
        plain = f"regexp_replace({self._cast('e.key', 'string')}, '^ce[_-]', '')"
        renamed = f"IF({plain} = 'datacontenttype', '{_CONTENT_TYPE}', concat('{ATTRIBUTE_PREFIX}', {plain}))"
        entries = f"filter(map_entries({column}), e -> e.value IS NOT NULL)"
        value = self._cast(self._cast("e.value", "string"), "binary")
        pairs = f"transform({entries}, e -> struct({renamed} AS name, {value} AS value))"
        version = _build_header(f"{ATTRIBUTE_PREFIX}specversion", f"'{SPECVERSION}'")
        stated = f"exists({pairs}, h -> h.name = '{ATTRIBUTE_PREFIX}specversion')"
        return f"coalesce(IF({stated}, {pairs}, concat({version}, {pairs})), {_NONE})"

    def _build_pairs(self, array: str, key: str, value: str, kind: DataType) -> str:
        name, content = self._cast(f"h[{quote_string(key)}]", "string"), f"h[{quote_string(value)}]"
        return f"transform({array}, h -> struct({name} AS name, {_as_bytes(content, kind)} AS value))"


def _as_bytes(column: str, kind: DataType) -> str:
    """Return SQL for a column as bytes. An inferred number becomes its text, an object its JSON."""
    if isinstance(kind, (BinaryType, StringType, NullType)):
        return f"CAST({column} AS binary)"
    has_parts = isinstance(kind, (ArrayType, MapType, StructType))
    return f"CAST({f'to_json({column})' if has_parts else f'CAST({column} AS string)'} AS binary)"


def _build_header(name: str, value: str) -> str:
    """Return a list of one header, an empty list where ``value`` is null."""
    single = f"array(struct('{name}' AS name, CAST({value} AS binary) AS value))"
    return f"IF({value} IS NULL, {_NONE}, CAST({single} AS {_PAIRS}))"


def assume_cloudevents(records: DataFrame) -> DataFrame:
    """Add the content type of structured CloudEvents in JSON to records of Kafka that do not say what they are.

    ``records`` have ``base.RECORD_COLUMNS``. Tombstones and records in binary mode stay as they are.
    """
    headers = f"coalesce(headers, {_NONE})"
    stated = f"exists({headers}, h -> h.name IN ('{_CONTENT_TYPE}', '{ATTRIBUTE_PREFIX}specversion'))"
    added = f"concat({_build_header(_CONTENT_TYPE, quote_string(JSON_FORMAT))}, {headers})"
    condition = f"protocol <> 'KAFKA' OR value IS NULL OR {stated}"
    return records.withColumn("headers", f.expr(f"IF({condition}, headers, {added})"))


def check_assumption(value: str) -> bool:
    """Return True if the option ``assume`` asks for CloudEvents. Raises ``PipelineError`` for an unknown value."""
    if value not in ("", CLOUDEVENTS):
        raise PipelineError(f"the option {ASSUME} is {value!r}, and must be {CLOUDEVENTS!r}")
    return bool(value)


def select_messages(frame: DataFrame, columns: MessageColumns | None) -> DataFrame:
    """Return the messages in rows of a DataFrame as ``base.RECORD_COLUMNS``, lazily; a stream stays a stream.

    Without ``columns`` they are those of Spark's Kafka source, or ``value`` alone, as of text files, which holds
    CloudEvents in JSON. Raises ``PipelineError`` for columns that are not there, or are of no use.
    """
    parts = _find_parts(frame, columns)
    source = f"coalesce({parts.cast('source', 'string')}, '')"
    position = f"coalesce({parts.cast('position', 'long')}, {NOWHERE}L)"
    return frame.selectExpr(*parts.build_expressions(_build_protocol(parts, columns), source, position))


def _find_parts(frame: DataFrame, columns: MessageColumns | None) -> MessageParts:
    fields_by_name = {field.name.lower(): field for field in frame.schema}
    columns_by_part = {field.name: getattr(columns or KAFKA, field.name) for field in fields(MessageColumns)}
    attributes = columns_by_part.pop("attributes")
    if isinstance(attributes, str):
        columns_by_part["attributes"] = attributes
    else:
        columns_by_part |= {f"{ATTRIBUTE_PREFIX}{name}": column for name, column in attributes.items()}
    if columns is None:  # of which any may be missing, but for the first
        columns_by_part = {
            part: name for part, name in columns_by_part.items() if part == "body" or name in fields_by_name
        }
    parts: dict[str, tuple[str, DataType]] = {}
    for part, name in columns_by_part.items():
        if name and name.lower() not in fields_by_name:
            raise PipelineError(
                f"the DataFrame has no column {name!r} for the {part} of messages: name those it has by "
                f"MessageColumns(body=...); they are: {', '.join(frame.columns)}"
            )
        if name:
            parts[part] = quote_identifier(fields_by_name[name.lower()].name), fields_by_name[name.lower()].dataType
    _check(parts)
    return MessageParts(parts, strict=int(frame.sparkSession.version.partition(".")[0]) >= _STRICT)


def _check(parts: Mapping[str, tuple[str, DataType]]) -> None:
    """Raise ``PipelineError`` for columns of types that no cast makes a part of a message of."""
    column, kind = parts["body"]
    if not isinstance(kind, (BinaryType, StringType)):
        raise PipelineError(
            f"the column {column} is {kind.simpleString()}, and a message is bytes or text: "
            "give the column it was parsed from, or make text of it by to_json"
        )
    if "attributes" in parts and not isinstance(parts["attributes"][1], MapType):
        raise PipelineError(f"the column {parts['attributes'][0]} is no map of context attributes")


def _build_protocol(parts: MessageParts, columns: MessageColumns | None) -> str:
    if columns is None:
        return "'KAFKA'" if "address" in parts.parts else "''"
    if "protocol" not in parts.parts:
        return "''"
    name = f"upper(trim({parts.cast('protocol', 'string')}))"
    cases = " ".join(f"WHEN '{short}' THEN '{full}'" for short, full in _PROTOCOLS.items())
    return f"coalesce(CASE {name} {cases} ELSE {name} END, '')"
