"""The error catalogue: one table with every error that Signalbook returns.

Source: xRegistry 1.0-rc4 core/spec.md "Error Processing" and core/http.md "Error Processing". A test compares the
table with those sections. All APIs take titles and statuses of errors from this table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from signalbook.values import Finding, JSONObject

_SPEC: Final = "https://github.com/xregistry/spec/blob/main/core/"
_PLACEHOLDER: Final = re.compile(r"<([a-z][a-z0-9_]*)>")


@dataclass(frozen=True, kw_only=True)
class ErrorDefinition:
    """A row of the catalogue: a code, its HTTP status, and its title with ``<name>`` placeholders."""

    code: str
    status: int
    title: str
    document: Literal["spec.md", "http.md", ""] = "spec.md"

    @property
    def type(self) -> str:
        """The URI that identifies this error in responses."""
        if not self.document:
            return f"urn:signalbook:errors#{self.code}"
        return f"{_SPEC}{self.document}#{self.code}"

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Names of the title's placeholders, in order, without ``subject``."""
        return tuple(dict.fromkeys(n for n in _PLACEHOLDER.findall(self.title) if n != "subject"))


def _core(code: str, status: int, title: str) -> ErrorDefinition:
    return ErrorDefinition(code=code, status=status, title=title)


def _http(code: str, status: int, title: str) -> ErrorDefinition:
    return ErrorDefinition(code=code, status=status, title=title, document="http.md")


CATALOGUE: Final[dict[str, ErrorDefinition]] = {
    row.code: row
    for row in (
        _core("action_not_supported", 405, "The specified action (<action>) is not supported for: <subject>."),
        _core(
            "ancestor_circular_reference",
            400,
            'For "<subject>", the request would create a circular list of ancestors: <list>.',
        ),
        _core(
            "bad_defaultversionid",
            400,
            'For "<subject>", an error was found in the "defaultversionid" value specified (<value>): <error_detail>.',
        ),
        _core("bad_details", 400, 'Use of "$details" in this context is not allowed: <subject>.'),
        _core("bad_filter", 400, 'For "<subject>", an error was found in "filter" value (<value>): <error_detail>.'),
        _core("bad_flag", 400, "The specified flag (<flag>) is not allowed in this context: <subject>."),
        _core("bad_ignore", 400, 'For "<subject>", an error was found in "ignore" value (<value>): <error_detail>.'),
        _core("bad_inline", 400, 'For "<subject>", an error was found in "inline" value (<value>): <error_detail>.'),
        _core("bad_request", 400, "<error_detail>."),
        _core("bad_sort", 400, 'For "<subject>", an error was found in "sort" value (<value>): <error_detail>.'),
        _core(
            "cannot_doc_xref",
            400,
            'Retrieving the document view of a Version for "<subject>" is not allowed because it uses "xref".',
        ),
        _core("capability_error", 400, "There was an error in the capabilities provided: <error_detail>."),
        _core("capability_missing_value", 400, 'The "<name>" capability needs to contain "<value>".'),
        _core("capability_unknown", 400, "Unknown capability specified: <field>."),
        _core(
            "capability_value",
            400,
            'Invalid value (<value>) specified for capability "<field>". Allowable values include: <list>.',
        ),
        _core("capability_wildcard", 400, 'When "<field>" includes a value of "*" then no other values are allowed.'),
        _core(
            "compatibility_unknown",
            400,
            'The compatibility value (<compat>) on Resource "<subject>" is not supported for format "<format>".',
        ),
        _core(
            "compatibility_violation",
            400,
            'The request would cause one or more Versions of "<subject>" to violate its compatibility rule (<compat>).',
        ),
        _core(
            "constraint_failure",
            400,
            'The request would result in one or more Versions of "<subject>" not being compliant with '
            'its owning Group\'s "<kind>" constraint for attribute "<path>".',
        ),
        _core("data_retrieval_error", 500, "The server was unable to retrieve all of the requested data."),
        _core(
            "defaultversionid_request",
            400,
            'Processing "<subject>", the "defaultversionid" attribute is not allowed to be "request" '
            "since a Version wasn't processed.",
        ),
        _core(
            "extra_xref_attribute",
            400,
            'Attribute "<name>" is not allowed to be present since the "<singular>" (<subject>) uses "xref".',
        ),
        _core(
            "format_external",
            400,
            'Version "<subject>" references a document stored outside of the Registry, therefore no '
            "validation was performed.",
        ),
        _core("format_unknown", 400, 'Version "<subject>" has a "format" value (<format>) that it not supported.'),
        _core(
            "format_violation",
            400,
            'The request would cause Version "<subject>" to be non-compliant with its "format" (<format>).',
        ),
        _core(
            "groups_only",
            400,
            'Attribute "<name>" is invalid. Only Group types are allowed to be specified on this request: <subject>.',
        ),
        _core(
            "hasdocument_violation",
            400,
            'The request would cause Version "<subject>" to be non-compliant. The model definition of '
            '"<plural>" has "hasdocument" set to "false" but this Version has document content.',
        ),
        _core("inline_noninlineable", 400, "Attempting to inline a non-inlineable attribute (<name>) on: <subject>."),
        _core("invalid_attribute", 400, 'The attribute "<name>" for "<subject>" is not valid: <error_detail>.'),
        _core("malformed_id", 400, 'For "<subject>", the specified ID value (<id>) is malformed: <error_detail>.'),
        _core("malformed_xid", 400, 'For "<subject>", the specified XID value (<xid>) is malformed: <error_detail>.'),
        _core(
            "malformed_xref",
            400,
            'For "<subject>", the specified xref value (<xref>) is malformed: <error_detail>.',
        ),
        _core(
            "mismatched_epoch",
            400,
            'The specified epoch value (<bad_epoch>) for "<subject>" does not match its current value (<epoch>).',
        ),
        _core(
            "mismatched_id",
            400,
            'The specified "<singular>id" value (<invalid_id>) for "<subject>" needs to be "<expected_id>".',
        ),
        _core(
            "mismatched_version_attribute",
            400,
            'The request would cause the "<name>" attribute across the Versions of "<subject>" to be different.',
        ),
        _core(
            "misplaced_epoch",
            400,
            'The specified "epoch" value for "<subject>" needs to be within a "meta" entity.',
        ),
        _core(
            "model_compliance_error",
            400,
            "The model provided would cause one or more entities in the Registry to become non-compliant.",
        ),
        _core("model_error", 400, "There was an error in the model definition provided: <error_detail>."),
        _core(
            "model_required_true",
            400,
            'Model attribute "<name>" needs to have a "required" value of "true" since a default value is provided.',
        ),
        _core(
            "model_scalar_default",
            400,
            'Model attribute "<name>" is not allowed to have a default value since it is not a scalar.',
        ),
        _core(
            "multiple_roots",
            400,
            'The operation would result in multiple root Versions for "<subject>", which is not '
            'allowed for "<plural>".',
        ),
        _core("not_available", 400, "The requested data (<subject>) is not available."),
        _core("not_found", 404, "The targeted entity (<subject>) cannot be found."),
        _core("one_resource", 400, 'Only one attribute from "<list>" can be present at a time for: <subject>.'),
        _core("parsing_data", 400, "There was an error parsing the data: <error_detail>."),
        _core("readonly", 400, "Updating a read-only entity (<subject>) is not allowed."),
        _core(
            "required_attribute_missing",
            400,
            'One or more mandatory attributes for "<subject>" are missing: <list>.',
        ),
        _core(
            "resources_only",
            400,
            'Attribute "<name>" is invalid. Only Resource types are allowed to be specified on this '
            "request: <subject>.",
        ),
        _core(
            "server_busy",
            503,
            'Due to excessive requests, the server could not complete "<subject>", please try again later.',
        ),
        _core("server_error", 500, "An unexpected error occurred, please try again later."),
        _core(
            "setdefaultversionsticky_false",
            400,
            'For "<subject>", setting "defaultversionsticky" to "true" is not allowed since "maxversions" is "1".',
        ),
        _core("sort_noncollection", 400, "Can't sort on a non-collection result set. Query path: <subject>."),
        _core(
            "too_large",
            406,
            'For "<subject>", the size of the response is too large to return in a single response.',
        ),
        _core(
            "too_many_versions",
            400,
            'For "<subject>", when the "setdefaultversionid" flag is set to "request", only one '
            "Version is allowed to be specified in the request message.",
        ),
        _core("unknown_attribute", 400, 'An unknown attribute (<name>) was specified for "<subject>".'),
        _core("unknown_group_type", 400, 'An unknown Group type (<name>) was specified in "<subject>".'),
        _core(
            "unknown_id",
            400,
            'While processing "<subject>", the "<singular>" with a "<singular>id" value of "<id>" cannot be found.',
        ),
        _core(
            "unknown_resource_type",
            400,
            'An unknown Resource type (<name>) was specified for Group type "<group>".',
        ),
        _core(
            "unsupported_specversion",
            400,
            'The specified "specversion" value (<specversion>) is not supported. Supported versions: <list>.',
        ),
        _core(
            "versionid_not_allowed",
            400,
            'While creating a new Version for "<subject>", a "versionid" was specified but the '
            '"setversionid" model aspect for entities of type "<plural>" is "false".',
        ),
        _http("api_not_found", 404, "The specified API is not supported: <subject>."),
        _http("details_required", 405, "$details suffix is needed when using PATCH for the entity: <subject>."),
        _http(
            "extra_xregistry_header",
            400,
            'For "<subject>", xRegistry HTTP header "<name>" is not allowed on this request: <error_detail>.',
        ),
        _http(
            "header_error",
            400,
            'For "<subject>", there was an error processing HTTP header "<name>": <error_detail>.',
        ),
        _http("missing_body", 400, "For \"<subject>\", the request is missing an HTTP body - try '{}'."),
        _http("missing_versions", 400, 'For "<subject>", at least one Version needs to be included in the request.'),
    )
}

EXTENSIONS: Final[dict[str, ErrorDefinition]] = {
    row.code: row
    for row in (
        ErrorDefinition(
            code="too_complex",
            status=400,
            title='The request for "<subject>" takes too much work to check.',
            document="",
        ),
    )
}
"""Errors that the specification does not define."""


class SignalbookError(Exception):
    """The base class of all errors that this package raises on purpose. ``str(error)`` is a message for users."""


_REQUEST_ERRORS: Final = frozenset(
    {
        *("action_not_supported", "api_not_found", "bad_defaultversionid", "bad_details", "bad_filter", "bad_flag"),
        *("bad_ignore", "bad_inline", "bad_request", "bad_sort", "groups_only", "inline_noninlineable"),
        *("malformed_id", "malformed_xid", "malformed_xref", "missing_body", "server_busy", "server_error"),
        *("sort_noncollection", "too_complex", "too_large", "too_many_versions", "unsupported_specversion"),
    }
)
"""Errors whose subject is the path of the request, not an entity (core/spec.md "Error Processing")."""


class RegistryError(SignalbookError):
    """An error of the catalogue or its extensions, with the values for its title.

    ``subject`` is the xid (or path) that the error is about, ``detail`` a further explanation for users, ``faults`` the
    findings, and ``arguments`` the values for the placeholders in the title.

    Raises ``KeyError`` for an unknown code, and ``TypeError`` if ``arguments`` do not match the placeholders.
    """

    def __init__(
        self, code: str, *, subject: str, detail: str = "", faults: Iterable[Finding] = (), **arguments: object
    ) -> None:
        self.definition = EXTENSIONS[code] if code in EXTENSIONS else CATALOGUE[code]
        if set(arguments) != set(self.definition.arguments):
            raise TypeError(f"{code} takes {self.definition.arguments}, not {tuple(arguments)}")
        self.code = code
        self.subject = subject
        self.detail = detail
        self.faults = tuple(faults)
        self.arguments = {name: str(value) for name, value in arguments.items()}
        super().__init__(self.title)

    def about_request(self, path: str) -> None:
        """Use ``path``, the path of the request, as the subject if the specification requires this for the error."""
        if self.code in _REQUEST_ERRORS:
            self.subject = path

    @property
    def status(self) -> int:
        """The HTTP status of this error."""
        return self.definition.status

    @property
    def title(self) -> str:
        """The catalogue's title with this error's values filled in."""
        values = {**self.arguments, "subject": self.subject}
        text = _PLACEHOLDER.sub(lambda m: values[m[1]], self.definition.title)
        return text[:-1] if text.endswith("..") else text

    def to_json(self) -> JSONObject:
        """Return the specification's problem document. The extension ``faults`` lists all findings (R278-R284)."""
        body: JSONObject = {"type": self.definition.type, "title": self.title}
        if self.detail:
            body["detail"] = self.detail
        if self.subject and self.code != "parsing_data":  # this error has no subject in the specification
            body["subject"] = self.subject
        if self.arguments:
            body["args"] = self.arguments
        return body | ({"faults": [fault.to_json() for fault in self.faults]} if self.faults else {})

    def __str__(self) -> str:
        return describe(self.title, self.detail, self.faults)


def describe(title: str, detail: str, faults: Sequence[Finding]) -> str:
    """Return the message of an error for users: the title, the detail, and one line for each finding.

    A text that would repeat another one is left out.
    """
    messages = {fault.message for fault in faults}
    several = title in messages and len(faults) > 1  # the title is that of the first of several findings
    lines = [f"{len(faults)} things are wrong:" if several else title]
    if detail and detail not in messages:
        lines.append(detail)
    listed = (fault for fault in faults if several or not _is_said(title, fault))
    return "\n".join([*lines, *(f"  {fault}" for fault in listed)])


def _is_said(title: str, fault: Finding) -> bool:
    return fault.message == title or f"{fault.path or '/'}: {fault.message}" in title
