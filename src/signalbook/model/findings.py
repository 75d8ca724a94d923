"""Findings about values and models, and their conversion to errors of the error catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self, TypeAlias

from signalbook.errors import RegistryError
from signalbook.model.paths import DotPath, format_path
from signalbook.values import Finding

ReferenceCode: TypeAlias = Literal["malformed_xid", "unknown_group_type", "unknown_resource_type"]
FaultCode: TypeAlias = Literal["unknown_attribute", "invalid_attribute", "required_attribute_missing"] | ReferenceCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFinding:
    """A rule of the model that a value violates. ``path`` is in dot notation, relative to the entity.

    ``arguments`` are set for errors in references only. Other errors get their arguments from path and message.
    """

    code: FaultCode
    path: str
    message: str
    arguments: Mapping[str, str] = field(default_factory=dict)

    @property
    def finding(self) -> Finding:
        """The finding as a ``Finding`` whose rule is the error's code."""
        return Finding(path=self.path, rule=self.code, message=self.message)


def findings_to_error(value_findings: Sequence[ValueFinding], subject: str) -> RegistryError:
    """Return one error for all findings (at least one).

    The first finding decides its code; ``.faults`` has all of them.
    """
    first = value_findings[0]
    findings = [finding.finding for finding in value_findings]
    if first.arguments:
        detail = f"{first.path}: {first.message}"
        return RegistryError(first.code, subject=subject, faults=findings, detail=detail, **first.arguments)
    if first.code == "required_attribute_missing":
        missing = ", ".join(finding.path for finding in value_findings if finding.code == first.code)
        return RegistryError(first.code, subject=subject, faults=findings, list=missing)
    if first.code == "unknown_attribute":
        return RegistryError(first.code, subject=subject, faults=findings, detail=first.message, name=first.path)
    return RegistryError(first.code, subject=subject, faults=findings, name=first.path, error_detail=first.message)


ModelRule: TypeAlias = Literal["model_error", "model_required_true", "model_scalar_default", "invalid_attribute"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFinding:
    """A rule of the model language that a model source violates, and the path of the violation."""

    path: DotPath
    message: str
    rule: ModelRule = "model_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPosition:
    """A position in a model source, with the list that collects findings at and below this position."""

    findings: list[ModelFinding]
    path: DotPath = ()

    def at(self, *steps: str | int) -> Self:
        """Return the position at ``steps`` below this one."""
        return replace(self, path=(*self.path, *steps))

    def report(self, message: str, *steps: str | int, rule: ModelRule = "model_error") -> None:
        """Add a finding at ``steps`` below this position."""
        self.findings.append(ModelFinding(path=(*self.path, *steps), message=message, rule=rule))


def model_findings_to_error(model_findings: Sequence[ModelFinding]) -> RegistryError:
    """Return one error for all findings (at least one).

    The first finding decides its code; ``.faults`` has all of them.
    """
    first = model_findings[0]
    findings = [
        Finding(path=format_path(finding.path), rule=finding.rule, message=finding.message)
        for finding in model_findings
    ]
    name = format_path(first.path)
    if first.rule == "model_error":
        place = f"{name}: " if name else ""
        return RegistryError(first.rule, subject="/model", faults=findings, error_detail=f"{place}{first.message}")
    if first.rule == "invalid_attribute":
        return RegistryError(first.rule, subject="/model", faults=findings, name=name, error_detail=first.message)
    return RegistryError(first.rule, subject="/model", faults=findings, name=_find_attribute_name(first.path))


_ATTRIBUTE_LISTS: Final = ("attributes", "resourceattributes", "metaattributes", "siblingattributes")


def _find_attribute_name(path: DotPath) -> str:
    """Return the attribute at ``path`` of a model as a path in an entity, such as ``myobj.defint``."""
    names, steps = [], iter(path)
    for step in steps:
        if step in _ATTRIBUTE_LISTS:
            names += [name for name in (next(steps, None),) if name is not None]
    return format_path(names)
