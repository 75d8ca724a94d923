"""A conformance kit for any xRegistry 1.0-rc4 server, over HTTP: cases as data, a runner, reports.

It knows a server by its URL alone.
"""

from signalbook.conformance.cases import Case, CaseError, CaseTopic, Level, Step, all_cases, parse_topic, topics
from signalbook.conformance.reports import (
    Summary,
    as_json,
    as_junit,
    insert,
    read_known,
    render_scoreboard,
    requirement_coverage,
    unexplained,
    unobserved,
    unreached,
)
from signalbook.conformance.running import CaseOutcome, CaseResult, ConformanceSession, Options
from signalbook.conformance.wire import Wire, WireError

__all__ = [
    "Case",
    "CaseError",
    "CaseOutcome",
    "CaseResult",
    "CaseTopic",
    "ConformanceSession",
    "Level",
    "Options",
    "Step",
    "Summary",
    "Wire",
    "WireError",
    "all_cases",
    "as_json",
    "as_junit",
    "insert",
    "parse_topic",
    "read_known",
    "render_scoreboard",
    "requirement_coverage",
    "topics",
    "unexplained",
    "unobserved",
    "unreached",
]
