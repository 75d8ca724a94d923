"""A target's model, extended by what a source has more."""

from __future__ import annotations

from signalbook.values import JSONObject


def extended(model: JSONObject, by: JSONObject) -> JSONObject | None:
    """The model source ``model`` with the types of Groups and Resources of ``by`` that it lacks, None if none."""
    ours: JSONObject = model.get("groups") or {}
    theirs: JSONObject = by.get("groups") or {}
    groups = {**theirs, **ours}
    for plural in ours.keys() & theirs.keys():
        missing = {**(theirs[plural].get("resources") or {}), **(ours[plural].get("resources") or {})}
        if missing:
            groups[plural] = {**ours[plural], "resources": missing}
    return None if groups == ours else {**model, "groups": groups}
