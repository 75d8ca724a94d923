"""The server under test: what it offers, and what of its model a test may use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any, Final

from signalbook.conformance.cases import Case
from signalbook.conformance.matching import Variables
from signalbook.values import JSONObject, parse_json

_SERVERS_OWN: Final = frozenset(
    {"self", "shortself", "xid", "epoch", "createdat", "modifiedat", "isdefault", "ancestorid"}
)
_ROLES: Final = {
    "dirs": "a Group type",
    "files": "a Resource type with documents",
    "notes": "a Resource type without documents",
}
_STAND_FOR: Final = {
    "dir": "dirs", "g": "dirs", "h": "dirs", "file": "files", "f": "files", "note": "notes", "n": "notes"
}  # fmt: skip


@cache
def kit_model() -> JSONObject:
    """The Group types that the kit brings along, as ``groups`` of a modelsource."""
    data = (resources.files("signalbook.conformance") / "data" / "model.json").read_bytes()
    groups: JSONObject = parse_json(data)["groups"]
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProfile:
    """What was found out before the first case: the server's capabilities and full model.

    ``own_model`` tells that the kit's Group types are in the model, ``may_configure`` that model and capabilities may
    be changed; ``variables`` are those of every case.
    """

    capabilities: JSONObject
    model: JSONObject
    own_model: bool
    may_configure: bool
    variables: Variables

    def lacks(self, case: Case) -> str:
        """Why ``case`` cannot be run here, ``""`` if it can."""
        reasons = (*self._missing_roles(case), *(self.lacking(need) for need in sorted(case.needs)))
        return "; ".join(dict.fromkeys(reason for reason in reasons if reason))

    def _missing_roles(self, case: Case) -> Iterator[str]:
        for name in sorted({_STAND_FOR.get(name, name) for name in case.variables} - self.variables.keys()):
            if name in _ROLES:
                yield f"the model has no type that a test may write: {_ROLES[name]} that requires nothing"
            elif name in kit_names():
                yield _NO_MODEL

    def lacking(self, need: str) -> str:
        """Why a ``need`` of a case is not met, ``""`` if it is. Raises ``ValueError`` for one that is none."""
        kind, _, name = need.partition(":")
        match kind:
            case "flag" | "ignore" | "versionmode":
                capability, reason = _LISTED[kind]
                return "" if name in _lower(self.capabilities.get(capability)) else reason.format(name)
            case "pagination" | "shortself":
                return "" if self.capabilities.get(kind) is True else _SWITCHED[kind]
            case "api":
                known = {key.lower() for key in self.capabilities.get("available", {})}
                return "" if name in known else f"{name} is not available"
            case "mutable" if not self.may_configure:
                return f"changes {name} (--allow-model-changes)"
            case "mutable":
                return "" if self.mutable(name) else f"{name} cannot be changed"
            case "test-model":
                return "" if self.own_model else _NO_MODEL
            case "type":
                return self._missing_type(name)
            case "format":
                offered = _lower(self.capabilities.get("formats"))
                held = any(fnmatchcase(name, pattern) for pattern in offered)
                return "" if held else f"{name} documents are not validated"
            case "compat":
                return self._unchecked(name)
        raise ValueError(f"{need} is no need of a case")

    def _missing_type(self, path: str) -> str:
        _, groups, resources_ = path.split("/")
        known = self.model.get("groups", {}).get(groups, {}).get("resources", {})
        return "" if resources_ in known else f"the model has no {path}"

    def _unchecked(self, name: str) -> str:
        wanted, _, rule = name.rpartition(":")
        table: Mapping[str, Any] = self.capabilities.get("compatibilities") or {}
        held = any(fnmatchcase(wanted, key.lower()) and rule in _lower(rules) for key, rules in table.items())
        return "" if held else f"{rule} compatibility of {wanted} is not checked"

    def mutable(self, name: str) -> bool:
        """Whether a part of the registry can be changed (R116)."""
        entry = self.capabilities.get("available", {}).get(name, {})
        return bool(isinstance(entry, dict) and entry.get("mutable"))


_NO_MODEL: Final = "needs a model of the kit's own (--allow-model-changes, and a model that can be changed)"
_LISTED: Final = {
    "flag": ("flags", "the flag {} is not offered"),
    "ignore": ("ignores", "ignore={} is not offered"),
    "versionmode": ("versionmodes", "the versionmode {} is not offered"),
}
"""Needs that a capability has in its list."""
_SWITCHED: Final = {"pagination": "there is no paging", "shortself": "there are no short URLs"}
"""Needs that are a capability."""


@cache
def kit_names() -> frozenset[str]:
    """Variables that only the kit's own model gives a value."""
    groups = {plural.removeprefix("kit") for plural in kit_model()}
    return frozenset(groups | set(kit_model()["kitdirs"]["resources"])) - _ROLES.keys()


def own_names() -> Variables:
    """The variables for the kit's own model."""
    types = kit_model()["kitdirs"]["resources"]
    found: Variables = {plural.removeprefix("kit"): plural for plural in kit_model()}
    found |= {"dir": "kitdir", "file": "file", "note": "note"} | {plural: plural for plural in types}
    return found


def borrowed_names(model: JSONObject) -> Variables:
    """The variables for types of the server's own model that a test may write: those that require nothing."""
    best: Variables = {}
    for plural, group in model.get("groups", {}).items():
        if _demands(group.get("attributes", {}), group.get("singular", "")):
            continue
        found: Variables = {"dirs": plural, "dir": group.get("singular")}
        for name, resource in group.get("resources", {}).items():
            role = "files" if resource.get("hasdocument", True) else "notes"
            if role not in found and _usable(resource):
                found |= {role: name, role.removesuffix("s"): resource.get("singular")}
        # The Group type with most of what cases write to.
        best = max(best, found, key=len)
    return best


def _usable(resource: JSONObject) -> bool:
    roomy = resource.get("maxversions", 0) == 0 or resource["maxversions"] > 4
    manual = resource.get("versionmode", "manual").lower() == "manual" and resource.get("setversionid", True)
    return bool(roomy and manual and not _demands(resource.get("attributes", {}), resource.get("singular", "")))


def _demands(attributes: JSONObject, singular: str) -> bool:
    """Whether a client has to give some attribute."""
    given = {f"{singular}id", "versionid", *_SERVERS_OWN}
    return any(
        attribute.get("required") and "default" not in attribute and not attribute.get("readonly") and name not in given
        for name, attribute in attributes.items()
    )


def _lower(values: Any) -> list[str]:
    return [str(value).lower() for value in values or ()]
