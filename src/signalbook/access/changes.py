"""Which changes in the outbox whom may be told of."""

from __future__ import annotations

from typing import Final

from signalbook.access.actions import Action
from signalbook.access.decisions import Access
from signalbook.storage.base import Record
from signalbook.xid import ROOT, Xid

_OF_REGISTRY: Final = frozenset({"registry", "model", "modelsource", "capabilities"})


def is_shown(record: Record, access: Access) -> bool:
    """Whether ``access`` lets it be read what changed, be it there still or not."""
    return access.reads_everything or access.readable(_changed(record))


def is_delivered(record: Record, access: Access) -> bool:
    """Whether ``access`` lets it be subscribed to, and read, what changed."""
    xid = _changed(record)
    return access.may(Action.SUBSCRIBE, xid) and access.readable(xid)


def _changed(record: Record) -> Xid:
    """What changed: model and capabilities are the Registry's."""
    change = record.change
    return ROOT if change["entity"] in _OF_REGISTRY else Xid(tuple(change["xid"][1:].split("/")))
