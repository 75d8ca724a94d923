"""What code that validates JSON by a library has to do in addition to ``suite``.

A test module of a language imports these, and has fixtures ``run``, ``pattern`` and ``differences``.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.codegen.standalone.cases import OLDEST, tasks
from tests.codegen.standalone.suite import Run
from tests.formats.jsonschema.test_suite import DRAFTS, FILES, cases_of, remotes

from signalbook.codegen.base import Inexpressible

DOCS = (Path(__file__).parents[3] / "docs" / "generate.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Difference:
    """A value that a library accepts, and the pipeline's validator rejects. ``why`` is in ``docs/generate.md``."""

    format: str
    schema: Any
    value: Any
    why: str

    @property
    def verdict(self) -> str:
        return describe(self.format, self.schema, self.value)


WHOLE_NUMBERS = Difference(OLDEST, {"type": "integer"}, 1.0, "In draft-04 `1.0` is an integer.")


def describe(format: str, schema: Any, value: Any) -> str:
    return f"{format}: {json.dumps(schema)}: {json.dumps(value)}"


def official_table() -> Iterator[tuple[str, Any, list[Any]]]:
    """The schemas and values of the official test suite."""
    for draft, name in FILES:
        for case in cases_of(draft)[name]:
            yield DRAFTS[draft], case["schema"], [test["data"] for test in case["tests"]]


def test_verdicts_are_those_of_the_pipeline(
    run: Run, pattern: Callable[[str], str], differences: Iterable[Difference]
) -> None:
    """The library judges normalised schemas as the pipeline judges the original ones, except for listed values."""
    wrong = set()
    listed = ((item.format, item.schema, [item.value]) for item in differences)
    for version, schema, values in [*official_table(), *listed]:
        try:
            expected = list(tasks([(version, schema, values)], pattern, remotes().get))
        except Inexpressible:
            continue
        answers = run(*({"action": "check", **task} for task, _ in expected))
        wrong |= {
            describe(version, schema, task["value"])
            for (task, conforms), answer in zip(expected, answers, strict=True)
            if (answer["result"] == []) != conforms
        }
    assert wrong == {difference.verdict for difference in differences}


def test_differences_are_documented(differences: Iterable[Difference]) -> None:
    for difference in differences:
        assert difference.why in DOCS
