"""The model language: the types and attributes of a registry, compiled from a model source into checks of values."""

from signalbook.model.attributes import Attribute, AttributeSet, Checked
from signalbook.model.constraints import Constraints, ConstraintViolation
from signalbook.model.findings import ValueFinding, findings_to_error
from signalbook.model.model import GroupType, Model, ResourceType, compile_model
from signalbook.model.paths import format_path
from signalbook.model.sources import BUILTIN, Included, Loader, builtin, gather
from signalbook.model.spec_attributes import SPECVERSION

__all__ = [
    "BUILTIN",
    "SPECVERSION",
    "Attribute",
    "AttributeSet",
    "Checked",
    "ConstraintViolation",
    "Constraints",
    "GroupType",
    "Included",
    "Loader",
    "Model",
    "ResourceType",
    "ValueFinding",
    "builtin",
    "compile_model",
    "findings_to_error",
    "format_path",
    "gather",
]
