"""Attributes that all entities share: ids, epoch, timestamps, and how PUT and PATCH combine the rest.

What does PATCH with null do? See ``combine``. (core/spec.md "Common Attributes", core/http.md "Creating or Updating
Entities".)
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from signalbook.engine.context import Context
from signalbook.engine.drafts import WorkingCopy
from signalbook.engine.intents import WriteMode
from signalbook.errors import RegistryError
from signalbook.model import AttributeSet, faults_to_error
from signalbook.values import JSON, JSONObject, parse_timestamp
from signalbook.xid import Kind, Xid

COMMON = frozenset({"self", "shortself", "xid", "epoch", "createdat", "modifiedat"})
"""Names on every entity that are no plain attributes."""


def check_id(body: JSONObject, singular: str, expected: str, subject: Xid) -> None:
    """An id in the body, if there is one, equals the path's or map key's (R27), else ``mismatched_id``."""
    name = f"{singular}id"
    given = body.get(name)
    if given is None or given == expected:
        return
    raise RegistryError(
        "mismatched_id", subject=str(subject), singular=singular, invalid_id=given, expected_id=expected
    )


def check_epoch(given: JSON, stored: int, subject: Xid) -> None:
    """An ``epoch`` sent along with an update equals the stored one (R36), else ``mismatched_epoch``."""
    if given is None:
        return
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise invalid(subject, "epoch", "it needs to be an unsigned integer")
    if given != stored:
        raise RegistryError("mismatched_epoch", subject=str(subject), bad_epoch=given, epoch=stored)


def update(draft: WorkingCopy, body: JSONObject, context: Context) -> None:
    """Check the epoch, set both timestamps and count ``draft`` as updated (R34-R42).

    A Resource has these in its meta, which errors name (R38).
    """
    subject = draft.xid / "meta" if draft.xid.kind is Kind.RESOURCE else draft.xid
    if draft.before is not None:
        check_epoch(body.get("epoch"), draft.before.epoch, subject)
    if "createdat" in body:
        draft.createdat = _timestamp(body, "createdat", subject) or context.now
    given = _timestamp(body, "modifiedat", subject)
    if given is not None and (draft.before is None or given != draft.before.modifiedat):
        draft.modifiedat = given
        draft.stamped = True
    draft.touch(context.now)


def combine(stored: JSONObject, body: JSONObject, mode: WriteMode, without: Collection[str]) -> JSONObject:
    """The plain attributes a write asks for: PUT takes the body's alone (R142); PATCH lays the body's top-level
    attributes over the stored ones, null deleting (R144). Names in ``without`` are none of them."""
    given = {name: value for name, value in body.items() if name not in without}
    values = {**stored, **given} if mode is WriteMode.MERGE else given
    return {name: value for name, value in values.items() if value is not None}


def checked(values: JSONObject, rules: AttributeSet, subject: Xid) -> JSONObject:
    """``values`` as they are to be stored. Raises the error for all faults found in them."""
    result = rules.check(values)
    if result.faults:
        raise faults_to_error(result.faults, str(subject))
    return result.values


def invalid(subject: Xid, name: str, detail: str) -> RegistryError:
    """``invalid_attribute`` for one attribute."""
    return RegistryError("invalid_attribute", subject=str(subject), name=name, error_detail=detail)


def _timestamp(body: JSONObject, name: str, subject: Xid) -> datetime | None:
    value = body.get(name)
    if value is None:
        return None
    try:
        return parse_timestamp(value)
    except (ValueError, TypeError) as error:
        raise invalid(subject, name, f"{error}") from None
