"""The contract of a Spark program: definitions, read and checked once, on their way to all workers."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from os import fspath
from pathlib import Path
from typing import Any, Self

from signalbook import messages
from signalbook.messages import Policy
from signalbook.messages.policy import parse_policy
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import check_choice, check_policy
from signalbook.pipeline.job.snapshot import Snapshot, compile_cached
from signalbook.pipeline.job.subjects import Strategy


@dataclass(frozen=True, slots=True)
class Contract:
    """Definitions as they were at one time, and a policy. Spark ships it with its tasks, so it is small and pickles.

    ``definitions`` are the xids of those that messages are matched with, ``fingerprint`` tells one state of them from
    another, and ``doubts`` are what is to be said of them to people.
    """

    fingerprint: str
    definitions: tuple[str, ...]
    policy: Policy
    doubts: tuple[str, ...]
    _packed: bytes = field(repr=False)

    @classmethod
    def of(
        cls,
        registry: str | Path,
        groups: Sequence[str] = (),
        *,
        policy: Policy | Mapping[str, Any] | None = None,
        versions: Sequence[str] = (),
        subjects: Strategy = "",
    ) -> Self:
        """The definitions of ``registry``: the URL of one, a document, or a folder of documents.

        ``groups`` are xids of message groups or endpoints, none meaning all; ``versions`` are xids of Versions of
        messages and schemas that stand for the default ones. With ``subjects`` those of the registry are definitions,
        too. ``policy`` may be a mapping as the section ``policy`` of a job file is. Raises ``PipelineError`` for
        definitions that cannot be read or used, and for a ``policy`` that nobody can follow; ``PolicyError`` for a
        setting of it that there is not; ``ClientError`` where a registry does not give them.
        """
        check_choice("subjects", subjects, Strategy)
        if not isinstance(policy, Policy):
            policy = parse_policy(policy or {})
        check_policy(policy)
        snapshot = Snapshot.load(fspath(registry), groups, versions, subjects).check(policy)
        return cls(
            snapshot.fingerprint, snapshot.selected, policy, snapshot.doubts, zlib.compress(snapshot.to_json(), 1)
        )

    def snapshot(self) -> Snapshot:
        """The definitions."""
        return Snapshot.from_json(zlib.decompress(self._packed))

    def load_compiled(self) -> messages.Contract:
        """Return the compiled contract, kept by the calling process."""
        return compile_cached(self.fingerprint, self.policy, self.snapshot)

    def definition(self, xid: str) -> str:
        """``xid``, if it is that of a definition here. Raises ``PipelineError``."""
        if xid not in self.definitions:
            near = get_close_matches(xid, self.definitions, n=3, cutoff=0.3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise PipelineError(f"the contract has no message definition {xid}{hint}")
        return xid


def check_contract(contract: object) -> None:
    """Raise ``TypeError`` for what is no contract: workers would, where the words are lost in a trace of Java's."""
    if not isinstance(contract, Contract):
        raise TypeError(f"the contract is a {type(contract).__name__}: give what pipeline.Contract.of(registry) makes")
