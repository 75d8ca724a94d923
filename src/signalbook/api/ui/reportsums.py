"""What the reports of some batches say together: outcomes, reasons, violations, and compliance with definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from signalbook.api.ui.charts import Chart, Column, build_stacked_chart, format_number
from signalbook.api.ui.pages import cut_markup
from signalbook.api.ui.pipelinestatus import OUTCOMES, format_duration, format_share, grade_share
from signalbook.api.ui.schemas import make_field_id
from signalbook.pipeline_reports import BatchReport, ReportedViolation
from signalbook.settings import Settings

_CELL_BYTES: Final = 300
_LEGEND_BYTES: Final = 40
_VIOLATIONS: Final = 20
_REASONS: Final = 20
_CHARTED_REASONS: Final = 3
"""The number of reasons with a colour of their own. All others have one together."""
_DEFINITIONS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionLine:
    """The compliance with one definition. ``href`` is the definition's page if it exists, ``name`` its name.

    ``grade`` is the CSS class of the share of rejected messages.
    """

    xid: str
    href: str
    name: str
    landed: str
    rejected: str
    share: str
    grade: str
    reasons: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViolationLine:
    """A violation with the number of its messages and the newest example.

    ``href`` is the field on the definition's page, empty if the definition does not exist. ``name`` is the definition's
    name.
    """

    definition: str
    href: str
    name: str
    path: str
    rule: str
    messages: str
    message: str
    excerpt: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSums:
    """The sums over some reports: totals, reasons of dead letters, violations, and compliance by definition."""

    facts: tuple[tuple[str, str], ...]
    reasons: tuple[tuple[str, str], ...]
    violations: tuple[ViolationLine, ...]
    definitions: tuple[DefinitionLine, ...]
    more_definitions: int


def cut_cell(text: str, max_bytes: int = _CELL_BYTES) -> str:
    """Return as much of a text of a report as a cell has room for."""
    return cut_markup(text, max_bytes)


def list_definitions(reports: Sequence[BatchReport]) -> list[str]:
    """Return the xids of the definitions in ``reports``, the most violated first."""
    landed, rejected = Counter[str](), Counter[str]()
    for report in reports:
        for xid, counts in report.by_message.items():
            landed[xid] += counts.landed
            rejected[xid] += counts.rejected
    return sorted(landed, key=lambda xid: (-rejected[xid], -landed[xid], xid))


def sum_reports(
    reports: Sequence[BatchReport], definitions: Sequence[str], names: Mapping[str, str], settings: Settings
) -> ReportSums:
    """Return the sums over ``reports``.

    ``definitions`` are all definitions in the reports in order, ``names`` the names of those that the caller can read.
    """
    return ReportSums(
        facts=_list_facts(reports),
        reasons=_count_reasons(reports),
        violations=_count_violations(reports, names),
        definitions=tuple(_build_definition(reports, xid, names, settings) for xid in definitions[:_DEFINITIONS]),
        more_definitions=len(definitions[_DEFINITIONS:]),
    )


def list_named(reports: Sequence[BatchReport], definitions: Sequence[str]) -> list[str]:
    """Return the definitions whose names ``sum_reports`` shows."""
    return [*definitions[:_DEFINITIONS], *(key[0] for key, _ in _rank_violations(reports))]


def _build_definition(
    reports: Sequence[BatchReport], xid: str, names: Mapping[str, str], settings: Settings
) -> DefinitionLine:
    counts = [report.by_message[xid] for report in reports if xid in report.by_message]
    landed, rejected = sum(count.landed for count in counts), sum(count.rejected for count in counts)
    reasons = sum((Counter(count.reasons) for count in counts), Counter[str]())
    return DefinitionLine(
        xid=cut_cell(xid),
        href=xid if xid in names else "",
        name=cut_cell(names.get(xid, "")),
        landed=format_number(landed),
        rejected=format_number(rejected),
        share=format_share(rejected, landed + rejected),
        grade=grade_share(rejected, landed + rejected, settings),
        reasons=tuple(
            (cut_cell(reason, _LEGEND_BYTES), format_number(count)) for reason, count in reasons.most_common(3)
        ),
    )


def _sum_reasons(reports: Sequence[BatchReport]) -> Counter[str]:
    return sum((Counter(report.reasons) for report in reports), Counter[str]())


def _count_reasons(reports: Sequence[BatchReport]) -> tuple[tuple[str, str], ...]:
    """Return the number of dead letters by reason over all batches, including those without a definition."""
    ranked = _sum_reasons(reports).most_common(_REASONS)
    return tuple((cut_cell(reason), format_number(letters)) for reason, letters in ranked)


def _rank_violations(reports: Sequence[BatchReport]) -> list[tuple[tuple[str, str, str], int]]:
    """Return the most frequent violations as (definition, path, rule), each with the number of its messages."""
    count: Counter[tuple[str, str, str]] = Counter()
    for report in reports:
        for violation in report.violations:
            count[_identify(violation)] += violation.messages
    return count.most_common(_VIOLATIONS)


def _identify(violation: ReportedViolation) -> tuple[str, str, str]:
    return violation.definition, violation.path, violation.rule


def _count_violations(reports: Sequence[BatchReport], names: Mapping[str, str]) -> tuple[ViolationLine, ...]:
    """Return the most frequent violations over all batches, with the newest example of each."""
    newest: dict[tuple[str, str, str], ReportedViolation] = {}
    for report in reports:
        for violation in report.violations:
            newest.setdefault(_identify(violation), violation)
    return tuple(
        ViolationLine(
            definition=cut_cell(definition),
            href=f"{definition}#{make_field_id(path)}" if definition in names else "",
            name=cut_cell(names.get(definition, "")),
            path=cut_cell(path),
            rule=cut_cell(rule),
            messages=format_number(messages),
            message=cut_cell(newest[definition, path, rule].example.message),
            excerpt=cut_cell(newest[definition, path, rule].example.excerpt),
            place=_describe_place(newest[definition, path, rule]),
        )
        for (definition, path, rule), messages in _rank_violations(reports)
    )


def _describe_place(violation: ReportedViolation) -> str:
    return f"{cut_cell(violation.example.source)}, position {violation.example.position}"


def _list_facts(reports: Sequence[BatchReport]) -> tuple[tuple[str, str], ...]:
    """Return the totals of the batches, and the lag of the newest one."""
    sums = {name: sum(getattr(report, name) for report in reports) for name in ("read", "landed", "dead_lettered")}
    newest = reports[0] if reports else None
    share = format_share(sums["dead_lettered"], sums["read"])
    facts = [
        *([("batches", format_number(len(reports)))] if len(reports) > 1 else []),
        ("read", format_number(sums["read"])),
        ("landed", format_number(sums["landed"])),
        ("dead letters", f"{format_number(sums['dead_lettered'])} ({share})"),
        ("dropped", format_number(sum(report.dropped for report in reports))),
    ]
    if newest is not None and newest.lag is not None and newest.lag.seconds is not None:
        facts.append(("lag", format_duration(newest.lag.seconds)))
    return tuple(facts)


def build_charts(reports: Sequence[BatchReport], labels: Sequence[str]) -> tuple[Chart, ...]:
    """Return the charts of batches, the oldest first: outcomes of messages, dead letters by reason, lag of the tables.

    ``labels`` are the times of the batches.
    """
    outcomes = [(report.landed, report.dead_lettered, report.dropped) for report in reports]
    charts = [build_stacked_chart("Messages of each batch", OUTCOMES, _build_columns(labels, outcomes))]
    ranked = [reason for reason, _ in _sum_reasons(reports).most_common()]
    if ranked:
        names = ranked[:_CHARTED_REASONS]
        kinds = [(f"reason-{number}", cut_cell(name, _LEGEND_BYTES)) for number, name in enumerate(names, 1)]
        kinds += [("reason-other", "other reasons")] * (len(ranked) > len(names))
        counts = [_count_charted(report, names, len(kinds)) for report in reports]
        charts.append(build_stacked_chart("Dead letters by reason", kinds, _build_columns(labels, counts)))
    lags = [((report.lag.seconds or 0.0) if report.lag else 0.0,) for report in reports]
    if any(lag for (lag,) in lags):
        title = "Lag behind the newest event"
        charts.append(build_stacked_chart(title, (("lag", "behind"),), _build_columns(labels, lags), " s"))
    return tuple(charts)


def _count_charted(report: BatchReport, names: Sequence[str], length: int) -> tuple[int, ...]:
    """Return the dead letters of a batch by reason, and those of all other reasons if ``length`` has room for them."""
    counts = [report.reasons.get(name, 0) for name in names]
    return (*counts, sum(report.reasons.values()) - sum(counts))[:length]


def _build_columns(labels: Sequence[str], values: Sequence[Sequence[float]]) -> list[Column]:
    return [Column(label=label, values=tuple(map(float, row))) for label, row in zip(labels, values, strict=True)]
