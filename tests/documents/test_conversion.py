import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.documents import test_datacontract, test_discovery, test_openapi
from tests.documents.asyncapi.documents import NEW, OLD
from tests.examples import examples

from signalbook.documents import DocumentError
from signalbook.documents.conversion import convert
from signalbook.documents.importing import make_upload
from signalbook.documents.yaml import parse_yaml

SOUND = [
    *(parse_yaml(text, max_depth=64) for text in (OLD, NEW, test_openapi.OLD)),
    test_datacontract.CONTRACT,
    test_discovery.SERVICE,
]  # fmt: skip
ANYTHING: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1.5, "", "x", "#/", [], {}, [[]], [{}], {"": {}}, {"$ref": "#"}, {"$ref": 5}]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(child, (*path, key))


@pytest.mark.parametrize(
    "document", SOUND, ids=lambda each: str(each.get("info", each)["title" if "info" in each else "name"])
)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_damaged_document_is_converted_or_rejected(document: Any, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(places(document), key=str)))
    damaged = copy.deepcopy(document)
    within = damaged
    for key in path[:-1]:
        within = within[key]
    within[path[-1]] = data.draw(ANYTHING)
    try:
        result = convert(damaged, source="api.json", files=None)
    except DocumentError:
        return
    if result is not None:
        make_upload(result[0])
        assert convert(damaged, source="api.json", files=None) == result
