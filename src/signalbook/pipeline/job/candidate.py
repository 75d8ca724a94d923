"""Combine the definitions of a registry with a candidate: a proposed change of definitions or schemas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from signalbook.messages import Policy
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.documents import Documents, find_reachable_groups, read_documents, with_bases
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.values import JSONError, JSONObject, parse_json
from signalbook.xid import group_of

_GROUPS: Final = ("messagegroups", "schemagroups", "endpoints")
_MAX_CANDIDATE_BYTES: Final = 16 * 1024 * 1024
_POLICY: Final = Policy()


def with_candidate(
    documents: Sequence[tuple[str, JSONObject]], groups: Sequence[str], candidate: str, definitions: Sequence[str]
) -> Snapshot:
    """Return the definitions in ``documents`` with the changes of ``candidate``.

    ``candidate`` is the xid of a Version in ``documents``, which is used instead of the default Version, or a file. The
    messages and schemas of a registry document replace those with the same xids. A schema document becomes the schema
    of ``definitions``. ``groups`` are xids of groups to select, as in ``Snapshot.load``. Raises ``PipelineError``.
    """
    if candidate.startswith("/") and "/versions/" in candidate and not Path(candidate).exists():
        return Snapshot.of_documents(documents, groups, (candidate,))
    today = Snapshot.of_documents(documents, groups)
    path = Path(candidate)
    if path.is_dir() or _is_registry(path):
        return _merge_snapshots(today, documents, read_documents(candidate), groups)
    if not definitions:
        raise PipelineError(f"{candidate} is a schema: say with --definition whose payloads it is to describe")
    return replace(
        today, messages={**today.messages, **{xid: _replace_schema(today, xid, path) for xid in definitions}}
    )


def find_affected(today: Snapshot, tomorrow: Snapshot) -> tuple[str, ...]:
    """Return the xids of definitions that were changed, added or removed between two snapshots, in order."""
    here, existing = _compute_fingerprints(today), _compute_fingerprints(tomorrow)
    return tuple(sorted(xid for xid in here.keys() | existing.keys() if here.get(xid) != existing.get(xid)))


def _compute_fingerprints(snapshot: Snapshot) -> dict[str, tuple[str, JSONObject]]:
    """Return a value for each definition that changes with it: the fingerprint of its schema, and its attributes."""
    fingerprints = {}
    for xid, definition in snapshot.compile(_POLICY).definitions.items():
        schema = definition.schema_use.schema
        fingerprints[xid] = ("" if schema is None else schema.fingerprint, definition.definition)
    return fingerprints


def _is_registry(path: Path) -> bool:
    content = _read_content(path)
    if path.suffix in (".yaml", ".yml"):
        return True
    try:
        document = parse_json(content)
    except JSONError:
        return False
    if not isinstance(document, dict):
        return False
    # a schema may have a member "self", too, but its value is not a string
    has_xid = any(isinstance(document.get(name), str) for name in ("xid", "self"))
    return has_xid or any(name in document for name in _GROUPS)


def _read_content(path: Path) -> bytes:
    try:
        if path.stat().st_size > _MAX_CANDIDATE_BYTES:
            raise PipelineError(f"the candidate {path} is larger than {_MAX_CANDIDATE_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        raise PipelineError(f"cannot read the candidate {path}: {error.strerror}") from None


def _merge_snapshots(today: Snapshot, documents: Documents, fresh: Documents, groups: Sequence[str]) -> Snapshot:
    """Return ``today`` with the entities of ``fresh`` added or replaced.

    Definitions of ``fresh`` are selected if ``groups`` reach them; without ``groups`` all are selected.
    """
    candidate = Snapshot.of_documents(fresh)
    reached = {group for _, document in (*documents, *fresh) for group in find_reachable_groups(document, groups)}
    chosen = [xid for xid in candidate.selected if not groups or group_of(xid) in reached]
    return Snapshot(
        messages=with_bases({**today.messages, **candidate.messages}, (*fresh, *documents)),
        schemas={**today.schemas, **candidate.schemas},
        selected=tuple(sorted({*today.selected, *chosen})),
        names=tuple({schema.xid: schema for schema in (*today.names, *candidate.names)}.values()),
    )


def _replace_schema(today: Snapshot, xid: str, path: Path) -> JSONObject:
    """Return the definition ``xid`` with the schema in the file ``path``. The schema format stays the same.

    Raises ``PipelineError`` if there is no such definition, or if it states no schema format.
    """
    compiled = today.compile(_POLICY).definitions.get(xid)
    if compiled is None:
        raise PipelineError(f"there is no definition {xid} that the candidate {path} could be for")
    schema = compiled.schema_use.schema
    stated = schema.format if schema is not None else str(compiled.definition.get("dataschemaformat") or "")
    if not stated:
        raise PipelineError(f"the definition {xid} says no dataschemaformat to read the candidate {path} by")
    message = today.messages[xid] or {}
    other_attributes = {
        name: value for name, value in message.items() if name not in ("dataschemauri", "dataschemaxid")
    }
    text = _read_content(path).decode("utf-8", "replace")
    return {**other_attributes, "dataschemaformat": stated, "dataschema": text}
