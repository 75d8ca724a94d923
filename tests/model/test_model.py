import copy
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.others import OTHERS, OURS, skip_without

from signalbook.model import builtin, compile_model
from signalbook.values import JSON, JSONObject
from signalbook.xid import Xid


@pytest.mark.others("the full view of xRegistry's sample model", ours="test_full_view_has_every_attribute")
def test_full_view_equals_the_specification(shared_data: Path) -> None:
    """The view has every attribute of the specification, with its flags, in its order (R64, R65)."""
    models = shared_data / "xregistry-models"
    full = compile_model(json.loads((models / "sample-model.json").read_bytes())).document
    assert json.dumps(full) == json.dumps(json.loads((models / "sample-model-full.json").read_bytes()))


def flat(part: JSON, path: str = "") -> Iterator[str]:
    """A line for each attribute in a full view, with its type and all else that is said of it; one for each aspect."""
    for name, value in part.items():
        if isinstance(value, dict) and "type" in value and "name" in value:
            assert value["name"] == name
            more = {flag: setting for flag, setting in value.items() if flag not in ("name", "type")}
            yield f"{path}/{name} {value['type']} {json.dumps(more) if more else ''}".rstrip()
        elif isinstance(value, dict):
            yield from flat(value, f"{path}/{name}")
        else:
            yield f"{path}/{name} = {json.dumps(value)}"


def test_full_view_has_every_attribute() -> None:
    """The model is our own, with and without documents, with attributes and an enum (R64, R65)."""
    full = compile_model(json.loads((OURS / "models" / "halls.json").read_bytes())).document
    assert list(flat(full)) == (OURS / "models" / "halls-full.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", ["default", "empty"])
def test_full_model_compiles_to_itself(name: str) -> None:
    """The response of GET /model can be sent back as a modelsource (R63, R66)."""
    model = compile_model(builtin(name))
    assert compile_model(model.document).fingerprint == model.fingerprint


SOURCE: JSONObject = yaml.safe_load("""
groups:
  dirs:
    singular: dir
    resources:
      files:
        singular: file
        typemap: {text/x: string}
        attributes:
          format: {type: string, matchversions: true}
          size: {type: integer, matchversions: true}
          o: {type: object, attributes: {in: {type: string, matchversions: true}}}
""")
FILES = compile_model(SOURCE).groups["dirs"].resources["files"]


@pytest.mark.parametrize(
    ("versions", "paths"),
    [
        ([], ()),
        ([{"size": 1}], ()),
        ([{"size": 1}, {"size": 1}], ()),
        ([{"size": 1}, {}], ("size",)),
        ([{"format": "Avro/1.11"}, {"format": "AVRO/1.11"}], ()),  # G-2b
        ([{"size": 1, "o": {"in": "a"}}, {"size": 2, "o": {}}], ("size", "o.in")),
        ([{"o": {}}, {}], ()),
    ],
)
def test_differing_matchversions_attributes_are_reported(versions: list[JSONObject], paths: tuple[str, ...]) -> None:
    """Attributes with matchversions that differ are reported (R81)."""
    assert FILES.mismatched(versions) == paths


def test_aspects_are_at_hand() -> None:
    """R64, R93 to R102."""
    assert FILES.matchversions == (("format",), ("size",), ("o", "in"))
    assert (FILES.maxversions, FILES.setversionid, FILES.hasdocument, FILES.versionmode) == (0, True, True, "manual")
    assert FILES.type_of("text/x") == "string"


@pytest.mark.parametrize("text", ["/dirs/files", "dirs/files", "/dirs/d/files/f", "/dirs/d/files/f/versions/1"])
def test_types_are_found_by_path(text: str) -> None:
    model = compile_model(SOURCE)
    xid = Xid.parse(text) if text.count("/") > 2 else text
    assert model.resource_type(xid) is model.groups["dirs"].resources["files"]


@pytest.mark.parametrize("text", ["/", "/dirs", "/dirs/d", "/none/d/files/f", "/dirs/d/none/n"])
def test_other_paths_have_no_resource_type(text: str) -> None:
    model = compile_model(SOURCE)
    assert model.resource_type(Xid.parse(text)) is None
    assert (model.group_type(Xid.parse(text)) is not None) is text.startswith("/dirs")


def test_model_is_independent_of_its_source() -> None:
    """Changes of the source do not change the model."""
    source = copy.deepcopy(SOURCE)
    model = compile_model(source)
    source["groups"].clear()
    assert model.source == SOURCE
    assert model.document["groups"].keys() == {"dirs"}


def test_fingerprints_distinguish_models() -> None:
    """The order of keys does not matter (R71)."""
    turned = {"groups": {"dirs": dict(reversed(SOURCE["groups"]["dirs"].items()))}}
    assert compile_model(turned).fingerprint == compile_model(SOURCE).fingerprint
    assert compile_model({}).fingerprint != compile_model(SOURCE).fingerprint


@pytest.mark.parametrize("folder", ["ours", "xRegistry's"])
@pytest.mark.parametrize("name", ["core", "schema", "message", "endpoint", "cloudevents"])
def test_models_in_several_documents_compile(folder: str, name: str) -> None:
    """The models have a $schema, no names, relative includes, and an enum on an array (R21, G-11, H-1, H-3, I-1)."""
    models = OURS / "models" if folder == "ours" else OTHERS / "xregistry-models"
    skip_without(models, f"xRegistry's own model {name} compiles", "the same test, [ours]")

    def load(path: str) -> JSON:
        return json.loads((models / f"{path.split('/')[0]}.json").read_bytes())

    model = compile_model(load(f"{name}/model.json"), include=load, base=f"{name}/model.json")
    groups = {"core": set(), "endpoint": {"endpoints", "messagegroups"}}.get(name, {f"{name}groups"})
    assert model.groups.keys() == (groups if name != "cloudevents" else set(compile_model(builtin("default")).groups))
