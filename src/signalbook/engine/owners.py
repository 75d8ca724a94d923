"""The Registry entity and Groups: their own attributes (core/spec.md "Registry Entity", "Group Entity")."""

from __future__ import annotations

from typing import Final

from signalbook.engine.attributes import COMMON, check_id, checked, combine, update
from signalbook.engine.constraints import GroupConstraints
from signalbook.engine.context import Context
from signalbook.engine.drafts import OwnerCopy
from signalbook.engine.intents import GroupIntent, WriteMode
from signalbook.model import faults_to_error
from signalbook.values import JSONObject

_REGISTRY: Final = COMMON | {"registryid", "specversion", "capabilities", "model", "modelsource"}


def write_registry(draft: OwnerCopy, body: JSONObject, mode: WriteMode, registryid: str, context: Context) -> None:
    """Replace or merge the Registry's attributes. ``registryid`` is what the body's must equal (R58)."""
    check_id(body, "registry", registryid, draft.xid)
    update(draft, body, context)
    values = combine(draft.attributes, body, mode, _REGISTRY)
    draft.attributes = {**checked(values, context.model.attributes, draft.xid), "registryid": registryid}


def write_group(draft: OwnerCopy, intent: GroupIntent, context: Context) -> None:
    """Create, replace or merge a Group's attributes; without a body an existing one stays, a new one gets defaults."""
    if intent.body is None and draft.before is not None:
        return
    body = intent.body or {}
    check_id(body, intent.type.singular, draft.xid.id, draft.xid)
    update(draft, body, context)
    values = combine(draft.attributes, body, intent.mode, COMMON | {f"{intent.type.singular}id"})
    draft.attributes = checked(values, intent.type.attributes, draft.xid)


def limits(draft: OwnerCopy, intent: GroupIntent) -> GroupConstraints:
    """The constraints in force in this Group (R108). Raises ``invalid_attribute`` for constraints that widen."""
    constraints, faults = intent.type.narrowed(draft.attributes.get("constraints"))
    if faults:
        raise faults_to_error(faults, str(draft.xid))
    return GroupConstraints(constraints=constraints, group=draft.attributes)
