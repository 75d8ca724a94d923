"""Variables in cases."""

from xregistry_conformance.matching import fill, names

KNOWN = {"g": "/dirs/d1", "epoch": 3, "note": "note"}


def test_fill() -> None:
    template = {"{note}id": "n", "path": "{g}/x", "epoch": "{epoch}", "list": ["{g}", {"a": "{note}s"}], "n": 1}
    expected = {"noteid": "n", "path": "/dirs/d1/x", "epoch": 3, "list": ["/dirs/d1", {"a": "notes"}], "n": 1}
    assert fill(template, KNOWN) == expected


def test_other_braces_stay() -> None:
    assert fill('{"a": {}} {unknown} {Upper}', KNOWN) == '{"a": {}} {unknown} {Upper}'


def test_names() -> None:
    assert set(names({"{a}id": ["{b}/{c}"], "x": 1})) == {"a", "b", "c"}
