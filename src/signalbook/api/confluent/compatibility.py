"""Check the compatibility levels of subjects, whichever API writes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias

from signalbook.api.confluent.resolution import load_resolver, make_document
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.confluent.versions import SchemaVersion
from signalbook.confluent.metadata import properties
from signalbook.confluent.naming import GROUPS, Subject
from signalbook.confluent.reserved import find_conflicts, list_reserved_fields
from signalbook.confluent.schemas import read_stored_references
from signalbook.confluent.settings import rule
from signalbook.engine.checks import CheckResult, check_documents, compare_documents
from signalbook.engine.engine import Session
from signalbook.engine.write.apply import ChangeAction, EventEntity
from signalbook.errors import RegistryError
from signalbook.formats.base import find_family
from signalbook.formats.compatibility import (
    Difference,
    Direction,
    SchemaText,
    is_transitive,
    list_differences,
    list_directions,
)
from signalbook.formats.protobuf import FORMAT as PROTOBUF
from signalbook.largejson import parse_untrusted_json
from signalbook.values import JSON, Finding, JSONObject, dump_json
from signalbook.xid import Xid

Reason: TypeAlias = tuple[str, SchemaVersion | None]
"""A reason why a schema is incompatible, and the version it is incompatible with, if there is one."""
_LEVEL: Final = "compatibilityLevel"
_AVRO_ERROR_TYPES: Final = {
    "alternative_missing": "MISSING_UNION_BRANCH",
    "decimal_changed": "TYPE_MISMATCH",
    "default_missing": "READER_FIELD_MISSING_DEFAULT_VALUE",
    "logical_type_changed": "TYPE_MISMATCH",
    "name_changed": "NAME_MISMATCH",
    "size_changed": "FIXED_SIZE_MISMATCH",
    "symbol_missing": "MISSING_ENUM_SYMBOLS",
    "type_changed": "TYPE_MISMATCH",
}
"""Error types of Avro's Java library, by the rules of differences, because users search messages for them."""
_OLD_CHARS: Final = 1000
"""The maximum characters of a schema that an error quotes."""
_COMBINING: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef", "$recursiveRef"})
_SUBSCHEMA_PARTS: Final = frozenset({"items", "additionalItems", "contains"})
_MAPS: Final = frozenset({"properties", "definitions", "$defs"})
_OTHERS: Final = frozenset({"additionalProperties", "patternProperties", "unevaluatedProperties"})


def find_differences(
    new: SchemaText, metadata: JSON, config: JSONObject, versions: Sequence[SchemaVersion], subjects: Subjects
) -> list[Reason]:
    """Return the reasons why a schema with this ``metadata`` may not follow ``versions`` by ``config``; empty if it
    may.

    In a write, reasons are missing if a comparison takes too long for its turn: the write is tried again.
    """
    required_rule = rule(config[_LEVEL])
    compared = _select_comparable(metadata, config, versions)
    reasons = _find_field_conflicts(new, metadata, compared) if config.get("validateFields") else []
    if required_rule is None or not compared:
        return reasons
    policy = str(config.get("compatibilityPolicy"))
    for old in reversed(compared if is_transitive(required_rule) else compared[-1:]):
        outcome = _compare(required_rule, policy, new, text_of(old, subjects))
        if outcome is None:
            continue
        if outcome.error is not None:
            return [(f"version {old.version} cannot be compared: {outcome.error}", old)]
        types = _AVRO_ERROR_TYPES if find_family(new.format) == "avro" else {}
        for direction, difference in outcome.items:
            text = f"{difference} ({direction}, version {old.version})"
            kind = types.get(difference.rule)
            reasons.append((f"{{errorType:'{kind}', description:'{text}'}}" if kind else text, old))
    return reasons


def _find_field_conflicts(new: SchemaText, metadata: JSON, compared: Sequence[SchemaVersion]) -> list[Reason]:
    """Return the conflicts of a schema's fields with reserved names."""
    reserved = frozenset(list_reserved_fields(metadata))
    before = frozenset(list_reserved_fields(compared[-1].attributes.get("metadata")) if compared else ())
    if not (reserved or before):
        return []
    find = partial(find_conflicts, reserved=reserved, reserved_before=before)
    outcome = check_documents(("reserved", reserved, before), [make_document(new)], find)
    if outcome is None:
        return []
    if outcome.error is not None:
        return [(f"its fields cannot be read: {outcome.error}", None)]
    return [(conflict, None) for conflict in outcome.items]


def explain(reasons: Sequence[Reason], config: JSONObject) -> list[str]:
    """Return reasons as Confluent's clients show them, with the first incompatible version and the level."""
    texts = [text for text, _ in reasons]
    old = next((version for _, version in reasons if version is not None), None)
    if old is None:
        return texts
    text = old.text if len(old.text) <= _OLD_CHARS else f"{old.text[:_OLD_CHARS]}…"
    about = (f"oldSchemaVersion: {old.version}", f"oldSchema: '{text}'", f"compatibility: '{config[_LEVEL]}'")
    return [*texts, *(f"{{{member}}}" for member in about)]


def _compare(
    required_rule: str, policy: str, new: SchemaText, old: SchemaText
) -> CheckResult[tuple[Direction, Difference]] | None:
    """Return the reasons why ``new`` may not follow ``old``, by the ``policy`` of the config. None as for
    ``check_documents``.

    Protobuf schemas are compared by their bytes on the wire, as Confluent does, unless the policy is ``STRICT``. With
    the policy ``LENIENT``, writers with a JSON Schema are assumed to write only properties that the schema names.
    """
    families = {find_family(new.format), find_family(old.format)}
    documents = [make_document(new), make_document(old)]
    if families == {"protobuf"} and policy != "STRICT":
        return check_documents(("wire", required_rule), documents, partial(_list_wire_differences, required_rule))
    if families == {"jsonschema"} and policy == "LENIENT":
        return check_documents(("lenient", required_rule), documents, partial(_list_lenient_differences, required_rule))
    return compare_documents(required_rule, *documents)


def _list_wire_differences(required_rule: str, new: SchemaText, old: SchemaText) -> list[tuple[Direction, Difference]]:
    return [
        (direction, difference)
        for direction in list_directions(required_rule)
        for difference in PROTOBUF.wire_differences(*((new, old) if direction == "backward" else (old, new)))
    ]


def _list_lenient_differences(
    required_rule: str, new: SchemaText, old: SchemaText
) -> list[tuple[Direction, Difference]]:
    return [
        violation
        for direction in list_directions(required_rule)
        for violation in (
            list_differences(direction, new, _close(old))
            if direction == "backward"
            else list_differences(direction, _close(new), old)
        )
    ]


def _close(text: SchemaText) -> SchemaText:
    document = dump_json(_close_objects(parse_untrusted_json(text.document, exact=True)))
    return SchemaText(document=document, format=text.format, resolve=text.resolve)


def _close_objects(schema: JSON) -> JSON:
    """Return a JSON Schema whose objects allow only the properties they name. Combined schemas are left unchanged."""
    if not isinstance(schema, dict) or not _COMBINING.isdisjoint(schema):
        return schema
    closed = dict(schema)
    for part in _SUBSCHEMA_PARTS.intersection(schema):
        closed[part] = _close_objects(schema[part])
    for part in _MAPS.intersection(schema):
        if isinstance(schema[part], dict):
            closed[part] = {name: _close_objects(member) for name, member in schema[part].items()}
    if "properties" in schema and _OTHERS.isdisjoint(schema):
        closed["additionalProperties"] = False
    return closed


def text_of(version: SchemaVersion, subjects: Subjects) -> SchemaText:
    """Return the schema of a version as a text for comparisons."""
    references = read_stored_references(version.attributes)
    resolve = load_resolver(subjects, references, version.subject.context) if references else None
    return SchemaText(document=version.text.encode("utf-8"), format=version.format, resolve=resolve)


def _select_comparable(
    metadata: JSON, config: JSONObject, versions: Sequence[SchemaVersion]
) -> Sequence[SchemaVersion]:
    """Return the versions of the same compatibility group, which a metadata property names."""
    name = config.get("compatibilityGroup")
    if not name:
        return versions
    mine = properties(metadata).get(name)
    return [version for version in versions if properties(version.attributes.get("metadata")).get(name) == mine]


def list_predecessors(subjects: Subjects, subject: Subject, config: JSONObject) -> Sequence[SchemaVersion]:
    """Return the versions that a level compares with: all versions only if the level needs them."""
    required_rule = rule(config[_LEVEL])
    if required_rule is None:
        return ()
    if is_transitive(required_rule) or config.get("compatibilityGroup"):
        return subjects.live(subject)
    latest = subjects.latest(subject)
    return () if latest is None else (latest,)


def check_levels(session: Session, default_group: str) -> None:
    """Check everything that other APIs wrote in this session against the levels set for subjects, contexts or the
    registry.

    Subjects without any stored level are not checked. Raises ``compatibility_violation``.
    """
    written = [Xid.parse(change.xid) for change in session.changes if _is_written(change.entity, change.action)]
    written = [xid for xid in written if xid.group_type == GROUPS]
    ids = session.view.confluent
    if not written or (ids.setting("config", "") is None and not ids.settings("config", "", 1)):
        return
    subjects = Subjects(session.view, default_group)
    rows = session.view.reader.get_many(written)
    xids_by_subject: dict[Subject, set[Xid]] = {}
    for version in subjects.versions(rows.values()):
        if version.xid is not None:
            xids_by_subject.setdefault(version.subject, set()).add(version.xid)
    for subject, xids in xids_by_subject.items():
        _check_subject(subjects, subject, xids)


def _is_written(entity: EventEntity, action: ChangeAction) -> bool:
    return entity is EventEntity.VERSION and action in (ChangeAction.CREATED, ChangeAction.UPDATED)


def _check_subject(subjects: Subjects, subject: Subject, written: set[Xid]) -> None:
    """Compare each written version with the versions before it, and the following version with it."""
    config = subjects.stated(subject)
    if rule(config.get(_LEVEL, "NONE")) is None:
        return
    versions = subjects.live(subject)
    for number, version in enumerate(versions):
        if version.xid in written or (number and versions[number - 1].xid in written):
            new, metadata = text_of(version, subjects), version.attributes.get("metadata")
            reasons = find_differences(new, metadata, config, versions[:number], subjects)
            if reasons:
                raise RegistryError(
                    "compatibility_violation",
                    subject=str(version.xid.resource if version.xid else subject),
                    compat=str(rule(config[_LEVEL])),
                    detail=f'Version "{version.version}" does not fit, by the level that was set for its subject',
                    faults=[Finding(path=str(version.xid), rule="incompatible", message=text) for text, _ in reasons],
                )
