"""The contract of a Spark program: definitions that are read and checked once, and shipped to all workers."""

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
    """The definitions of one point in time, and a policy. Spark ships it with tasks, so it is small and can be pickled.

    ``definitions`` are the xids of the definitions that messages are matched with. ``fingerprint`` identifies the state
    of the definitions. ``doubts`` are notes about the definitions for people.
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
        """Return a contract with the definitions of ``registry``: a URL, a document, or a folder of documents.

        ``groups`` are xids of message groups or endpoints; empty means all. ``versions`` are xids of Versions of
        messages and schemas to use instead of the default Versions. ``subjects`` is the naming strategy of subjects in
        the registry; if it is not empty, subjects become definitions, too. ``policy`` may be a mapping like the section
        ``policy`` of a job file. Raises ``PipelineError`` if definitions cannot be read or used, or if tables cannot
        follow the policy; ``PolicyError`` for an unknown setting of the policy; ``ClientError`` if the registry does
        not return the definitions.
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
        """Return the definitions as a snapshot."""
        return Snapshot.from_json(zlib.decompress(self._packed))

    def load_compiled(self) -> messages.Contract:
        """Return the compiled contract, which the calling process caches."""
        return compile_cached(self.fingerprint, self.policy, self.snapshot)

    def definition(self, xid: str) -> str:
        """Return ``xid``. Raises ``PipelineError`` if the contract has no definition with this xid."""
        if xid not in self.definitions:
            near = get_close_matches(xid, self.definitions, n=3, cutoff=0.3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise PipelineError(f"the contract has no message definition {xid}{hint}")
        return xid


def check_contract(contract: object) -> None:
    """Raise ``TypeError`` if ``contract`` is not a ``Contract``. A worker's error would be hidden in Java's trace."""
    if not isinstance(contract, Contract):
        raise TypeError(f"the contract is a {type(contract).__name__}: give what pipeline.Contract.of(registry) makes")
