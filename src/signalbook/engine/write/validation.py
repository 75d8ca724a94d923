"""Validation of documents against their ``format`` (core/spec.md "format", "formatvalidated": R252-R255)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import Final

from signalbook.batches import batched
from signalbook.engine import capabilities
from signalbook.engine.checks import check_alone, check_whole
from signalbook.engine.write.context import Context
from signalbook.engine.write.entities import VALIDATION
from signalbook.engine.write.references import load_documents, make_document
from signalbook.engine.write.workingcopies import ResourceCopy, VersionCopy
from signalbook.errors import RegistryError
from signalbook.formats import SchemaError
from signalbook.formats import base as formats
from signalbook.formats.base import Format
from signalbook.formats.references import has_open_references, is_importing, list_linked_references
from signalbook.model import ResourceType
from signalbook.values import Finding, JSONObject

MAX_FINDINGS: Final = 100
_MAX_LISTED_ERRORS: Final = 10
_VERSIONS_AT_ONCE: Final = 20
"""The number of Versions whose documents are loaded together: few enough to fit in memory, however long they are."""
_IMPORTS_NOT_LOADED: Final = "the documents that it imports have not been looked for"
_ACCEPTED: Final = "accepted as it is: "
"""The beginning of the stored reason if errors in a document were accepted, now and in later writes of the Version."""
_FORMAT_ATTRIBUTES: Final = VALIDATION[:2]
_MAX_CLOSED_DOCUMENTS: Final = 10_000
# Documents, by digest and format, that refer to no others, so that changes of other documents cannot make them invalid.
_closed_documents: Final[dict[tuple[str | None, str], None]] = {}


def check_formats(versions: Collection[VersionCopy], type: ResourceType, context: Context) -> None:
    """Validate the documents of ``versions``, which this request wrote, against their ``format`` (R252-R255).

    Sets ``formatvalidated`` and its reason. Reports ``format_violation`` and, under ``strictvalidation``,
    ``format_unknown`` or ``format_external``.
    """
    for batch in batched(versions, _VERSIONS_AT_ONCE):
        context.documents.forget()
        stored = (version for version in batch if version.document not in context.documents.new)
        load_documents((v.document for v in stored if _is_read(v, type, context)), context)
        for version in batch:
            with context.problems:
                set_outcome(version, _FORMAT_ATTRIBUTES, _validate(version, type, context))


def check_imports(resource: ResourceCopy, type: ResourceType, context: Context) -> None:
    """Validate the documents with imports that ``check_formats`` left, because the imports may come with this request.

    If an import is missing, the document counts as not validated; under ``strictvalidation`` it is a
    ``format_violation``.
    """
    for version in resource.versions.values():
        if version.attributes.get(_FORMAT_ATTRIBUTES[1]) == _IMPORTS_NOT_LOADED:
            with context.problems:
                set_outcome(version, _FORMAT_ATTRIBUTES, _validate_with_imports(version, type, context))


def _validate_with_imports(version: VersionCopy, type: ResourceType, context: Context) -> JSONObject:
    name = str(version.attributes["format"])
    reader = _find_reader(name, context)
    if reader is None:
        raise AssertionError("check_formats found it to be one that imports")
    result = check_whole(reader, make_document(version.document, name, version.xid, context))
    if result is None:
        return make_outcome("formatvalidated", None)  # until the next try; then the Version is compared, too
    if result.error is None:
        return _judge_findings(version, type, result.items, context)
    findings = result.error.findings if isinstance(result.error, SchemaError) else ()
    if type.strictvalidation:
        raise RegistryError("format_violation", subject=str(version.xid), format=name, faults=findings)
    return make_outcome("formatvalidated", "; ".join(finding.message for finding in findings) or str(result.error))


def _validate(version: VersionCopy, type: ResourceType, context: Context) -> JSONObject:
    name = version.attributes.get("format")
    if not type.validateformat or not name:
        return {}
    stored_outcome = _find_unchanged(version, type)
    if stored_outcome is not None and not _may_import(version, context):
        return stored_outcome
    if version.attributes.get(f"{type.singular}url") is not None:
        if type.strictvalidation:
            raise RegistryError("format_external", subject=str(version.xid))
        return make_outcome("formatvalidated", "the document is stored outside of the registry")
    reader = _find_reader(name, context)
    if reader is None:
        if type.strictvalidation:
            raise RegistryError("format_unknown", subject=str(version.xid), format=name)
        return make_outcome("formatvalidated", f'the format "{name}" is not supported')
    if list_linked_references(version.attributes):
        return make_outcome("formatvalidated", _IMPORTS_NOT_LOADED)
    findings = check_alone(reader, make_document(version.document, name, version.xid, context))
    if has_open_references(findings or ()) or (findings is None and is_importing(reader)):
        return make_outcome("formatvalidated", _IMPORTS_NOT_LOADED)
    if findings is not None:
        _remember_closed(version.document, name)
    return _judge_findings(version, type, findings or [], context) if stored_outcome is None else stored_outcome


def _judge_findings(version: VersionCopy, type: ResourceType, findings: list[Finding], context: Context) -> JSONObject:
    """Return the outcome for a document with these findings. Raises ``format_violation`` for errors.

    With errors that the command accepts, or that were accepted before, the Version counts as not validated.
    """
    name = version.attributes["format"]
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors and not type.strictvalidation and _is_accepted(errors, version, context):
        return make_outcome("formatvalidated", _ACCEPTED + "; ".join(map(str, errors[:_MAX_LISTED_ERRORS])))
    if errors:
        raise RegistryError("format_violation", subject=str(version.xid), format=name, faults=errors)
    room = max(MAX_FINDINGS - len(context.findings), 0)
    for finding in findings[:room]:
        # A path is a JSON Pointer or a text with line and column.
        space = "" if finding.path.startswith("/") or not finding.path else " "
        context.findings.append(replace(finding, path=f"{version.xid}#{type.singular}{space}{finding.path}"))
    return make_outcome("formatvalidated", None)


def _is_accepted(errors: Collection[Finding], version: VersionCopy, context: Context) -> bool:
    before = version.before
    if before is not None and before.document == version.document:
        reason = str(before.attributes.get(_FORMAT_ATTRIBUTES[1], ""))
        if reason.startswith(_ACCEPTED) and before.attributes.get("format") == version.attributes["format"]:
            return True
    return all(error.rule in context.accepted_rules for error in errors)


def _is_read(version: VersionCopy, type: ResourceType, context: Context) -> bool:
    """Return True if the document must be read to validate it."""
    name = version.attributes.get("format")
    if not type.validateformat or not name:
        return False
    if _find_unchanged(version, type) is not None and not _may_import(version, context):
        return False
    return version.attributes.get(f"{type.singular}url") is None and _find_reader(name, context) is not None


def _find_reader(name: str, context: Context) -> Format | None:
    """Return the format reader for ``name``, or None if the format is unknown or not switched on in the
    capabilities.
    """
    return formats.find(name) if _is_offered(tuple(context.capabilities["formats"]), name) else None


def _may_import(version: VersionCopy, context: Context) -> bool:
    """Return True if a written Version may depend on other documents, which may have changed since its validation."""
    name = version.attributes["format"]
    if not version.touched or not is_importing(_find_reader(name, context)):
        return False
    return bool(list_linked_references(version.attributes)) or (version.document, name) not in _closed_documents


def _remember_closed(document: str | None, name: str) -> None:
    # Remove the oldest documents. Another thread may have removed the key already, hence the default of ``pop``.
    while len(_closed_documents) >= _MAX_CLOSED_DOCUMENTS:
        _closed_documents.pop(next(iter(_closed_documents)), None)
    _closed_documents[document, name] = None


def _find_unchanged(version: VersionCopy, type: ResourceType) -> JSONObject | None:
    """Return the stored outcome if nothing that it depends on in the Version has changed, else None."""
    before = version.before
    if before is None or "formatvalidated" not in before.attributes or before.document != version.document:
        return None
    if any(before.attributes.get(n) != version.attributes.get(n) for n in ("format", f"{type.singular}url")):
        return None
    if not before.attributes["formatvalidated"]:
        return None  # the format may be supported by now
    return {name: before.attributes[name] for name in _FORMAT_ATTRIBUTES if name in before.attributes}


# Called for each written Version, nearly always with the same few formats.
_is_offered: Final = lru_cache(maxsize=256)(capabilities.is_offered)


def make_outcome(name: str, reason: str | None) -> JSONObject:
    """Return the attributes for the outcome of a check: valid if ``reason`` is None, else not checked
    for this reason.
    """
    return {name: True} if reason is None else {name: False, f"{name}reason": reason}


def set_outcome(version: VersionCopy, names: tuple[str, ...], outcome: JSONObject) -> None:
    """Replace the stored outcome of a check in ``version``. This does not count as an update of the Version (G-22)."""
    if outcome != {name: version.attributes[name] for name in names if name in version.attributes}:
        other_attributes = {name: value for name, value in version.attributes.items() if name not in names}
        version.attributes = other_attributes | outcome
