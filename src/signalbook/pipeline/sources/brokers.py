"""The common part of sources that connect to brokers themselves: addresses and options, and rows for Spark.

An address is ``SCHEME://HOST[:PORT][,HOST[:PORT]]/NAME[,NAME]``. Options may follow a ``?``, except secrets, because
addresses appear in logs and reports.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from signalbook.brokers.connection import BrokerRefused, BrokerSettings, BrokerUnavailable, UntrustedCertificate
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Place, Storage
from signalbook.pipeline.sources import base
from signalbook.pipeline.spark import SLOW

SECRETS: Final = ("password", "token")
COMMON: Final = ("user", *SECRETS, "ca", "certificate", "key", "timeout")
"""The options for all brokers: credentials, PEM files of authorities and of the client, and timeout in seconds."""
_TIMEOUT: Final = 60.0
_MAX_ADDRESS_CHARS: Final = 4096
_RETRY_PAUSE: Final = 0.5

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInput:
    """The broker that inputs and options state: its settings, the ``names`` of topics or streams, and all options."""

    protocol: str
    settings: BrokerSettings
    names: tuple[str, ...]
    options: Mapping[str, str] = field(repr=False)

    def __str__(self) -> str:
        return str(self.settings)

    @contextmanager
    def convert_refusals(self) -> Iterator[None]:
        """Convert ``BrokerRefused`` in the context to ``PipelineError``. Temporary errors are raised unchanged."""
        try:
            yield
        except UntrustedCertificate as error:
            raise PipelineError(f"{error}; name whom to trust by ca") from None
        except BrokerRefused as error:
            raise PipelineError(f"{self.protocol} at {self}: {error}") from None

    def retry(self, do: Callable[[], T]) -> T:
        """Return the result of ``do``, which is repeated while the broker is unavailable.

        Raises ``PipelineError`` after the timeout of the settings.
        """
        deadline = time.monotonic() + self.settings.timeout
        while True:
            try:
                return do()
            except BrokerUnavailable as error:
                if time.monotonic() > deadline:
                    raise PipelineError(f"the broker {self}: {error or type(error).__name__}") from None
            time.sleep(_RETRY_PAUSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInputFormat:
    """The format of addresses of one protocol.

    ``form`` is an example for error texts. ``schemes`` maps each URL scheme to its default port and whether it uses
    TLS. ``options`` are the names of additional options. With ``hashes`` names in addresses may contain ``#``.
    """

    name: str
    form: str
    schemes: Mapping[str, tuple[int, bool]]
    options: tuple[str, ...] = ()
    hashes: bool = False

    def read(self, inputs: Sequence[str], options: Mapping[str, str]) -> BrokerInput:
        """Return the broker that ``inputs`` and ``options`` state. Raises ``PipelineError`` unless it is one broker."""
        parameters, names = dict(options), list[str]()
        brokers = set()
        for text in inputs:
            parts = self._split_address(text)
            brokers.add((parts.scheme, parts.netloc))
            parameters |= self._parse_parameters(parts)
            names += [unquote(name) for name in parts.path.removeprefix("/").split(",") if name]
        if len(brokers) != 1:
            raise PipelineError(f"one run reads from one broker, not from {len(brokers)}: {', '.join(inputs)}")
        self._check(parameters)
        scheme, place = brokers.pop()
        port, secure = self.schemes[scheme]
        servers = tuple(self._parse_server(inputs[0], text, port) for text in place.split(","))
        return BrokerInput(
            protocol=self.name,
            settings=BrokerSettings(
                servers=servers,
                secure=secure,
                user=parameters.get("user", ""),
                password=parameters.get("password", ""),
                token=parameters.get("token", ""),
                ca=parameters.get("ca", ""),
                certificate=parameters.get("certificate", ""),
                key=parameters.get("key", ""),
                timeout=float(parameters.get("timeout", _TIMEOUT)),
            ),
            names=tuple(dict.fromkeys(names)),
            options=parameters,
        )

    def _split_address(self, text: str) -> SplitResult:
        try:
            parts = urlsplit(text.replace("#", "%23") if self.hashes else text)
        except ValueError:
            raise self._build_error(text) from None
        if parts.scheme not in self.schemes or not parts.netloc or parts.fragment or len(text) > _MAX_ADDRESS_CHARS:
            raise self._build_error(text)
        if "@" in parts.netloc:
            raise PipelineError(f"an address of {self.name} names nobody: user and password are options")
        return parts

    def _parse_parameters(self, parts: SplitResult) -> dict[str, str]:
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
        secret = next((name for name in SECRETS if name in parameters), "")
        if secret:
            raise PipelineError(f"the option {secret} does not belong into an address: put it among the options")
        return parameters

    def _check(self, options: Mapping[str, str]) -> None:
        known_options = (*COMMON, *self.options)
        unknown = next((name for name in options if name not in known_options), "")
        if unknown:
            raise PipelineError(f"{self.name} has no option {unknown!r}; there are: {', '.join(known_options)}")
        try:
            seconds = float(options.get("timeout", _TIMEOUT))
        except ValueError:
            seconds = math.nan
        if not 0 < seconds <= 86_400:
            raise PipelineError(f"the option timeout is a number of seconds up to 86400, not {options['timeout']!r}")

    def _parse_server(self, text: str, place: str, port: int) -> tuple[str, int]:
        try:
            parts = urlsplit(f"//{place}")
            host, port = parts.hostname, parts.port or port
        except ValueError:
            raise self._build_error(text) from None
        if not host:
            raise self._build_error(text)
        return host, port

    def _build_error(self, text: str) -> PipelineError:
        return PipelineError(f"the input {text!r} is no address of {self.name}: it looks like {self.form}")


# Wherever Spark shows options, it hides the values of options with a name like this.
_REQUEST: Final = "secrets"
_LOAD_ATTEMPTS: Final = 5


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The data that a reader needs on the driver and in workers.

    A batch has at most ``most`` messages (0: no limit) and is divided into about ``tasks`` tasks. ``source`` is the
    name of the source. ``spool`` is the place of the spool, empty if there is none, in a store with the settings
    ``storage``.
    """

    inputs: tuple[str, ...]
    options: dict[str, str]
    tasks: int
    most: int = 0
    source: str = ""
    spool: str = ""
    storage: Storage = Storage()


class BrokerDataSource(DataSource):
    """The base of Spark data sources whose rows are ``RECORD_COLUMNS``."""

    def schema(self) -> str:
        """Return the columns of messages."""
        return base.RECORD_COLUMNS

    @property
    def request(self) -> ReadRequest:
        """The request that the driver has put into the options."""
        return msgspec.json.decode(self.options[_REQUEST], type=ReadRequest)


class BrokerStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The base of stream readers. Spark creates one on the driver and one in each task."""

    def __init__(self, request: ReadRequest, schema: StructType) -> None:
        self._request = request
        self._schema = schema

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit for messages in a batch."""
        return ReadMaxRows(self._request.most) if self._request.most else ReadAllAvailable()


def load_rows(
    session: SparkSession,
    reader: Any,
    source_class: type[BrokerDataSource],
    inputs: Sequence[str],
    options: Mapping[str, str],
    *,
    most: int = 0,
    source: str = "",
    spool: Place | None = None,
) -> DataFrame:
    """Return the rows of the data source ``source_class``, loaded by Spark's ``reader``. Raises ``PipelineError``."""
    tasks = session.sparkContext.defaultParallelism
    request = ReadRequest(inputs=tuple(inputs), options=dict(options), tasks=tasks, most=most, source=source)
    if spool is not None:
        request = msgspec.structs.replace(request, spool=str(spool), storage=spool.storage)
    session.dataSource.register(source_class)
    configured = reader.format(source_class.name()).option(_REQUEST, msgspec.json.encode(request).decode())
    attempts_left = _LOAD_ATTEMPTS
    while True:
        try:
            frame: DataFrame = configured.load()
            return frame
        except PySparkException as error:
            attempts_left -= 1
            if SLOW not in str(error) or not attempts_left:
                reason = str(error).strip().splitlines()[0]
                raise PipelineError(f"Spark cannot read {', '.join(inputs)}: {reason}") from error


def build_rows(schema: StructType, **columns: Sequence[Any]) -> pa.RecordBatch:
    """Return rows with the ``columns`` of ``schema``; missing columns are null. Times are microseconds since 1970."""
    fields = to_arrow_schema(schema, timezone="UTC")
    count = len(next(iter(columns.values())))
    arrays = [pa.array(columns.get(field.name, [None] * count), field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=fields)


def build_header_rows(headers: Sequence[tuple[str, bytes | None]]) -> list[dict[str, Any]] | None:
    """Return headers as a value of the column ``headers``, None without headers."""
    return [{"name": name, "value": value} for name, value in headers] or None
