"""Convert the rows of any DataFrame to messages, by Spark SQL expressions that make ``base.RECORD_COLUMNS``.

The expressions cast the existing columns. A value that does not fit its type becomes null, and invalid text gets
replacement characters, so that no row can end a job.
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
"""The option of sources of Kafka records for the format of records without a content type."""
CLOUDEVENTS: Final = "cloudevents"
# Common names of protocols, and the names in their CloudEvents bindings.
_PROTOCOLS: Final = {"MQTT": "MQTT/5.0", "AMQP": "AMQP/1.0", "HTTPS": "HTTP"}
# From this version on, Spark's ``decode`` fails for invalid text, and ``make_valid_utf8`` replaces it.
_STRICT: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageColumns:
    """The names of the columns of a DataFrame for each part of messages. An empty name means that there is no column.

    ``body`` has the bytes or text of a message, ``headers`` a map of headers or an array of pairs. ``address`` is the
    topic, subject or path that a message was sent to. ``attributes`` maps context attributes of CloudEvents to columns,
    or names one column with a map of attributes; the body then is the data of the event. ``protocol`` is the protocol
    of each message, such as ``KAFKA`` or ``HTTP``; without this column messages have no protocol, as in files.
    ``source`` and ``position`` identify a message.
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
"""The columns of Spark's Kafka source. It has headers if its option ``includeHeaders`` is set."""


@dataclass(frozen=True, slots=True)
class MessageParts:
    """The existing columns for parts of messages, by the names in ``MessageColumns``: SQL expression and type.

    ``strict`` means that Spark's ``decode`` fails for invalid text.
    """

    parts: Mapping[str, tuple[str, DataType]]
    strict: bool = True

    def build_expressions(self, protocol: str, source: str, position: str) -> list[str]:
        """Return an expression for each of ``base.RECORD_COLUMNS``.

        ``protocol`` is SQL for the protocol. ``source`` and ``position`` are SQL for messages without a Kafka offset.
        """
        source, position, partition = self._build_place(source, position)
        expressions = {
            "protocol": protocol,
            "source": source,
            "position": position,
            "address": self.cast("address", "string"),
            "partition": partition,
            # Sources of other protocols store their own data in this column, which a user's column is not.
            "key": f"IF({protocol} = 'KAFKA', {_as_bytes(*self.parts.get('key', _NULL))}, NULL)",
            "value": self.cast("body", "binary"),
            "headers": self._build_stated_headers(),
            "received_at": self._time(),
        }
        return [f"{expression} AS {name}" for name, expression in expressions.items()]

    def cast(self, part: str, kind: str) -> str:
        """Return SQL for the part called ``part``, cast to the type ``kind``; null without a column for it."""
        return self._cast(self.parts[part][0] if part in self.parts else "NULL", kind)

    def _cast(self, column: str, kind: str) -> str:
        """Return SQL for ``column`` cast to the type ``kind``: null for other values, with invalid text replaced."""
        if kind != "string":
            return f"try_cast({column} AS {kind})"
        if self.strict:
            return f"make_valid_utf8(try_cast({column} AS string))"
        return f"decode(CAST({column} AS binary), 'UTF-8')"

    def _build_place(self, source: str, position: str) -> tuple[str, str, str]:
        """Return SQL for source, position and partition: of Kafka records if stated, otherwise the arguments."""
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
        """Return SQL for the time of receipt. Numbers are milliseconds since 1970; text may be a number or a time."""
        kind, moment = self.parts.get("received_at", ("", None))[1], self.cast("received_at", "timestamp")
        if kind is None or isinstance(kind, (TimestampType, TimestampNTZType, DateType)):
            return moment
        counted = f"timestamp_micros(try_multiply({self.cast('received_at', 'long')}, 1000))"
        return f"coalesce({counted}, {moment})" if isinstance(kind, StringType) else counted

    def _build_headers(self) -> str:
        """Return SQL for the headers, from an array of pairs or from a map.

        Raises ``PipelineError`` for a column of another type.
        """
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
        """Return SQL for the headers, with content type and context attributes from separate columns in front."""
        headers, stated = self._build_headers(), list(self._build_stated_lists())
        if "content_type" in self.parts:  # the column takes precedence over a header
            content_type = self.cast("content_type", "string")
            headers = f"filter({headers}, h -> {content_type} IS NULL OR lower(h.name) <> '{_CONTENT_TYPE}')"
        return f"concat({', '.join(stated)}, coalesce({headers}, {_NONE}))" if stated else headers

    def _build_stated_lists(self) -> Iterator[str]:
        """Yield SQL for a list of headers from each column with attributes, or with the content type."""
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
        """Return SQL for an attribute as text, with times as in RFC 3339.

        Times without a zone are in the time zone of the session.
        """
        if not isinstance(self.parts[name][1], (TimestampType, TimestampNTZType)):
            return self.cast(name, "string")
        # Add to an origin without a zone, because ``date_format`` uses local time, in which hours are missing.
        counted = f"INTERVAL '0.000001' SECOND * unix_micros({self.cast(name, 'timestamp')})"
        utc = f"CAST(TIMESTAMP_NTZ'1970-01-01 00:00:00' + {counted} AS string)"
        return f"concat(replace({utc}, ' ', 'T'), 'Z')"

    def _build_attribute_map(self) -> str:
        """Return SQL for headers from the map of attributes. Names in the map may have the prefix already."""
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
    """Return SQL for ``column`` as bytes: a number as its text, an array, map or struct as JSON."""
    if isinstance(kind, (BinaryType, StringType, NullType)):
        return f"CAST({column} AS binary)"
    has_parts = isinstance(kind, (ArrayType, MapType, StructType))
    return f"CAST({f'to_json({column})' if has_parts else f'CAST({column} AS string)'} AS binary)"


def _build_header(name: str, value: str) -> str:
    """Return SQL for a list of one header, which is empty if ``value`` is null."""
    single = f"array(struct('{name}' AS name, CAST({value} AS binary) AS value))"
    return f"IF({value} IS NULL, {_NONE}, CAST({single} AS {_PAIRS}))"


def assume_cloudevents(records: DataFrame) -> DataFrame:
    """Add the content type of structured CloudEvents in JSON to Kafka records that state no content type.

    ``records`` have ``base.RECORD_COLUMNS``. Tombstones and records in binary mode stay as they are.
    """
    headers = f"coalesce(headers, {_NONE})"
    stated = f"exists({headers}, h -> h.name IN ('{_CONTENT_TYPE}', '{ATTRIBUTE_PREFIX}specversion'))"
    added = f"concat({_build_header(_CONTENT_TYPE, quote_string(JSON_FORMAT))}, {headers})"
    condition = f"protocol <> 'KAFKA' OR value IS NULL OR {stated}"
    return records.withColumn("headers", f.expr(f"IF({condition}, headers, {added})"))


def check_assumption(value: str) -> bool:
    """Return True if ``value``, the value of the option ``ASSUME``, is ``CLOUDEVENTS``; False if it is empty.

    Raises ``PipelineError`` for another value.
    """
    if value not in ("", CLOUDEVENTS):
        raise PipelineError(f"the option {ASSUME} is {value!r}, and must be {CLOUDEVENTS!r}")
    return bool(value)


def select_messages(frame: DataFrame, columns: MessageColumns | None) -> DataFrame:
    """Return the messages in rows of a DataFrame as ``base.RECORD_COLUMNS``, lazily; a stream stays a stream.

    Without ``columns`` the DataFrame has the columns of Spark's Kafka source, or only ``value`` with CloudEvents in
    JSON, as from text files. Raises ``PipelineError`` for missing columns, and for columns of unsuitable types.
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
    if columns is None:  # all columns except the body may be missing
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
    """Raise ``PipelineError`` unless the body is bytes or text, and the column ``attributes``, if any, is a map."""
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
