"""What schemathesis has to know of this API: loaded by ``schemathesis run``."""

from typing import Any

import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import content_type_conformance

_DOCUMENTS = ("{resourceid}", "{versionid}")


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]) -> None:
    """Conditions nobody can guess would be the end of all else."""
    for name in ("If-Match", "If-None-Match"):
        case.headers.pop(name, None)


@schemathesis.check
def wrong_bodies_are_refused(
    ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> None:
    """A body of DELETE for missing entities is ignored (R18, R20, R22, R169)."""
    body = case.meta.components.get(ParameterLocation.BODY) if case.meta else None
    if case.method != "DELETE" and body is not None and body.mode.is_negative:
        assert response.status_code >= 400, "a body that is not as described was taken"


@schemathesis.check
def metadata_is_json(
    ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> Any:
    """A document has the content type it was given, or none."""
    if response.status_code < 400 and case.operation.path.endswith(_DOCUMENTS):
        return None
    return content_type_conformance(ctx, response, case)
