"""The page on documents against the repairs, and the slips known in published texts (domain L)."""

import re
from pathlib import Path

import pytest

from signalbook.documents import parse_document
from signalbook.documents.modernise import modernise
from signalbook.values import JSON

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "documents.md").read_text(encoding="utf-8")
SOURCES = [ROOT / "src/signalbook/documents" / f"{name}.py" for name in ("jsonrepair", "modernise", "entityrepairs")]


def test_every_rule_is_explained() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    rules = set(re.findall(r'"([FGHIL]-\d+|rc\d)"', code))
    assert len(rules) > 15
    rows = re.findall(r"^\| ([A-Z]-\d+|rc1, rc2, rc4) \|", PAGE, re.MULTILINE)
    listed = {rule for row in rows for rule in row.split(", ")}
    assert rules == listed


def test_every_known_error_is_covered() -> None:
    """L-1 to L-38, in the table or in the paragraph behind it."""
    covered = set()
    for first, last in re.findall(r"L-(\d+)(?: to L-(\d+))?", PAGE):
        covered |= set(range(int(first), int(last or first) + 1))
    assert covered == set(range(1, 39))


MESSAGES = "/messagegroups/m/messages"


@pytest.mark.parametrize(
    ("document", "lenient"),
    [
        pytest.param({"description": "January 28, 2022 ยท View"}, False, id="L-14 odd characters are somebody's own"),
        pytest.param({"description": "\u00b4Content-Type\u00b4"}, False, id="L-9 accents too"),
        pytest.param({"messagegroups": {"m": {"messages": {"a": {}}}}}, False, id="L-20 no specversion"),
        pytest.param(
            {"messagegroups": {"m": {"messages": {"a": {"envelopemetadata": {"type": {}}}}}}}, False, id="L-18 no value"
        ),
        pytest.param({"messagegroups": {"m": {"messages": {"a": {"dataschemauri": "/schemagroups/g/schemas/s"}}}}},
            False, id="L-31 an xid for a URL"),
        pytest.param({"endpoints": {"e": {"protocoloptions": {"willmessage": "/endpoints/e/messages/a"}}}}, False,
            id="L-32 messages in endpoints"),
        pytest.param({"messagegroups": {"m": {"messages": {"a": {"meta": {"xref": f"{MESSAGES}/b"}}, "b": {}}}}}, False,
            id="L-34 cross references"),
        pytest.param({"messagegroups": {"m": {"messages": {"a": {"basemessage": f"{MESSAGES}/b"}, "b": {}}}}}, False,
            id="L-34 base messages"),
        pytest.param({"messagegroups": {"m": {"messages": {"a": {"relatedvia": "x-y"}}}}}, False, id="L-23"),
        pytest.param({"messagegroups": {"m": {"messages": {"my message": {}}}}}, True, id="L-4"),
    ],
)  # fmt: skip
def test_only_invalid_documents_are_repaired(document: JSON, lenient: bool) -> None:
    _, repairs = modernise(document, source="x.json")
    assert bool(repairs) is lenient


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"subject": {"description": "d",}\n"datacontenttype": {"value": "v"}\n"x": 1}', id="L-15"),
        pytest.param('{"topic_name": {"value": "t"}\n"qos": 1}', id="L-29"),
        pytest.param('{"a": {"b": 1, // optional\n}}', id="L-26 comments in it"),
    ],
)
def test_errors_of_specification_examples_are_repaired(text: str) -> None:
    _, repairs = parse_document(text.encode(), name="x.json", lenient=True)
    assert repairs
