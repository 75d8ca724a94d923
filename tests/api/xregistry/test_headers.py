"""``xRegistry-`` headers: percent-encoding, quoting, types, maps, and what may not be a header."""

import pytest

from signalbook.api.xregistry.requests import read_headers
from signalbook.api.xregistry.responses import write_headers
from signalbook.errors import RegistryError
from signalbook.model import compile_model
from signalbook.values import JSONObject

ATTRIBUTES = {
    "size": {"type": "uinteger"},
    "ratio": {"type": "decimal"},
    "hidden": {"type": "boolean"},
    "counts": {"type": "map", "item": {"type": "integer"}},
    "owner": {"type": "object", "attributes": {"*": {"type": "any"}}},
    "kind": {"type": "string", "ifvalues": {"big": {"siblingattributes": {"depth": {"type": "integer"}}}}},
    "*": {"type": "any"},
}
MODEL = compile_model(
    {"groups": {"dirs": {"singular": "dir", "resources": {"files": {"singular": "file", "attributes": ATTRIBUTES}}}}}
)
FILES = MODEL.groups["dirs"].resources["files"]


def attributes(**headers: str) -> JSONObject:
    return read_headers([(f"xregistry-{name}", value) for name, value in headers.items()], FILES, subject="/f")


def code(headers: list[tuple[str, str]]) -> str:
    with pytest.raises(RegistryError) as caught:
        read_headers(headers, FILES, subject="/f")
    return caught.value.code


@pytest.mark.parametrize("value", ["%C0%A0", "%", "%4", "%zz", "%+1", "\xff", '"open'])
def test_invalid_header_encoding_is_rejected(value: str) -> None:
    """Invalid percent encoding and quoting are rejected (R167)."""
    assert code([("xregistry-name", value)]) == "header_error"


@pytest.mark.parametrize(("name", "value"), [("size", "many"), ("ratio", "nan"), ("hidden", "True"), ("size", "1.5")])
def test_a_value_of_another_type_stays_text(name: str, value: str) -> None:
    """The check of attributes reports the wrong type later (R18)."""
    assert attributes(**{name: value}) == {name: value}


def test_types_may_depend_on_other_attributes() -> None:
    """The type of an attribute can depend on the value of another one (R73)."""
    assert attributes(kind="big", depth="3") == {"kind": "big", "depth": 3}
    assert attributes(kind="small", depth="3") == {"kind": "small", "depth": "3"}


def test_null_deletes() -> None:
    """The value null is case-sensitive, and applies to an attribute, a map or a key (R162, GAP 25)."""
    assert attributes(name="null", labels="null") == {"name": None, "labels": None}
    assert attributes(name="Null") == {"name": "Null"}
    assert attributes(**{"labels.a": "null", "labels.b": "x"}) == {"labels": {"b": "x"}}
    assert attributes(**{"labels.a": "null"}) == {"labels": None}


@pytest.mark.parametrize("name", ["file", "filebase64", "contenttype", "meta", "versions"])
def test_forbidden_attributes_are_rejected_in_headers(name: str) -> None:
    """R160, R165."""
    assert code([(f"xregistry-{name}", "x")]) == "extra_xregistry_header"


def test_scalars_and_maps_are_written_as_headers() -> None:
    """Headers contain scalars and maps of scalars, but no documents, arrays, objects and content type (R158-R160)."""
    entity = {"fileid": "f1", "epoch": 2, "isdefault": True, "name": "a b", "labels": {"x.y": "é"}, "counts": {"n": 1}}
    documents = {"contenttype": "text/plain", "fileurl": "http://x", "file": "no", "filebase64": "no"}
    objects = {"tags": ["no"], "owner": {"no": "no"}, "loose": {"no": 1}, "meta": {}, "versions": {}}
    headers = {"fileid": "f1", "epoch": "2", "isdefault": "true", "name": "a%20b"}
    headers |= {"labels.x.y": "%C3%A9", "counts.n": "1", "fileurl": "http://x"}
    written = list(write_headers({**entity, **documents, **objects}, FILES))
    assert written == [(f"xRegistry-{name}", value) for name, value in headers.items()]
