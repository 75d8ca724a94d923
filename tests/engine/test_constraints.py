"""What Groups demand of their Resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from signalbook.values import JSONObject

if TYPE_CHECKING:
    from tests.engine.conftest import Make, Registry

D1 = "/dirs/d1"
F1 = f"{D1}/files/f1"
V1 = f"{F1}/versions/1"
OPEN: JSONObject = {"attributes": {"kind": {"type": "string"}, "size": {"type": "integer"}}}


def registry_with(make: Make, constraints: JSONObject) -> Registry:
    return make({"constraints": constraints, "attributes": {"kind": {"type": "string"}}}, **OPEN)


def test_default(make: Make) -> None:
    """R105: for each Version written, not for those that came before."""
    registry = registry_with(make, {"files.kind": {"default": "a", "enum": ["a", "b"]}})
    registry.put(F1, {"size": 1})
    assert registry.row(V1).attributes == {"size": 1, "kind": "a"}
    registry.patch(F1, {"kind": "b"})
    assert registry.row(V1).attributes == {"size": 1, "kind": "b"}


@pytest.mark.parametrize(("method", "path"), [("PUT", F1), ("POST", F1), ("PUT", V1)])
def test_enum(make: Make, method: str, path: str) -> None:
    """R106, R109."""
    registry = registry_with(make, {"files.kind": {"enum": ["a", "b"]}})
    error = registry.refused(method, path, {"kind": "c"})
    assert (error.code, error.subject) == ("constraint_failure", F1)
    assert error.arguments == {"path": "kind", "kind": "enum"}
    registry.send(method, path, {"kind": "b"})


def test_equals(make: Make) -> None:
    """R107, R109: a change of the Group is held against all that is in it."""
    registry = registry_with(make, {"files.kind": {"equals": "kind"}})
    registry.put(F1, {"kind": "x"})
    assert registry.refused("PATCH", D1, {"kind": "y"}).arguments["kind"] == "equals"
    registry.patch(D1, {"kind": "x"})
    assert registry.refused("POST", F1, {}).code == "constraint_failure"
    registry.post(F1, {"kind": "x"})
    registry.patch(D1, {"kind": "y", "files": {"f1": {"kind": "y", "versions": {"1": {"kind": "y"}}}}})


def test_instances_narrow(make: Make) -> None:
    """R108."""
    registry = registry_with(make, {"files.kind": {"enum": ["a", "b"]}})
    registry.put(D1, {"constraints": {"files.kind": {"enum": ["a"]}, "files.size": {"enum": [1, 2]}}})
    assert registry.refused("PUT", F1, {"kind": "b"}).code == "constraint_failure"
    assert registry.refused("PUT", F1, {"size": 3}).code == "constraint_failure"
    registry.put(F1, {"kind": "a", "size": 1})
    error = registry.refused("PATCH", D1, {"constraints": {"files.kind": {"enum": ["a", "c"]}}})
    assert (error.code, error.faults[0].path.startswith("constraints")) == ("invalid_attribute", True)


def test_new_constraints_meet_old_resources(make: Make) -> None:
    """R109."""
    registry = make(**OPEN)
    registry.put(F1, {"kind": "b"})
    error = registry.refused("PATCH", D1, {"constraints": {"files.kind": {"enum": ["a"]}}})
    assert error.code == "constraint_failure"


def test_constraints_meet_what_is_shown_already(make: Make) -> None:
    """R109, R110: a change of the Group is held against the references in it."""
    registry = make(**OPEN)
    registry.put("/dirs/d2/files/target", {"kind": "b"})
    registry.put(F1, {"meta": {"xref": "/dirs/d2/files/target"}})
    error = registry.refused("PATCH", D1, {"constraints": {"files.kind": {"enum": ["a"]}}})
    assert (error.code, error.subject) == ("constraint_failure", F1)
    registry.patch(D1, {"constraints": {"files.kind": {"enum": ["b"]}}})


def test_what_comes_to_be_shown_is_constrained(make: Make) -> None:
    """R110: a reference to nothing, whose target is made later."""
    registry = make(**OPEN)
    registry.put(D1, {"constraints": {"files.kind": {"enum": ["a"]}}})
    registry.put(F1, {"meta": {"xref": "/dirs/d2/files/target"}})
    error = registry.refused("PUT", "/dirs/d2/files/target", {"kind": "b"})
    assert (error.code, error.subject) == ("constraint_failure", F1)
    registry.put("/dirs/d2/files/target", {"kind": "a"})


def test_references_are_constrained_too(make: Make) -> None:
    """R110: when the reference is made, and when its target changes."""
    registry = make(**OPEN)
    registry.put("/dirs/d2/files/target", {"kind": "b"})
    registry.put(D1, {"constraints": {"files.kind": {"enum": ["a", "c"]}}})
    xref = {"meta": {"xref": "/dirs/d2/files/target"}}
    error = registry.refused("PUT", F1, xref)
    assert (error.code, error.subject) == ("constraint_failure", F1)
    registry.put("/dirs/d2/files/target", {"kind": "a"})
    registry.put(F1, xref)
    assert registry.refused("PUT", "/dirs/d2/files/target", {"kind": "b"}).code == "constraint_failure"
    registry.put("/dirs/d2/files/target", {"kind": "c"})
