"""Every requirement number in code, tests and documentation is in docs/requirements or in a conformance case."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from xregistry_conformance.cases import all_cases

ROOT = Path(__file__).parents[1]
LISTS = ROOT / "docs" / "requirements"

# A-2 or K-44, R216, GAP 7; sections such as F.7. Ids of examples, such as A-1001, have more digits.
NUMBER = re.compile(r"(?<![\w./])([A-L]-\d{1,2}[a-z]?|R[1-9]\d{0,2}|GAP \d+|[A-L]\.\d{1,2})(?![\w.]*\w)")
DEFINITION = re.compile(r"^- \*\*(.+?)\*\* |^## ([A-L]\.\d+) ", re.MULTILINE)


def list_texts() -> Iterator[tuple[Path, str]]:
    for folder in ("src", "tests", "docs", "benchmarks", "conformance", "native/src"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".md", ".yaml", ".rs"}:
                yield path, path.read_text(encoding="utf-8")


def list_definitions() -> list[str]:
    texts = [page.read_text(encoding="utf-8") for page in sorted(LISTS.glob("*.md"))]
    numbers = [number or section for text in texts for number, section in DEFINITION.findall(text)]
    return numbers + sorted({number for case in all_cases() for number in case.requirements if number.startswith("R")})


def test_every_requirement_number_is_defined() -> None:
    definitions = set(list_definitions())
    unknown = {
        f"{path.relative_to(ROOT)}: {number}"
        for path, text in list_texts()
        for number in NUMBER.findall(text)
        if number not in definitions
    }
    assert unknown == set()


def test_requirements_are_defined_once() -> None:
    assert [number for number, count in Counter(list_definitions()).items() if count > 1] == []


def test_lists_have_no_gaps() -> None:
    """Every number within a range, such as R12 to R15, is defined."""
    numbers: defaultdict[str, set[int]] = defaultdict(set)
    for name in list_definitions():
        prefix, number = re.findall(r"(\D+)(\d+)", name)[0]
        numbers[prefix].add(int(number))
    assert all(members == set(range(1, max(members) + 1)) for members in numbers.values())
