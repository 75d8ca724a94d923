"""What can be wrong with a value or with a model, and the error of the error catalogue it becomes."""

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
    """A rule of the model that a value breaks. ``path`` is in dot notation from the entity.

    ``arguments`` are those of the error for a reference; other errors take theirs from path and message.
    """

    code: FaultCode
    path: str
    message: str
    arguments: Mapping[str, str] = field(default_factory=dict)

    @property
    def finding(self) -> Finding:
        """The finding as a ``Finding`` whose rule is the error's code."""
        return Finding(path=self.path, rule=self.code, message=self.message)

    def error(self, subject: str) -> RegistryError:
        """Return this finding as an error of the catalogue about the entity ``subject``."""
        return findings_to_error([self], subject)


def findings_to_error(value_findings: Sequence[ValueFinding], subject: str) -> RegistryError:
    """Return one error for all findings (at least one). The first decides the code; all are in ``.faults``."""
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
    """A rule of the model language that a model source breaks, and its place."""

    path: DotPath
    message: str
    rule: ModelRule = "model_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPosition:
    """A place in a model source, and the list that takes the findings found there and below."""

    findings: list[ModelFinding]
    path: DotPath = ()

    def at(self, *steps: str | int) -> Self:
        """The place further down."""
        return replace(self, path=(*self.path, *steps))

    def report(self, message: str, *steps: str | int, rule: ModelRule = "model_error") -> None:
        """Note what is wrong at ``steps`` below here."""
        self.findings.append(ModelFinding(path=(*self.path, *steps), message=message, rule=rule))


def model_findings_to_error(model_findings: Sequence[ModelFinding]) -> RegistryError:
    """Return one error for all findings (at least one). The first decides the code; all are in ``.faults``."""
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
    """Return the attribute at ``path`` of a model, as instances have it: ``myobj.defint``, wherever its type is."""
    names, steps = [], iter(path)
    for step in steps:
        if step in _ATTRIBUTE_LISTS:
            names += [name for name in (next(steps, None),) if name is not None]
    return format_path(names)
