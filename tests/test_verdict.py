"""Verdicts on the wire."""

from signalbook.errors import RegistryError
from signalbook.values import Finding
from signalbook.verdict import Verdict


def test_accepted() -> None:
    verdict = Verdict(changes=({"xid": "/a"},), findings=(Finding(path="p", rule="r", message="m"),))
    assert verdict.accepted
    assert Verdict.from_json(verdict.to_json()) == verdict
    assert verdict.to_json()["accepted"] is True


def test_refused() -> None:
    fault = Finding(path="p", rule="r", message="m", old=1, new=2)
    error = RegistryError("compatibility_violation", subject="/a", compat="full", faults=[fault])
    verdict = Verdict.refused(error)
    assert not verdict.accepted
    (body,) = verdict.to_json()["errors"]
    assert body["status"] == 400
    assert body["faults"] == [fault.to_json()]
    assert Verdict.from_json(verdict.to_json()) == verdict
