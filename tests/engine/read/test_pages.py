import pytest
from tests.engine.conftest import model_of

from signalbook.engine.read.pages import Sort, parse_sort
from signalbook.errors import RegistryError
from signalbook.model import compile_model
from signalbook.xid import Xid

MODEL = compile_model(
    model_of(attributes={"when": {"type": "timestamp"}, "list": {"type": "array", "item": {"type": "string"}}})
)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("/dirs", "name", Sort(steps=("name",))),
        ("/dirs", "name=desc", Sort(steps=("name",), descending=True)),
        ("/dirs", "labels['a.b']=asc", Sort(steps=("labels", "a.b"))),
        ("/dirs/d/files", "when", Sort(steps=("when",), timestamp=True)),
        ("/dirs/d/files", "meta.createdat", Sort(steps=("meta", "createdat"), timestamp=True)),
        ("/dirs/d/files/f/versions", "list[0]", Sort(steps=("list", 0))),
        ("/dirs", "filescount", Sort(steps=("filescount",))),
        ("/dirs", None, None),
    ],
)
def test_valid_orders_are_parsed(path: str, value: str | None, expected: Sort | None) -> None:
    """R212, R213."""
    assert parse_sort(value, Xid.parse(path), MODEL, subject=path) == expected


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("/", "name", "sort_noncollection"),
        ("/dirs/d", "name", "sort_noncollection"),
        ("/dirs/d/files/f/meta", "epoch", "sort_noncollection"),
        ("/dirs", "files.name", "bad_sort"),
        ("/dirs", "labels", "bad_sort"),
        ("/dirs", "labels.*", "bad_sort"),
        ("/dirs/d/files", "list", "bad_sort"),
        ("/dirs/d/files", "list[*]", "bad_sort"),
        ("/dirs/d/files", "versions.name", "bad_sort"),
        ("/dirs", "name=up", "bad_sort"),
        ("/dirs", "name=", "bad_sort"),
        ("/dirs", "name>5", "bad_sort"),
        ("/dirs", "", "bad_sort"),
    ],
)
def test_invalid_order_is_rejected(path: str, value: str, code: str) -> None:
    """R212 to R214."""
    with pytest.raises(RegistryError) as caught:
        parse_sort(value, Xid.parse(path), MODEL, subject=path)
    assert caught.value.code == code
