"""Define the errors of the Confluent-compatible API.

An error has a code of five digits, whose first three are the HTTP status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from signalbook.errors import SignalbookError
from signalbook.values import JSONObject

_FIVE_DIGITS: Final = 10_000
_STATUS: Final = 100


class ConfluentError(SignalbookError):
    """An error of the Confluent-compatible API with its ``code``."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code // _STATUS if self.code >= _FIVE_DIGITS else self.code

    def to_json(self) -> JSONObject:
        """Return the body of the response."""
        return {"error_code": self.code, "message": str(self)}


def _define_error(code: int, text: str) -> Callable[..., ConfluentError]:
    return lambda *values: ConfluentError(code, text.format(*values))


subject_not_found: Final = _define_error(40401, "Subject '{}' not found.")
version_not_found: Final = _define_error(40402, "Version {} not found.")
schema_not_found: Final = _define_error(40403, "Schema not found")
schema_id_not_found: Final = _define_error(40403, "Schema {} not found")
subject_deleted: Final = _define_error(
    40404, "Subject '{}' was soft deleted. Set permanent=true to delete it for good."
)
subject_not_deleted: Final = _define_error(40405, "Subject '{}' was not deleted first before being permanently deleted")
version_deleted: Final = _define_error(
    40406, "Subject '{}' Version {} was soft deleted. Set permanent=true to delete it for good."
)
version_not_deleted: Final = _define_error(
    40407, "Subject '{}' Version {} was not deleted first before being permanently deleted"
)
config_not_found: Final = _define_error(40408, "Subject '{}' does not have subject-level compatibility configured")
mode_not_found: Final = _define_error(40409, "Subject '{}' does not have subject-level mode configured")
association_not_found: Final = _define_error(40410, "Association for '{}' not found.")
incompatible: Final = _define_error(
    40901, 'Schema being registered is incompatible with an earlier schema for subject "{}"; {}'
)
association_of_resource_exists: Final = _define_error(
    40903, "An association of type '{}' already exists for resource '{}'"
)
association_exists: Final = _define_error(40904, "An association already exists for subject '{}'")
strong_association_exists: Final = _define_error(40905, "A strong association already exists for subject '{}'")
no_active_version: Final = _define_error(40907, "No active (non-deleted) version exists for subject '{}'")
association_frozen: Final = _define_error(40908, "The association of type '{}' is frozen for subject '{}'")
invalid_schema: Final = _define_error(42201, "Invalid schema: {}")
invalid_version: Final = _define_error(
    42202,
    "The specified version '{}' is not a valid version id. "
    'Allowed values are between [1, 2^31-1] and the string "latest"',
)
invalid_compatibility: Final = _define_error(
    42203,
    "Invalid compatibility level '{}'. Valid values are none, backward, forward, full, backward_transitive, "
    "forward_transitive, and full_transitive",
)
invalid_mode: Final = _define_error(
    42204, "Invalid mode '{}'. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT and FORWARD"
)
forward_mode_not_global: Final = _define_error(42204, "Forward mode only supported on global level")
not_permitted: Final = _define_error(42205, "{}")
reference_exists: Final = _define_error(42206, "One or more references exist to the schema {}.")
invalid_subject: Final = _define_error(42208, "The specified subject '{}' is not a valid subject.")
too_large: Final = _define_error(42209, "{}")
invalid_ruleset: Final = _define_error(42210, "Invalid ruleSet: {}")
context_not_empty: Final = _define_error(42211, "The specified context '{}' is not empty.")
invalid_association: Final = _define_error(
    42212, "The association specified an invalid value for property: '{}', detail: {}"
)
too_many_requests: Final = _define_error(42213, "A batch has at most {} requests")
unprocessable: Final = _define_error(422, "{}")
not_found: Final = _define_error(404, "HTTP 404 Not Found")
not_allowed: Final = _define_error(405, "HTTP 405 Method Not Allowed")
store_error: Final = _define_error(50001, "Error in the backend data store: {}")
timed_out: Final = _define_error(50002, "Operation timed out: {}")
