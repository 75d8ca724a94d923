"""Why messages are rejected (domain.md K-44)."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a message is rejected (K-44)."""

    NO_MATCH = "no_match"
    AMBIGUOUS = "ambiguous"
    METADATA_VIOLATION = "metadata_violation"
    PLACEHOLDER_CONFLICT = "placeholder_conflict"
    NOT_CLOUDEVENT = "not_cloudevent"
    INVALID_CLOUDEVENT = "invalid_cloudevent"
    UNSUPPORTED_FORMAT = "unsupported_format"
    SCHEMA_NOT_FOUND = "schema_not_found"
    DECODE_ERROR = "decode_error"
    SCHEMA_VIOLATION = "schema_violation"
    MAPPING_ERROR = "mapping_error"
    CONTRACT_UNAVAILABLE = "contract_unavailable"
