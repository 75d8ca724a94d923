"""The server under test: what it offers, and what of its model a test may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any, Final

from xregistry_conformance.borrowing import Cast, borrow
from xregistry_conformance.cases import Case
from xregistry_conformance.matching import Variables
from xregistry_conformance.values import JSONObject, parse_json

_ROLES: Final = frozenset({"dirs", "files", "notes"})
"""Types that any model may have: of Groups, of Resources with documents, of Resources without."""
_WANTS: Final = frozenset({"closed", "plain"})
"""Needs that are met by the choice of types; those of the kit meet them."""
_STAND_FOR: Final = {
    "dir": "dirs", "g": "dirs", "h": "dirs", "file": "files", "f": "files", "note": "notes", "n": "notes"
}  # fmt: skip


@cache
def kit_model() -> JSONObject:
    """The Group types that the kit brings along, as ``groups`` of a modelsource."""
    data = (resources.files("xregistry_conformance") / "data" / "model.json").read_bytes()
    groups: JSONObject = parse_json(data)["groups"]
    return groups


def kit_model_for(capabilities: JSONObject) -> tuple[JSONObject, dict[str, str]]:
    """The kit's Group types for a server with ``capabilities``, and the types left out, with the reason."""
    modes = {"manual", *_list_lower(capabilities.get("versionmodes"))}
    groups, left_out = {}, {}
    for plural, group in kit_model().items():
        usable = {}
        for name, resource in group.get("resources", {}).items():
            mode = resource.get("versionmode", "manual")
            if mode in modes:
                usable[name] = resource
            else:
                left_out[name] = _LISTED["versionmode"][1].format(mode)
        groups[plural] = {**group, "resources": usable}
    return groups, left_out


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProfile:
    """The findings about a server before the first case: its capabilities and full model.

    ``kit`` has the kit's Group types that were added to the model, ``without`` the reason why a type of the kit is not
    among them, or why there are none at all (``"*"``). ``may_lock_out`` means that the capabilities may be changed.
    """

    capabilities: JSONObject
    model: JSONObject
    kit: JSONObject = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)
    may_lock_out: bool = False

    @property
    def _available(self) -> JSONObject:
        value = self.capabilities.get("available")
        return value if isinstance(value, dict) else {}

    def lacks(self, case: Case) -> str:
        """Return why ``case`` cannot be run here, or ``""``."""
        reasons = (*(self.lacking(need) for need in sorted(case.needs)), self._read_only(case), self.cast(case).reason)
        return "; ".join(dict.fromkeys(reason for reason in reasons if reason))

    def _read_only(self, case: Case) -> str:
        writes = not case.reads and "entities" in self._available
        return self.lacking("mutable:entities") if writes else ""

    def cast(self, case: Case) -> Cast:
        """The types for ``case``: the kit's own if they are there, otherwise types of the server's model."""
        names = {_STAND_FOR.get(name, name) for name in case.variables}
        kit_variables = names & kit_names()
        if kit_variables and not self.kit:
            return Cast(reason=self.without.get("*", _NO_KIT))
        if self.kit:
            missing = [reason for name, reason in self.without.items() if name in names]
            return Cast(names=own_names(self.kit), reason="; ".join(dict.fromkeys(missing)))
        roles = frozenset(names & _ROLES)
        if not roles:
            return Cast()
        wants = (case.needs & _WANTS) | ({"versions"} if case.makes_versions else set())
        return borrow(self.model, roles, wants=wants)

    def lacking(self, need: str) -> str:
        """Return why a ``need`` of a case is not met, or ``""``. Raises ``ValueError`` for an unknown need."""
        kind, _, name = need.partition(":")
        match kind:
            case "flag" | "ignore" | "versionmode":
                capability, reason = _LISTED[kind]
                return "" if name in _list_lower(self.capabilities.get(capability)) else reason.format(name)
            case "pagination" | "shortself":
                return "" if self.capabilities.get(kind) is True else _SWITCHED[kind]
            case "api":
                available = {key.lower() for key in self._available}
                return "" if name in available else f"{name} is not available"
            case "mutable" if name == "capabilities" and not self.may_lock_out:
                return "changes capabilities (--allow-lockout)"
            case "mutable":
                return "" if self.mutable(name) else f"{name} cannot be changed"
            case _ if need in _WANTS:
                return ""
            case "test-model":
                return "" if self.kit else self.without.get("*", _NO_KIT)
            case "type":
                return self._find_missing_type(name)
            case "format":
                offered = _list_lower(self.capabilities.get("formats"))
                held = any(fnmatchcase(name, pattern) for pattern in offered)
                return "" if held else f"{name} documents are not validated"
            case "compat":
                return self._find_unchecked(name)
        raise ValueError(f"{need} is no need of a case")

    def _find_missing_type(self, path: str) -> str:
        _, group_type, resource_type = path.split("/")
        resource_types = self.model.get("groups", {}).get(group_type, {}).get("resources", {})
        return "" if resource_type in resource_types else f"the model has no {path}"

    def _find_unchecked(self, name: str) -> str:
        format_name, _, rule = name.rpartition(":")
        table: Mapping[str, Any] = self.capabilities.get("compatibilities") or {}
        held = any(fnmatchcase(format_name, key.lower()) and rule in _list_lower(rules) for key, rules in table.items())
        return "" if held else f"{rule} compatibility of {format_name} is not checked"

    def mutable(self, name: str) -> bool:
        """Return True if a part of the registry can be changed (R116)."""
        entry = self._available.get(name)
        return bool(isinstance(entry, dict) and entry.get("mutable"))


_NO_KIT: Final = "needs types of the kit's own (--allow-model-changes)"
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
    return frozenset({*groups, *kit_model()["kitdirs"]["resources"]} - _ROLES)


def own_names(kit: JSONObject) -> Variables:
    """The variables for the kit's own types."""
    types = kit["kitdirs"]["resources"]
    return {
        "dir": "kitdir",
        "file": "file",
        "note": "note",
        **{plural.removeprefix("kit"): plural for plural in kit},
        **{plural: plural for plural in types},
    }


def _list_lower(values: Any) -> list[str]:
    return [str(value).lower() for value in values or ()]
