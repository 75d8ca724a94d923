"""Sources by name, and what to install for one that lacks something."""

from importlib.metadata import EntryPoint, entry_points

import pytest

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources import base


@pytest.mark.parametrize("name", sorted(entry_points(group=base.GROUP).names))
def test_source_is_found_by_its_name(name: str) -> None:
    assert base.find_source(name).name == name


@pytest.mark.parametrize(
    ("value", "module", "words"),
    [
        ("a:B [mqtt]", "paho", r"takes the package 'paho': pip install ./native '.\[pipeline,mqtt\]'"),
        ("a:B", "pyspark.sql.streaming.datasource", "takes a newer Spark, 4.2 at least"),
    ],
)
def test_missing_package_of_a_source_is_reported(value: str, module: str, words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        raise PipelineError(base._explain_missing(EntryPoint("x", value, base.GROUP), module))
