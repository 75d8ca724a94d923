"""A message as it was received, before anything is known about it (domain.md K-7)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One inbound message of any protocol; nothing in it is interpreted yet.

    ``protocol`` is the canonical name of its binding (``HTTP``, ``KAFKA``, ...), ``""`` for a message that lies in a
    file and came by no protocol. ``sections`` holds what the protocol carries beside the body, as its module in
    ``bindings/`` documents. ``body`` is ``None`` where the protocol knows "no body" apart from an empty one.
    ``reference`` names where the message was found, for people.
    """

    protocol: str = ""
    content_type: str = ""
    content_encoding: str = ""
    body: bytes | None = None
    sections: Mapping[str, Any] = {}
    received_at: datetime | None = None
    reference: str = ""
