from collections.abc import Callable

import pytest

from signalbook.formats.jsonschema import FORMAT, JsonSchema
from signalbook.values import JSON, dump_json

Parse = Callable[..., JsonSchema]


@pytest.fixture(scope="session")
def parse() -> Parse:
    """A schema from a Python value: ``parse({...}, link="#/definitions/a")``."""

    def make(document: JSON, format: str = "JsonSchema/draft-07", **options: object) -> JsonSchema:
        return FORMAT.parse(dump_json(document), format, **options)  # type: ignore[arg-type]

    return make
