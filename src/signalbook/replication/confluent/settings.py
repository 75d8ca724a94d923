"""Copy config and modes, and set the mode in which a registry accepts ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Final

from signalbook.client.confluent import ABSENT, ConfluentRegistry, SettingKind, UnusableRegistry
from signalbook.client.responses import Refused
from signalbook.confluent.naming import DEFAULT_CONTEXT, GLOBAL_CONTEXT, parse_subject
from signalbook.errors import SignalbookError
from signalbook.replication.confluent.progress import CopyProgress
from signalbook.replication.report import CopyOutcome, SubjectKind
from signalbook.values import JSONObject

GLOBAL_SCOPE: Final = f":{GLOBAL_CONTEXT}:"
"""The scope of settings for all contexts."""
_NOT_PERMITTED: Final = "42205"
_IMPORT: Final[JSONObject] = {"mode": "IMPORT"}
_ADVICE: Final = {
    "403": "the credentials in the URL lack the right to write that",
    "42205": "set the mode of the target to READWRITE or IMPORT, and delete for good what has the id of another schema "
    "there, or copy into a context or registry that is empty",
    "42201": "see whether what it refers to was copied",
}
"""Advice for users, by error code."""


class ImportMode:
    """Sets the mode IMPORT, in which a registry accepts ids, for everything that is written to.

    ``before`` has the previous mode of each changed scope, so that ``end`` can restore it.
    """

    def __init__(self, target: ConfluentRegistry, known: Mapping[str, object]) -> None:
        self._target = target
        self._known = known
        self._open: set[str] = set()
        self.before: dict[str, JSONObject | None] = {}

    def begin(self, subjects: Iterable[str]) -> None:
        """Prepare for writing to ``subjects``: set the mode for whole contexts that are empty.

        This saves requests for each subject.
        """
        registry = self._target.setting("mode", "")
        for scope, mode in (("", registry), (GLOBAL_SCOPE, self._target.setting("mode", GLOBAL_SCOPE))):
            if mode == {"mode": "READONLY_OVERRIDE"}:  # it overrides the modes of subjects
                self._set(scope, {"mode": "READONLY"}, mode)
        if not self._known and self._try("", registry):
            registry = _IMPORT
        filled = {parse_subject(subject).context for subject in self._known}
        for context in {parse_subject(subject).context for subject in subjects}:
            scope = "" if context == DEFAULT_CONTEXT else f":{context}:"
            mode_of_context = self._target.setting("mode", scope) if scope else registry
            empty = scope and context not in filled
            if mode_of_context == _IMPORT or (empty and self._try(scope, mode_of_context)):
                self._open.add(context)

    def to(self, scope: str, write: Callable[[], None], *, ids: bool = True) -> None:
        """Write to a ``scope``. ``ids`` is True if the write contains ids, and so needs the mode IMPORT.

        Raises ``Refused``.
        """
        if scope not in self.before and (not ids or parse_subject(scope).context in self._open):
            try:
                write()
                return
            except Refused as error:
                # The subject has its own mode.
                if error.code != _NOT_PERMITTED:
                    raise
        if scope not in self.before:
            may_exist = scope in self._known or not ids
            before = self._target.setting("mode", scope) if may_exist else None
            config = self._target.setting("config", scope) if may_exist and ids else None
            self._set(scope, _IMPORT, before)
            if config is not None and "alias" in config:
                # A write to an alias goes to another subject, so remove the alias. Settings are copied again at the
                # end.
                self._target.set("config", scope, None)
        try:
            write()
        except Refused as error:
            if error.code != _NOT_PERMITTED:
                raise
            # The mode of a subject is deleted with its last version.
            self._target.set("mode", scope, _IMPORT, force=bool(parse_subject(scope).name))
            write()

    def _try(self, scope: str, before: JSONObject | None) -> bool:
        try:
            self._set(scope, _IMPORT, before)
        except Refused:
            return False
        return True

    def end(self) -> None:
        """Restore the previous modes, as far as the registry accepts that."""
        for scope, mode in self.before.items():
            with suppress(SignalbookError):
                self._target.set("mode", scope, mode, force=True)

    def _set(self, scope: str, mode: JSONObject, before: JSONObject | None) -> None:
        try:
            # Without force, the registry refuses the mode IMPORT if the context is not empty.
            self._target.set("mode", scope, mode, force=bool(parse_subject(scope).name))
        except Refused as error:
            if error.status in ABSENT:
                raise UnusableRegistry(
                    f"{self._target.url} has no mode IMPORT, so that ids cannot be kept there ({error})"
                ) from None
            raise
        self.before.setdefault(scope, before)


class ScopeSettings:
    """Copies config and modes of ``scopes``: all config first, because a read-only registry does not accept config.

    Scopes in ``new`` have no settings at the target yet, so these are not read.
    """

    def __init__(
        self,
        source: ConfluentRegistry,
        target: ConfluentRegistry,
        progress: CopyProgress,
        writing: ImportMode,
        scopes: Sequence[str],
        new: Set[str],
    ) -> None:
        self._progress = progress
        self._source = source
        self._target = target
        self._writing = writing
        self._scopes = scopes
        self._new = new
        self._modes = True

    def run(self) -> None:
        """Copy the settings. Those of the registry itself come last."""
        self._progress.begin("copying settings", 2 * len(self._scopes))
        self._modes = self._source.setting("mode", "") is not None
        steps = [self._copy_config, self._copy_mode]
        if self._modes and self._target.setting("mode", "") is None:
            self._progress.skip("", None, "the target has no modes")
            steps.pop()
        for copy in steps:
            self._target.map(copy, self._scopes[:-1])
            copy("")

    def _copy_config(self, scope: str) -> None:
        setting = self._source.setting("config", scope)
        there = None if scope in self._new else self._target.setting("config", scope)
        if setting is None and not scope:
            return
        self._put("config", scope, setting, there, there)
        self._progress.advance()

    def _copy_mode(self, scope: str) -> None:
        opened = _IMPORT if scope in self._writing.before else None
        there = opened if scope in self._new else self._target.setting("mode", scope)
        before = self._writing.before.get(scope, there)
        setting = self._source.setting("mode", scope) if self._modes else before
        if setting == {"mode": "FORWARD"}:
            self._progress.skip(scope, None, "the mode FORWARD is about a registry that the source sends to")
            setting = before
        if (
            setting is None and scope == GLOBAL_SCOPE
        ):  # there is always one, unless all scopes show that of the registry
            setting = before
        self._put("mode", scope, setting, there, before)
        self._progress.advance()

    def _put(
        self,
        kind: SettingKind,
        scope: str,
        setting: JSONObject | None,
        there: JSONObject | None,
        before: JSONObject | None,
    ) -> None:
        """Replace the setting ``there`` by ``setting``. It counts as a change if it differs from ``before``."""
        if setting != there:
            try:
                self._write(kind, scope, setting, there)
            except Refused as error:
                self._progress.refuse(scope, None, f"its {kind}: {explain_refusal(error)}")
                return
        if setting == before:
            outcome = CopyOutcome.UNCHANGED
        elif setting is None:
            outcome = CopyOutcome.DELETED
        else:
            outcome = CopyOutcome.CREATED if before is None else CopyOutcome.UPDATED
        if setting is not None or before is not None:
            self._progress.count(outcome, SubjectKind(kind))

    def _write(self, kind: SettingKind, scope: str, setting: JSONObject | None, there: JSONObject | None) -> None:
        if kind == "mode":
            self._target.set(kind, scope, setting, force=True)
            return
        # A request does not change settings that it does not contain, so delete them first.
        if setting is None or (there or {}).keys() - setting.keys():
            self._writing.to(scope, lambda: self._target.set(kind, scope, None), ids=False)
        if setting is not None:
            names = {"compatibilityLevel": "compatibility"}
            body = {names.get(name, name): value for name, value in setting.items()}
            self._writing.to(scope, lambda: self._target.set(kind, scope, body), ids=False)


def explain_refusal(error: Refused) -> str:
    """Return the registry's error and what to do about it."""
    advice = _ADVICE.get(error.code)
    return f"{error.title} ({error.code or error.status})" + (f": {advice}" if advice else "")
