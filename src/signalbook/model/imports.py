"""``ximportresources``: Resource types used by other Group types (core/model.md "Reuse of Resource Definitions")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from signalbook.model.faults import Place
from signalbook.model.types import EntityTypes, describe
from signalbook.values import JSON, JSONObject

_REFERENCE: Final = re.compile(r"/([^/]+)/([^/]+)")


def entity_types(groups: Mapping[str, JSONObject], place: Place) -> EntityTypes:
    """The types that the Group definitions ``groups`` make up, imports resolved; ``place`` is theirs (core R111)."""
    imports = {plural: _references(group, place.at(plural)) for plural, group in groups.items()}
    own = {plural: tuple(group.get("resources") or ()) for plural, group in groups.items()}
    origins = _Origins(own, imports)
    types = {}
    for plural in groups:
        here = place.at(plural, "ximportresources")
        types[plural] = {name: f"/{plural}/{name}" for name in own[plural]}
        for index, (group, resource) in imports[plural].items():
            origin = origins.find(group, resource)
            if origin is None:
                here.fault(f"/{group}/{resource} leads to no Resource type, or round in a circle", index)
            elif resource in types[plural]:
                here.fault(f'the Group type has a Resource type "{resource}" already', index)
            else:
                types[plural][resource] = origin
    return EntityTypes(groups=types)


def _references(group: JSONObject, place: Place) -> dict[int, tuple[str, str]]:
    given: JSON = group.get("ximportresources") or []
    here = place.at("ximportresources")
    if not isinstance(given, list):
        here.fault(f"must be an array, not {describe(given)}")
        return {}
    references = {}
    for index, item in enumerate(given):
        match = _REFERENCE.fullmatch(item) if isinstance(item, str) else None
        if match is None:
            here.fault(f"{describe(item)} is not of the form /GROUPS/RESOURCES", index)
        elif match[1] == place.path[-1]:
            here.fault("a Group type cannot import from itself", index)
        else:
            references[index] = (match[1], match[2])
    return references


class _Origins:
    """Where Resource types are defined, following imports of imports."""

    def __init__(
        self, own: Mapping[str, tuple[str, ...]], imports: Mapping[str, Mapping[int, tuple[str, str]]]
    ) -> None:
        self._own = own
        self._imports = {group: {name: source for source, name in i.values()} for group, i in imports.items()}
        self._known: dict[tuple[str, str], str | None] = {}

    def find(self, group: str, resource: str) -> str | None:
        """The origin of ``/group/resource``; None for nowhere, or round in a circle."""
        trail: set[tuple[str, str]] = set()
        found, source = None, (group, resource)
        while source not in trail and source not in self._known:  # where nothing leads on, it is in the trail
            trail.add(source)
            if resource in self._own.get(source[0], ()):
                found = f"/{source[0]}/{resource}"
            elif resource in self._imports.get(source[0], {}):
                source = (self._imports[source[0]][resource], resource)
        found = self._known.get(source, found)
        self._known |= dict.fromkeys(trail, found)
        return found
