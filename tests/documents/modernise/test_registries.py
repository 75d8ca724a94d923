import pytest

from signalbook.documents.modernise import modernise
from signalbook.values import JSON


@pytest.mark.parametrize(
    ("body", "expected", "rules"),
    [
        ({"specversion": "1.0-rc4"}, {"specversion": "1.0-rc4"}, []),
        ({"specversion": "0.5-wip"}, {}, ["rc4"]),
        ({"definitionGroups": {}, "schemaGroups": {}}, {"messagegroups": {}, "schemagroups": {}}, ["I-6", "I-6"]),
        ({"documentation": {"url": "https://d.example/"}}, {"documentation": "https://d.example/"}, ["R43"]),
        ({"documentation": {"see": {"a": "https://d.example/"}}}, {}, ["R43"]),
        ({"modifiedat": "2024-04-31T12:00:00Z"}, {}, ["I-5"]),
        (
            {"capabilities": {"apis": ["/model"], "flags": ["doc", "noepoch"]}},
            {"capabilities": {"flags": ["doc"]}},
            ["rc4", "rc4"],
        ),
        ({"capabilities": {"flags": "*"}}, {"capabilities": {"flags": "*"}}, []),
        ({"modelsource": {"groups": {"a": {"compatiblewith": "x"}}}},
         {"modelsource": {"groups": {"a": {"modelcompatiblewith": "x"}}}}, ["F-56"]),
    ],
)  # fmt: skip
def test_registries(body: JSON, expected: JSON, rules: list[str]) -> None:
    modernised, repairs = modernise(body, source="x.json")
    assert (modernised, [repair.rule for repair in repairs]) == (expected, rules)
