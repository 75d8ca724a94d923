"""Streams of JetStream as a source has them: which there are, and what lies between two numbers, with none missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import httpcore
from pyspark.sql.datasource import InputPartition

from signalbook.fetching import Deadline
from signalbook.nats.connection import NATSError, NATSLine, Refused
from signalbook.nats.jetstream import JetStream, Stored, StreamState
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources import brokers

_KIND: Final = brokers.Kind(
    name="NATS",
    form="nats://HOST:PORT/STREAM",
    schemes={"nats": (4222, False), "tls": (4222, True)},
    options=("startingOffsets", "failOnDataLoss", "domain"),
)
_PASSING: Final = (NATSError, httpcore.NetworkError, httpcore.TimeoutException)
_NO_STREAM_NAME: Final = frozenset(".*> \t\r\n")
_CHOICES: Final = {"startingOffsets": ("earliest", "latest"), "failOnDataLoss": ("true", "false")}
_LEAST: Final = 10_000
_ATTEMPTS: Final = 3

Offsets = dict[str, list[Any]]
"""The number of the last message that was read and when the stream was made, by stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A stream to be read; with a ``subject``, which may have wildcards, only messages of that."""

    state: StreamState
    subject: str = ""

    def offset(self, number: int) -> list[Any]:
        """What is kept once the message of that number was read."""
        return [number, self.state.created]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece(InputPartition):
    """The messages with the numbers ``start`` to ``end``, for one task."""

    stream: str
    subject: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Streams of one broker, by the names they were given or by a subject in them."""

    broker: brokers.Broker
    names: tuple[str, ...]

    @classmethod
    def of(cls, inputs: Sequence[str], options: Mapping[str, str]) -> Streams:
        """What addresses and options say. Raises ``PipelineError``."""
        broker, names = _KIND.read(inputs, options)
        if not names:
            raise PipelineError(f"name the streams of {broker}, as {_KIND.form}, or a subject that a stream holds")
        for option, values in _CHOICES.items():
            if broker.options.get(option, values[0]) not in values:
                raise PipelineError(f"the option {option} is {' or '.join(values)}")
        return cls(broker=broker, names=names)

    @property
    def latest(self) -> bool:
        """Whether to begin behind what there is."""
        return self.broker.options.get("startingOffsets") == "latest"

    def chosen(self) -> dict[str, Chosen]:
        """The streams, by name. Raises ``PipelineError`` where there are none, or they cannot be read."""
        found: dict[str, Chosen] = {}
        for chosen in self.broker.patiently(self._chosen, _PASSING):
            state = chosen.state
            if state.name in found:
                raise PipelineError(f"the stream {state.name} is named twice: name it, or one subject in it")
            if state.retention != "limits":
                raise PipelineError(
                    f"the stream {state.name} at {self.broker} drops each message once its reader has had it "
                    f"(retention {state.retention}): read one with retention limits that has this one as its source"
                )
            found[state.name] = chosen
        return found

    def pieces(self, start: Offsets, end: Offsets, tasks: int) -> list[Piece]:
        """What lies between offsets, dealt out. Raises ``PipelineError`` for messages that are gone."""
        chosen, found = self.chosen(), list[Piece]()
        for name, (last, created) in end.items():
            before = start[name][0] if name in start else chosen[name].state.first - 1 if name in chosen else -1
            if last <= before:
                continue
            if name not in chosen:
                raise PipelineError(f"a batch with the stream {name} was begun: name it too, so that the batch can end")
            self.whole(chosen[name].state, before, [last, created])
            count = max(1, min(tasks, (last - before) // _LEAST))
            bounds = [before + (last - before) * part // count for part in range(count + 1)]
            found += [
                Piece(stream=name, subject=chosen[name].subject, start=first + 1, end=last)
                for first, last in pairwise(bounds)
            ]
        return found

    def read(self, piece: Piece) -> Iterator[list[Stored]]:
        """The messages of a piece, over a new connection where one was lost. Raises ``PipelineError``."""
        done = piece.start - 1
        attempts = iter(range(_ATTEMPTS))
        while True:
            try:
                with self._connected() as (jetstream, deadline):
                    for messages in jetstream.read(piece.stream, done + 1, piece.end, piece.subject):
                        yield messages
                        done = messages[-1].number
                        deadline.restart(self.broker.timeout)
                        attempts = iter(range(_ATTEMPTS))
                    return
            except _PASSING as error:
                if next(attempts, None) is None:
                    raise PipelineError(f"NATS at {self.broker}: {error or type(error).__name__}") from None
                self.broker.patiently(self._chosen, _PASSING)  # until it is there again

    def whole(self, state: StreamState, before: int, known: list[Any]) -> None:
        """Raise ``PipelineError`` for a stream that is not the ``known`` one, or without what follows ``before``."""
        where, (last, created) = f"the stream {state.name} at {self.broker}", known
        why = f"ends with message {state.last}, and {last} were there before" if state.last < last else ""
        if created != state.created:
            why = f"is of {state.created}, and the one that was read of {created}"
        if why:
            raise PipelineError(
                f"{where} {why}: it was made anew; give the stream of the pipeline another name to land what it holds "
                "now"
            )
        if state.first > before + 1 and self.broker.options.get("failOnDataLoss") != "false":
            raise PipelineError(
                f"{where} begins with message {state.first}, and {before + 1} was to be next: those between were "
                "dropped unread; keep more in it, and go on without them by the option failOnDataLoss = false"
            )

    def _chosen(self) -> list[Chosen]:
        with self._connected() as (jetstream, deadline):
            found = []
            for name in self.names:
                deadline.restart(self.broker.timeout)
                found.append(self._resolved(jetstream, name))
            return found

    def _resolved(self, jetstream: JetStream, name: str) -> Chosen:
        """The stream of a name, or else the one that holds messages of that subject."""
        state = None if _NO_STREAM_NAME & set(name) else jetstream.stream(name)
        if state is not None:
            return Chosen(state=state)
        holders = jetstream.streams_of(name)
        state = jetstream.stream(holders[0]) if len(holders) == 1 else None
        if state is None:
            raise PipelineError(
                f"NATS at {self.broker} has no stream {name!r} and {', '.join(holders) or 'none'} with such a subject: "
                "only what one stream of JetStream keeps can be read; name it, or make it"
            )
        return Chosen(state=state, subject=name)

    @contextmanager
    def _connected(self) -> Iterator[tuple[JetStream, Deadline]]:
        """A connection, and the time of its steps. Raises ``PipelineError`` for what the server does not do."""
        broker = self.broker
        try:
            with broker.stream() as (host, opened, deadline):
                encrypt = partial(broker.encrypted, host) if broker.secure else None
                line = NATSLine(opened, user=broker.login, token=broker.options.get("token", ""), encrypt=encrypt)
                yield JetStream(line, broker.options.get("domain", "")), deadline
        except Refused as error:
            raise PipelineError(f"NATS at {broker}: {error}") from None
