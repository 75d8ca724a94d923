"""What to do where a contract leaves a choice (domain.md K-46)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What to do where a contract leaves a choice (K-46).

    - ``on_no_match``: a message no definition fits is rejected, passed through as it is, or dropped;
    - ``on_ambiguous``: several definitions fit: reject, accept once for each (``all``), or accept for the most
      specific one where there is one (``best``, K-29);
    - ``on_schema_violation``: reject, or accept with the violations as warnings (``tag``);
    - ``on_removed``: a definition past its ``deprecated.removal`` only warns, or rejects (K-33);
    - ``prefer_specific``: of several fitting definitions take the most specific before payloads are looked at (K-29);
    - ``native_mapping``: a message that is no CloudEvent may fit a CloudEvents definition by its protocol options
      alone, and is made an event (K-26, K-35);
    - ``strict_delivery``: delivery details such as MQTT ``qos`` must fit too, and a message from a file fits no
      definition that names a protocol (K-27);
    - ``required_schema``: a definition without a payload schema is not enough (K-42).
    """

    on_no_match: Literal["dead_letter", "pass", "drop"] = "dead_letter"
    on_ambiguous: Literal["dead_letter", "all", "best"] = "dead_letter"
    on_schema_violation: Literal["dead_letter", "tag"] = "dead_letter"
    on_removed: Literal["warn", "dead_letter"] = "warn"
    prefer_specific: bool = False
    native_mapping: bool = False
    strict_delivery: bool = False
    required_schema: bool = False
