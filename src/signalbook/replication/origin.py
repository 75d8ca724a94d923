"""Where a copy came from: the registries it passed, in a label of it, the last one first.

It is what a deletion is held against (D-9), and what ends loops (D-8): a copy goes to no registry that it has passed.
A label, as every entity of every registry may have one, and as it is written with the copy in one request.
"""

from __future__ import annotations

from typing import Final

from signalbook.values import JSONObject

LABEL: Final = "replicatedfrom"


def path(entity: JSONObject) -> tuple[str, ...]:
    """URLs of the registries a Group or Version passed, the nearest first, its origin last; none for an original."""
    labels = entity.get("labels")
    text = labels.get(LABEL) if isinstance(labels, dict) else None
    return tuple(text.split()) if isinstance(text, str) else ()


def stamped(entity: JSONObject, source: str) -> JSONObject:
    """``entity`` as a copy that comes from the registry at ``source``."""
    labels = {**(entity.get("labels") or {}), LABEL: " ".join((source, *path(entity)))}
    return {**entity, "labels": labels}


def unstamped(entity: JSONObject) -> JSONObject:
    """``entity`` without a word of where it came from."""
    labels = {name: value for name, value in (entity.get("labels") or {}).items() if name != LABEL}
    rest = {name: value for name, value in entity.items() if name != "labels"}
    return {**rest, "labels": labels} if labels else rest


def owned(entity: JSONObject, source: str) -> bool:
    """Whether a copy at a target is for the registry at ``source`` to change: it came from there, or has its origin."""
    passed = path(entity)
    return bool(passed) and source in (passed[0], passed[-1])
