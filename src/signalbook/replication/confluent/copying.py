"""Copy between registries with Confluent's API: versions with their ids, soft deletions, config and modes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec

from signalbook.client.confluent import ConfluentRegistry, UnusableRegistry
from signalbook.client.responses import Refused
from signalbook.client.schemaversions import SchemaVersion
from signalbook.confluent.naming import DEFAULT_CONTEXT, GLOBAL_CONTEXT, parse_subject
from signalbook.replication.confluent.associations import AssociationLink, Associations
from signalbook.replication.confluent.ordering import LATEST, Key, find_cycle, find_references, split_into_waves
from signalbook.replication.confluent.progress import CopyProgress
from signalbook.replication.confluent.settings import GLOBAL_SCOPE, ImportMode, ScopeSettings, explain_refusal
from signalbook.replication.replicating import StateError, StateInMemory, StateStore
from signalbook.replication.report import CopyOutcome, CopyReport, SubjectKind
from signalbook.values import JSON, dump_json


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What was copied: ``versions`` has the id of each version by subject and version number."""

    versions: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    associations: list[AssociationLink] = msgspec.field(default_factory=list)


_SHARE: Final = 9


@dataclass(frozen=True, slots=True)
class Known:
    """A version that the target has."""

    id: int
    content: bytes
    deleted: bool


class Spool:
    """The versions to copy, stored in a temporary file. Only their positions and references are in memory."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  it is closed with the round
        self._places: dict[Key, tuple[int, int]] = {}
        self.references: dict[Key, tuple[Key, ...]] = {}
        self._end = 0

    def close(self) -> None:
        """Delete the file."""
        self._file.close()

    def put(self, version: SchemaVersion) -> None:
        """Store a version."""
        key, data = (version.subject, version.version), dump_json([version.id, version.body])
        self._file.write(data)
        self._places[key] = (self._end, len(data))
        self.references[key] = find_references(version)
        self._end += len(data)

    def drop(self, key: Key) -> None:
        """Remove a version."""
        del self._places[key], self.references[key]

    def get(self, key: Key) -> SchemaVersion:
        """Return a version. Call this only after ``ready``."""
        offset, length = self._places[key]
        schemaid, body = msgspec.json.decode(os.pread(self._file.fileno(), length, offset))
        return SchemaVersion(subject=key[0], version=key[1], id=schemaid, body=body)

    def ready(self) -> None:
        """Finish storing versions, so that they can be read."""
        self._file.flush()


class ConfluentCopy:
    """Copies from ``source`` to ``target``, as often as needed. Equal versions are not written again.

    ``state`` stores which versions were copied. Copied versions that the source no longer has are deleted permanently.
    """

    def __init__(
        self,
        source: ConfluentRegistry,
        target: ConfluentRegistry,
        report: CopyReport,
        state: StateStore | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self.progress = CopyProgress(report)
        self._state = state or StateInMemory()

    def everything(self) -> None:
        """Make the target hold what the source holds. Raises ``ClientError`` and ``StateError``."""
        self.progress.start()
        before = self._load_copied()
        with closing(Spool()) as spool:
            comparison = Round(self, spool, before)
            comparison.run()
        self.progress.begin("up to date")
        if (copied := comparison.copied()) != before:
            self._state.save({"link": self._link, **msgspec.to_builtins(copied)})

    @property
    def _link(self) -> list[JSON]:
        return [self.source.url, self.target.url]

    def _load_copied(self) -> Copied:
        """Return what earlier rounds between these two registries copied."""
        state = self._state.load()
        try:
            return msgspec.convert(state if isinstance(state, dict) and state.get("link") == self._link else {}, Copied)
        except msgspec.ValidationError as error:
            raise StateError(f"the state is not that of a copy by Confluent's API ({error}): remove its file") from None


class Follower:
    """Keeps a copy up to date by checking again and again whether the source has changed.

    If it has, everything is compared. Everything is also compared from time to time, at most a tenth of the time,
    because settings are not in the fingerprint and others may write to the target.
    """

    def __init__(self, copy: ConfluentCopy) -> None:
        self._copy = copy
        self._seen: int | None = None
        self._look = self._compare = 0.0

    def everything(self) -> None:
        """Check the source once, if it is time. Raises like ``ConfluentCopy.everything``."""
        began = time.monotonic()
        if began < self._look:
            return
        fingerprint = self._copy.source.fingerprint()
        self._look = _compute_due(began)
        if fingerprint == self._seen and began < self._compare:
            return
        self._seen = None
        self._copy.everything()
        self._seen, self._compare = fingerprint, _compute_due(began)


def _compute_due(began: float) -> float:
    """Return the time when a step that began at ``began`` and ends now is due again: it takes a tenth of the time."""
    ended = time.monotonic()
    return ended + _SHARE * (ended - began)


class Round:
    """A comparison of two registries, and the writes that follow from it. ``before`` is what earlier rounds copied."""

    def __init__(self, copy: ConfluentCopy, spool: Spool, before: Copied) -> None:
        self._progress = copy.progress
        self._copied = before
        self._before = before.versions
        self._source = copy.source
        self._target = copy.target
        self._spool = spool
        self._here: dict[str, dict[int, bool | None]] = {}
        self._there: dict[str, dict[int, Known]] = {}
        self._others: set[Key] = set()
        self._stale: set[Key] = set()
        self._kept: list[Key] = []
        self._old: frozenset[str] = frozenset()
        self._writing = ImportMode(copy.target, self._there)
        self._associations = Associations(copy.source, copy.target, copy.progress, self._writing)

    def run(self) -> None:
        """Copy versions, then deletions, then settings, which could prevent the other writes."""
        self._list_target()
        self._old = frozenset(self._there)
        self._list_source()
        gone = self._find_gone()
        try:
            # Associations first: a version with associations cannot be deleted.
            self._associations.drop(self._copied.associations)
            self._delete_for_good([*gone, *self._stale])
            self._register()
            self._associations.put()
            self._delete_softly()
            new = self._here.keys() - self._old
            ScopeSettings(self._source, self._target, self._progress, self._writing, self._list_scopes(), new).run()
        except BaseException:
            self._writing.end()
            raise

    def copied(self) -> Copied:
        """Return what is equal on both sides, and copies that could not be deleted."""
        versions: dict[str, dict[str, int]] = {}
        here = ((subject, number) for subject, numbers in self._here.items() for number in numbers)
        for subject, number in sorted({*here, *self._kept}):
            target_version = self._there.get(subject, {}).get(number)
            if target_version is not None and (subject, number) not in self._others:
                versions.setdefault(subject, {})[str(number)] = target_version.id
        return Copied(versions=versions, associations=self._associations.copied())

    # Listing and comparing

    def _list_target(self) -> None:
        self._progress.begin("listing the target")
        unmarked = False
        for version in self._target.versions():
            target_version = Known(version.id, version.content, bool(version.deleted))
            self._there.setdefault(version.subject, {})[version.version] = target_version
            unmarked = version.deleted is None
            self._progress.advance()
        live = self._target.live() if unmarked else {}
        for subject, versions in self._there.items() if unmarked else ():
            for number in versions.keys() - live.get(subject, set()):
                versions[number] = replace(versions[number], deleted=True)

    def _list_source(self) -> None:
        """Compare the source's versions while reading them. Only versions that differ are stored in the spool."""
        self._progress.begin("comparing")
        doubtful: list[Key] = []
        for version in self._source.versions():
            numbers = self._here.setdefault(version.subject, {})
            if version.version not in numbers:
                numbers[version.version] = version.deleted
                self._compare(version, doubtful)
                self._progress.advance()
        self._mark_deleted()
        for key in sorted(self._source.hidden):
            self._hide(key)
        self._spool.ready()
        self._target.map(self._compare_closer, doubtful)
        for subject, number in list(self._spool.references):
            target_version = self._there.get(subject, {}).get(number)
            if (subject, number) in self._others:
                self._spool.drop((subject, number))
            elif (
                (subject, number) not in self._stale
                and target_version is not None
                and (not target_version.deleted or self._here[subject][number])
            ):
                self._spool.drop((subject, number))
                self._progress.count(CopyOutcome.UNCHANGED, SubjectKind.VERSION)

    def _compare(self, version: SchemaVersion, doubtful: list[Key]) -> None:
        key = (version.subject, version.version)
        target_version = self._there.get(version.subject, {}).get(version.version)
        if target_version is None:
            self._spool.put(version)
        elif target_version.id != version.id and self._before.get(key[0], {}).get(str(key[1])) == target_version.id:
            # The source deleted it permanently, and used its number again.
            self._spool.put(version)
            self._stale.add(key)
        elif target_version.id != version.id:
            self._refuse_other(key, f"the target has it with the id {target_version.id} instead of {version.id}")
        elif target_version.content != version.content:
            # Some registries reformat schemas. Ask the target later whether both are the same.
            self._spool.put(version)
            doubtful.append(key)
        elif target_version.deleted:
            self._spool.put(version)
        else:
            self._progress.count(CopyOutcome.UNCHANGED, SubjectKind.VERSION)

    def _hide(self, key: Key) -> None:
        """Treat a version as deleted that the source reports as deleted without showing it.

        If it was not copied before, it is left alone.
        """
        subject, number = key
        self._here.setdefault(subject, {})[number] = True
        target_version = self._there.get(subject, {}).get(number)
        if target_version is None:
            self._progress.skip(subject, number, "it is deleted, and the source does not show what it was")
        elif self._before.get(subject, {}).get(str(number)) != target_version.id:
            self._others.add(key)

    def _compare_closer(self, key: Key) -> None:
        if not self._target.finds(self._spool.get(key)):
            self._refuse_other(key, f"the target has another schema with its id, {self._there[key[0]][key[1]].id}")

    def _refuse_other(self, key: Key, reason: str) -> None:
        self._others.add(key)
        self._progress.refuse(*key, f"{reason}: delete that one there for good, then copy again")

    def _mark_deleted(self) -> None:
        if any(deleted is None for versions in self._here.values() for deleted in versions.values()):
            live = self._source.live()
            for subject, versions in self._here.items():
                for number in versions:
                    versions[number] = number not in live.get(subject, set())

    # Writing

    def _register(self) -> None:
        waiting = {
            key: tuple(map(self._resolve_latest, references)) for key, references in self._spool.references.items()
        }
        if not waiting:
            return
        self._progress.begin("copying versions", len(waiting))
        self._writing.begin(subject for subject, _ in waiting)
        remaining = set(waiting)
        for wave in split_into_waves(waiting):
            # Register one version first, to learn whether the target accepts ids.
            self._register_one(wave[0])
            self._target.map(self._register_one, wave[1:])
            remaining.difference_update(wave)
        for key in sorted(remaining):
            circle = " -> ".join(
                f"{subject} version {number}" for subject, number in find_cycle(key, waiting, remaining)
            )
            self._progress.refuse(*key, f"what it refers to never ends: {circle}")

    def _resolve_latest(self, key: Key) -> Key:
        """Return ``key`` with the number of the latest version in place of ``LATEST``."""
        subject, number = key
        return (subject, max(self._here.get(subject, (0,)))) if number == LATEST else key

    def _register_one(self, key: Key) -> None:
        version = self._spool.get(key)
        try:
            self._writing.to(version.subject, lambda: self._target.register(version))
        except Refused as error:
            self._progress.refuse(*key, f"id {version.id}: {explain_refusal(error)}")
        else:
            target_version = Known(version.id, version.content, False)
            self._there.setdefault(version.subject, {})[version.version] = target_version
            self._progress.count(CopyOutcome.CREATED, SubjectKind.VERSION)
        self._progress.advance()

    def _delete_softly(self) -> None:
        keys = [
            (subject, number)
            for subject, versions in self._here.items()
            for number, deleted in versions.items()
            if deleted
            and (target_version := self._there.get(subject, {}).get(number)) is not None
            and not target_version.deleted
            if (subject, number) not in self._others
        ]
        self._delete(keys, self._target.delete)

    def _find_gone(self) -> list[Key]:
        """Find copied versions that are still at the target and no longer at the source."""
        if self._before and not self._here:
            count = sum(map(len, self._before.values()))
            raise UnusableRegistry(
                f"{self._source.url} has none of the versions that were copied from it ({count}): is it still the same "
                "registry? Nothing was deleted; to begin anew, remove the state"
            )
        missing = [
            (subject, int(number))
            for subject, ids in self._before.items()
            for number, copied in ids.items()
            if int(number) not in self._here.get(subject, {})
            if (target_version := self._there.get(subject, {}).get(int(number))) is not None
            and target_version.id == copied
        ]
        gone: list[Key] = []
        # A list that changes while it is read may lack existing versions, so check each of them.
        self._source.map(lambda key: (self._kept if self._source.holds(*key) else gone).append(key), missing)
        return gone

    def _delete_for_good(self, keys: Sequence[Key]) -> None:
        def delete(subject: str, number: int) -> None:
            if not self._there[subject][number].deleted:
                self._target.delete(subject, number)
            self._target.delete(subject, number, permanent=True)

        undeleted = self._delete(keys, delete)
        for subject, number in set(keys) - set(undeleted):
            del self._there[subject][number]
        self._kept += undeleted
        for key in self._stale & set(undeleted):
            self._spool.drop(key)

    def _delete(self, keys: Iterable[Key], delete: Callable[[str, int], None]) -> list[Key]:
        """Delete versions, newest first, until no more can be deleted. Return those that could not be deleted.

        A version can be deleted only after the versions that refer to it.
        """
        remaining = sorted(keys, key=lambda key: -self._there[key[0]][key[1]].id)
        if remaining:
            self._progress.begin("deleting", len(remaining))
        while remaining:
            errors: dict[Key, Refused] = {}
            self._target.map(partial(self._delete_one, delete=delete, errors=errors), remaining)
            if len(errors) == len(remaining):
                for key, error in errors.items():
                    self._progress.refuse(*key, f"it is deleted at the source: {explain_refusal(error)}")
                break
            remaining = list(errors)
        return remaining

    def _delete_one(self, key: Key, delete: Callable[[str, int], None], errors: dict[Key, Refused]) -> None:
        try:
            self._writing.to(key[0], lambda: delete(*key))
        except Refused as error:
            errors[key] = error
            return
        self._progress.count(CopyOutcome.DELETED, SubjectKind.VERSION)
        self._progress.advance()

    def _list_scopes(self) -> list[str]:
        contexts = {parse_subject(subject).context for subject in self._here} | set(self._source.contexts())
        scopes = [f":{context}:" for context in sorted(contexts - {DEFAULT_CONTEXT, GLOBAL_CONTEXT})]
        if self._source.setting("config", GLOBAL_SCOPE) is not None:
            if self._target.setting("config", GLOBAL_SCOPE) is not None:
                scopes.append(GLOBAL_SCOPE)
            else:
                self._progress.skip(GLOBAL_SCOPE, None, "the target has no settings of all contexts")
        return [*self._here, *scopes, ""]
